"""One run, and two compared, asked in every place over a real server: sentences, numbers, verdicts and counts agree."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import evalflow
from evalflow.addons.studio.work import bot_home, comparing, scores
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.scores import ScoreFilter, distribution, labels_fault, order_results, read_results
from evalflow.addons.studio.work.space import Recent, Workspace
from evalflow.errors import Problem, UserError
from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.report.gate_sentences import gates_once
from evalflow.report.sentences import of_row, of_run
from evalflow.report.wording import headline_rows, without_means_of_figures
from evalflow.summary.slices import STATES
from evalflow.summary.verdicts import overall
from tests.addons.studio.web.conftest import Api, api_served, working_in
from tests.addons.studio.web.one_sweep import OneSweep, make_sweep
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Asked:
    """The sweep in a workspace behind a server."""

    sweep: OneSweep
    space: Workspace
    api: Api
    runs: tuple[str, str]

    @property
    def program(self) -> Program:
        return self.sweep.program

    @property
    def folders(self) -> tuple[Path, Path]:
        return self.sweep.folders


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with _opened(make_sweep(tmp_path_factory.mktemp("one"))) as found:
        yield found


@contextmanager
def _opened(sweep: OneSweep, url: str | None = None) -> Iterator[Asked]:
    """Open the sweep in a workspace, in the database of a URL or its own, and serve it."""
    folder = sweep.program.folder
    with working_in(folder, url) as space:
        runs = sweep.open(space)
    with api_served(folder, url) as server, working_in(folder, url) as space:
        yield Asked(sweep, space, Api(server), runs)


def _rows(summary: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["metric"], row["statistic"]): row for row in summary if row["tag"] is None}


@pytest.mark.parametrize("side", [0, 1])
def test_what_heads_a_run_is_one_sentence(asked: Asked, side: int) -> None:
    folder, stored = asked.folders[side], get_run(asked.space, asked.runs[side])
    frame = pl.read_parquet(folder / "summary.parquet")
    [head] = of_run(headline_rows(frame), {gate["of_metric"] for gate in evalflow.load(folder).gates})
    assert "by the metrics alone" in head.first
    found = bot_home.headline_of(stored)
    assert found is not None
    assert str(of_row(found.row, without_means_of_figures(stored.summary))) == str(head)
    junit = ElementTree.parse(folder / "junit.xml").getroot()
    told = {one.get("name"): one.get("value") for one in junit.iter("property")}
    assert told["result"] == str(head)
    plain = (folder / "summary.md").read_text(encoding="utf-8").replace("**", "").replace("\\", "")
    assert str(head) in plain
    page = " ".join(html.unescape(re.sub("<[^>]+>", " ", (folder / "report.html").read_text(encoding="utf-8"))).split())
    assert head.result in page
    for gate in gates_once(stored.facts["gates"]):
        assert gate["message"] in plain
    rest = asked.api("GET", f"/runs/{asked.runs[side]}").json["facts"]
    assert rest["summary"] == stored.facts["summary"]


@pytest.mark.parametrize("side", [0, 1])
def test_numbers_and_counts_of_a_run(asked: Asked, side: int) -> None:
    folder = asked.folders[side]
    rest = _rows(asked.api("GET", f"/runs/{asked.runs[side]}").json["facts"]["summary"])
    files = _rows(json.loads((folder / "summary.json").read_text(encoding="utf-8"))["rows"])
    with (folder / "summary.csv").open(encoding="utf-8") as file:
        table = {(row["metric"], row["statistic"]): row for row in csv.DictReader(file) if not row["tag"]}
    python = _rows(evalflow.load(folder).summary.to_dicts())
    numbers = (
        "value",
        "ci_low",
        "ci_high",
        "pass_rate",
        "raw_value",
        "raw_pass_rate",
        "n_labels",
        "n_scored",
        "n_error",
    )
    assert set(rest) == set(files) == set(table) == set(python)
    for key, row in files.items():
        for name in numbers:
            assert rest[key][name] == row[name]
            assert python[key][name] == row[name]
            assert (float(table[key][name]) if table[key][name] else None) == pytest.approx(row[name])
    assert files["said", "mean"]["n_error"] == 4
    assert files["grade", "mean"]["n_skipped"] == 3
    assert (files["grade", "mean"]["raw_value"] is not None) == (files["grade", "mean"]["n_labels"] is not None)


@pytest.mark.parametrize("side", [0, 1])
def test_gates_say_the_same_everywhere(asked: Asked, side: int) -> None:
    folder = asked.folders[side]
    gates = evalflow.load(folder).gates
    assert asked.api("GET", f"/runs/{asked.runs[side]}").json["facts"]["gates"] == json.loads(json.dumps(gates))
    suite = ElementTree.parse(folder / "junit.xml").getroot()[0]
    kinds = {None: "error", False: "failure", True: None}
    assert len(suite.findall("testcase")) == len(gates)
    for case, gate in zip(suite.findall("testcase"), gates, strict=True):
        assert case.get("name") == gate["name"]
        inner = next(iter(case), None)
        assert (inner.tag if inner is not None else None) == kinds[gate["passed"]]
        assert inner is None or inner.get("message") == gate["message"]
    assert evalflow.load(folder).passed is overall(gate["passed"] for gate in gates)
    excluded = [gate for gate in gates if "excluded" in gate["basis"]]
    assert [gate["of_metric"] for gate in excluded] == ["grade"] * 3 * side
    history = comparing.history(asked.space, "recorded", "desk", "grade", "pass_rate").points[side]
    assert [gate.passed for gate in history.gates] == [
        gate["passed"] for gate in gates if gate["name"] == "grade pass_rate >= 0.99"
    ]
    row = _rows(json.loads((folder / "summary.json").read_text(encoding="utf-8"))["rows"])["grade", "mean"]
    assert (history.value, history.low, history.high) == (row["pass_rate"], row["pass_rate_low"], row["pass_rate_high"])


def test_the_comparison_of_two_runs(asked: Asked) -> None:
    names = [str(one) for one in asked.folders]
    console = json.loads(asked.program("compare", *names, "--margin", "0.02", "--json").stdout)
    rest = asked.api("GET", f"/compare?a={asked.runs[0]}&b={asked.runs[1]}&margin=0.02").json
    python = evalflow.compare(*names)
    assert rest["sentence"] == console["sentence"] == python.sentence
    home = bot_home.bot_home(asked.space, "recorded").headline
    assert home is not None
    assert str(bot_home.change_since(asked.space, home).sentence) == rest["sentence"]
    assert len(rest["rows"]) == len(console["rows"])
    shared = rest["rows"][0].keys() & console["rows"][0].keys()
    assert {"verdict", "difference", "judged", "n_labels", "uncorrected", "not_worse", "cases_needed"} <= shared
    for one, other, own in zip(rest["rows"], console["rows"], python.rows.to_dicts(), strict=True):
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}
        assert (own["verdict"], own["difference"]) == (one["verdict"], one["difference"])
    whole = next(row for row in rest["rows"] if row["metric"] == CASES)
    if whole["verdict"] == "better":
        assert "y.jsonl is better than x.jsonl, by the metrics alone: " in rest["sentence"]
        assert "not clearly different by labels" in rest["sentence"]
    assert rest["flips"] == console["flips"] or [one["worsened"] for one in rest["flips"]] == [
        one["worsened"] for one in console["flips"]
    ]
    page = (asked.program.folder / "compare.html") if (asked.program.folder / "compare.html").is_file() else None
    for text in [asked.program("compare", *names).stdout, *([page.read_text(encoding="utf-8")] if page else [])]:
        assert html.escape(rest["sentence"]) in text or rest["sentence"] in " ".join(text.split())


@pytest.mark.parametrize("side", [0, 1])
def test_the_failed_and_the_worst_cases_are_those_of_people_where_they_labelled(asked: Asked, side: int) -> None:
    run, folder = asked.runs[side], asked.folders[side]
    for metric in ("grade", "fluff"):
        shown = asked.program("cases", str(folder), "--failed", "--metric", metric, "--limit", "0", "--json").stdout
        failed = {case["id"] for case in json.loads(shown)["cases"]}
        wanted = [ScoreFilter(metric=metric, passed=False), ScoreFilter(metric=metric, status="error")]
        positions = {place for one in wanted for place in order_results(asked.space, run, one, "input")}
        assert {row.case_id for row in read_results(asked.space, run, sorted(positions))} == failed
    order = order_results(asked.space, run)
    rows = read_results(asked.space, run, order)
    fails = [sum(cell.passed is False for cell in row.cells.values()) for row in rows]
    assert fails == sorted(fails, reverse=True)
    assert set(order_results(asked.space, run, ScoreFilter(passed=False))) == {
        row.position for row, count in zip(rows, fails, strict=True) if count
    }
    by_people = [cell for row in rows for cell in row.cells.values() if cell.is_by_people]
    assert by_people
    assert any(cell.score != cell.judged for cell in by_people)
    lowest = read_results(asked.space, run, order_results(asked.space, run, sort="low:grade"))
    grades = [score for row in lowest if (score := row.cells["grade"].score) is not None]
    assert grades == sorted(grades)
    high = order_results(asked.space, run, ScoreFilter(metric="grade", passed=False), thresholds={"grade": 1.0})
    tried = read_results(asked.space, run, high, {"grade": 1.0})
    assert len(tried) > len(rows) / 2
    assert all(row.cells["grade"].passed is False for row in tried)


def test_labels_that_could_not_be_read_once_are_read_again(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(24, "Too many open files")

    space, run = replace(asked.space, labelled=Recent(1)), asked.runs[0]
    places = order_results(asked.space, run, sort="input")
    with monkeypatch.context() as patch:
        patch.setattr(scores, "people_of_run", fail)
        judged = read_results(space, run, places)
    assert not any(cell.is_by_people for row in judged for cell in row.cells.values())
    read_again = read_results(space, run, places)
    assert any(cell.is_by_people for row in read_again for cell in row.cells.values())


def test_labels_that_cannot_be_read_are_told_and_the_scores_count(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, tried = asked.runs[0], {"grade": 0.123}

    def missing(*_: object) -> None:
        raise UserError(Problem("the labels are gone", "labels.csv", "label them again"))

    assert labels_fault(asked.space, run) == ""
    monkeypatch.setattr(scores, "people_of_run", missing)
    assert "the labels are gone" in labels_fault(asked.space, run, tried)
    rows = read_results(asked.space, run, order_results(asked.space, run, thresholds=tried), tried)
    assert rows
    assert not any(cell.is_by_people for row in rows for cell in row.cells.values())


def test_a_run_of_a_tag_is_neither_last_time_nor_a_point_of_the_trend(asked: Asked) -> None:
    found = asked.api("GET", "/runs?bot=recorded").json["items"]
    assert len(found) == 3
    part = next(one for one in found if one["run_id"] not in asked.runs)
    assert part["facts"]["taken"]["tags"] == ["odd"]
    home = bot_home.bot_home(asked.space, "recorded")
    assert home.headline is not None
    assert (home.runs[0].run_id, home.headline.run.run_id) == (part["run_id"], asked.runs[1])
    change = bot_home.change_since(asked.space, home.headline)
    assert change.before is not None
    assert change.before.run.run_id == asked.runs[0]
    for *_, history in comparing.histories(asked.space, "recorded", 12):
        assert [point.run_id for point in history.points] == list(asked.runs)


def test_the_ranking(asked: Asked) -> None:
    console = json.loads(asked.program("rank", *(str(one) for one in asked.folders), "--json").stdout)
    rest = asked.api("GET", f"/rank?run={asked.runs[0]}&run={asked.runs[1]}").json
    assert rest["rankings"] == console["rankings"]
    grade = next(one for one in rest["rankings"] if (one["metric"], one["by"]) == ("grade", "mean"))
    assert (grade["n_labels"] > 0, grade["uncorrected"]) == (True, "")
    assert all(row["raw_value"] is not None for row in grade["rows"])


def _documents(found: Asked) -> dict[str, Any]:
    """What a workspace says of the sweep, without the moments and versions of its rows."""
    a, b = found.runs
    paths = [f"/runs/{b}/scores?limit=200", f"/runs/{b}/labels", f"/compare?a={a}&b={b}&margin=0.02"]
    paths += [f"/rank?run={a}&run={b}", *(f"/runs/{b}/scores?metric=grade&status={state}" for state in STATES)]
    headline = bot_home.headlines(found.space)["recorded"]
    return {
        "facts": [found.api("GET", f"/runs/{run}").json["facts"] for run in found.runs],
        "change": str(bot_home.change_since(found.space, headline).sentence),
        "weak": bot_home.weak_tags(found.space, headline),
        "spread": [distribution(found.space, run, "grade", 0.7) for run in found.runs],
        "history": [
            (*key, [(point.run_id, point.value, point.low, point.high, point.gates) for point in history.points])
            for *key, history in comparing.histories(found.space, "recorded", 12)
        ],
        **{path: found.api("GET", path).json for path in paths},
    }


def test_a_workspace_on_postgresql_says_the_same(asked: Asked, postgres_copy: str) -> None:
    before = _documents(asked)
    with _opened(asked.sweep, postgres_copy) as found:
        assert found.runs == asked.runs
        assert _documents(found) == before


@pytest.mark.anyio
async def test_assistants_get_the_same(asked: Asked) -> None:
    pytest.importorskip("mcp", reason="NO MCP: its tools are not tried; pip install -e '.[mcp]'")
    from evalflow.addons.interop import mcp_server

    names = [str(one.relative_to(asked.program.folder.resolve())) for one in asked.folders]
    console = json.loads(asked.program("compare", *names, "--margin", "0.02", "--json").stdout)
    with chdir(asked.program.folder):
        assert await mcp_server.compare(names[0], names[1], margin=0.02) == console
        for name, folder in zip(names, asked.folders, strict=True):
            assert await mcp_server.summary(name) == (folder / "summary.md").read_text(encoding="utf-8")
