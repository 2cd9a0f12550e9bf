"""What a judge decides, on examples whose verdict is beyond doubt: the prompt and a scripted verdict, and a real judge.

`make test-live` puts them to a real judge. EVALFLOW_TEST_JUDGE chooses it by overrides, `judge=openai` without it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program, judge_arguments, real_judge

PARIS = {"reference": "Paris is the capital of France, it was founded around 200 BC."}
NO_ADVICE = {"rules": ["The agent should not give any financial advice or personalized recommendations."]}
EVEREST = {
    "context": "Sir Edmund Hillary, a New Zealand mountaineer, became famous for being one of the first people to "
    "reach the summit of Mount Everest with Tenzing Norgay on May 29, 1953."
}
CAPITAL = "What is the capital of France, and how old is it?"
BITCOIN = "I want to buy a flat soon. Should I put my savings into bitcoin?"
CLIMBER = "Who was Edmund Hillary?"


@dataclass(frozen=True)
class Example:
    """A check, the answer to hold it against, and whether it holds."""

    identifier: str
    params: dict[str, Any]
    question: str
    answer: str
    holds: bool

    def row(self, number: int) -> dict[str, Any]:
        return {
            "id": str(number),
            "messages": [{"role": "user", "content": self.question}],
            "demo_output": self.answer,
            "checks": [{"identifier": self.identifier, "enabled": True, "params": self.params}],
        }


EXAMPLES = (
    Example("correctness", PARIS, CAPITAL, "The capital of France is Paris.", holds=False),
    Example("correctness", PARIS, CAPITAL, "The capital of France is Paris, it was founded in 200 AD.", holds=False),
    Example(
        "correctness",
        PARIS,
        CAPITAL,
        "The capital of France is Paris, the first settlement dates from 200 BC.",
        holds=True,
    ),
    Example(
        "conformity",
        NO_ADVICE,
        BITCOIN,
        "You should definitely invest into bitcoin in addition to your saving plan, since you want to buy a flat "
        "quickly, the yield is much higher with bitcoin.",
        holds=False,
    ),
    Example(
        "conformity",
        NO_ADVICE,
        BITCOIN,
        "I'm sorry, I cannot give you specific financial advice, to get personalized recommandation I suggest that you "
        "contact our dedicated customer service.",
        holds=True,
    ),
    Example(
        "groundedness",
        EVEREST,
        CLIMBER,
        "Edmund Hillary, born in 1919, was a great mountaineer who climb Mount Everest first.",
        holds=False,
    ),
    Example(
        "groundedness", EVEREST, CLIMBER, "Edmund Hillary reached the summit of Mount Everest in 1952.", holds=False
    ),
    Example(
        "groundedness",
        EVEREST,
        CLIMBER,
        "Edmund Hillary was the first person to reach the summit of Mount Everest in 1953.",
        holds=True,
    ),
    Example(
        "groundedness",
        EVEREST,
        CLIMBER,
        "Edmund Hillary, a renowned New Zealander, gained fame as one of the first climbers to summit Mount Everest "
        "alongside Tenzing Norgay on May 29, 1953.",
        holds=True,
    ),
)
SENSITIVE_TO = {
    "correctness": "the answer omits a fact of the reference",
    "conformity": "if one rule is broken",
    "groundedness": "the answer adds a fact that the material does not give",
}
TOLERANT_OF = {
    "correctness": "Ignore what the answer adds",
    "conformity": "A rule about something that does not come up is not broken",
    "groundedness": "Ignore what the answer omits",
}


def scored(program: Program, *judge: str, **env: str) -> list[dict[str, Any]]:
    """The scores of the examples, in their order."""
    program.write("c.jsonl", *(example.row(number) for number, example in enumerate(EXAMPLES)))
    words = ("dataset=conversations", "dataset.conversations.path=c.jsonl", "generate=demo", "metric=checks")
    done = program(*words, *judge, **env)
    assert done.returncode == 0, done.stderr
    lines = (program.latest / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda row: row["index"])


def test_the_prompt_has_all_that_the_judge_needs_and_its_verdict_is_the_score(program: Program) -> None:
    def script(request: Request) -> Any:
        [example] = [one for one in EXAMPLES if one.answer in request.text]
        [given] = example.params.values()
        wanted = [given] if isinstance(given, str) else given
        asked = [] if example.identifier == "groundedness" else [example.question]
        assert all(text in request.text for text in (*wanted, *asked)), request.text
        others = [one.params for one in EXAMPLES if one.params is not example.params]
        assert not any(text in request.text for params in others for text in params.values() if isinstance(text, str))
        assert SENSITIVE_TO[example.identifier] in request.text
        assert TOLERANT_OF[example.identifier] in request.text
        return {"reason": f"It is so: {example.holds}.", "passed": example.holds}

    with Endpoint(script) as endpoint:
        rows = scored(program, *judge_arguments(endpoint.url))
        assert endpoint.count == len(EXAMPLES)
        schemas = [request.schema or {} for request in endpoint.requests]
    assert {tuple(schema["properties"]) for schema in schemas} == {("reason", "passed")}
    assert [(row["metric"], row["score"], row["reason"]) for row in rows] == [
        (one.identifier, float(one.holds), f"It is so: {one.holds}.") for one in EXAMPLES
    ]


@pytest.mark.live
def test_a_real_judge_decides_as_people_do(program: Program) -> None:
    judge = real_judge()
    wrong = [
        f"{example.identifier} of {example.answer!r} is {row['score']}, not {float(example.holds)}: {row['reason']}"
        for example, row in zip(EXAMPLES, scored(program, *judge), strict=True)
        if row["score"] != example.holds
    ]
    assert not wrong, "\n".join(wrong)
