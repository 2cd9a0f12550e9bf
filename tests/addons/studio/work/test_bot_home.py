"""What a bot's home says of its runs."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.web.pages.bot_home import since_last_time
from evalflow.addons.studio.web.ui.headline import about_what, sentence
from evalflow.addons.studio.web.ui.visitor import Visitor
from evalflow.addons.studio.work import bots, cases, datasets
from evalflow.addons.studio.work.bot_home import (
    Headline,
    HeadlineChange,
    bot_home,
    change_since,
    headline_of,
    headlines,
    weak_tags,
)
from evalflow.addons.studio.work.comparing import ComparableRun, histories, history, related, tracked_metrics
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Progress, Run
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.changed import Obstacle
from evalflow.report.sentences import judge_beside
from tests.addons.studio.web.finished import finish_runs
from tests.finishing import finish
from tests.postgres import ON_SQLITE
from tests.summary_rows import summary_row


@pytest.fixture(name="no_page", autouse=True)
def _no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that are made outside of a page know no titles."""
    monkeypatch.setattr("evalflow.addons.studio.web.ui.visitor.visitor", Visitor)


@ON_SQLITE
@pytest.mark.slow
def test_a_home_says_how_good_the_latest_run_is_and_what_changed(space: Workspace) -> None:
    found = finish_runs(space)
    home = bot_home(space, "fees")
    assert [run.run_id for run in home.runs] == [found.other, found.better, found.worse]
    assert home.headline is not None
    assert (home.headline.run.run_id, home.headline.metric, home.headline.why) == (found.other, "exact", "")
    assert sentence(home.headline) == "92 % of answers pass (65 to 99 %)"
    unlike = change_since(space, home.headline)  # by another version of the metric
    said = since_last_time(unlike)  # the answers are the same, so only the judging can differ
    assert said.startswith("Compared with last time: Same answers, a changed metric: ")

    better = headline_of(home.runs[1])
    assert better is not None
    words = since_last_time(change_since(space, better))
    said = "New prompt is better than As it was: 83 points more answers pass exact (29 to 97)."
    assert words == f"Compared with last time: {said}"
    worse = headline_of(home.runs[2])
    assert worse is not None
    assert since_last_time(change_since(space, worse)) == "There is no earlier run of all cases to compare with."

    assert headlines(space) == {"fees": home.headline}
    assert weak_tags(space, home.headline) == []
    [(dataset, metric, statistic, history)] = histories(space, "fees", 12)
    assert (dataset, metric, statistic) == ("questions", "exact", "pass_rate")
    assert [(point.run_id, bool(point.breaks)) for point in history.points] == [
        (found.worse, False),
        (found.better, False),
        (found.other, True),
    ]


@ON_SQLITE
@pytest.mark.slow
def test_a_run_of_picked_cases_says_nothing_of_the_bot(space: Workspace) -> None:
    found = finish_runs(space)
    request = RunRequest("fees", ["questions"], ["exact"], dataset_values={"questions": {"ids": ["c0"]}})
    picked = finish(space, request)
    home = bot_home(space, "fees")
    assert home.runs[0].run_id == picked.run_id
    assert home.headline is not None
    assert home.headline.run.run_id == found.other
    assert headlines(space) == {"fees": home.headline}
    assert picked.taken.in_words == "1 picked case"
    points = histories(space, "fees", 12)[0][3].points
    assert [point.run_id for point in points] == [found.worse, found.better, found.other]
    assert points == history(space, "fees", "questions", "exact", "pass_rate").points
    [tracked] = tracked_metrics(space)
    assert tracked.runs == 3
    before = related(space, picked.run_id).before
    assert before is not None
    assert before.run.run_id == found.other


@ON_SQLITE
@pytest.mark.slow
def test_only_runs_of_all_cases_and_random_samples_make_a_trend(space: Workspace) -> None:
    bots.create_bot(space, "fees", {"kind": "recorded"})
    datasets.create_dataset(space, "questions")
    rows = [
        {"id": f"c{i}", "question": "?", "answer": "5", "expected": "5", "tags": ["a" if i else "b"]} for i in range(6)
    ]
    cases.add_cases(space, "questions", rows)

    def run(chosen: dict[str, Any] = {}, **options: Any) -> Run:  # noqa: B006
        values = {"questions": chosen} if chosen else {}
        return finish(space, RunRequest("fees", ["questions"], ["exact_match"], dataset_values=values, options=options))

    first = run(limit=3)
    assert first.taken.in_words == "the first 3 cases"
    home = bot_home(space, "fees")
    assert home.headline is not None  # the only one that there is
    assert home.headline.run.run_id == first.run_id
    assert histories(space, "fees", 12) == []
    assert tracked_metrics(space) == []
    whole, sample, tagged = run(limit=60), run(sample=4), run({"tags": ["a"]})
    assert [one.taken.in_words for one in (whole, sample, tagged)] == [
        "",
        "random sample of 4 cases",
        "only cases tagged a",
    ]
    home = bot_home(space, "fees")
    assert home.headline is not None
    assert home.headline.run.run_id == sample.run_id
    points = histories(space, "fees", 12)[0][3].points
    assert [(point.run_id, point.taken) for point in points] == [
        (whole.run_id, ""),
        (sample.run_id, sample.taken.in_words),
    ]
    before = related(space, tagged.run_id).before
    assert before is not None
    assert before.run.run_id == sample.run_id
    assert related(space, whole.run_id).before is None


