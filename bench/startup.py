"""Time to the first line on the screen and to the first request, against an empty Hydra job.

    python bench/startup.py [ROUNDS]

Wall seconds, the least of ROUNDS (5). Everything is compiled before, as an installer does. The contract cache is what
a second run in the same folder finds in .evalflow/contracts.
"""

from __future__ import annotations

import compileall
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from _lab import Endpoint, evalflow, folder, machine, measured, print_table, write_cases

import evalflow as package

EMPTY_JOB = """
import hydra

@hydra.main(version_base="1.3", config_path=None)
def job(config):
    pass

job()
"""


def to_first_request(work: Path, cases: Path, warm: bool) -> float:
    """Seconds from starting the process to its first request."""
    if not warm:
        shutil.rmtree(work / ".evalflow", ignore_errors=True)
    with Endpoint(0.0) as endpoint:
        begun = time.time()
        measured(evalflow(endpoint.url, cases, 8, 'cache.mode="refresh"'), work)
    return endpoint.first_s - begun


def commands(work: Path, cases: Path) -> dict[str, Callable[[], float]]:
    """What is timed, by name."""

    def command(*words: str) -> Callable[[], float]:
        return lambda: measured([sys.executable, *words], work).wall_s

    (work / "empty.py").write_text(EMPTY_JOB)
    check = evalflow("http://127.0.0.1:9/v1", cases, 8)[3:]
    return {
        "python -c pass": command("-c", "pass"),
        "import hydra, pydantic": command("-c", "import hydra, pydantic"),
        "empty Hydra job": command("empty.py"),
        "evalflow --help": command("-m", "evalflow", "--help"),
        "evalflow check": command("-m", "evalflow", "check", *check),
        "first request, contract not prepared": lambda: to_first_request(work, cases, warm=False),
        "first request, contract on disk": lambda: to_first_request(work, cases, warm=True),
    }


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    compileall.compile_dir(str(Path(package.__path__[0])), quiet=2)
    print(f"{machine()}; least of {rounds}\n")
    with folder() as work:
        cases = write_cases(work / "cases.jsonl", 10)
        found = {name: min(run() for _ in range(rounds)) for name, run in commands(work, cases).items()}
    base = found["empty Hydra job"]
    rows = [(name, f"{seconds:.2f}", f"{seconds / base:.1f}") for name, seconds in found.items()]
    print_table(("", "seconds", "x empty Hydra job"), rows)


if __name__ == "__main__":
    main()
