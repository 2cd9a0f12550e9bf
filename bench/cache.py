"""What a reply from the cache costs: the key, a miss, a hit and a put, in microseconds of CPU.

python -m bench cache [ENTRIES] [PROCESSES]

Requests and replies have 2 kB, as judges' have. `put` is what the event loop pays; `stored` is the whole of it, the
background thread's commits included. Several processes share one file at the same time; their figures are averaged.
Figures are the best of three rounds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

from _lab import machine, print_table

from evalflow.calls.cache import Cache
from evalflow.calls.cache_store import Entry, key_of
from evalflow.records import Usage

ROUNDS = 3


def cost(clock: Callable[[], float], count: int, act: Callable[[int], object], after: Callable[[], object]) -> float:
    """Microseconds an act."""
    began = clock()
    for number in range(count):
        act(number)
    after()
    return (clock() - began) / count * 1e6


def measure(folder: Path, count: int, process: int) -> dict[str, float]:
    request, body = os.urandom(1000).hex().encode(), os.urandom(1000).hex().encode()
    keys = [key_of("http://h/v1", "/p", b"%d %d" % (process, number)) for number in range(count)]
    entry = Entry(body=body, usage=Usage(500, 50), latency_s=1.0)
    cache = Cache(folder / "cache.db", run_id="bench")
    nothing = lambda: None  # noqa: E731

    found = {
        "key": cost(time.thread_time, count, lambda _: key_of("http://h/v1", "/p", request, 0), nothing),
        "miss": cost(time.thread_time, count, lambda number: cache.get(keys[number]), nothing),
    }

    def put(number: int) -> None:
        cache.put(keys[number], entry)
        if number % 100 == 0:
            time.sleep(0.04)  # the pace of a run, 2,500 replies a second; unpaced, the two threads fight for the GIL

    whole = time.process_time()
    found["put"] = cost(time.thread_time, count, put, nothing)
    cache.close()
    found["stored"] = (time.process_time() - whole) / count * 1e6
    cache.get(keys[0])
    found["hit"] = cost(time.thread_time, count, lambda number: cache.get(keys[number]), nothing)
    cache.close()
    return found


def main(count: int, processes: int) -> None:
    rounds: list[dict[str, float]] = []
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for _ in range(ROUNDS):
            with tempfile.TemporaryDirectory() as folder:
                work = [pool.submit(measure, Path(folder), count, process) for process in range(processes)]
                costs = [task.result() for task in work]
            rounds.append({name: fmean(cost[name] for cost in costs) for name in costs[0]})
    print(f"{machine()}; {count:,} entries by each of {processes} processes, least of {ROUNDS}\n")
    print_table(("", "CPU µs"), [(name, f"{min(found[name] for found in rounds):.1f}") for name in rounds[0]])


if __name__ == "__main__":
    main(*map(int, [*sys.argv[1:], *("10000", "1")[len(sys.argv) - 1 :]]))
