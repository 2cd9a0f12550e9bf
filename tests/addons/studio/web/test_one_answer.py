"""One run, and two compared, asked in every place over a real server: sentences, numbers, verdicts and counts agree."""

from __future__ import annotations

import csv
import html
import json
import random
import re
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import evalflow
from evalflow.addons.studio.work import bot_home, comparing, verdicts
from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.space import Workspace
from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.report.sentences import of_row, of_run
from evalflow.report.wording import headline_rows, without_means_of_figures
from evalflow.summary.verdicts import overall
from tests.addons.studio.web.conftest import Api, api_served, working_in
from tests.cli.conftest import Program
from tests.finishing import carry_out

pytestmark = pytest.mark.slow

METRICS = {
    "grade": "kind: recorded\nfield: vars.grade\nscale: {type: fraction}\nthreshold: 0.7\n",
    "fluff": "kind: recorded\nfield: vars.fluff\nscale: {type: fraction}\nthreshold: 0.5\ndirection: lower_is_better\n",
    "tone": "kind: recorded\nfield: vars.tone\nscale: {type: fraction}\n",
    "said": "kind: check\nneeds: [answer]\nfield: answer\nchecks: [{op: contains, value: answer}]\n",
}
COUNT = 120
GATES = (
    "{grade: {mean: '>= 0.6', pass_rate: '>= 0.99'}, fluff: {mean: '<= 0.5'}, cases: {pass_rate: '>= 0.5'}, "
    "tone: {mean: '>= 0.2'}, grade@even: {mean: '>= 0.6'}}"
)


@dataclass(frozen=True)
class Asked:
    """Two runs of one bot, as folders and in a workspace; people labelled every second answer, one is excluded."""

    program: Program
    space: Workspace
    api: Api
    runs: tuple[str, str]
    folders: tuple[Path, Path]


def _case(answer: str, i: int, true: float, favour: float, draw: random.Random) -> dict[str, Any]:
    def near(value: float, spread: float) -> float:
        return round(min(1.0, max(0.0, value + draw.gauss(0, spread))), 3)

    row: dict[str, Any] = {"id": f"c{i}", "question": "?", "tags": ["even"] if i % 4 < 2 else ["odd"]}
    row |= {"grade": near(true + favour, 0.05), "fluff": near(1 - true - favour, 0.05), "tone": near(true, 0.1)}
    if i % 40 == 7:
        del row["grade"]
    if i % 30 == 4:
        return {**row, "failure": "time-out"}
    if i % 2:
        row["labels"] = {"grade": [near(true, 0.03)] * (1 + i % 3), "fluff": [near(1 - true, 0.03)]}
    return {**row, "answer": answer}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("one")
    program = Program(folder)
    for name, text in METRICS.items():
        path = folder / "conf" / "metric" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# @package metric.{name}\n{text}", encoding="utf-8")
    (folder / "conf" / "dataset").mkdir()
    (folder / "conf" / "dataset" / "desk.yaml").write_text("# @package dataset.desk\n", encoding="utf-8")
    draw = random.Random(11)
    true = [draw.betavariate(5, 2) for _ in range(COUNT)]
    folders: list[Path] = []
    for name, favour in (("x", 0.0), ("y", 0.1)):
        program.write(
            f"{name}.jsonl", *(_case(f"answer {i} of {name}", i, one, favour, draw) for i, one in enumerate(true))
        )
        words = ("dataset=desk", "metric=[grade,fluff,tone,said]", "max_error_rate=1", f"gate={GATES}")
        done = program(*words, f"++dataset.desk.path={name}.jsonl")
        assert done.returncode in (1, 3), done.stderr + done.stdout
        folders.append(program.latest)
    done = program(*words, "++dataset.desk.path=x.jsonl", "+dataset.desk.tags=[odd]")
    assert done.returncode in (1, 3), done.stderr + done.stdout
    with working_in(folder) as space:
        runs = [open_run(space, one).run_id for one in (*folders, program.latest)]
        for run in runs:
            carry_out(space, run)
        verdicts.exclude(space, runs[1], 0, "grade", "not a fair question")
    with api_served(folder) as server, working_in(folder) as space:
        yield Asked(program, space, Api(server), (runs[0], runs[1]), (folders[0], folders[1]))


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
    assert str(of_row(found.row, without_means_of_figures(stored.facts["summary"]))) == str(head)
    junit = ElementTree.parse(folder / "junit.xml").getroot()
    told = {one.get("name"): one.get("value") for one in junit.iter("property")}
    assert told["result"] == str(head)
    plain = (folder / "summary.md").read_text(encoding="utf-8").replace("**", "").replace("\\", "")
    assert str(head) in plain
    page = " ".join(html.unescape(re.sub("<[^>]+>", " ", (folder / "report.html").read_text(encoding="utf-8"))).split())
    assert head.found in page
    for gate in stored.facts["gates"]:
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
        assert "is better, by the metrics alone: " in rest["sentence"]
        assert "not clearly different by people's labels" in rest["sentence"]
    assert rest["flips"] == console["flips"] or [one["worsened"] for one in rest["flips"]] == [
        one["worsened"] for one in console["flips"]
    ]
    page = (asked.program.folder / "compare.html") if (asked.program.folder / "compare.html").is_file() else None
    for text in [asked.program("compare", *names).stdout, *([page.read_text(encoding="utf-8")] if page else [])]:
        assert html.escape(rest["sentence"]) in text or rest["sentence"] in " ".join(text.split())


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
