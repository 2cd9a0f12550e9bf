"""The page on requests: its YAML and its commands."""

from __future__ import annotations

from pathlib import Path

from evalflow.calls.waits import LONGEST_WAIT_S
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "requests.md").read_text(encoding="utf-8")


def test_the_commands_work(tmp_path: Path) -> None:
    (file,) = blocks("yaml", PAGE)
    path = tmp_path / file.split("\n", 1)[0].removeprefix("# ")
    path.parent.mkdir(parents=True)
    path.write_text(file, encoding="utf-8")
    for command in blocks("bash", PAGE)[0].splitlines():
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stderr


def test_the_longest_wait_is_that_of_the_code() -> None:
    assert f"more than {LONGEST_WAIT_S:g} s" in PAGE
