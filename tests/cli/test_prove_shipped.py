"""`prove` over every shipped metric that asks a judge, with judges over HTTP that make no mistake.

The first replies to the fixtures as people would, from `tests/metrics/fixtures/`. The second judges changed
answers by the rules of the prompts, so that a metric fails which names a fault that its own rules overlook. A request
that neither knows fails the test.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalflow.config.schema import FAULTS
from evalflow.datasets import case_to_row
from evalflow.datasets.perturbations import perturbed
from evalflow.records import Case, Context, Message
from evalflow.testing import Endpoint, Request, embeddings, reply
from evalflow.values.segments import sentences
from tests.cli.conftest import Program, judge_arguments
from tests.cli.test_fixtures_live import judged
from tests.metrics.conftest import shipped_values
from tests.metrics.test_fixtures import STEPS, outcomes

pytestmark = pytest.mark.slow

_ID = re.compile(r" id=[0-9a-f]{6,}>")
"""The id of a fence, which has a key of its own in each workspace."""


def prove(program: Program, metric: str, endpoint: Endpoint, *words: str) -> dict[str, Any]:
    """What `prove` finds with an endpoint as judge and embedder."""
    embedder = ("embedder=openai", f"embedder.base_url={endpoint.url}", "embedder.api_key_env=null")
    done = program("prove", metric, "--json", *words, *judge_arguments(endpoint.url), *embedder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class People:
    """What people would reply to the prompts of a metric, and the embeddings of its texts."""

    def __init__(self, metric: str) -> None:
        said = [one for _, asked in outcomes(metric).values() for one in asked]
        self._replies = {_ID.sub(">", ask.text): given.raw for ask, given in said if not ask.embeds}
        self._vectors = {
            str(text): vector
            for ask, given in said
            if ask.embeds
            for text, vector in zip(ask.items or (), json.loads(given.raw)["results"], strict=True)
        }

    def embed(self, request: Request) -> Any:
        return embeddings([self._vectors[text] for text in request.inputs])

    def reply(self, request: Request) -> Any:
        return STEPS if request.schema_name == "Steps" else reply(self._replies[_ID.sub(">", request.text)])


@pytest.mark.parametrize("metric", judged())
def test_a_judge_who_sees_what_people_see_gives_their_scores(metric: str, program: Program) -> None:
    people = People(metric)
    with Endpoint(people.reply, embed=people.embed) as endpoint:
        found = prove(program, metric, endpoint, "--base", "none", "--by", "0.01")["people"]
    wrong = [f"{one['case_id']}: {one['judge']}, people {one['person']}" for one in found["furthest"]]
    assert (found["unscored"], wrong) == (0, [])
    assert found["same"]["value"] == 1
    assert found["verdict"] is None or found["verdict"]["value"] == 1


TEXTS = {
    "pool": "The pool in Ashby opens at 9. Children under 6 enter free. Dogs must wait at the gate.",
    "tower": "The tower in Brent is 80 metres high. Visitors can climb it until 5. It is closed on Mondays.",
    "ferry": "The ferry to Corrin leaves at 7. A bicycle costs 4 euros. Seats can be reserved online.",
}
CASES = [
    Case(
        dataset="own",
        index=at,
        id=name,
        group=name,
        messages=(Message("user", f"What must a visitor of the {name} know?"),),
        reference=text,
        contexts=(Context(text), Context(f"At the {name} there is a cloakroom.")),
        answer=text,
    )
    for at, (name, text) in enumerate(TEXTS.items())
]
VERDICTS = {
    "same": {"supported", "consistent", "stated", "relevant", "confirmed", "answered", "not_contradicted"},
    "altered": {"contradicted", "denied"},
    "foreign": {"not_in_context", "not_mentioned", "not_in_reference", "not_in_text", "irrelevant"},
    "missing": {"missing", "left_out", "unanswered"},
}
"""The label that the rules of the prompts give each state of a claim; where they have none, it is that of `same`."""
_BLOCK = re.compile(r"<(\w+) id=(\w+)>\n(.*?)\n</\1 id=\2>", re.DOTALL)
_ITEM = re.compile(r"^\d+\. (.*)$", re.MULTILINE)


class Reader:
    """A judge who knows what was changed in each answer, and judges the changes by the rules of the prompts.

    It writes `pool 2` for the second sentence of the case `pool`, and `altered 2` for one that no case has.
    """

    def __init__(self) -> None:
        facts = {said: f"{case.id} {number}" for case in CASES for number, said in enumerate(_sentences(case), 1)}
        self._claims: dict[str, list[str]] = {}
        self._found: dict[tuple[str, str], list[str]] = {}
        """By answer its claims; by case and answer the state of each of the case's sentences in it."""
        for one in perturbed(CASES):
            own = [facts[said] for said in _sentences(one.base)]
            is_fault, text = one.change in FAULTS, (one.case.answer or "").strip()
            claims = [facts.get(said, f"altered {at}") for at, said in enumerate(_sentences(one.case), 1)]
            self._claims.setdefault(text, claims if is_fault else own)
            lost = "altered" if one.change in ("number", "name", "negation") else "missing"
            self._found[one.base.id, text] = ["same" if fact in claims or not is_fault else lost for fact in own]

    def reply(self, request: Request) -> Any:
        blocks = [(name, body.strip()) for name, _, body in _BLOCK.findall(request.text)]
        answer = next((body for name, body in blocks if name in ("answer", "summary") and body in self._claims), None)
        case = next((case.id for case in CASES if f"he {case.id} " in request.text), "")
        fields = (request.schema or {})["properties"]
        if "results" not in fields:
            split = next((body for _, body in reversed(blocks) if body in self._claims), None)
            claims = self._claims[split] if split else [f"{case} {number}" for number in (1, 2, 3)]
            return dict.fromkeys(fields, claims)
        asked = _ITEM.findall(blocks[-1][1])
        states = [self._state(item, case, answer) for item in asked] or self._states_of_contexts(answer or "")
        [labels] = [set(json.loads(one)) for one in re.findall(r'"enum": (\[.*?\])', json.dumps(request.schema))]
        return {"results": [{"reason": "So.", "verdict": label(state, labels)} for state in states]}

    def _state(self, claim: str, case: str, answer: str | None) -> str:
        """The state of a claim: of a sentence that the answer should have, if it is shown, else of one of its own."""
        of, number = claim.split()
        if answer is not None:
            return self._found[of, answer][int(number) - 1]
        return "altered" if of == "altered" else "same" if of == case else "foreign"

    def _states_of_contexts(self, answer: str) -> Sequence[str]:
        """The first context has the facts, the second is about something else."""
        return ["altered" if any("altered" in claim for claim in self._claims[answer]) else "same", "same"]


