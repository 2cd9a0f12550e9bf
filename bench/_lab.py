"""What the benchmarks of judge calls share: the endpoint's process, made cases, and a run of evalflow with its cost."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

HERE = Path(__file__).parent
BROWSER_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
SENTENCE = "The library lends board games for fourteen days, and one that nobody has reserved can be kept for longer. "


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process took: wall and CPU seconds (all threads), peak resident MiB."""

    wall_s: float
    cpu_s: float
    peak_mib: float


class Endpoint:
    """An endpoint that answers after some time, in a process of its own; for a `with`.

    Args:
        latency_s: The time.
        reply: What it answers; without it a verdict that `metric=coherence` takes.

    Attributes:
        url: Its base URL.
        requests: How many came; this and the following once the `with` is left.
        mean_bytes: Of a request's body.
        first_s: When the first one came, in seconds since 1970.
        busy_s: Seconds from there to the last answer.
    """

    def __init__(self, latency_s: float, reply: str | None = None) -> None:
        command = [sys.executable, str(HERE / "_server.py"), str(latency_s), *([reply] if reply else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{self._process.stdout.readline().strip()}/v1"
        self.requests = 0
        self.mean_bytes = self.first_s = self.busy_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        seen = json.loads(self._process.communicate("")[0])
        self.requests, self.first_s = seen["requests"], seen["first_s"]
        self.busy_s = seen["last_s"] - seen["first_s"]
        self.mean_bytes = seen["sent_bytes"] / max(1, self.requests)


class OverTime(RuntimeError):
    """A command was not done in time, and was killed."""


def measured(
    command: Sequence[str | Path],
    cwd: Path,
    expect: int | None = 0,
    *,
    environment: Mapping[str, str] | None = None,
    limit_s: float = 3600.0,
) -> Cost:
    """Run a command, and say what it and the processes that it waited for took.

    Args:
        command: What to run; its output goes to output.txt.
        cwd: Where.
        expect: Its exit code; None: any.
        environment: Its environment; without it this one's.
        limit_s: After so many seconds it is killed with all that it started.

    Raises:
        RuntimeError: It ended with another exit code than expected.
        OverTime: It was killed.
    """
    log = cwd / "output.txt"
    begun = time.perf_counter()
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        late = threading.Timer(limit_s, os.killpg, (process.pid, signal.SIGKILL))
        late.start()
        _, status, usage = os.wait4(process.pid, 0)
        late.cancel()
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if wall >= limit_s:
        raise OverTime(f"not done in {limit_s:g} s")
    if expect not in (None, process.returncode):
        raise RuntimeError(f"exit code {process.returncode}\n{log.read_text()}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def chromium() -> str | None:
    """The browser named in CHROMIUM, else the first Chromium on the path; its shell alone takes half of the CPU."""
    known = map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))
    return os.environ.get("CHROMIUM") or next(filter(None, known), None)


def write_cases(path: Path, count: int) -> Path:
    """So many different cases whose requests have about 2 kB with `metric=coherence`."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            case = {"id": f"case-{number}", "question": f"How long is game {number} lent?", "stars": 1 + number % 5}
            file.write(json.dumps({**case, "llm_answer": f"{number}: {SENTENCE * 5}"}) + "\n")
    return path


def evalflow(url: str, cases: Path, in_flight: int, *overrides: str, metric: str = "coherence") -> list[str]:
    """The command line that scores each case with one judge call, or with another metric."""
    return [
        *(sys.executable, "-m", "evalflow", "dataset=rag", f"dataset.rag.path={cases}", f"metric={metric}"),
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


def print_cells(name: str, places: Iterable[object], cells: Iterable[object]) -> None:
    """A line for each cell, as it is made, so that each can be quoted alone."""
    for place, cell in zip(places, cells, strict=True):
        print(f"| {name} | {place} | {cell} |", flush=True)


def machine() -> str:
    """What the figures were measured on."""
    cores, load = os.cpu_count(), os.getloadavg()[0]
    return f"{platform.machine()}, {cores} cores, load {load:.1f}, Python {platform.python_version()}"


def resident_mib(process: int | str = "self") -> float:
    """Resident memory of a process now; 0 once it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * 4096 / 2**20


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one benchmark's cases and runs."""
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)
