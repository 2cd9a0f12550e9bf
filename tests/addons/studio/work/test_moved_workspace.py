"""A workspace whose folder is renamed or moved: its runs, comparisons, baselines, labels and downloads work on."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from evalflow.addons.studio.store import runs as stored
from evalflow.addons.studio.work import archives, comparing, review_desk, review_results, reviews, runs
from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.review_calibration import save_calibration
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_cases import get_run_case
from evalflow.addons.studio.work.run_files import keep_threshold, open_file
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace, open_workspace
from evalflow.engine.folder import RunFolder
from tests.addons.studio.web.finished import finish_runs
from tests.addons.studio.work.test_reviews import add_people, person
from tests.cli.conftest import Program
from tests.finishing import carry_out, finish

pytestmark = pytest.mark.slow


def kept(space: Workspace) -> str:
    """Everything that the database knows of runs."""
    with space.database.reading() as connection:
        return json.dumps([asdict(row) for row in stored.page(connection, space.project_id, None, 100)])


def test_a_moved_workspace_works_on(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = tmp_path / "before", tmp_path / "moved" / "after"
    before.mkdir()
    after.parent.mkdir()
    monkeypatch.chdir(before)
    own = '{"id": "c0", "question": "Q?", "answer": "A", "reference": "A"}\n'
    (before / "mine.jsonl").write_text(own, encoding="utf-8")
    program = Program(before)
    words = ("dataset=rag", "dataset.rag.path=mine.jsonl", "dataset.rag.fields=null", "metric=exact_match")
    assert program(*words).returncode == 0
    with closing(open_workspace(database_url)) as space:
        opened = carry_out(space, open_run(space, program.latest).run_id).run_id
        made = finish_runs(space)
        options = {"baseline": f"outputs/runs/{made.worse}", "gate": {"exact": {"mean": {"not_worse_by": 0.1}}}}
        gated = finish(space, RunRequest("fees", ["questions"], ["exact"], options=options)).run_id
        waiting = runs.create_run(space, RunRequest("fees", ["questions"], ["exact"], options=options)).run_id
        add_people(space, {"ann": "annotator"})
        request = ReviewRequest(name="r", run_id=made.better, metrics=["exact"], size=12, people=["ann"])
        reviews.create_review(space, request)
        assert str(before) not in kept(space)
    monkeypatch.chdir(tmp_path)
    before.rename(after)
    monkeypatch.chdir(after)
    with closing(open_workspace(database_url)) as space:
        for run_id in (made.worse, made.better, opened, gated):
            run = runs.get_run(space, run_id)
            assert run.folder.is_relative_to(after)
            assert get_run_case(space, run_id, 0).gone == ""
            file, size = open_file(space, run_id, "report.html")
            file.close()
            assert size > 0
            assert RunFolder(run.folder).read_manifest().working_directory == str(after)
        assert comparing.compare_runs(space, made.worse, made.better).rows
        ann = person(space, "ann")
        while (item := review_desk.next_item(ann, "r")) is not None:
            review_desk.submit_item(ann, "r", item.item, {"exact": True})
        review_results.close_review(space, "r", reviews.get_review(space, "r").version)
        assert save_calibration(space, "r")
        assert keep_threshold(space, gated, "exact", 0.5).state == "done"
        assert carry_out(space, waiting).state == "done"
        assert finish(space, RunRequest("fees", ["questions"], ["exact"], options=options)).state == "done"
        assert str(after) not in archived_manifest(space, gated)
        assert str(before) not in archived_manifest(space, gated)
    done = Program(after)("report", f"outputs/runs/{gated}")
    assert done.returncode == 0, done.stderr
    shutil.rmtree(after / "outputs" / "runs" / made.worse)  # the baseline
    with closing(open_workspace(database_url)) as space:
        assert str(before) not in archived_manifest(space, gated)


def archived_manifest(space: Workspace, run_id: str) -> str:
    with zipfile.ZipFile(io.BytesIO(b"".join(archives.run_archive(space, run_id)))) as archive:
        return archive.read("run.json").decode()
