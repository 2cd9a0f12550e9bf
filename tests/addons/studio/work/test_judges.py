from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import bots, datasets, judges, metrics, runs
from evalflow.addons.studio.work.cases import add_case
from evalflow.addons.studio.work.metric_trial import TriedJudge, try_judge
from evalflow.addons.studio.work.metric_yaml import metric_yaml, read_metric_yaml
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.planned_runs import plan
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import StaleError, TakenError, Workspace
from evalflow.app.core.assemble import settings_of
from evalflow.config.judges import CascadeConfig, OpenAIJudgeConfig, PanelConfig
from evalflow.config.load import compose
from evalflow.errors import Subject, UserError
from evalflow.testing import Endpoint, Request
from tests.postgres import ON_SQLITE

pytestmark = pytest.mark.slow

CONFIG: dict[str, Any] = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "STRICT"}
GRADED = {"kind": "g_eval", "criteria": "Is it right?", "needs": ["question", "answer"], "judge": "strict"}


def defined(space: Workspace) -> None:
    judges.create_judge(space, "strict", CONFIG, "Misses nothing.")
    bots.create_bot(space, "fees", {"kind": "recorded"})
    metrics.create_metric(space, "fees", MetricDraft("graded", GRADED))


@ON_SQLITE
def test_a_judge_says_who_uses_it_and_what_it_lacks(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    defined(space)
    monkeypatch.delenv("STRICT", raising=False)
    found = judges.get_judge(space, "strict")
    assert (found.used_by, found.missing_key) == (["fees/graded"], "STRICT")
    monkeypatch.setenv("STRICT", "sesame")
    assert judges.get_judge(space, "strict").missing_key is None
    shipped = {judge.name: judge for judge in judges.list_judges(space) if judge.origin == "conf"}
    assert shipped["openai"].config["model"]
    with pytest.raises(TakenError, match="used by fees/graded"):
        judges.delete_judge(space, "strict", 1)
    metrics.delete_metric(space, "fees", "graded", 1)
    with pytest.raises(StaleError):
        judges.delete_judge(space, "strict", 7)
    judges.delete_judge(space, "strict", 1)


@ON_SQLITE
def test_a_metric_and_a_run_choose_it_by_name(space: Workspace, tmp_path: Path) -> None:
    defined(space)
    judges.create_judge(space, "other", {**CONFIG, "model": "n", "price": None, "temperature": 0.5})
    datasets.create_dataset(space, "mine")
    add_case(space, "mine", {"question": "q", "answer": "a"})
    request = RunRequest("fees", ["mine"], ["graded"], judge="other")
    settings = plan(space, request).freeze(tmp_path / "snapshot")
    judge, own = settings.run.judge, settings.judges["graded"]
    assert isinstance(judge, OpenAIJudgeConfig)
    assert isinstance(own, OpenAIJudgeConfig)
    assert (judge.model, judge.temperature, own.model, own.temperature) == ("n", 0.5, "m", 0)
    assert (judge.name, own.name, own.api_key_env) == ("other", "strict", "STRICT")
    with pytest.raises(UserError, match="no judge 'lenient'"):
        runs.create_run(space, RunRequest("fees", ["mine"], ["graded"], judge="lenient"))


@ON_SQLITE
def test_the_yaml_of_a_metric_is_a_file_of_conf_beside_that_of_its_judge(space: Workspace, tmp_path: Path) -> None:
    defined(space)
    text = metric_yaml(GRADED)
    assert read_metric_yaml(text) == GRADED
    assert read_metric_yaml("kind: g_eval\njudge: strict")["judge"] == "strict"
    conf = tmp_path / "pasted"
    for group, name, content in (("metric", "graded", f"# @package metric.graded\n{text}"), ("judge", "strict", JUDGE)):
        (conf / group).mkdir(parents=True)
        (conf / group / f"{name}.yaml").write_text(content, "utf-8")
    composed = compose(["dataset=rag", "metric=graded", "judge=embedded"], conf)
    assert settings_of(composed).judges["graded"].name == "strict"


JUDGE = "defaults: [_openai, _self_]\nmodel: m\nname: strict\n"


@ON_SQLITE
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"kind": "scripted"}, "cannot be defined here"),
        ({"model": None}, "model"),
        ({"api_key": "sk-1"}, "api_key"),
        ({"base_url": "localhost"}, "http"),
        ({"temprature": 1}, "temperature"),
        ({"kind": "panel", "members": {"a": "strict", "b": "strict"}}, "members"),
        ({"kind": "panel", "members": 3}, "members"),
    ],
)
def test_what_is_wrong_with_a_judge_is_said(space: Workspace, changes: dict[str, Any], what: str) -> None:
    with pytest.raises(UserError, match=what):
        judges.create_judge(space, "strict", {**CONFIG, **changes})
    assert judges.JUDGES.own(space) == []


