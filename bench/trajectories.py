"""Milliseconds of CPU that it takes to compare a trajectory of 200 calls with the expected one.

    python bench/trajectories.py [CALLS]

The actual calls are the expected ones, shuffled, of eight tools, with three arguments each; `messages` has one call a
message, as chat endpoints write it, and a result of each. The floor is `json.loads` of both lists and one dump of each
call, as the record shows it. The least of 30 rounds counts.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from _lab import machine, print_table

from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.records import Answer, Case

ROUNDS = 30
GOAL_MS = 5.0
WAYS: dict[str, dict[str, Any]] = {
    "unordered, exact": {},
    "unordered, subset": {"arguments": "subset"},
    "unordered, one key": {"arguments": ["city"]},
    "unordered, tolerance": {"tolerance": 0.5},
    "in order, exact": {"match": "in_order"},
    "strict, exact": {"match": "strict"},
    "f1, exact": {"score": "f1"},
    "messages, exact": {},
}


def calls(count: int) -> list[dict[str, Any]]:
    draw = random.Random(0)
    return [
        {
            "name": f"tool_{draw.randrange(8)}",
            "arguments": {
                "city": f"city {draw.randrange(50)}",
                "days": draw.randrange(50),
                "options": {"on": True, "of": [1, 2]},
            },
        }
        for _ in range(count)
    ]


def messages(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for place, call in enumerate(made):
        function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        steps += [
            {"role": "assistant", "tool_calls": [{"id": f"{place}", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": f"{place}", "content": "It is done. " * 20},
        ]
    return steps


def least_ms(work: Callable[[], object]) -> float:
    taken: list[float] = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return 1000 * min(taken)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    expected = calls(count)
    actual = random.Random(1).sample(expected, count)
    texts = json.dumps(expected), json.dumps(actual)
    floor = least_ms(lambda: [json.loads(text) for text in texts] + [json.dumps(one) for one in expected])
    rows: list[list[str]] = []
    for name, keys in WAYS.items():
        form = messages if name.startswith("messages") else list
        case = Case(dataset="d", index=0, id="1", expected=form(expected))
        answer = Answer(dataset="d", index=0, case_id="1", target="t", answer="", actual=form(actual))
        values = {"kind": "trajectory", "needs": ["expected", "actual"], **keys}
        metric = build_metric("calls", METRIC_KINDS.config("trajectory").model_validate(values), Prompts([]))
        asyncio.run(metric.score(case, answer, None, 0))  # imports
        runner = asyncio.Runner()
        score = partial(metric.score, case, answer, None, 0)
        taken = least_ms(lambda runner=runner, score=score: runner.run(score()))
        runner.close()
        rows.append([name, f"{taken:.2f}", f"{taken / floor:.1f}", "yes" if taken < GOAL_MS else "**missed**"])
    print(f"{machine()}; {count} calls, least of {ROUNDS} rounds\n")
    print_table(["way", "CPU ms", "x floor", f"under {GOAL_MS:g} ms"], rows)


if __name__ == "__main__":
    main()
