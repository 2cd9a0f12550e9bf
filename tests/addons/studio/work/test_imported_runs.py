"""Answers that another tool scored: imported, run, ranked, reviewed, and their scores corrected by people's labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import review_calibration, reviews
from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.review_desk import next_item, submit_item
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.space import Workspace
from tests.addons.studio.work.test_reviews import add_people, person
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

CASES = range(24)


def grade(case: int, shift: int = 0) -> float:
    return 0.0 if (case + shift) % 4 == 0 else 1.0


def promptfoo() -> str:
    results = [
        {
            "testIdx": i,
            "promptIdx": number,
            "provider": {"id": bot},
            "vars": {"q": f"Question {i}"},
            "prompt": {"raw": f"Say question {i}"},
            "response": {"output": f"{bot} says {i}"},
            "score": grade(i, number),
            "success": bool(grade(i, number)),
            "gradingResult": {"componentResults": []},
        }
        for number, bot in enumerate(("bot-a", "bot-b"))
        for i in CASES
    ]
    return json.dumps({"evalId": "e", "results": {"version": 3, "results": results}})


def deepeval() -> str:
    def case(i: int) -> dict[str, Any]:
        said = {"name": "Faithfulness", "score": grade(i), "threshold": 0.5, "success": bool(grade(i))}
        return {"input": f"Question {i}", "actualOutput": f"It is {i}", "metricsData": [said]}

    return json.dumps({"testCases": [case(i) for i in CASES]})


def ragas() -> str:
    rows = ({"user_input": f"Question {i}", "response": f"It is {i}", "faithfulness": grade(i)} for i in CASES)
    return "\n".join(map(json.dumps, rows))


def langfuse() -> str:
    return json.dumps(
        [{"id": f"t{i}", "input": f"Question {i}", "output": f"It is {i}", "faithfulness": [grade(i)]} for i in CASES]
    )


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "file", "content", "run", "metric"),
    [
        ("promptfoo", "old.json", promptfoo(), "old_bot_a_1", "old_passed"),
        ("deepeval", "old.json", deepeval(), "old", "old_faithfulness"),
        ("ragas", "old.jsonl", ragas(), "old", "old_faithfulness"),
        ("langfuse", "old.json", langfuse(), "old", "old_faithfulness"),
    ],
)
def test_the_old_scores_are_reviewed_and_corrected_by_people(
    space: Workspace, kind: str, file: str, content: str, run: str, metric: str
) -> None:
    (space.root / file).write_text(content, encoding="utf-8")
    program = Program(space.root)
    done = program("import", kind, file)
    assert (done.returncode, done.stderr) == (0, "")
    done = program(f"experiment={run}", f"metric={metric}")
    assert done.returncode == 0, done.stderr
    add_people(space, {"ann": "annotator", "eve": "editor"})
    eve, ann = person(space, "eve", "editor"), person(space, "ann")
    opened = open_run(space, program.latest)
    asked = ReviewRequest(name="r", run_id=opened.run_id, metrics=[metric], size=20, people=["ann"], seed=1)
    reviews.create_review(eve, asked)
    while item := next_item(ann, "r"):  # people find every second fault that the tool saw
        number = int("".join(filter(str.isdigit, item.messages[-1]["content"])))
        submit_item(ann, "r", item.item, {metric: grade(number) or float(number % 8 == 0)})
    found = review_calibration.review_result(eve, "r").calibration
    assert found is not None
    [row] = found.rows
    assert (row.metric, row.judge, row.people) == (metric, None, (1, 20))
    assert row.corrected.judge_mean == 0.75
    assert row.corrected.estimate is not None
    assert row.corrected.estimate > 0.8


def test_the_systems_of_one_file_are_ranked_case_by_case(tmp_path: Path) -> None:
    program = Program(tmp_path)
    (program.folder / "old.json").write_text(promptfoo(), encoding="utf-8")
    assert program("import", "promptfoo", "old.json").returncode == 0
    done = program("-m", "experiment=old_bot_a_1,old_bot_b_2", "metric=[old_passed]")
    assert done.returncode == 0, done.stderr
    [sweep] = (program.folder / "outputs" / "sweeps").iterdir()
    [board] = json.loads((sweep / "summary.json").read_text(encoding="utf-8"))["details"]
    assert (board["metric"], board["cases"]) == ("old_passed", 24)
    assert [(one["target"], one["value"]) for one in board["leaderboard"]] == [("bot-a 1", 0.75), ("bot-b 2", 0.75)]
    told = program("compare", str(sweep), "--json")
    [row] = json.loads(told.stdout)["rows"]
    assert (row["n"], row["difference"], row["verdict"]) == (24, 0.0, "cannot_tell")
