"""Prompt tokens of the main metrics, and what share of them a provider's prefix cache can reuse.

Cases are the fixtures, answered by the scripted judge of tests/metrics/fixtures, without schema tokens. Tokens are
those of o200k_base if tiktoken is installed, else `approximate`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))

from evalflow.records import Ask, Case, Context
from evalflow.targets.recorded import recorded_answer
from tests.metrics.test_fixtures import bench, fixture, script, shipped

MAIN = [
    "faithfulness",
    "relevance",
    "answer_relevancy",
    "context_precision",
    "context_recall",
    "context_relevancy",
    "context_relevance",
    "factual_correctness",
    "absence_of_factual_contradictions",
    "hallucination",
    "coherence",
    "factual_accuracy",
    "toxicity",
    "bias",
    "pii_leakage",
    "summarisation",
    "criteria",
    "preference",
    "abstention",
    "refusal",
    "over_refusal",
    "prompt_injection",
    "task_completion",
    "goal_accuracy",
    "plan_quality",
    "tool_choice",
    "conversation_completeness",
    "user_frustration",
]
CASES = 8
SHORT = 128
"""Tokens of a case up to which its material is short: 95 words, in delimiters."""
SHARING = ["faithfulness", "context_precision", "context_recall", "context_relevancy", "hallucination", "abstention"]
"""Metrics that show the same contexts."""
_TOKEN = re.compile(r"\d{1,3}|[^\W\d_]{1,8}|[^\s\w]+|_|\n+")


def approximate(text: str) -> int:
    """Tokens by a rule: words of up to eight letters, three digits, signs in a row, line ends."""
    return len(_TOKEN.findall(text))


def counter() -> Callable[[str], int]:
    try:
        import tiktoken  # pyright: ignore[reportMissingImports]

        encoding = tiktoken.get_encoding("o200k_base")
        return lambda text: len(encoding.encode(text, disallowed_special=()))
    except Exception:  # not installed, or without its file
        return approximate


def text_of(ask: Ask) -> str:
    return "\n\n".join(message.content for message in ask.messages)


def asked(name: str) -> list[list[Ask]]:
    """What a metric asks about each of its first cases, without texts to embed."""
    found: list[list[Ask]] = []
    metrics = list(shipped(name).parts) or [name]
    for one in fixture(name)[:CASES]:
        said = [ask for metric in metrics for ask in _asked(metric, name, one.case)]
        if said:
            found.append(said)
    return found


def _asked(metric: str, of: str, case: Case) -> Sequence[Ask]:
    own = of if script(of) else metric
    replies = script(own).get(case.id, {}) if own in (of, metric) else {}
    said = {
        step: bench().verdicts(reply) if isinstance(reply, list) and reply and isinstance(reply[0], str) else reply
        for step, reply in replies.items()
    }
    judge = bench().judge({"steps": {"steps": ["Compare the facts."]}, **said})
    (bound,) = bench().prepare(shipped(metric), judge).bind(case)
    judge.asked.clear()
    bench().score(bound, judge, case=case, answer=recorded_answer(case, "recorded", 0))
    return [ask for ask in judge.asked if ask.messages]


def prefix(texts: Sequence[str]) -> str:
    """What all the texts begin with."""
    same = next((at for at, letters in enumerate(zip(*texts, strict=False)) if len({*letters}) > 1), len(min(texts)))
    return texts[0][:same]


def shared(texts: Sequence[str], count: Callable[[str], int]) -> float:
    """The share of the texts' tokens that all have in common, as a prefix."""
    return count(prefix(texts)) / mean(map(count, texts))


def shared_if_short(texts: Sequence[str], count: Callable[[str], int]) -> list[float]:
    """The same share of each text that has at most `SHORT` tokens of its own."""
    common = count(prefix(texts))
    return [common / tokens for tokens in map(count, texts) if tokens <= common + SHORT]


def long_case() -> list[str]:
    """The prompts about one case with five contexts of 400 tokens, of six metrics."""
    words = "The city library opens at nine on weekdays and lends films for seven days to every reader who asks. "
    contexts = tuple(Context(f"Page {at}. " + words * 19, title=f"Guide {at}") for at in range(5))
    case = replace(bench().case(), contexts=contexts)
    asks = [ask for name in SHARING for ask in shipped(name).preview(case, bench().answer())]
    return [text_of(ask) for ask in asks if "Page 4." in text_of(ask)]


def main() -> None:
    count = counter()
    tokens: dict[str, float] = {}
    shares: dict[str, list[float]] = defaultdict(list)
    short: dict[str, list[float]] = defaultdict(list)
    for name in MAIN:
        cases = asked(name)
        tokens[name] = mean(sum(count(text_of(ask)) for ask in asks) for asks in cases)
        steps: dict[str, list[str]] = defaultdict(list)
        for asks in cases:
            for ask in asks:
                steps[ask.metric + ask.step].append(text_of(ask))
        for texts in steps.values():
            if len(texts) > 1:
                shares[name].append(shared(texts, count))
                short[name] += shared_if_short(texts, count)
    every = [share for of in shares.values() for share in of]
    print(f"{'metric':36} {'tokens':>8} prefix  short (prompts)")
    for name in MAIN:
        of_short = f"{mean(short[name]):6.0%} ({len(short[name])})" if short[name] else "     -"
        print(f"{name:36} {tokens[name]:8.0f} {mean(shares[name]):6.0%} {of_short}")
    print(f"{'all':36} {sum(tokens.values()):8.0f} {mean(every):6.0%}  least {min(every):.0%}")
    texts = long_case()
    print(f"five contexts of 400 tokens, {len(texts)} prompts of {len(SHARING)} metrics: {shared(texts, count):.0%}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(tokens))


if __name__ == "__main__":
    main()
