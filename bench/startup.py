"""Time to the first line on the screen, to the first request and to the end of a short run, against an empty Hydra job.

    python bench/startup.py [ROUNDS]

The least of ROUNDS (5), which go through all commands by turns. Everything is compiled before, as an installer does.
The contract cache is what a second run in the same folder finds in .evalflow/contracts.
"""

from __future__ import annotations

import compileall
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

from _lab import Cost, Endpoint, evalflow, folder, machine, measured, print_table, write_cases

import evalflow as package

BASE = "empty Hydra job"
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


def commands(work: Path, cases: Path) -> dict[str, Callable[[], Cost]]:
    """The whole commands that are measured, by name."""

    def command(*words: str) -> Callable[[], Cost]:
        return lambda: measured([sys.executable, *words], work)

    (work / "empty.py").write_text(EMPTY_JOB)
    check = evalflow("http://127.0.0.1:9/v1", cases, 8)[3:]
    return {
        "python -c pass": command("-c", "pass"),
        "import hydra, pydantic": command("-c", "import hydra, pydantic"),
        BASE: command("empty.py"),
        "evalflow --help": command("-m", "evalflow", "--help"),
        "evalflow list metric": command("-m", "evalflow", "list", "metric"),
        "evalflow check": command("-m", "evalflow", "check", *check),
        "evalflow dataset=rag metric=exact_match": command("-m", "evalflow", "dataset=rag", "metric=exact_match"),
        "evalflow dataset=rag metric=faithfulness": command("-m", "evalflow", "dataset=rag", "metric=faithfulness"),
    }


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    compileall.compile_dir(str(Path(package.__path__[0])), quiet=2)
    print(f"{machine()}; least of {rounds}\n")
    with folder() as work:
        cases = write_cases(work / "cases.jsonl", 10)
        whole = commands(work, cases)
        costs = [{name: run() for name, run in whole.items()} for _ in range(rounds)]
        first = {
            name: min(to_first_request(work, cases, warm) for _ in range(rounds))
            for name, warm in (("contract not prepared", False), ("contract on disk", True))
        }
    least = {name: [min(taken) for taken in zip(*(astuple(one[name]) for one in costs), strict=True)] for name in whole}
    seconds, processor, _ = least[BASE]
    print_table(
        ("", "seconds", f"x {BASE}", "CPU s", f"x {BASE}", "MiB"),
        [
            (name, f"{wall:.2f}", f"{wall / seconds:.1f}", f"{cpu:.2f}", f"{cpu / processor:.1f}", f"{mib:.0f}")
            for name, (wall, cpu, mib) in least.items()
        ],
    )
    rows = [(f"first request, {name}", f"{wall:.2f}", f"{wall / seconds:.1f}") for name, wall in first.items()]
    print_table(("", "seconds", f"x {BASE}"), rows)


if __name__ == "__main__":
    main()
