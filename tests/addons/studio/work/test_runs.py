"""A run is checked and frozen before it is queued, and what is wrong with it leaves nothing behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from evalflow.addons.studio.store import cases as store
from evalflow.addons.studio.store.schema import metadata
from evalflow.addons.studio.work import bots, cases, datasets, definitions, judges, metrics, runs
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.planned_runs import plan
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.app.core.assemble import composed_settings
from evalflow.config.hydra_plugins import Loader
from evalflow.config.yaml_text import safe_yaml
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, Subject, UserError
from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = pytest.mark.slow

MODEL: dict[str, Any] = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
POLITE: dict[str, Any] = {"kind": "g_eval", "criteria": "Polite?", "needs": ["question", "answer"]}


@pytest.fixture
def request_(space: Workspace) -> RunRequest:
    bots.create_bot(space, "helper", MODEL)
    metrics.create_metric(space, "helper", MetricDraft("polite", POLITE))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"question": "q?"}])
    return RunRequest("helper", ["mine"], ["polite"], thresholds={"polite": 0.7}, options={"repeats": {"judge": 2}})


def test_a_queued_run_is_frozen(space: Workspace, request_: RunRequest) -> None:
    run = runs.create_run(space, request_, "key")
    assert (run.state, run.request, run.progress.expected) == ("queued", request_, 2)
    frozen = {
        file.relative_to(run.folder).as_posix(): file.read_text() for file in run.folder.rglob("*") if file.is_file()
    }
    bots.update_bot(space, "helper", 1, config={**MODEL, "model": "n"})
    cases.add_cases(space, "mine", [{"question": "r?"}])
    assert frozen == {path: (run.folder / path).read_text() for path in frozen}
    assert "threshold: 0.7" in frozen["snapshot/conf/metric/polite.yaml"]
    assert "metric=[polite]" in run.repeat
    with pytest.raises(TakenError, match="another request"):
        runs.create_run(space, runs.changed_request(run, thresholds={}), "key")


@ON_SQLITE
def test_a_run_is_composed_once_from_its_request_to_its_end(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    bots.create_bot(space, "told", {"kind": "recorded"})
    exact = {"kind": "check", "needs": ["answer"], "checks": [{"op": "contains", "value": "x"}]}
    metrics.create_metric(space, "told", MetricDraft("exact", exact))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"question": "q?", "answer": "x"}])
    made: list[Any] = []
    compose = Loader.load_configuration

    def counted(self: Loader, *args: Any, **more: Any) -> Any:
        made.append(more)
        return compose(self, *args, **more)

    monkeypatch.setattr(Loader, "load_configuration", counted)
    run = finish(space, RunRequest("told", ["mine"], ["exact"]))
    assert (run.state, len(made)) == ("done", 1), made


@ON_SQLITE
def test_a_planned_run_starts_where_its_folder_was_restored(
    space: Workspace, request_: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bots.create_bot(space, "told", {"kind": "recorded"})
    cases.add_case(space, "mine", {"question": "r?", "answer": "x", "reference": "x"})
    run = runs.create_run(space, RunRequest("told", ["mine"], ["exact_match"]))
    manifest = RunFolder(run.folder).read_manifest()
    assert (manifest.status, manifest.process) == ("planned", 0)
    assert safe_yaml((run.folder / ".hydra" / "config.yaml").read_text("utf-8")) == manifest.config
    assert safe_yaml((run.folder / ".hydra" / "overrides.yaml").read_text("utf-8")) == manifest.overrides
    (away := tmp_path / "away").mkdir()
    (space.root / "outputs").rename(away / "outputs")
    monkeypatch.chdir(away)
    program = Program(away)
    where = Path("outputs", "runs", run.run_id)
    assert program("resume", str(where)).returncode == 0
    assert (away / "outputs" / "latest").resolve() == (away / where).resolve()


def written(space: Workspace) -> tuple[dict[Path, int], dict[str, list[Any]]]:
    """When each file and folder below the working directory was changed, and all rows of the database.

    A folder also changes by a file that is there for a moment only.
    """
    with space.database.reading() as connection:
        rows = {table.name: list(connection.execute(select(table))) for table in metadata.sorted_tables}
    places = [one for one in (space.root, *space.root.rglob("*")) if not one.name.startswith("evalflow.db")]
    return {one: one.stat().st_mtime_ns for one in places}, rows


def test_cases_are_read_once_until_they_change(
    space: Workspace, request_: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    bodies = store.bodies

    def read(connection: Any, dataset: int, **more: Any) -> Any:
        asked.append(dataset)
        return bodies(connection, dataset, **more)

    def estimated() -> tuple[int, bool]:
        asked.clear()
        return runs.estimate_run(space, request_).cases["mine"], bool(asked)

    monkeypatch.setattr(store, "bodies", read)
    assert [estimated(), estimated()] == [(1, True), (1, False)]
    added = cases.add_case(space, "mine", {"question": "r?"})
    assert [estimated(), estimated()] == [(2, True), (2, False)]
    cases.update_case(space, "mine", added.id, added.version, {"question": "s?", "tags": ["t"]})
    assert [estimated(), estimated()] == [(2, True), (2, False)]
    cases.activate_cases(space, "mine", [added.id], draft=True)
    assert [estimated(), estimated()] == [(1, True), (1, False)]
    cases.activate_cases(space, "mine", [added.id])
    asked.clear()
    run = runs.create_run(space, request_)
    frozen = (run.folder / "snapshot/data/mine.jsonl").read_text().splitlines()
    assert [json.loads(line)["messages"][0]["content"] for line in frozen] == ["q?", "s?"]
    assert (run.progress.expected, asked) == (4, [])


def test_an_estimate_writes_nothing_and_tells_of_self_preference(
    space: Workspace, request_: RunRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    (space.root / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(space.root / "temporary"))
    before = written(space)
    told = runs.estimate_run(space, replace(request_, datasets=["mine", "rag"]))
    assert (told.cases["mine"], told.cases["rag"] > 1, told.scores) == (1, True, 2 * sum(told.cases.values()))
    assert any("self-preference" in notice for notice in told.notices)
    assert written(space) == before


@ON_SQLITE
def test_a_run_means_what_its_folder_says_on_the_command_line(space: Workspace, request_: RunRequest) -> None:
    judges.create_judge(space, "strict", {"kind": "openai", "model": "n", "api_key_env": None})
    judged = {**POLITE, "judge": "strict", "criteria": "Is ${this} text?"}
    metrics.create_metric(space, "helper", MetricDraft("named", judged))
    wanted = replace(request_, datasets=["mine", "rag"], metrics=["polite", "named", "exact_match"])
    options = {"limit": 1, "gate": {"polite": {"mean": ">= 0.8"}}}
    planned = plan(space, replace(wanted, dataset_values={"mine": {"tags": ["${a}"]}}, options=options))
    frozen = planned.freeze(space.root / "frozen")
    again = composed_settings(planned.request.words(), space.root / "frozen" / "conf")
    assert again.run == frozen.run
    assert again.judges == frozen.judges
    assert frozen.run.metric["named"].model_dump()["criteria"] == "Is ${this} text?"


@ON_SQLITE
def test_a_panel_of_conf_may_judge(space: Workspace, request_: RunRequest) -> None:
    (folder := Path("conf/judge")).mkdir(parents=True)
    members = "defaults: [ollama@members.first, vllm@members.second]\nkind: panel\n"
    (folder / "duo.yaml").write_text(f"{members}members: {{first: {{model: llama}}, second: {{model: qwen}}}}\n")
    run = runs.create_run(space, replace(request_, judge="duo"), "key")
    assert (
        runs.estimate_run(space, replace(request_, judge="duo")).requests
        > runs.estimate_run(space, replace(request_, judge="ollama", judge_values={"model": "llama"})).requests
    )
    frozen = (run.folder / "snapshot/conf/judge/duo.yaml").read_text()
    assert "kind: panel" in frozen
    assert "model: qwen" in frozen
    assert "duo" not in definitions.endpoint_judges()


@ON_SQLITE
def test_simulated_users_are_frozen_and_talk_with_the_bot(space: Workspace) -> None:
    def both(request: Request) -> Any:
        if request.schema_name == "UserTurn":
            state = "goal_reached" if "Answer." in request.text else "goes_on"
            return {"reason": "r", "state": state, "message": "And the price?"}
        return reply("Answer.", as_text=True)

    datasets.create_dataset(space, "users")
    cases.add_case(space, "users", {"scenario": "You need a permit.", "facts": ["You are new."]})
    with Endpoint(both) as endpoint:
        address = {"base_url": endpoint.url, "api_key_env": None}
        bots.create_bot(space, "talker", {**MODEL, **address})
        alone = RunRequest("talker", ["users"], ["answer_words"])
        with pytest.raises(UserError, match="no simulator plays the user"):
            runs.create_run(space, alone)
        user = {"kind": "openai", "model": "user", **address, "limits": {"turns": 3}}
        request = replace(alone, options={"simulator": user})
        assert runs.estimate_run(space, request).requests == 3 + 4
        run = finish(space, request)
        assert (run.state, endpoint.count) == ("done", 3)
    manifest = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    assert manifest["endings"] == {"goal_reached": 1}
    answer = json.loads((run.folder / "answers.jsonl").read_text(encoding="utf-8"))
    assert answer["metadata"]["simulation"]["simulator"] == "openai:user"


@ON_SQLITE
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": []}, "no metric is chosen"),
        ({"options": {"limt": 3}}, "did you mean 'limit'"),
        ({"options": {"limit": -1}}, "limit"),
        ({"options": {"cache": {"path": "other.db"}}}, "only the mode"),
        ({"options": {"cache": {"path": "/etc/x"}}}, "not below the working directory"),
        ({"thresholds": {"rude": 1}}, "no metric 'rude'"),
        ({"judge_values": {"modle": "m"}}, "modle"),
        ({"judge_values": {"api_key_env": "NO_SUCH_KEY"}}, "NO_SUCH_KEY"),
    ],
)
def test_a_wrong_request_is_refused_and_leaves_nothing(
    space: Workspace, request_: RunRequest, changes: dict[str, Any], message: str
) -> None:
    run = runs.RunRequest(**{**{name: getattr(request_, name) for name in request_.__dataclass_fields__}, **changes})
    with pytest.raises(UserError, match=message):
        runs.create_run(space, run)
    assert list(space.runs.glob("*")) == []
    assert runs.list_runs(space).items == []


@ON_SQLITE
def test_what_is_not_there_is_not_found(space: Workspace, request_: RunRequest) -> None:
    for changes in ({"bot": "x"}, {"datasets": ["x"]}, {"metrics": ["x"]}, {"judge": "x"}):
        fields = {name: getattr(request_, name) for name in request_.__dataclass_fields__}
        with pytest.raises(NotFoundError, match="'x'"):
            runs.create_run(space, RunRequest(**{**fields, **changes}))
    with pytest.raises(NotFoundError):
        runs.get_run(space, "x")


def test_runs_are_listed_the_newest_first_and_cancelled_while_they_wait(space: Workspace, request_: RunRequest) -> None:
    made = [runs.create_run(space, request_).run_id for _ in range(3)]
    page = runs.list_runs(space, limit=2)
    rest = runs.list_runs(space, page.next, limit=2)
    assert [run.run_id for run in (*page.items, *rest.items)] == made[::-1]
    assert rest.next is None
    assert [run.run_id for run in runs.list_runs(space, text=made[1][-4:].upper()).items] == made[1:2]
    assert runs.list_runs(space, text="%").items == []
    other = runs.create_run(
        space, replace(request_, judge="ollama", judge_values={"model": "Llama-9"}, title="Nightly")
    )
    for text in ("llama-9", "MINE polite", "nightly", "helper 9"):
        assert other.run_id in [run.run_id for run in runs.list_runs(space, text=text).items], text
    assert [run.run_id for run in runs.list_runs(space, text=" llama  polite").items] == [other.run_id]
    assert runs.list_runs(space, text="llama datasets").items == []
    runs.cancel_run(space, other.run_id)
    runs.delete_run(space, other.run_id)
    assert runs.cancel_run(space, made[0]).state == "cancelled"
    with pytest.raises(TakenError):
        runs.cancel_run(space, made[0])
    assert [run.run_id for run in runs.list_runs(space, state="cancelled").items] == made[:1]
    assert runs.resume_run(space, made[0]).state == "queued"


@ON_SQLITE
def test_problems_of_a_run_say_what_they_are_about(space: Workspace, request_: RunRequest) -> None:
    def problems(request: RunRequest) -> list[Problem]:
        with pytest.raises(UserError) as refused:
            runs.estimate_run(space, request)
        return [*refused.value.problems]

    datasets.create_dataset(space, "hollow")
    hollow = Subject("dataset", "hollow"), Subject("import", "", "hollow")
    [found] = problems(replace(request_, datasets=["hollow"]))
    assert (found.what, found.see) == ("the dataset hollow has no cases", hollow)
    cases.add_case(space, "hollow", {"question": "q?"}, draft=True)
    [found] = problems(replace(request_, datasets=["hollow"]))
    assert found.what == "all cases of the dataset hollow are drafts"
    metrics.create_metric(space, "helper", MetricDraft("right", {**POLITE, "needs": ["reference"]}))
    [found] = problems(replace(request_, metrics=["right"], thresholds={}))
    assert found.see == (Subject("dataset", "mine"),)
    assert {found.where for found in problems(RunRequest("nobody", [], []))} == {"bot", "datasets", "metrics"}
