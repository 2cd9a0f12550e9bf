"""What a run over actors of Ray costs beside one process, how fast driver and coordinator are, and what kills do to it.

    python -m bench engine [overhead] [speedup] [parts] [memory] [kills]

All parts without a name; `overhead`, `speedup` and `kills` need the extra ray.

- overhead: CPU of driver, actor and coordinator by the number of cases, with one actor and at the same time without
  Ray; the slope is a case's own. Ray's own processes take CPU by the second rather than by the case, so they are apart.
- speedup: calls a second of two actors and of one process; the endpoint takes its part of the same cores.
- parts: cells a second of the driver alone, and of the coordinator alone, on actors that do nothing
  (`_stub_actors.py`), from 2 actors to 400.
- memory: what the driver grows by over 1,000,000 such cells.
- kills: one of two actors is killed every two to eight seconds, 20 in all. Each cell must be there once, with the score
  of an undisturbed run, and no more may be paid twice than `unaccounted_requests` in run.json says.

The exit code is 1 if a kill has lost a cell, changed a score, or cost more than that.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from _lab import Endpoint, evalflow, folder, machine, print_table, write_cases
from _stub_actors import A_SECOND, A_STEP, coordinator_cost, driver_cost

from evalflow import testing

SIZES = (2_000, 10_000)
ROUNDS = 2
LATENCY_S = 0.05
SPREAD = (20_000, 400)  # cases, and calls in flight
STUB_CELLS, STUB_ACTORS = 100_000, (2, 10, 100, 400)
MANY_CELLS = 1_000_000
KILLS, KILLED_CASES, KILLED_IN_FLIGHT, KILLED_LATENCY_S = 20, 4_000, 40, 0.2
_TICK_S = os.sysconf("SC_CLK_TCK")
OURS = ("driver", "actors", "coordinator")
ROLES = {"ray::RayWorker": "actors", "ray::RayCoordinator": "coordinator"}
"""By how the command line of a process begins; the first process is the driver, and others are Ray's."""


