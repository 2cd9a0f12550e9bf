"""Who leads a sweep, and who cannot be told apart."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.conftest import Program
from tests.cli.test_compare import cases


def test_the_leader_and_who_cannot_be_told_apart(program: Program) -> None:
    for name, right in (("a", 2), ("b", 19), ("c", 20)):
        program.write(f"{name}.jsonl", *cases(right, 20))
    done = program(
        "-m", "dataset=rag", "dataset.rag.path=a.jsonl,b.jsonl,c.jsonl", "dataset.rag.fields=null", "metric=exact_match"
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    [board] = [detail for detail in summary["details"] if "leaderboard" in detail]
    rows = board["leaderboard"]
    assert [(row["run"][0], row["verdict"]) for row in rows] == [("2", "best"), ("1", "cannot_tell"), ("0", "worse")]
    # McNemar on 18 flips of one kind, the smallest of the three pairs of the board.
    assert rows[2]["p_adjusted"] == pytest.approx(3 * 2 / 2**18)
    assert "leaderboard: exact_match · rag" in done.stdout
    assert "1. 1.000 (0.839 to 1.000) 2_dataset.rag.path=c.jsonl: leads; rank 1 to 2" in " ".join(done.stdout.split())
    assert [(row["rank_low"], row["rank_high"]) for row in rows] == [(1, 2), (1, 2), (3, 3)]
    page = (program.latest / "report.html").read_text(encoding="utf-8")
    assert '<h2 id="leaders">Leaderboard</h2>' in page
    assert "no clear difference to the first, p 1.000" in page


def test_equal_values_have_one_rank(program: Program) -> None:
    for name, right in (("a", 20), ("b", 2), ("c", 20)):
        program.write(f"{name}.jsonl", *cases(right, 20))
    done = program(
        "-m", "dataset=rag", "dataset.rag.path=a.jsonl,b.jsonl,c.jsonl", "dataset.rag.fields=null", "metric=exact_match"
    )
    assert done.returncode == 0, done.stderr
    ranking = done.stdout.partition("leaderboard: ")[2]
    assert re.findall(r"^ *(\d)\. ", ranking, re.MULTILINE) == ["1", "1", "3"]
    page = (program.latest / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<li value="(\d)">', page) == ["1", "1", "3"]


def test_other_cases_are_not_comparable(program: Program) -> None:
    program.write("a.jsonl", *cases(2))
    program.write("b.jsonl", *[row | {"reference": "no"} for row in cases(2)])
    done = program(
        "-m", "dataset=rag", "dataset.rag.path=a.jsonl,b.jsonl", "dataset.rag.fields=null", "metric=exact_match"
    )
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert re.search(r"- [0-9.]+ \([0-9.]+ to [0-9.]+\) 0_dataset.rag.path=a.jsonl: not comparable", text)


def test_figures_have_boards_of_their_own(program: Program) -> None:
    for name, right in (("a", 30), ("b", 44)):
        rows = [
            {"id": f"c{i}", "question": "Q?", "expected": i % 2 == 0, "actual": (i % 2 == 0) == (i < right)}
            for i in range(48)
        ]
        program.write(f"{name}.jsonl", *rows)
    done = program(
        "-m",
        "dataset=jailbreak_guardrails",
        "dataset.jailbreak_guardrails.path=a.jsonl,b.jsonl",
        "dataset.jailbreak_guardrails.fields=null",
        "metric=jailbreak_guardrails",
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads((program.latest / "summary.json").read_text(encoding="utf-8"))
    boards = {d["statistic"]: d for d in summary["details"] if "leaderboard" in d}
    assert list(boards) == ["mean", "precision", "recall", "f1", "mcc"]
    assert boards["mean"]["also"] == ["pass_rate", "accuracy"]
    assert [row["verdict"] for row in boards["f1"]["leaderboard"]] == ["best", "worse"]
    assert "leaderboard: jailbreak_guardrails · accuracy · jailbreak_guardrails" in done.stdout
    assert "report.html has the leaderboards by precision, recall, f1" in done.stdout
    page = (program.latest / "report.html").read_text(encoding="utf-8")
    assert "<h3>jailbreak_guardrails · recall · jailbreak_guardrails</h3>" in page
