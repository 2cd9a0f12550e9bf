"""Cases without ids of their own are named by their question wherever people read."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

MADE = re.compile(r"\b[0-9a-f]{16}\b")
RUNS = 5


def test_no_listing_shows_a_made_id_before_the_question(program: Program) -> None:
    def answered(case: int, run: int) -> str:
        good = run >= RUNS - 1 - case % RUNS
        return "A." if good != (case == 0) else "Wrong."  # the better a run is, the worse it is on the first case

    for run in range(RUNS):
        rows = [
            {
                "question": f"When does pool {n} open?",
                "reference": "A.",
                "answer": answered(n, run),
                "labels": {"exact_match": n % 2 == 0},
            }
            for n in range(20)
        ]
        program.write("cases.jsonl", *rows)
        keys = ("path=cases.jsonl", "fields=null", "labels_of=null")
        done = program("dataset=rag", *(f"dataset.rag.{key}" for key in keys), "metric=exact_match")
        assert done.returncode == 0, done.stderr
        worst = done.stdout.partition("\nworst")[2].partition("\nmore")[0]
        assert '"When does pool' in worst
        assert not MADE.search(worst)
    page = (program.latest / "report.html").read_text(encoding="utf-8")
    page = page.partition("<h2>Worst")[2].partition("</table>")[0]
    assert "When does pool" in page
    assert not MADE.search(page)
    done = program("calibrate")
    assert done.returncode == 0, done.stdout + done.stderr
    listed = done.stdout.partition("largest differences")[2].partition("\npage")[0]
    assert '"When does pool' in listed
    assert not MADE.search(listed)
    runs = sorted(map(str, program.latest.resolve().parent.glob("*rag*")))
    done = program("rank", *runs, "--items")
    assert done.returncode == 0, done.stderr
    listed = done.stdout.partition("cases · ")[2]
    assert '"When does pool' in listed
    assert not MADE.search(listed)
