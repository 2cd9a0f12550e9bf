"""How many modules common commands load: a new import at the top of a file is seen here, before people wait for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

_COUNT = """
import json, sys
from evalflow.cli import run_command
code = run_command(sys.argv[2:])
own = sorted(name for name in sys.modules if name.partition(".")[0] == "evalflow")
with open(sys.argv[1], "w") as file:
    json.dump([code, len(sys.modules), own], file)
"""


def loaded(folder: Path, *words: str) -> tuple[int, list[str]]:
    """How many modules a command has loaded, and which of our own."""
    file = folder / "modules.json"
    command = [sys.executable, "-c", _COUNT, str(file), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert file.is_file(), done.stderr
    code, every, own = json.loads(file.read_bytes())
    assert code == 0, done.stderr
    return every, own


# Ours, and all, each about 2 % above what it is. Before you raise one, import where it is used.
@pytest.mark.parametrize(
    ("words", "most_own", "most"),
    [
        (("list", "metric"), 70, 380),
        (("dataset=rag", "metric=exact_match", "limit=40"), 213, 1095),
        (("dataset=rag", "metric=faithfulness"), 257, 1182),
    ],
)
def test_a_command_loads_no_more_modules_than_now(
    tmp_path: Path, words: tuple[str, ...], most_own: int, most: int
) -> None:
    every, own = loaded(tmp_path, *words)
    assert len(own) <= most_own
    assert every <= most
