"""Two runs of one bot that people find equal and the metrics do not, with ties, errors, exclusions, tags and gates."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.addons.studio.work import verdicts
from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.space import Workspace
from tests.cli.conftest import Program
from tests.finishing import carry_out

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
class OneSweep:
    """The folders of the two runs, and of a third, which took the cases of a tag only."""

    program: Program
    folders: tuple[Path, Path]
    part: Path

    def open(self, space: Workspace) -> tuple[str, str]:
        """Open the runs in a workspace, take a result out of the second, and give the ids of the two."""
        runs = [open_run(space, one).run_id for one in (*self.folders, self.part)]
        for run in runs:
            carry_out(space, run)
        verdicts.exclude(space, runs[1], 0, "grade", "not a fair question")
        return runs[0], runs[1]


def make_sweep(folder: Path) -> OneSweep:
    """Make the runs in a folder. People labelled every second answer, some of them twice."""
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
        rows = [_case(f"answer {i} of {name}", i, one, favour, draw) for i, one in enumerate(true)]
        program.write(f"{name}.jsonl", *rows)
        folders.append(_run(program, f"++dataset.desk.path={name}.jsonl"))
    part = _run(program, "++dataset.desk.path=x.jsonl", "+dataset.desk.tags=[odd]")
    return OneSweep(program, (folders[0], folders[1]), part)


def _run(program: Program, *more: str) -> Path:
    done = program("dataset=desk", "metric=[grade,fluff,tone,said]", "max_error_rate=1", f"gate={GATES}", *more)
    assert done.returncode in (1, 3), done.stderr + done.stdout
    return program.latest


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
