"""A project's folder is moved or copied after its runs: they are read, compared, resumed and judged where it is now."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from evalflow.engine.folder import RunFolder
from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program

METRIC = """# @package metric.polite
kind: rubric
description: The answer is polite.
needs: [question, answer]
prompt: own/grade.jinja
scale: {type: boolean}
threshold: 0.5
"""
RUN = ("dataset=mine", "metric=polite", "judge=openai", "judge.model=m", "judge.api_key_env=null")
GATE = "gate={polite: {mean: {not_worse_by: 0.9}}}"


def polite(_: Request) -> dict[str, object]:
    return {"reason": "It is.", "grade": True, "score": True, "verdict": True}


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Program:
    program = Program(tmp_path / "before")
    program.folder.mkdir()
    for name, text in {
        "conf/metric/polite.yaml": METRIC,
        "conf/dataset/mine.yaml": f"# @package dataset.mine\npath: {program.folder / 'mine.jsonl'}\n",
        "prompts/own/grade.jinja": "{{ question | fenced('question') }} {{ answer | fenced('answer') }} Is it polite?",
    }.items():
        path = program.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    program.write("mine.jsonl", *({"id": f"c{i}", "question": f"Q{i}?", "answer": f"A{i}"} for i in range(12)))
    return program


def moved(program: Program, name: str = "after") -> Program:
    return Program(program.folder.rename(program.folder.parent / name))


def test_runs_of_a_moved_project_are_compared_reported_and_judged_again(project: Program) -> None:
    with Endpoint(polite) as endpoint:
        words = (*RUN, f"judge.base_url={endpoint.url}")
        assert project(*words).returncode == 0
        first = project.latest.name
        assert project(*words, GATE, "baseline=outputs/latest").returncode == 0
        second = project.latest.name
        after = moved(project)
        assert after.latest.name == second
        done = after("report", "outputs/latest")
        assert done.returncode == 0, done.stderr
        assert "not worse than the baseline" in (after.latest / "summary.md").read_text(encoding="utf-8")
        for verb in (("compare", f"outputs/runs/{first}"), ("cases",)):
            done = after(*verb)
            assert done.returncode == 0, (verb, done.stderr)
        done = after("calibrate", "--labels", labels(after))
        assert "on 12 answers" in done.stdout, done.stdout + done.stderr
        assert str(project.folder) not in RunFolder(after.latest).read_manifest().text


def labels(program: Program) -> str:
    rows = ({"case_id": f"c{i}", "metric": "polite", "value": i > 1} for i in range(12))
    return program.write("labels.jsonl", *rows)


def test_a_run_that_was_interrupted_is_resumed_where_its_project_is_now(project: Program) -> None:
    with Endpoint(polite) as endpoint:
        words = (*RUN, f"judge.base_url={endpoint.url}", "budget.requests=2", "cache.mode=off")
        assert project(*words).returncode == 4
        asked = len(endpoint.requests)
        after = moved(project)
        done = after("resume", "outputs/latest", "budget.requests=20")
        assert done.returncode == 0, done.stderr
        assert len(endpoint.requests) == 12
        assert asked == 2
    assert after.manifest["working_directory"] == str(after.folder)
    assert str(project.folder) not in json.dumps(after.manifest["datasets"])


def test_a_copy_is_of_its_own_and_a_run_copied_alone_keeps_the_paths_of_its_project(project: Program) -> None:
    with Endpoint(polite) as endpoint:
        assert project(*RUN, f"judge.base_url={endpoint.url}").returncode == 0
    copy = Path(shutil.copytree(project.folder, project.folder.parent / "copy", symlinks=True))
    alone = Path(shutil.copytree(project.latest, project.folder.parent / "alone"))
    without_data = shutil.copytree(project.folder / "outputs", project.folder.parent / "results" / "outputs")

    def file_of(run: Path) -> list[str]:
        return list(RunFolder(run).read_manifest().datasets["mine"].files)

    own = [str(project.folder / "mine.jsonl")]
    assert file_of(copy / "outputs" / "latest") == [str(copy / "mine.jsonl")]
    assert file_of(alone) == own
    assert file_of(Path(without_data) / "latest") == own
