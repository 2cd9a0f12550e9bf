"""How fast simulated conversations are, beside as many plain calls: calls a second at 100 in flight, 50 ms each.

    python bench/simulated_users.py [CONVERSATIONS]

Each conversation (500) goes to its limit of 6 turns: 6 answers of the target and 7 calls for the user, one after the
other. Beside it the same number of calls is made by plain cases, which wait for nobody, through the same target. What
counts is the time from the first request to the last answer as the endpoint sees it; the CPU is that of the whole run.
`throughput` says what plain calls reach beside the floor, aiohttp and nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from _lab import Endpoint, folder, machine, measured, print_table

LATENCY_S = 0.05
IN_FLIGHT = 100
TURNS = 6
TURN = {
    "reason": "The price is still open, so there is more to ask. " * 2,
    "state": "goes_on",
    "message": "And the price?",
}


def rows_of(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def command(url: str, cases: Path, cache: Path, *more: str) -> list[str]:
    sides = ("target", "simulator") if more else ("target",)
    model = [
        f"{side}{rest}"
        for side in sides
        for rest in (
            "=openai",
            ".model=m",
            f".base_url={url}",
            ".api_key_env=null",
            f".concurrency.start={IN_FLIGHT}",
            f".concurrency.max={IN_FLIGHT}",
        )
    ]
    data = ["dataset=scenarios", f"dataset.scenarios.path={cases}", "metric=answer_words", "generate=true"]
    return [sys.executable, "-m", "evalflow", *data, *model, f"cache.path={cache}", *more]


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    calls = count * (2 * TURNS + 1)
    ideal = calls / IN_FLIGHT * LATENCY_S
    print(f"{machine()}; {LATENCY_S * 1000:g} ms latency, {IN_FLIGHT} in flight, {calls:,} calls\n")
    rows: list[tuple[str, ...]] = []
    with folder() as work:
        brief = {"scenario": "You need a permit. " * 5, "goal": "Learn what it costs.", "facts": ["You are new."] * 5}
        # The greetings differ, or the answers to all would be the same ones from the cache.
        greeted = [[{"role": "assistant", "content": f"Welcome, you are number {i}."}] for i in range(count)]
        talks = rows_of(
            work / "talks.jsonl", [{"id": str(i), **brief, "messages": hello} for i, hello in enumerate(greeted)]
        )
        asks = rows_of(work / "asks.jsonl", [{"id": str(i), "question": f"Question {i}? " * 60} for i in range(calls)])
        limit = f"simulator.limits.turns={TURNS}"
        for name, cases, more in (("plain calls", asks, ()), ("conversations", talks, (limit,))):
            with Endpoint(LATENCY_S, json.dumps(TURN)) as endpoint:
                cost = measured(command(endpoint.url, cases, work / f"{name}.db", *more), work)
            assert endpoint.requests == calls, endpoint.requests
            rate = f"{calls / endpoint.busy_s:,.0f}"
            rows.append((name, f"{ideal / endpoint.busy_s:.0%}", rate, f"{cost.cpu_s:.1f}", f"{cost.peak_mib:.0f}"))
    print_table(("", "efficiency", "calls/s", "CPU s", "peak RSS, MiB"), rows)


if __name__ == "__main__":
    main()
