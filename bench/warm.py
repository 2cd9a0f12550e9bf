"""A re-run with everything in the cache: CPU milliseconds a case, and requests, of which there must be none.

    python bench/warm.py [CASES] [ROUNDS]

CASES (5,000) are judged once. Then they, and a tenth of them, are run again: the CPU a case is what the larger run took
more, the least of ROUNDS (3). The floor sends as many requests with aiohttp, which is what the cache saves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from _lab import Endpoint, evalflow, floor, folder, machine, measured, print_table, write_cases

IN_FLIGHT = 100


def each_ms(command: Callable[[int], list[str]], sizes: tuple[int, int], rounds: int, work: Path) -> float:
    """CPU milliseconds that a case more takes."""
    small, large = (min(measured(command(size), work).cpu_s for _ in range(rounds)) for size in sizes)
    return (large - small) / (sizes[1] - sizes[0]) * 1000


def main() -> int:
    """Measure and print; the exit code is 1 where a re-run asked anything."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    sizes = (max(1, count // 10), count)
    print(f"{machine()}; {count:,} cases, least of {rounds}\n")
    with folder() as work:
        cases = {size: write_cases(work / f"{size}.jsonl", size) for size in sizes}
        with Endpoint(0.0) as endpoint:
            url = endpoint.url
            base = each_ms(lambda size: floor(url, size, IN_FLIGHT), sizes, rounds, work)
        with Endpoint(0.0) as endpoint:
            url = endpoint.url
            measured(evalflow(url, cases[count], IN_FLIGHT), work)
            again = each_ms(lambda size: evalflow(url, cases[size], IN_FLIGHT), sizes, rounds, work)
    requests = endpoint.requests - count
    rows = [
        ("aiohttp floor", f"{base:.3f}", "1.0", "one a case"),
        ("evalflow, warm re-run", f"{again:.3f}", f"{again / base:.1f}", requests),
    ]
    print_table(("", "CPU ms/case", "x floor", "requests"), rows)
    return int(requests > 0)


if __name__ == "__main__":
    sys.exit(main())
