"""Microseconds that a check costs a case beyond the library that does the matching.

    python bench/checks.py [CASES]

Each kind of rule is scored over so many cases (20,000), and so is the call of the library alone, on the same texts: the
search of `regex`, the query of `python-jsonpath`, the validation of `jsonschema`, Python's own `in`. What is left is
evalflow's: the case's fields, what stands in the way of a score, the finding and its reason, the outcome. The least of
five rounds counts.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jsonpath
import jsonschema
import regex
from _lab import machine, print_table

from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.records import Answer, Case, Message

ROUNDS = 5
GOAL_US = 20.0
SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
Floor = Callable[[Answer], object]


def material(count: int) -> list[tuple[Case, Answer]]:
    """Cases with an answer of about 100 characters, and metadata."""
    found: list[tuple[Case, Answer]] = []
    for number in range(count):
        case = Case(
            dataset="d", index=number, id=str(number), messages=(Message("user", f"How long is game {number} lent?"),)
        )
        said = json.dumps(
            {"days": number, "text": f"Game {number} is lent for {number} days, and can be renewed once."}
        )
        metadata = {"tool": {"name": "loan_rules", "ok": True}, "sources": number}
        answer = Answer(
            dataset="d",
            index=number,
            case_id=str(number),
            target="t",
            messages=case.messages,
            answer=said,
            metadata=metadata,
        )
        found.append((case, answer))
    return found


def rules() -> dict[str, tuple[dict[str, Any], Floor]]:
    """Each rule as YAML declares it, and the call of the library that it rests on."""
    pattern, query = regex.compile(r"\d+ days"), jsonpath.compile("$.tool.name")
    validator = jsonschema.Draft202012Validator(SCHEMA)
    return {
        "contains": ({"op": "contains", "value": "renewed"}, lambda a: "renewed" in (a.answer or "")),
        "equals, any case": (
            {"op": "equals", "value": "no", "case_sensitive": False},
            lambda a: (a.answer or "").casefold() == "no",
        ),
        "regex": (
            {"op": "regex", "pattern": r"\d+ days"},
            lambda a: pattern.search(a.answer or "", timeout=1.0),
        ),
        "greater_than": ({"op": "greater_than", "value": 3, "field": "metadata.sources"}, lambda _: 3 < 4),
        "jsonpath": (
            {"op": "jsonpath", "path": "$.tool.name", "contains": "loan", "field": "metadata"},
            lambda a: query.findall(dict(a.metadata or {})),
        ),
        "json_schema": (
            {"op": "json_schema", "schema": SCHEMA},
            lambda a: next(validator.iter_errors(json.loads(a.answer or "")), None),
        ),
    }


def least_us(work: Callable[[], object], count: int) -> float:
    """CPU microseconds a case, the least of several rounds."""
    seconds: list[float] = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        seconds.append(time.process_time() - begun)
    return min(seconds) / count * 1e6


def cost(rule: dict[str, Any], floor: Floor, cases: Sequence[tuple[Case, Answer]]) -> tuple[float, float]:
    """Microseconds a case: of the library alone, and of the whole score."""
    field = rule.pop("field", "answer")
    values = {"kind": "check", "needs": [field], "field": field, "checks": [rule]}
    metric = build_metric("mine", METRIC_KINDS.config("check").model_validate(values), Prompts([]))

    async def score() -> None:
        for case, answer in cases:
            await metric.score(case, answer, None, 0)

    return least_us(lambda: [floor(answer) for _, answer in cases], len(cases)), least_us(
        lambda: asyncio.run(score()), len(cases)
    )


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"{machine()}; {count:,} cases, least of {ROUNDS}\n")
    cases = material(count)
    rows: list[tuple[str, str, str, str, str]] = []
    for name, (rule, floor) in rules().items():
        alone, whole = cost(rule, floor, cases)
        own = whole - alone
        rows.append((name, f"{alone:.1f}", f"{whole:.1f}", f"{own:.1f}", "met" if own < GOAL_US else "**missed**"))
    print_table(("", "library, µs/case", "check, µs/case", "own, µs/case", f"goal: {GOAL_US:g}"), rows)


if __name__ == "__main__":
    main()
