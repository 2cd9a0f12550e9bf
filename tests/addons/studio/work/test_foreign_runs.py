"""Runs of others in the application: a program of theirs starts only once somebody has agreed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evalflow.addons.studio.work import runs
from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.run_files import keep_threshold
from evalflow.addons.studio.work.space import Workspace, open_workspace
from evalflow.app.core.saved import ProgramError
from evalflow.cli import run_command
from evalflow.errors import UserError
from tests.app.core.test_saved import foreign_run as foreign_run

pytestmark = pytest.mark.slow


@pytest.fixture(name="space")
def _space(foreign: Path) -> Iterator[Workspace]:
    with closing(open_workspace()) as space:
        yield space


def test_to_open_such_a_run_asks_as_well(foreign: Path, space: Workspace) -> None:
    with pytest.raises(ProgramError, match=r"starts a program .*bot\.py"):
        open_run(space, foreign)
    manifest = json.loads((foreign / "run.json").read_text(encoding="utf-8"))
    tools = {"look": {"argv": ["spy", "-x"]}, "book": {"argv": None}}
    agent = {**manifest["config"]["target"], "kind": "agent", "tools": tools, "module": "spies"}
    hidden = {**manifest["config"]["target"], "kind": "${oc.decode:command}"}
    for target, named in ((agent, r"spy -x.*spies"), (hidden, "starts a program")):
        manifest["config"]["target"] = target
        (foreign / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
        with pytest.raises(ProgramError, match=named):
            open_run(space, foreign)
    assert open_run(space, foreign, trust_program=True).state == "queued"


def linked(run: Path) -> None:
    (run / "scores.jsonl").symlink_to(run.parents[3] / "mine.jsonl")


def borrowing(run: Path) -> None:
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    manifest["config"]["baseline"] = str(run.parents[3] / "theirs" / "outputs" / "latest")
    (run / "run.json").write_text(json.dumps(manifest), encoding="utf-8")


def caching(run: Path) -> None:
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    manifest["config"]["cache"]["path"] = str(run.parents[3] / "mine.jsonl")
    (run / "run.json").write_text(json.dumps(manifest), encoding="utf-8")


def moved(run: Path) -> None:
    elsewhere = run.parents[3] / "elsewhere"
    shutil.move(run, elsewhere)
    run.symlink_to(elsewhere)


def moved_inside(run: Path) -> None:
    shutil.move(run, run.with_name("other"))
    run.symlink_to(run.with_name("other"))


@pytest.mark.parametrize("change", [linked, borrowing, caching, moved, moved_inside])
def test_thresholds_and_resuming_stay_below_the_root_and_follow_no_link(
    foreign: Path, space: Workspace, change: Callable[[Path], None]
) -> None:
    from evalflow.addons.studio.store import runs as rows

    run = open_run(space, foreign, trust_program=True)
    with space.database.writing() as connection:
        rows.change(
            connection, run.run_id, run.version, state="failed", facts={"seed": 0, "metrics": [{"name": "exact_match"}]}
        )
    before = (foreign.parents[3] / "mine.jsonl").read_bytes()
    change(foreign)
    with pytest.raises(UserError, match=r"link|not below the working directory"):
        keep_threshold(space, run.run_id, "exact_match", 0.5)
    with pytest.raises(UserError, match=r"link|not below the working directory"):
        runs.resume_run(space, run.run_id)
    assert (foreign.parents[3] / "mine.jsonl").read_bytes() == before


def test_a_run_is_opened_through_no_link_and_borrows_from_nowhere_else(foreign: Path, space: Workspace) -> None:
    borrowing(foreign)
    with pytest.raises(UserError, match="baseline"):
        open_run(space, foreign, trust_program=True)
    linked(foreign)
    with pytest.raises(UserError, match="this is a link"):
        open_run(space, foreign, trust_program=True)
    assert run_command(["resume", str(foreign), "--trust-program"]) == 2


def test_the_programs_of_checks_need_consent_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    check = {"identifier": "command", "params": {"command": "own"}}
    data, script = tmp_path / "mine.jsonl", tmp_path / "judge.py"
    data.write_text(json.dumps({"question": "Q?", "answer": "A.", "checks": [check]}), encoding="utf-8")
    script.write_text("""import pathlib; pathlib.Path("started").touch(); print('{"score": 1}')""", encoding="utf-8")
    chosen = ["dataset=rag", f"dataset.rag.path={data}", "dataset.rag.fields=null", "metric=checks"]
    commands = f"metric.checks.commands={{own:{{argv:['{sys.executable}','{script}']}}}}"
    monkeypatch.chdir(theirs)
    assert run_command([*chosen, commands]) == 0
    assert run_command(["resume"]) == 0
    folder = (theirs / "outputs" / "latest").resolve()
    copied = ours / "outputs" / "runs" / folder.name
    shutil.copytree(folder, copied)
    (copied / "scores.jsonl").unlink()
    monkeypatch.chdir(ours)
    assert run_command(["resume", str(copied)]) == 2
    assert f"starts a program of this machine: {sys.executable} {script}" in capsys.readouterr().err
    assert not Path("started").exists()
    assert run_command(["resume", str(copied), "--trust-program"]) == 0
    assert Path("started").exists()
    (copied / "scores.jsonl").unlink()
    with closing(open_workspace()) as space:
        run = open_run(space, copied, trust_program=True)
        with pytest.raises(UserError, match="run on the command line only, never in the application"):
            runs.resume_run(space, run.run_id)
