"""Peak memory of a run by its number of cases, above a run of one case.

    python bench/memory.py [--recorded] [CASES ...]

A run of one case loads all the code that a larger one loads, phase by phase; what a larger one takes beyond it in the
same phase is the cases' own, and the most of that is held against the goal. Judged runs ask the endpoint once a case;
`--recorded` reads scores that stand in the data, which is the cheapest way through everything else (data, journal,
summary, reports) and so the one for a million cases. Resident memory is sampled all the while, and the phase told by
the files that are there.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from _lab import Endpoint, evalflow, folder, machine, print_table, resident_mib, write_cases

GOALS = {1_000: 60, 10_000: 100, 1_000_000: 500}
IN_FLIGHT = 100
PHASES = ("check", "run", "summary", "reports")
SAMPLE_S = 0.02


@dataclass(slots=True)
class Profile:
    """What a run took: seconds, and the peak MiB in each phase."""

    wall_s: float = 0.0
    peaks: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))

    def above(self, base: Profile) -> float:
        """MiB beyond another run in the same phase, at most."""
        return max(self.peaks[phase] - base.peaks[phase] for phase in PHASES)


def phase_of(run: Path) -> str:
    """What a run is at, by the files it has written."""
    if (run / "summary.json").exists():
        return "reports"
    if (run / ".scores.parquet.part").exists() or (run / "scores.parquet").exists():
        return "summary"
    return "run" if (run / "run.json").exists() else "check"


def profiled(command: list[str], work: Path, run: Path) -> Profile:
    """Run a command whose run goes to a folder, and watch its memory."""
    found, begun = Profile(), time.perf_counter()
    with (work / "output.txt").open("w") as output:
        process = subprocess.Popen(command, cwd=work, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            phase = phase_of(run)
            found.peaks[phase] = max(found.peaks[phase], resident_mib(process.pid))
            time.sleep(SAMPLE_S)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}\n{(work / 'output.txt').read_text()}")
    found.wall_s = time.perf_counter() - begun
    return found


STARS = """# @package metric.stars
kind: recorded
description: Stars.
needs: [question, answer]
field: stars
scale: {type: likert, min: 1, max: 5}
threshold: 0.5
"""


def measure(work: Path, url: str, count: int, *, recorded: bool) -> Profile:
    """One run of so many cases."""
    cases = write_cases(work / f"{count}.jsonl", count)
    metric = "stars" if recorded else "coherence"
    with TemporaryDirectory(dir=work) as own:
        run = Path(own) / "run"
        command = evalflow(url, cases, IN_FLIGHT, f"cache.path={own}/c.db", f"hydra.run.dir={run}", metric=metric)
        return profiled(command, work, run)


def write_metric(work: Path) -> None:
    """A metric that reads scores from the data."""
    (work / "conf" / "metric").mkdir(parents=True)
    (work / "conf" / "metric" / "stars.yaml").write_text(STARS)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--recorded", action="store_true", help="read scores from the data instead of asking a judge")
    arguments = parser.parse_args()
    print(f"{machine()}; {'recorded scores' if arguments.recorded else 'one judge call a case'}\n")
    rows: list[tuple[str, ...]] = []
    with folder() as work, Endpoint(0.0) as endpoint:
        write_metric(work)
        # twice, since the first run prepares the judge's contract, with code that later ones do without
        *_, base = (measure(work, endpoint.url, 1, recorded=arguments.recorded) for _ in range(2))
        for count in (1, *arguments.cases):
            found = base if count == 1 else measure(work, endpoint.url, count, recorded=arguments.recorded)
            goal = f"{GOALS[count]}" if count in GOALS else ""
            phases = (f"{found.peaks[phase]:.0f}" for phase in PHASES)
            rows.append((f"{count:,}", *phases, f"{found.wall_s:.1f}", f"{found.above(base):.0f}", goal))
    print_table(("cases", *PHASES, "seconds", "above one case", "goal"), rows)


if __name__ == "__main__":
    main()