def test_a_bot_without_runs_has_no_headline(space: Workspace) -> None:
    home = bot_home(space, "nobody")
    assert (home.runs, home.headline, headlines(space), histories(space, "nobody", 5)) == ([], None, {}, [])


def _run(metrics: list[dict[str, Any]], rows: list[dict[str, Any]], gates: list[str] = []) -> Run:  # noqa: B006
    facts = {"metrics": metrics, "summary": rows, "gates": [{"of_metric": name} for name in gates]}
    return Run(
        run_id="r",
        title="",
        bot="bot",
        state="done",
        origin="workspace",
        request=None,
        folder=Path(),
        repeat="",
        progress=Progress(),
        exit_code=0,
        message="",
        cost_usd=None,
        filled_examples=None,
        facts=facts,
        cancelling=False,
        version=1,
        created_at="",
        started_at=None,
        finished_at=None,
    )


def _row(metric: str, *, value: float | None = 0.5, passing: float | None = None, **others: Any) -> dict[str, Any]:
    ends = {"ci_low": 0.4, "ci_high": 0.6, "pass_rate_low": 0.1, "pass_rate_high": 0.9}
    own = {"metric": metric, "value": value, "pass_rate": passing, "n_scored": 9}
    return asdict(summary_row(**{**own, **ends, **others}))


def _metric(name: str) -> dict[str, Any]:
    judged = f"judge: model, uncalibrated for {name}"
    fixed = {"title": name, "judge": None, "threshold": None, "declared": None, "description": None}
    return {**fixed, "name": name, "bounded": True, "direction": "higher_is_better", "judged": judged}


@pytest.mark.parametrize(
    ("rows", "gates", "chosen"),
    [
        ([_row("a"), _row("b", passing=0.4)], [], ("b", "pass_rate", 0.4)),
        ([_row("a"), _row("b", passing=0.4)], ["a"], ("a", "mean", 0.5)),
        ([_row("a"), _row("b", judge="j")], [], ("b", "mean", 0.5)),
        ([_row("a", n=5), _row("a", dataset="large", value=0.7)], [], ("a", "mean", 0.7)),
        ([_row("a"), _row("a", statistic="recall", value=0.8)], [], ("a", "recall", 0.8)),
    ],
)
def test_the_number_is_of_a_gate_then_of_what_passes_then_of_a_judge(
    rows: list[dict[str, Any]], gates: list[str], chosen: tuple[str, str, float]
) -> None:
    found = headline_of(_run([_metric("a"), _metric("b")], rows, gates))
    assert found is not None
    assert (found.metric, found.statistic, found.value) == chosen
    assert found.why


def test_several_metrics_are_headed_by_the_cases_that_pass_everything() -> None:
    rows = [_row("a", passing=1.0), _row("b", passing=0.4), _row("c")]
    cases: dict[str, Any] = {"n": 10, "n_scored": 9, "n_error": 1, "target": "t", "statistic": "pass_rate"}
    whole = _row("cases", value=0.3, passing=0.3, **cases)
    run = _run([_metric("a"), _metric("b"), _metric("c")], [*({**row, "target": "t"} for row in rows), whole], ["a"])
    found = headline_of(run)
    assert found is not None
    assert (found.metric, found.statistic, found.value, found.why) == ("cases", "pass_rate", 0.3, "")
    assert sentence(found) == "30 % of 9 cases pass everything (10 to 90 %); 1 case is open because of errors"
    assert about_what(found) == ("a 100 %, b 40 %", "d")


def test_a_run_of_several_metrics_never_calls_one_of_them_the_answers() -> None:
    found = headline_of(_run([_metric("a"), _metric("b")], [_row("a"), _row("b", passing=0.4)]))
    assert found is not None
    assert sentence(found) == "40 % of answers pass b (10 to 90 %)"


TWO_CHECKS: list[dict[str, Any]] = [
    {"identifier": "string_matching", "params": {"keyword": "francs"}},
    {"identifier": "regex_matching", "params": {"pattern": "^[0-9]+ francs$"}},
]


