"""The sweep that every other place is asked about, on the pages: they say what its files and the REST API say."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from evalflow.addons.studio.work import review_calibration, review_desk, review_results, reviews
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.report.comparison_sentences import verdict_in_words
from evalflow.report.gate_sentences import beside_value, gates_once
from evalflow.report.sentences import of_labels
from evalflow.report.wording import interval, number, percent, signed
from evalflow.summary.rows import GateOutcome, SummaryRow
from evalflow.summary.verdicts import overall
from tests.addons.studio.web.conftest import Server, working_in
from tests.addons.studio.web.one_sweep import OneSweep, make_sweep
from tests.addons.studio.web.pages.conftest import paged

pytestmark = [pytest.mark.slow, pytest.mark.browser]
Visit = Callable[..., Any]
Row = Mapping[str, Any]
_OUTCOMES = {True: "passed", False: "failed", None: "undecided"}


@dataclass(frozen=True)
class Opened:
    """The sweep in a workspace, with the ids of its two runs."""

    sweep: OneSweep
    runs: tuple[str, str]


@pytest.fixture(name="opened", scope="session")  # before the browser's loop, within which no run could start its own
def _opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    folder = tmp_path_factory.mktemp("one")
    sweep = make_sweep(folder)
    with working_in(folder) as space:
        return Opened(sweep, sweep.open(space))


@pytest.fixture(name="pages", scope="module")
def _pages(opened: Opened) -> Iterator[Server]:
    with paged(opened.sweep.program.folder) as server:
        yield server


def _text(element: Any) -> str:
    return " ".join(str(element.inner_text()).split())


def _short(value: float | None) -> str:
    return number(value, 2)


def _whole(page: Any) -> str:
    """The text of the page once all of it is there."""
    page.wait_for_function("!document.querySelector('.waiting')")
    return _text(page.locator("main"))


def _result(folder: Path) -> str:
    """The sentence that heads a run, as junit.xml has it."""
    properties = ElementTree.parse(folder / "junit.xml").getroot().iter("property")
    return next(str(one.get("value")) for one in properties if one.get("name") == "result")


def _rows(folder: Path, *, tags: bool = False) -> list[Row]:
    rows = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["rows"]
    return [row for row in rows if (row["tag"] is not None) == tags]


def _row(folder: Path, metric: str) -> Row:
    return next(row for row in _rows(folder) if row["metric"] == metric)


def _compared(pages: Server, opened: Opened) -> dict[str, Any]:
    path = f"/api/v1/compare?a={opened.runs[0]}&b={opened.runs[1]}&margin=0.02"
    return pages.ask("GET", path, X_Requested_With="test").json


def test_the_list_of_runs(visit: Visit, pages: Server, opened: Opened) -> None:
    page = visit("/runs")
    for run, folder in zip(opened.runs, opened.sweep.folders, strict=True):
        first, _, more = _result(folder).partition(". ")
        card = _text(page.locator(f"a.run[href='/runs/{run}']"))
        assert first in card
        assert more in card
        assert f"gate {_OUTCOMES[overall(gate['passed'] for gate in _gates(pages, run))]}" in card


def _gates(pages: Server, run: str) -> list[GateOutcome]:
    return pages.ask("GET", f"/api/v1/runs/{run}", X_Requested_With="test").json["facts"]["gates"]


@pytest.mark.parametrize("side", [0, 1])
def test_the_page_of_a_run(visit: Visit, pages: Server, opened: Opened, side: int) -> None:
    run, folder = opened.runs[side], opened.sweep.folders[side]
    page = visit(f"/runs/{run}")
    page.locator(".by-tag tbody tr").first.wait_for()
    first, _, more = _result(folder).partition(". ")
    head = _text(page.locator(".headline"))
    assert first in head
    assert more in head
    glance = [_text(one) for one in page.locator(".glance > li").all()]
    assert len(glance) == len(_rows(folder))
    for row in _rows(folder):
        name = "Cases that pass everything" if row["metric"] == "cases" else row["metric"]
        [line] = [one for one in glance if one.startswith(name)]
        assert number(row["value"], 2) in line
        assert of_labels(SummaryRow(**row)) in line
        assert row["pass_rate"] is None or row["metric"] == "cases" or f"{percent(row['pass_rate'])} pass" in line
    for row in _rows(folder):
        if row["metric"] != "cases":
            card = _text(page.locator(f"#metric-{row['metric']}"))
            assert f"{number(row['value'])} {interval(row['ci_low'], row['ci_high'])}" in card
            for state in ("scored", "undefined", "error", "skipped"):
                assert f"{row[f'n_{state}']:,} {state}" in card
    for row in _rows(folder, tags=True):
        line = _text(page.locator(".by-tag tbody tr", has=page.get_by_role("button", name=row["tag"], exact=True)))
        assert f"{_short(row['value'])}{interval(row['ci_low'], row['ci_high'], _short)}" in line
    for item, gate in zip(page.locator(".gate-list li").all(), gates_once(_gates(pages, run)), strict=True):
        said = _text(item)
        assert said.startswith(_OUTCOMES[gate["passed"]])
        assert f"is {number(gate['value'])} ({interval(gate['ci_low'], gate['ci_high'])})" in said
        assert beside_value(gate) in said


def test_the_page_of_two_runs_compared(visit: Visit, pages: Server, opened: Opened) -> None:
    found = _compared(pages, opened)
    page = visit(f"/compare?a={opened.runs[0]}&b={opened.runs[1]}&margin=0.02")
    page.locator(".verdict-first").wait_for()
    said = _whole(page)
    assert _text(page.locator("h2.verdict-in-words")) == found["sentence"]
    for note in found["notes"]:
        assert note.replace("desk, cases", "desk, Cases that pass everything") in said
    lines = page.locator("table.stacked").first.locator("tbody tr").all()
    margins = page.locator(".margins li").all()
    worse = {True: "not worse", False: "worse", None: "cannot tell whether worse"}
    for line, margin, row in zip(lines, margins, found["rows"], strict=True):
        told = _text(line)
        name = "Cases that pass everything" if row["metric"] == "cases" else row["metric"]
        assert told.startswith(name)
        assert f"{number(row['value_a'])} {number(row['value_b'])}" in told
        assert f"{signed(row['difference'])} {signed(row['ci_low'])} to {signed(row['ci_high'])}" in told
        assert told.endswith(verdict_in_words(row["verdict"]))
        assert _text(margin).startswith(f"{worse[row['not_worse']]} {name}")
    [flips] = found["flips"]
    assert f"{flips['improved']:,} case" in said
    assert f"{flips['worsened']:,} to fail" in said


def test_the_page_of_the_bot(visit: Visit, pages: Server, opened: Opened) -> None:
    page = visit("/bots/recorded")
    page.locator(".since-before a").wait_for()
    page.locator(".trends a").first.wait_for()
    first, _, more = _result(opened.sweep.folders[1]).partition(". ")
    head = _text(page.locator(".headline"))
    assert first in head
    assert more in head
    assert f"Compared with last time: {_compared(pages, opened)['sentence']}" in head
    trends = [_text(one) for one in page.locator(".trends a").all()]
    for row in _rows(opened.sweep.folders[1]):
        shown = number(row["value"], 2) if row["pass_rate"] is None else percent(row["pass_rate"])
        assert any(f"{shown} desk" in one for one in trends), (row["metric"], trends)


@pytest.mark.parametrize(("metric", "statistic"), [("grade", "pass_rate"), ("grade", "mean"), ("cases", "pass_rate")])
def test_the_history_of_a_number(visit: Visit, opened: Opened, metric: str, statistic: str) -> None:
    page = visit(f"/history?bot=recorded&dataset=desk&metric={metric}&statistic={statistic}")
    page.locator(".plot .point").first.wait_for()
    lines = page.locator("table.stacked tbody tr").all()
    assert len(lines) == 2  # the run of a tag is not a point of it
    names = ("value", "ci_low", "ci_high") if statistic == "mean" else ("pass_rate", "pass_rate_low", "pass_rate_high")
    for line, folder in zip(lines, reversed(opened.sweep.folders), strict=True):
        row = _row(folder, metric)
        value, low, high = (row[name] for name in names)
        assert f"{number(value)} {interval(low, high)} {row['n_scored']} of {row['n']}" in _text(line)


def test_the_result_of_a_review(visit: Visit, opened: Opened) -> None:
    """Provisional, and saved: the sentence of the run's files, and the numbers of its page."""
    run, folder = opened.runs[0], opened.sweep.folders[0]
    with working_in(opened.sweep.program.folder) as space:
        request = ReviewRequest(name="tones", run_id=run, metrics=["tone"], size=40, people=["local"], seed=5)
        reviews.create_review(space, request)
        while (item := review_desk.next_item(space, "tones")) is not None:
            review_desk.submit_item(space, "tones", item.item, {"tone": round(0.3 + (item.item % 50) / 100, 2)})
        found = review_calibration.review_result(space, "tones")
        assert found.calibration is not None
        [sentence] = [row.sentence for row in found.calibration.corrected_means]
        page = visit("/reviews/tones")
        page.get_by_text("Provisional: people are still labelling.").wait_for()
        page.get_by_text(sentence, exact=True).wait_for()
        review_results.close_review(space, "tones", reviews.get_review(space, "tones").version)
        review_calibration.save_calibration(space, "tones")
    for name in ("summary.md", "report.html"):
        text = html.unescape(re.sub(r"<[^>]+>|[*\\]", "", (folder / name).read_text(encoding="utf-8")))
        assert sentence in " ".join(text.split()), name
    row = _row(folder, "tone")
    assert f"labels would say about {number(row['value'])} " in sentence
    page = visit(f"/runs/{run}")
    [line] = [one for one in map(_text, page.locator(".glance > li").all()) if one.startswith("tone")]
    assert of_labels(SummaryRow(**row)) in line
    page = visit("/reviews/tones")
    page.get_by_text(sentence, exact=True).wait_for()
    page.get_by_text("The run's gates and reports count these labels.").wait_for()
    page = visit(f"/runs/{json.loads((opened.sweep.part / 'run.json').read_text(encoding='utf-8'))['run_id']}")
    page.locator("#metric-tone").get_by_text(f"Labelled in run {run}, of equal answers.").wait_for()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_text("its labels still follow equal answers into other runs").wait_for()
