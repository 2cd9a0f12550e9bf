"""What the benchmarks of judge calls share: the endpoint's process, made cases, and a run of evalflow with its cost."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

HERE = Path(__file__).parent
SENTENCE = "The library lends board games for fourteen days, and one that nobody has reserved can be kept for longer. "


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: wall and CPU seconds (all threads), peak resident MiB."""

    wall_s: float
    cpu_s: float
    peak_mib: float


class Endpoint:
    """An endpoint that answers after some time, in a process of its own; for a `with`.

    Attributes:
        url: Its base URL.
        requests: How many came; this and the following once the `with` is left.
        first_s: When the first one did, in seconds since 1970.
        busy_s: Seconds from there to the last answer.
    """

    def __init__(self, latency_s: float) -> None:
        command = [sys.executable, str(HERE / "_server.py"), str(latency_s)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{self._process.stdout.readline().strip()}/v1"
        self.requests = 0
        self.first_s = self.busy_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        seen = json.loads(self._process.communicate("")[0])
        self.requests, self.first_s = seen["requests"], seen["first_s"]
        self.busy_s = seen["last_s"] - seen["first_s"]


def measured(command: Sequence[str | Path], cwd: Path, expect: int = 0) -> Cost:
    """Run a command, and say what it took.

    Raises:
        RuntimeError: It ended with another exit code than expected.
    """
    log = cwd / "output.txt"
    begun = time.perf_counter()
    with log.open("w") as output:
        process = subprocess.Popen([*command], cwd=cwd, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != expect:
        raise RuntimeError(f"exit code {process.returncode}\n{log.read_text()}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write_cases(path: Path, count: int) -> Path:
    """So many different cases whose requests have about 2 kB with `metric=coherence`."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            case = {"id": f"case-{number}", "question": f"How long is game {number} lent?"}
            file.write(json.dumps({**case, "llm_answer": f"{number}: {SENTENCE * 5}"}) + "\n")
    return path


def evalflow(url: str, cases: Path, in_flight: int, *overrides: str) -> list[str]:
    """The command line that scores each case with one judge call."""
    return [
        *(sys.executable, "-m", "evalflow", "dataset=rag", f"dataset.rag.path={cases}", "metric=coherence"),
        *("dataset.rag.fields={answer: llm_answer}", "dataset.rag.group=null", "judge=openai", f"judge.base_url={url}"),
        *("judge.api_key_env=null", f"judge.concurrency.start={in_flight}", f"judge.concurrency.max={in_flight}"),
        *overrides,
    ]


def floor(url: str, calls: int, in_flight: int) -> list[str]:
    """The command line that sends as many calls with aiohttp and nothing else."""
    return [sys.executable, str(HERE / "_floor.py"), url, str(calls), str(in_flight)]


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table as Markdown."""
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    for line in lines:
        print(f"| {' | '.join(line)} |")
    print()


def machine() -> str:
    """What the figures were measured on."""
    cores, load = os.cpu_count(), os.getloadavg()[0]
    return f"{platform.machine()}, {cores} cores, load {load:.1f}, Python {platform.python_version()}"


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one benchmark's cases and runs."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)
