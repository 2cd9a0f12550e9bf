"""Runs of others: a program of theirs starts only once somebody has agreed, and they stay below the root."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from evalflow.cli import run_command

BOT = "import pathlib, sys; pathlib.Path('started').touch(); print('{\"answer\": \"A.\"}')"


@pytest.fixture(name="foreign")
def foreign_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with a command target that was made in another folder, copied into this one, as somebody's is."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    data = tmp_path / "mine.jsonl"
    data.write_text('{"question": "Q?", "reference": "A."}\n', encoding="utf-8")
    for folder in (theirs, ours):
        folder.mkdir()
    monkeypatch.chdir(theirs)
    (tmp_path / "bot.py").write_text(BOT, encoding="utf-8")
    chosen = ["dataset=rag", f"dataset.rag.path={data}", "dataset.rag.fields=null", "metric=exact_match"]
    argv = f"target.argv=['{sys.executable}', '{tmp_path / 'bot.py'}']"
    assert run_command([*chosen, "generate=true", "target=command", argv]) == 0
    assert run_command(["resume"]) == 0  # it was started here: nobody is asked
    folder = (theirs / "outputs" / "latest").resolve()
    copied = ours / "outputs" / "runs" / folder.name
    shutil.copytree(folder, copied)
    for name in ("answers.jsonl", "scores.jsonl"):
        (copied / name).unlink()
    monkeypatch.chdir(ours)
    return copied


def test_to_resume_somebody_elses_run_asks_before_its_program_is_started(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["resume", str(foreign)]) == 2
    said = capsys.readouterr().err
    assert "starts a program of this machine" in said
    assert "bot.py" in said
    assert f"python -m evalflow resume {foreign} --trust-program" in said
    assert not Path("started").exists()
    assert run_command(["resume", str(foreign), "--trust-program"]) == 0
    Path("started").unlink()
    assert run_command(["resume", str(foreign), "--retry-errors"]) == 0  # it was agreed to before
