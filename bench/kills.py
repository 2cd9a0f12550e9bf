"""Runs that are killed at random and resumed: whether each ends with an undisturbed run's scores, what is paid twice.

    python bench/kills.py [--cycles N] [--cases N] [--in-flight N] [--seed N]

A cycle starts a run of a metric of two calls a case (20 ms each), kills it with SIGKILL at a random moment, be it in
its start, among its calls or in its reports, resumes it, perhaps kills it again, and so on until it is done. Then its
scores are held against those of a run that was left alone: same cells, same scores. Calls beyond those of that run were
paid twice. They are compared with the calls of the last quarter of a second before each kill, whose replies may have
been under way, unread, or not yet in the cache's file. The exit code is 1 if scores differ or more was paid twice.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _lab import evalflow, folder, machine, print_table, write_cases

from evalflow.testing import Endpoint, Request, auto

LATENCY_S = 0.02
RECENT_S = 0.25
VERDICTS = ("relevant", "irrelevant")


@dataclass(slots=True)
class Cycle:
    """What became of one.

    Attributes:
        kills: How often it was killed.
        recent: Calls of the last quarter of a second before these moments, together.
        paid_twice: Calls beyond those of an undisturbed run.
        same: Whether the scores are those of an undisturbed run.
    """

    kills: int = 0
    recent: int = 0
    paid_twice: int = 0
    same: bool = False


class Lab:
    """One endpoint, one set of cases, and what an undisturbed run made of them."""

    def __init__(self, work: Path, cases: int, in_flight: int) -> None:
        self._work = work
        self._cases = write_cases(work / "cases.jsonl", cases)
        self._in_flight = in_flight
        self._arrivals: list[float] = []
        self._runs = 0
        self.endpoint = Endpoint(self._judge)

    def prepare(self) -> int:
        """Make the undisturbed run, and give its calls."""
        if self._start(self._next_run()).wait():
            raise RuntimeError(self._output.read_text())
        self._expected = self._scores()
        self._calls = len(self._arrivals)
        return self._calls

    def cycle(self, chance: random.Random) -> Cycle:
        """One run, killed until it gets through."""
        found, before = Cycle(), len(self._arrivals)
        process = self._start(self._next_run())
        while (recent := self._kill(process, before, chance)) is not None:
            found.kills += 1
            found.recent += recent
            begun = (self._run / "run.json").exists()
            process = self._spawn("resume", str(self._run)) if begun else self._start(self._run)
        if process.returncode:
            raise RuntimeError(self._output.read_text())
        found.paid_twice = len(self._arrivals) - before - self._calls
        found.same = self._scores() == self._expected
        return found

    def _judge(self, request: Request) -> Any:
        """Two statements an answer; a verdict on them that depends on the text alone."""
        self._arrivals.append(time.monotonic())
        verdict = VERDICTS[zlib.crc32(request.text.encode()) % 2]
        return auto(length=2, values={"verdict": verdict}).after(LATENCY_S)

    def _kill(self, process: subprocess.Popen[bytes], before: int, chance: random.Random) -> int | None:
        """Kill the process at a random moment of its life, and give its last calls; None if it ended."""
        share = chance.uniform(-0.1, 1.4)  # of the calls; below 0 it dies in its start, above 1 in its reports or never
        wait_s = chance.uniform(0.0, LATENCY_S if 0 < share < 1 else 1.0)
        due = before + min(share, 1.0) * self._calls
        while process.poll() is None:
            if share <= 1.2 and len(self._arrivals) >= due:
                time.sleep(wait_s)
                process.kill()
                died_at = time.monotonic()
                process.wait()
                time.sleep(LATENCY_S)  # what it had sent may still stand in a socket
                return sum(arrival > died_at - RECENT_S for arrival in self._arrivals[before:])
            time.sleep(0.001)
        return None

    def _next_run(self) -> Path:
        self._runs += 1
        self._run = self._work / f"run-{self._runs}"
        return self._run

    def _start(self, run: Path) -> subprocess.Popen[bytes]:
        own = (f"cache.path={run}.db", f"hydra.run.dir={run}")
        command = evalflow(self.endpoint.url, self._cases, self._in_flight, *own, metric="relevance")
        return self._spawn(*command[3:])

    def _spawn(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "evalflow", *words]
        with self._output.open("w") as output:
            return subprocess.Popen(command, cwd=self._work, stdout=output, stderr=subprocess.STDOUT)

    @property
    def _output(self) -> Path:
        return self._work / "output.txt"

    def _scores(self) -> list[tuple[Any, ...]]:
        import polars as pl

        columns = ("case_id", "target", "metric", "judge", "repeat", "status", "score", "value", "passed")
        return pl.read_parquet(self._run / "scores.parquet").select(columns).rows()


def report(cycles: Sequence[Cycle], calls: int) -> int:
    """Print what came of all cycles; the exit code."""
    kills = sum(cycle.kills for cycle in cycles)
    twice, recent = (sum(getattr(cycle, name) for cycle in cycles) for name in ("paid_twice", "recent"))
    differ = sum(not cycle.same for cycle in cycles)
    over = sum(cycle.paid_twice > cycle.recent for cycle in cycles)
    rows = [
        ("cycles, and kills in them", f"{len(cycles)}, {kills}"),
        ("cycles whose scores differ from an undisturbed run's", differ),
        ("calls paid twice, of all calls", f"{twice} of {calls * len(cycles)}"),
        ("calls of the last quarter of a second before a kill", recent),
        ("cycles in which more was paid twice than these", over),
    ]
    print_table(("", ""), rows)
    return int(differ > 0 or over > 0)


def main() -> int:
    """Kill, resume and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=10)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--in-flight", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    print(f"{machine()}; {arguments.cases} cases, {arguments.in_flight} in flight, {LATENCY_S * 1000:g} ms latency\n")
    with folder() as work:
        lab = Lab(work, arguments.cases, arguments.in_flight)
        with lab.endpoint:
            calls = lab.prepare()
            cycles = [lab.cycle(chance) for _ in range(arguments.cycles)]
    return report(cycles, calls)


if __name__ == "__main__":
    sys.exit(main())