def _sentences(case: Case) -> Sequence[str]:
    return list(sentences(case.answer or ""))


def label(state: str, labels: set[str]) -> str:
    return next(iter(labels & VERDICTS[state] or labels & VERDICTS["same"]))


def of_claims() -> list[str]:
    """The shipped metrics with faults whose score comes from verdicts, not from one grade."""
    return [name for name in judged() if (own := shipped_values(name))["kind"] == "judge" and own.get("faults")]


@pytest.fixture(scope="module")
def own_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cases as a dataset, to be copied."""
    program = Program(tmp_path_factory.mktemp("own"))
    path = program.write("own.jsonl", *(case_to_row(replace(case, answer=None)) for case in CASES))
    assert program("new", "dataset", "own", "--path", path).returncode == 0
    return program.folder


@pytest.mark.parametrize("metric", of_claims())
def test_a_metric_sees_the_faults_that_it_names_and_no_other_change(
    metric: str, program: Program, own_dataset: Path
) -> None:
    shutil.copytree(own_dataset, program.folder, dirs_exist_ok=True)
    with Endpoint(Reader().reply) as endpoint:
        found = prove(program, metric, endpoint, "dataset=own", f"++metric.{metric}.fixture=null")["rows"]
    made = {row["change"]: row["as_expected"]["value"] for row in found}
    assert {change for change, share in made.items() if share != 1} == set()
    assert {"number", "name", "negation", "addition", "omission", "other_answer", "padding", "reorder"} <= set(made)