@ON_SQLITE
def test_a_metric_names_no_judge_that_is_not_there(space: Workspace) -> None:
    bots.create_bot(space, "fees", {"kind": "recorded"})
    with pytest.raises(UserError, match="no judge 'strict'"):
        metrics.create_metric(space, "fees", MetricDraft("graded", GRADED))


def panel_of(*members: str, **values: Any) -> dict[str, Any]:
    return {"kind": "panel", "members": list(members), **values}


def test_a_panel_has_named_members_as_they_are_when_a_run_starts(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    defined(space)
    monkeypatch.setenv("STRICT", "sesame")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    judges.create_judge(space, "jury", panel_of("strict", "openai", vote="median"), "Two see more.")
    found = {one.name: one for one in judges.list_judges(space)}
    assert (found["jury"].missing_key, found["strict"].used_by) == ("OPENAI_API_KEY", ["fees/graded", "jury"])
    members: Any = found["panel"].config["members"]
    assert [*members] == ["first", "second"]
    judges.update_judge(space, "strict", 1, {**CONFIG, "model": "newer"})
    judges.create_judge(space, "stairs", {"kind": "cascade", "members": ["embedded", "strict"], "escalate_below": 0.7})
    metrics.create_metric(space, "fees", MetricDraft("paneled", {**GRADED, "judge": "jury"}))
    datasets.create_dataset(space, "mine")
    add_case(space, "mine", {"question": "q", "answer": "a"})
    request = RunRequest("fees", ["mine"], ["paneled"], judge="stairs")
    settings = plan(space, request).freeze(tmp_path / "snapshot")
    panel, cascade = settings.judges["paneled"], settings.run.judge
    assert isinstance(panel, PanelConfig)
    assert isinstance(cascade, CascadeConfig)
    assert (panel.name, panel.vote, cascade.name, cascade.escalate_below) == ("jury", "median", "stairs", 0.7)
    assert [(name, getattr(one, "model", None)) for name, one in panel.members.items()] == [
        ("strict", "newer"),
        ("openai", found["openai"].config["model"]),
    ]
    assert cascade.order == ["embedded", "strict"]
    assert {name: one.kind for name, one in cascade.members.items()} == {"embedded": "embedded", "strict": "openai"}
    with pytest.raises(TakenError, match="used by fees/graded, jury, stairs") as refused:
        judges.delete_judge(space, "strict", 2)
    see = Subject("metric", "graded", "fees"), Subject("judge", "jury"), Subject("judge", "stairs")
    assert refused.value.problems[0].see == see


@ON_SQLITE
@pytest.mark.parametrize(
    ("members", "what"),
    [(["strict"], "two members"), (["strict", "none"], "no judge 'none'"), (["strict", "panel"], "made of members")],
)
def test_what_is_wrong_with_members_is_said(space: Workspace, members: list[str], what: str) -> None:
    defined(space)
    with pytest.raises(UserError, match=what):
        judges.create_judge(space, "jury", panel_of(*members))


SAMPLE = {"question": "What does it cost?", "answer": "Forty pounds."}


def graded(request: Request) -> dict[str, Any]:
    assert "Forty pounds." in request.text
    return {"reason": "It hangs together.", "score": 5}


@ON_SQLITE
def test_a_judge_that_is_not_saved_grades_an_answer_by_a_metric(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STRICT", raising=False)
    with Endpoint(graded) as endpoint:
        priced = {"input_per_million": 1.0, "output_per_million": 2.0}
        config = {**CONFIG, "base_url": endpoint.url, "api_key_env": None, "price": priced}
        found = asyncio.run(try_judge(space, TriedJudge("strict", config), "coherence", SAMPLE))
        [score] = found.scores
        assert (score.score, score.reason, score.judge) == (1.0, "It hangs together.", "strict")
        assert score.cost_usd
        for name in ("one", "two"):
            judges.create_judge(space, name, {**config, "model": name})
        jury = TriedJudge("jury", panel_of("one", "two"))
        [score] = asyncio.run(try_judge(space, jury, "coherence", SAMPLE)).scores
        assert (score.score, score.judge) == (1.0, "jury")
        [score] = asyncio.run(try_judge(space, TriedJudge("one"), "coherence", SAMPLE)).scores
        assert score.judge == "one"
    assert [judge.name for judge in judges.JUDGES.own(space)] == ["one", "two"]
    for judge, row, what in (
        (TriedJudge("strict", CONFIG), SAMPLE, "STRICT"),
        (TriedJudge("one"), {"question": "Why?"}, "no answer"),
        (TriedJudge("none"), SAMPLE, "no judge 'none'"),
        (TriedJudge("embedded"), SAMPLE, "name a model that judges"),
    ):
        with pytest.raises(UserError, match=what):
            asyncio.run(try_judge(space, judge, "coherence", row))
