"""Runs of the command line: opened, and run again as those of the application."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import datasets
from evalflow.addons.studio.work.opened_runs import make_repeatable, open_run
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import changed_request, create_run, get_run, list_runs
from evalflow.addons.studio.work.space import Workspace, open_workspace
from evalflow.app.core.rederive import facts_of_run
from evalflow.engine.folder import RunFolder
from evalflow.errors import UserError
from tests.cli.conftest import Program
from tests.finishing import carry_out
from tests.postgres import ON_SQLITE

pytestmark = pytest.mark.slow


@pytest.fixture(name="folder")
def _folder(space: Workspace) -> Path:
    """A run of the command line, of a dataset in the working directory's conf/."""
    (space.root / "conf" / "dataset").mkdir(parents=True)
    rows = [{"id": f"c{n}", "question": "q?", "answer": "a", "reference": "a", "tags": ["odd"]} for n in range(3)]
    (space.root / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    declared = "# @package dataset.mine\npath: mine.jsonl\n"
    (space.root / "conf" / "dataset" / "mine.yaml").write_text(declared, encoding="utf-8")
    words = ["dataset=mine", "metric=[exact_match,semantic_similarity]", "limit=2", "budget.requests=50"]
    words += ["+dataset.mine.tags=[odd]", "metric.semantic_similarity.threshold=0.25", "embedder.calibrated=false"]
    assert Program(space.root)(*words).returncode == 0
    return space.root / "outputs" / "latest"


def test_a_run_of_the_command_line_is_run_again_as_it_was(space: Workspace, folder: Path) -> None:
    opened = open_run(space, folder)
    assert opened.request == RunRequest(
        "recorded",
        ["mine"],
        ["exact_match", "semantic_similarity"],
        {"mine": {"tags": ["odd"]}},
        judge="embedded",
        embedder_values={"calibrated": False},
        thresholds={"semantic_similarity": 0.25},
        options={"generate": False, "limit": 2, "budget": {"requests": 50}},
    )
    again = create_run(space, changed_request(opened))
    assert again.progress.expected == 4
    assert make_repeatable(space, opened.run_id) == opened.request


@ON_SQLITE
@pytest.mark.parametrize("words", [["metric.exact_match.threshold=0.5"], []], ids=["report", "calibrate"])
def test_a_run_shows_what_the_command_line_made_of_it(space: Workspace, folder: Path, words: list[str]) -> None:
    opened = carry_out(space, open_run(space, folder).run_id)
    labels = [{"case_id": f"c{n}", "metric": "exact_match", "value": n, "by": "Ada"} for n in range(2)]
    (space.root / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)), encoding="utf-8")
    command = ["report", str(folder), *words] if words else ["calibrate", str(folder), "--labels", "labels.jsonl"]
    Program(space.root)(*command)
    assert (folder / "calibration.json").is_file() is (not words)
    [listed] = list_runs(space).items
    assert listed == get_run(space, opened.run_id)
    facts = json.loads(json.dumps(facts_of_run(RunFolder(listed.folder))))
    assert listed.facts == {name: value for name, value in facts.items() if name != "changed_at"} != opened.facts
    assert (listed.state, listed.finished_at) == ("done", opened.finished_at)


def test_scores_that_the_command_line_added_are_read_by_a_worker(space: Workspace, folder: Path) -> None:
    opened = carry_out(space, open_run(space, folder).run_id)
    journal = folder / "scores.jsonl"
    journal.write_bytes(journal.read_bytes() + journal.read_bytes().splitlines(keepends=True)[-1])
    (folder / "run.json").touch()
    assert get_run(space, opened.run_id).state == "queued"
    assert carry_out(space, opened.run_id).progress.counts == opened.progress.counts
    assert get_run(space, opened.run_id).state == "done"


@ON_SQLITE
def test_a_run_whose_files_are_gone_or_damaged_is_shown_as_it_was(
    space: Workspace, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = carry_out(space, open_run(space, folder).run_id)
    (folder / "run.json").write_text("{", encoding="utf-8")
    assert get_run(space, opened.run_id) == opened
    (folder / "run.json").unlink()
    caplog.clear()
    assert [get_run(space, opened.run_id) for _ in range(3)] == [opened] * 3
    assert len(caplog.records) == 1, "not once for each view"


def elsewhere(run: dict[str, Any]) -> None:
    run["working_directory"] = "/somewhere/else"
    run["search_folders"]["conf"].insert(0, "/somewhere/else/own")


def own_prompt(run: dict[str, Any]) -> None:
    run["config"]["metric"]["exact_match"]["field"] = "actual"
    run["config"]["cache"]["path"] = "mine.db"


def removed(run: dict[str, Any]) -> None:
    del run["config"]["judge"]["thresholds"]


def secret(run: dict[str, Any]) -> None:
    run["config"]["embedder"]["name"] = "${oc.env:SIZE}"


def unknown(run: dict[str, Any]) -> None:
    run["config"]["metric"]["of_theirs"] = {"kind": "check"}


@ON_SQLITE
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (elsewhere, "where the application does not look"),
        (own_prompt, r"(?s)changed cache\.path.*changed metric\.exact_match\.field"),
        (removed, r"changed judge\.thresholds"),
        (secret, r"changed embedder\.name"),
        (unknown, "of_theirs"),
    ],
)
def test_what_cannot_be_said_here_is_named(
    space: Workspace, folder: Path, change: Callable[[dict[str, Any]], None], said: str
) -> None:
    before = (folder / "run.json").read_text(encoding="utf-8")
    manifest = json.loads(before)
    change(manifest)
    (folder / "run.json").write_text(json.dumps(manifest), encoding="utf-8")
    opened = open_run(space, folder)
    assert opened.request is None
    with pytest.raises(UserError, match=said):
        make_repeatable(space, opened.run_id)
    with pytest.raises(UserError, match="run it in a terminal: python -m evalflow"):
        changed_request(opened)
    (folder / "run.json").write_text(before, encoding="utf-8")
    assert make_repeatable(space, opened.run_id) == get_run(space, opened.run_id).request


@ON_SQLITE
def test_a_dataset_of_the_same_name_is_another_one(space: Workspace, folder: Path) -> None:
    opened = open_run(space, folder)
    file = space.root / "conf" / "dataset" / "mine.yaml"
    declared = file.read_bytes()
    file.unlink()
    datasets.create_dataset(space, "mine")
    file.write_bytes(declared)
    with pytest.raises(UserError, match="'mine' is another one here"):
        make_repeatable(space, opened.run_id)


def test_the_database_is_its_owners_alone_whatever_the_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".evalflow").mkdir(mode=0o755)
    before = os.umask(0)
    try:
        with closing(open_workspace()):
            modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / ".evalflow").iterdir()}
        assert os.umask(0) == 0
    finally:
        os.umask(before)
    assert {"evalflow.db", "evalflow.db-wal"} <= modes.keys()
    assert set(modes.values()) == {0o600}
