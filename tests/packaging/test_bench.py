"""The benchmarks are never run by tests; but all of them can be found and say what they measure."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_benchmark_is_listed_with_what_it_measures_and_told_of_in_the_readme():
    done = subprocess.run([sys.executable, "-m", "bench"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("  "))
    readme = (ROOT / "bench" / "README.md").read_text()
    assert set(listed) == {path.stem for path in (ROOT / "bench").glob("[!_]*.py")}
    assert [name for name in listed if f"| `{name}` |" not in readme] == []


def test_an_unknown_benchmark_is_refused():
    assert subprocess.run([sys.executable, "-m", "bench", "nonsense"], cwd=ROOT, capture_output=True).returncode == 2