class Family:
    """CPU seconds of a process and of all that it starts, by role; sampled, since nobody waits for all of them."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._known: dict[int, tuple[str, float]] = {first: ("driver", 0.0)}
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._sample_on)

    def __enter__(self) -> Self:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()

    @property
    def seconds(self) -> Counter[str]:
        found = Counter[str]()
        for role, seconds in list(self._known.values()):
            found[role] += seconds  # pyright: ignore[reportArgumentType]
        return found

    def alive(self, role: str) -> list[int]:
        """The processes with a role."""
        known = list(self._known.items())
        return [number for number, (own, _) in known if own == role and Path(f"/proc/{number}").exists()]

    def _sample_on(self) -> None:
        while not self._over.wait(0.1):
            for entry in Path("/proc").iterdir():
                if entry.name.isdecimal():
                    self._sample(entry)

    def _sample(self, entry: Path) -> None:
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_text()
        except OSError:  # it has ended
            return
        number, parent, seconds = int(entry.name), int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICK_S
        if number != self._first and number not in self._known and parent not in self._known:
            return
        known = self._known.get(number, ("ray", 0.0))[0] if not command else "ray"  # it has ended, and lost its name
        role = next((role for start, role in ROLES.items() if command.startswith(start)), known)
        self._known[number] = ("driver" if number == self._first else role, seconds)


def begun(command: list[str], work: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "RAY_TMPDIR": str(work), "RAY_AUTH_MODE": "disabled"}
    with (work / "output.txt").open("w") as output:
        return subprocess.Popen(command, cwd=work, env=environment, stdout=output, stderr=subprocess.STDOUT)


def ended(process: subprocess.Popen[bytes], work: Path, *codes: int) -> None:
    if process.wait() not in (0, *codes):
        raise RuntimeError(f"exit code {process.returncode}\n{(work / 'output.txt').read_text()}")


def cpu_of(command: list[str], work: Path) -> Counter[str]:
    """CPU seconds of a command by role."""
    process = begun(command, work)
    with Family(process.pid) as family:
        ended(process, work)
    return family.seconds


def overhead(work: Path) -> bool:
    """CPU a case, by role. Both engines run at the same time: other work on the machine makes both dearer alike."""
    engines = {"one process": [], "Ray, one actor": ["engine=ray", "engine.actors=1"]}
    taken: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)

    def take(name: str, size: int, place: Path) -> None:
        place.mkdir()
        with Endpoint(0.02) as endpoint:
            own = (f"cache.path={place}/cache.db", *engines[name])
            command = evalflow(endpoint.url, write_cases(place / "cases.jsonl", size), 100, *own)
            taken[name, size] += cpu_of(command, place)

    for number in range(ROUNDS):
        for size in SIZES:
            with ThreadPoolExecutor() as pool:
                done = [pool.submit(take, name, size, work / f"{number}{i}{size}") for i, name in enumerate(engines)]
            for one in done:
                one.result()
    rows: list[tuple[object, ...]] = []
    slopes: list[float] = []
    for name in engines:
        small, large = (taken[name, size] for size in SIZES)
        each = [(large[role] - small[role]) / (SIZES[1] - SIZES[0]) / ROUNDS * 1000 for role in OURS]
        slopes.append(sum(each))
        ray = ", ".join(f"{one['ray'] / ROUNDS:.1f}" for one in (small, large))
        rows.append((name, *(f"{one:.3f}" for one in each), f"{slopes[-1]:.3f}", ray))
    sizes = ", ".join(f"{size:,}" for size in SIZES)
    print_table(("", *(f"{role}, ms/case" for role in OURS), "together", f"Ray itself, s with {sizes}"), rows)
    print(f"overhead of Ray: {slopes[1] - slopes[0]:.3f} ms of CPU a case; goal 0.10\n")
    return True


def speedup(work: Path) -> bool:
    """Calls a second, as the endpoint sees them."""
    count, in_flight = SPREAD
    cases = write_cases(work / "spread.jsonl", count)
    engines = {"one process": [], "two actors": ["engine=ray", "engine.actors=2"]}
    rows: list[tuple[object, ...]] = []
    rates: list[float] = []
    for name, overrides in engines.items():
        with Endpoint(LATENCY_S) as endpoint:
            own = (f"cache.path={work}/spread-{len(overrides)}.db", *overrides)
            cpu = cpu_of(evalflow(endpoint.url, cases, in_flight, *own), work)
        assert endpoint.requests == count, endpoint.requests
        rates.append(count / endpoint.busy_s)
        rows.append((name, f"{rates[-1]:,.0f}", f"{cpu.total():.1f}"))
    print_table(("", "calls/s", "CPU s"), rows)
    print(f"two actors: {rates[1] / rates[0]:.2f} times one process; goal 1.6, with both cores free\n")
    return True


def parts(work: Path) -> bool:
    """The driver and the coordinator by the number of actors."""
    rows: list[tuple[object, ...]] = []
    for actors in STUB_ACTORS:
        place = work / f"driver-{actors}"
        place.mkdir()
        driver, coordinator = driver_cost(place, STUB_CELLS, actors), coordinator_cost(work, STUB_CELLS, actors)
        beat = f"{coordinator.beat_s * 1000:.0f}, {STUB_CELLS / coordinator.messages:.0f} calls"
        rows.append((actors, f"{driver.a_second:,.0f}", f"{coordinator.a_second:,.0f}", beat))
    print(
        f"{A_STEP} cells a report, {A_SECOND:,} calls a second in the coordinator's messages; "
        "goal 10,000 each with 2 actors\n"
    )
    print_table(
        ("actors", "driver, cells a CPU second", "coordinator, calls a CPU second", "a message: ms apart, holds"), rows
    )
    return True


def memory(work: Path) -> bool:
    """The driver over many cells."""
    found = driver_cost(work, MANY_CELLS, 2)
    print(f"{MANY_CELLS:,} cells: {found.grown_mib:.0f} MiB more than after a tenth of them; goal 100\n")
    return True


@dataclass(slots=True)
class Toll:
    """What became of runs whose actors were killed."""

    runs: int = 0
    kills: int = 0
    paid_twice: int = 0
    unaccounted: int = 0
    wrong: int = 0


def kills(work: Path) -> bool:
    """Kill one actor after the other."""
    arrivals = Counter[str]()
    chance, toll = random.Random(20), Toll()
    cases = write_cases(work / "killed.jsonl", KILLED_CASES)

    def judge(request: testing.Request) -> Any:
        arrivals[request.text] += 1
        score = 1 + zlib.crc32(request.text.encode()) % 5
        return testing.auto(values={"score": score}).after(KILLED_LATENCY_S)

    with testing.Endpoint(judge) as endpoint:

        def command(run: Path, *overrides: str) -> list[str]:
            own = (f"cache.path={run}.db", f"hydra.run.dir={run}", *overrides)
            return evalflow(endpoint.url, cases, KILLED_IN_FLIGHT, *own)

        ended(begun(command(work / "calm"), work), work)
        expected, calls = scores(work / "calm"), arrivals.total()
        assert calls == KILLED_CASES
        while toll.kills < KILLS:
            toll.runs += 1
            run = work / f"run-{toll.runs}"
            before = arrivals.total()
            process = begun(command(run, "engine=ray", "engine.actors=2"), work)
            with Family(process.pid) as family:
                while process.poll() is None and toll.kills < KILLS:
                    time.sleep(chance.uniform(2.0, 8.0))
                    alive = family.alive("actors")
                    if alive and arrivals.total() > before:
                        os.kill(chance.choice(alive), signal.SIGKILL)
                        toll.kills += 1
                ended(process, work, 3)  # cells in error are counted as wrong
            toll.paid_twice += arrivals.total() - before - calls
            toll.unaccounted += json.loads((run / "run.json").read_text()).get("unaccounted_requests", 0)
            toll.wrong += scores(run) != expected
    head = ("runs", "kills", "calls", "paid twice", "unaccounted_requests", "runs with other scores")
    row = (toll.runs, toll.kills, toll.runs * calls, toll.paid_twice, toll.unaccounted, toll.wrong)
    print_table(head, [row])
    return not toll.wrong and toll.paid_twice <= toll.unaccounted


def scores(run: Path) -> Mapping[str, tuple[Any, ...]]:
    """Each cell's state and score; an error if one is there twice."""
    import polars as pl

    frame = pl.read_parquet(run / "scores.parquet")
    found = {str(case): (status, score) for case, status, score in frame.select("case_id", "status", "score").rows()}
    assert len(found) == frame.height == KILLED_CASES
    return found


PARTS: Mapping[str, Callable[[Path], bool]] = {
    "overhead": overhead,
    "speedup": speedup,
    "parts": parts,
    "memory": memory,
    "kills": kills,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    chosen = parser.parse_args().parts or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"unknown: {', '.join(unknown)}")
    held = True
    for name in chosen:
        print(f"{name}; {machine()}\n", flush=True)
        with folder() as work:
            held &= PARTS[name](work)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