@ON_SQLITE
@pytest.mark.slow
def test_the_home_of_a_bot_with_checks_follows_the_cases_that_pass_all(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    datasets.create_dataset(space, "fees")
    answers = ["5 francs", "about 6 francs", "8 francs", "10 francs", "twelve francs", "9"]
    rows = [{"id": f"f{i}", "question": "?", "answer": a, "checks": TWO_CHECKS} for i, a in enumerate(answers)]
    cases.add_cases(space, "fees", rows)
    finish(space, RunRequest("desk", ["fees"], ["checks"]))
    for stored, row in zip(cases.list_cases(space, "fees").items, rows, strict=True):
        cases.update_case(space, "fees", stored.id, stored.version, {**row, "answer": "5 francs"})
    finish(space, RunRequest("desk", ["fees"], ["checks"]))
    home = bot_home(space, "desk")
    before = headline_of(home.runs[1])
    assert home.headline is not None
    assert before is not None
    assert sentence(before).startswith("50 % of 6 cases pass everything (")
    assert about_what(before)[0] == "string_matching 83 %, regex_matching 50 %"
    assert sentence(home.headline).startswith("100 % of 6 cases pass everything (")
    words = since_last_time(change_since(space, home.headline))
    assert "50 points more cases pass everything (" in words
    known = {metric: [point.value for point in one.points] for _, metric, _, one in histories(space, "desk", 5)}
    assert known == {"string_matching": [pytest.approx(5 / 6), 1.0], "regex_matching": [0.5, 1.0], "cases": [0.5, 1.0]}


def test_what_cannot_be_said_is_said() -> None:
    found = headline_of(_run([_metric("a")], [_row("a")]))
    assert found is not None
    assert sentence(found) == "a: 0.50 on average (0.40 to 0.60)"
    nothing = headline_of(_run([_metric("a")], [_row("a", value=None)]))
    assert nothing is not None
    assert sentence(nothing) == "a: nothing could be scored"
    before = ComparableRun(found.run, [])
    assert since_last_time(HeadlineChange(before, None)) == "Last time has no number to compare with."
    unlike = ComparableRun(found.run, [Obstacle("judge", "another judge")])
    assert since_last_time(HeadlineChange(unlike, None)) == "Not comparable with last time: another judge."
    assert isinstance(found, Headline)


def test_what_people_say_comes_first_and_the_judge_alone_stands_beside_it() -> None:
    run = _run([_metric("a")], [_row("a", judge="j")])
    plain = headline_of(run)
    assert plain is not None
    assert [one.name for one in plain.judged] == ["a"]
    assert judge_beside(plain.row) == ""
    assert sentence(plain) == "a: 0.50 on average (0.40 to 0.60), by the judge alone"

    def headline(**others: Any) -> Headline:
        found = headline_of(replace(run, facts={**run.facts, "summary": [_row("a", judge="j", **others)]}))
        assert found is not None
        return found

    raw = {"raw_value": 0.6, "raw_low": 0.55, "raw_high": 0.65, "raw_method": "t", "n_labels": 60}
    found = headline(**raw)
    assert sentence(found) == "a: 0.50 on average (0.40 to 0.60), corrected by 60 labels"
    assert judge_beside(found.row) == "The judge alone says 0.60 (0.55 to 0.65)."
    rates = {"raw_pass_rate": 0.75, "raw_pass_rate_low": 0.7, "raw_pass_rate_high": 0.8}
    found = headline(passing=0.5, **raw, **rates)
    assert (found.statistic, found.value) == ("pass_rate", 0.5)
    assert sentence(found) == "50 % of answers pass (10 to 90 %), corrected by 60 labels"
    assert judge_beside(found.row) == "The judge alone says 75 % (70 to 80 %)."
    few = headline(n_labels=10, uncorrected="fewer than 15 labels")
    assert sentence(few).endswith(", by the judge alone, since labels correct nothing: fewer than 15 labels")


def test_whole_cases_name_the_judges_of_their_metrics() -> None:
    whole = {**_row("cases", passing=0.5), "statistic": "pass_rate", "n_error": 0}
    metrics = [{**_metric(name), "judge": "j", "judged": "judge: j, uncalibrated"} for name in ("a", "b")]
    rows = [_row("a", judge="j", passing=0.5), _row("b", judge="j", passing=0.5), whole]
    found = headline_of(_run([*metrics, _metric("c")], [*rows, _row("c")]))
    assert found is not None
    assert (found.metric, found.statistic) == ("cases", "pass_rate")
    assert [one.judged for one in found.judged] == ["judge: j, uncalibrated"]
    assert sentence(found).endswith(", by the judge alone")
    other = [{**one, "judged": f"judge: {one['name']}"} for one in (*metrics, {**metrics[0], "name": "c"})]
    several = headline_of(_run(other, [*rows, _row("c", judge="j", passing=0.5)]))
    assert several is not None
    assert [one.judged for one in several.judged] == ["judge: a", "judge: b", "judge: c"]


def test_a_metric_without_a_judge_names_none() -> None:
    found = headline_of(_run([_metric("a")], [_row("a")]))
    assert found is not None
    assert not found.judged
