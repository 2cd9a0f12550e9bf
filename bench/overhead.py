"""CPU that evalflow itself takes for a judged case, against an aiohttp floor beside it.

    python bench/overhead.py [ROUNDS]

A whole run of the command line is measured (read, render, cache, send, validate, journal, summary, reports) with 1,000
and with 5,000 cases; what the further 4,000 took is divided by them, so that imports and other fixed costs drop out.
The least of ROUNDS (3) counts, since other work on the machine only ever adds. The floor sends as many requests of the
same size with aiohttp and reads the replies with pydantic. Ratios carry over to other machines; milliseconds do not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from _lab import Endpoint, evalflow, floor, folder, machine, measured, print_table, write_cases

SIZES = (1_000, 5_000)
IN_FLIGHT = 100
LATENCY_S = 0.02
GOALS = {"evalflow": "3.6"}
Run = Callable[[int], float]
"""CPU seconds for so many cases."""


def least(compared: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """The least CPU seconds for each size. All take turns, so that other work on the machine meets them alike."""
    seconds: dict[str, list[float]] = {name: [float("inf")] * len(SIZES) for name in compared}
    for _ in range(rounds):
        for index, size in enumerate(SIZES):
            for name, run in compared.items():
                seconds[name][index] = min(seconds[name][index], run(size))
    return seconds


def runs(work: Path, url: str) -> dict[str, Run]:
    """What is compared, by name."""
    cases = {size: write_cases(work / f"{size}.jsonl", size) for size in SIZES}
    fresh = iter(range(1_000_000))

    def cold(size: int, *overrides: str) -> float:
        command = evalflow(url, cases[size], IN_FLIGHT, f"cache.path={work}/cold-{next(fresh)}.db", *overrides)
        return measured(command, work).cpu_s

    def warm(size: int) -> float:
        return measured(evalflow(url, cases[size], IN_FLIGHT, f"cache.path={work}/warm.db"), work).cpu_s

    for size in SIZES:
        warm(size)
    return {
        "aiohttp floor": lambda size: measured(floor(url, size, IN_FLIGHT), work).cpu_s,
        "evalflow": cold,
        "evalflow, client: sdk": lambda size: cold(size, "judge.client=sdk"),
        "evalflow, warm re-run": warm,
    }


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print(f"{machine()}; {IN_FLIGHT} in flight, {LATENCY_S * 1000:g} ms latency, least of {rounds}\n")
    with Endpoint(LATENCY_S) as endpoint, folder() as work:
        found = least(runs(work, endpoint.url), rounds)
    slopes = {name: (large - small) / (SIZES[1] - SIZES[0]) * 1000 for name, (small, large) in found.items()}
    base = slopes["aiohttp floor"]
    rows = [
        (
            name,
            f"{found[name][0]:.2f}",
            f"{found[name][1]:.2f}",
            f"{slope:.3f}",
            f"{slope / base:.1f}",
            GOALS.get(name, ""),
        )
        for name, slope in slopes.items()
    ]
    print_table(("", "1,000 cases, CPU s", "5,000 cases, CPU s", "ms/case", "x floor", "goal"), rows)


if __name__ == "__main__":
    main()
