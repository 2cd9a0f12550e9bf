"""One sweep, asked in every place: all numbers and verdicts agree."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest

import evalflow
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

CASES = 160
METRICS = {
    "grade": "kind: recorded\nfield: vars.grade\nscale: {type: fraction}\nthreshold: 0.7\n",
    "fluff": "kind: recorded\nfield: vars.fluff\nscale: {type: fraction}\nthreshold: 0.5\ndirection: lower_is_better\n",
}
FAVOUR = 0.1


class Sweep:
    """Two runs that people find equal and that the judge does not: two people disagree on some, some are unscored."""

    def __init__(self, program: Program) -> None:
        self.program = program
        for name, text in METRICS.items():
            self._conf("metric", name, text)
        self._conf("dataset", "desk", "")
        draw = random.Random(11)
        true = [draw.betavariate(5, 2) for _ in range(CASES)]
        for name, favour in (("x", 0.0), ("y", FAVOUR)):
            rows = [self._case(f"{name} {i}", i, one, favour, draw) for i, one in enumerate(true)]
            program.write(f"{name}.jsonl", *rows)
        words = ("dataset=desk", "metric=[grade,fluff]", "max_error_rate=1")
        done = program("-m", *words, "++dataset.desk.path=x.jsonl,y.jsonl")
        assert done.returncode == 0, done.stderr + done.stdout
        self.text = " ".join(done.stdout.split())
        self.folder = program.latest
        self.runs = sorted(str(one) for one in self.folder.iterdir() if one.is_dir())
        own = "{mean: {not_worse_by: 0.02}, pass_rate: {not_worse_by: 0.02}}"
        gate = f"gate={{{', '.join(f'{name}: {own}' for name in METRICS)}}}"
        gated = program(*words, "++dataset.desk.path=y.jsonl", f"baseline={self.runs[0]}", gate)
        assert gated.returncode in (0, 1, 3), gated.stderr
        self.gated = program.latest

    def _conf(self, folder: str, name: str, text: str) -> None:
        path = self.program.folder / "conf" / folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# @package {folder}.{name}\n{text}", encoding="utf-8")

    @staticmethod
    def _case(answer: str, i: int, true: float, favour: float, draw: random.Random) -> dict[str, Any]:
        def near(value: float, spread: float) -> float:
            return round(min(1.0, max(0.0, value + draw.gauss(0, spread))), 3)

        row = {"id": f"c{i}", "question": "?", "answer": answer, "tags": ["even"] if i % 4 < 2 else ["odd"]}
        row |= {"grade": near(true + favour, 0.05), "fluff": near(1 - true - favour, 0.05)}
        if i % 40 == 7:
            del row["grade"]
        if i % 2:
            people = 2 if i % 3 else 1
            row["labels"] = {
                name: [near(one, 0.03) for _ in range(people)] for name, one in (("grade", true), ("fluff", 1 - true))
            }
        return row

    def asked(self, *words: str) -> dict[str, Any]:
        done = self.program(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return Sweep(Program(tmp_path_factory.mktemp("one")))


@pytest.fixture(scope="module")
def rows(sweep: Sweep) -> list[dict[str, Any]]:
    return sweep.asked("compare", *sweep.runs)["rows"]


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["metric"], row["statistic"]


def test_every_statistic_that_labels_can_correct_is_corrected(rows: list[dict[str, Any]]) -> None:
    known = {_key(row): row for row in rows}
    assert set(known) == {*((name, what) for name in METRICS for what in ("mean", "pass_rate")), ("cases", "pass_rate")}
    for name in METRICS:
        for what in ("mean", "pass_rate"):
            row = known[name, what]
            assert (row["verdict"], row["uncorrected"]) == ("cannot_tell", ""), row
            assert abs(row["difference"]) < abs(row["judged"]["difference"]), row
    whole = known["cases", "pass_rate"]
    assert whole["judged"] is None
    assert whole["uncorrected"] == "labels correct means and pass rates of a metric only"


def test_the_sweep_and_the_two_runs_get_one_answer(sweep: Sweep, rows: list[dict[str, Any]]) -> None:
    assert sweep.asked("compare", str(sweep.folder))["rows"] == rows
    python = evalflow.compare(*sweep.runs).comparison.document()["rows"]
    assert json.loads(json.dumps(python)) == rows


def test_the_leaderboard_and_the_ranking(sweep: Sweep, rows: list[dict[str, Any]]) -> None:
    details = json.loads((sweep.folder / "summary.json").read_text(encoding="utf-8"))["details"]
    boards = {_key(one): one for one in details}
    ranked = {(one["metric"], one["by"]): one for one in sweep.asked("rank", *sweep.runs)["rankings"]}
    with (
        Path(sweep.folder, "rank.csv").open(encoding="utf-8")
        if Path(sweep.folder, "rank.csv").is_file()
        else Path(sweep.runs[-1], "rank.csv").open(encoding="utf-8") as file
    ):
        assert {line["metric"] for line in csv.DictReader(file)} == {*METRICS, "cases"}
    for row in rows:
        board, ranking = boards[_key(row)], ranked[_key(row)]
        assert board["n_labels"] == ranking["n_labels"]
        assert board["uncorrected"] == ranking["uncorrected"] == row["uncorrected"]
        for found in (board["leaderboard"], ranking["rows"]):
            values = {one["run"]: one for one in found}
            for side in "ab":
                one = values[row[f"run_{side}"]]
                assert one["value"] == pytest.approx(row[f"value_{side}"]), (row["metric"], row["statistic"])
                raw = row["judged"] and row["judged"][f"value_{side}"]
                assert one["raw_value"] == (raw if raw is None else pytest.approx(raw))
        told = {one["verdict"] for one in board["leaderboard"]}
        assert told == {"first", "cannot_tell"} if row["verdict"] == "cannot_tell" else told == {"best", "worse"}
        if row["verdict"] == "cannot_tell":
            assert {(one["rank_low"], one["rank_high"]) for one in ranking["rows"]} == {(1, 2)}


def test_gates_against_the_baseline(sweep: Sweep, rows: list[dict[str, Any]]) -> None:
    known = {_key(row): row for row in sweep.asked("compare", sweep.runs[0], str(sweep.gated))["rows"]}
    seen = 0
    for gate in evalflow.load(sweep.gated).gates:
        what = "pass_rate" if "pass_rate" in gate["name"] else "mean"
        assert gate["of_metric"] is not None
        assert gate["judged"] is not None
        row, seen = known[gate["of_metric"], what], seen + 1
        sign = -1 if gate["of_metric"] == "fluff" and what == "mean" else 1
        assert gate["value"] == pytest.approx(sign * row["difference"])
        assert gate["n_labels"] == row["n_labels"]
        assert gate["judged"]["value"] == pytest.approx(sign * row["judged"]["difference"])
        low = min(sign * row["ci_low"], sign * row["ci_high"])
        assert gate["passed"] == (True if low >= -0.02 else None)
    assert seen == 4
    assert {_key(row): row["difference"] for row in rows} == pytest.approx(
        {key: row["difference"] for key, row in known.items()}
    )


def test_files_say_what_the_rows_say(sweep: Sweep, rows: list[dict[str, Any]]) -> None:
    said = {"better": "better", "worse": "worse", "cannot_tell": "cannot tell"}
    sweep.asked("compare", str(sweep.folder))
    text = Path(sweep.folder, "compare.md").read_text(encoding="utf-8")
    told = [said[row["verdict"]] for row in rows]
    assert [cell for cell in told if f"**{cell}**" not in text] == []
    assert ("**better**" in text) == ("better" in told)
    page = " ".join(Path(sweep.folder, "report.html").read_text(encoding="utf-8").split())
    assert f"corrected by labels of {rows[0]['n_labels']} cases of each run" in page.replace("&#39;", "'")


def test_the_judge_alone_shows_the_raw_numbers_and_says_so(sweep: Sweep, rows: list[dict[str, Any]]) -> None:
    alone = sweep.asked("compare", *sweep.runs, "--judge-alone")
    for row, raw in zip(rows, alone["rows"], strict=True):
        judged = row["judged"] or row
        assert (raw["difference"], raw["ci_low"]) == pytest.approx((judged["difference"], judged["ci_low"]))
    assert any("by the judge alone, as asked" in note for note in alone["notes"])
