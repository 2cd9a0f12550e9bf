"""Taking a finished run's scores into the tables, in input order, a few hundred answers at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from evalflow.app.results.derive import standing_answer
from evalflow.app.results.gates import hold_gates
from evalflow.app.results.kept import declared, kept, standing
from evalflow.app.results.saved import Saved, load
from evalflow.app.worker.table_rows import Record, answer_row, score_row, step_rows, tag_rows
from evalflow.app.workspace import Workspace
from evalflow.records import Answer, Case
from evalflow.report.join import Row, rows
from evalflow.report.judges import judge_lines
from evalflow.run.answers import AnswerBook
from evalflow.run.folder import RunFolder
from evalflow.run.prepared import PreparedFile
from evalflow.summary import json_line

SCORES_AT_ONCE = 10_000
"""Scores that are written in one transaction; others write between two of them."""

Tables = tuple[list[Record], list[Record], list[Record], list[Record]]
"""Rows of answers, answer_tags, scores and score_steps."""


def load_scores(space: Workspace, run: int, folder: RunFolder) -> Iterator[int]:
    """Put a run's answers and scores into the tables, each in the place of what is there of it already.

    Args:
        space: Where.
        run: The run's row.
        folder: Its files; scores.parquet must be among them.

    Yields:
        How many answers are in, after each transaction.

    Raises:
        UserError: Its files are of another version, or what it was made from is gone.
    """
    import polars as pl

    from evalflow.store import results

    saved = load(folder)
    settings = saved.recipe.settings.run
    with AnswerBook() as book:
        book.add(folder.answers, settings.dataset)

        def answer_of(case: Case, target: str, repeat: int) -> Answer | None:
            known = book.get(case.dataset, case.id, target, repeat)
            return known or standing_answer(settings, case, target, repeat)

        found = enumerate(rows(saved.cases(), answer_of, pl.scan_parquet(folder.scores)))
        done = 0
        while (tables := _some(run, found)) is not None:
            with space.database.writing(in_turn=False) as connection:
                results.replace(connection, run, *tables)
            done += len(tables[0])
            yield done
    with space.database.writing(in_turn=False) as connection:
        results.clear(connection, run, done)


def facts_of_run(folder: RunFolder) -> dict[str, Any]:
    """What the scores of a finished run mean; see `Run.facts`."""
    saved = load(folder)
    summary = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))
    return {
        "metrics": facts_of_metrics(saved),
        "summary": [row for row in summary["rows"] if row["tag"] is None],
        "gates": _gates(saved),
        "datasets": {name: facts["cases"] for name, facts in saved.manifest["datasets"].items()},
        "target": saved.manifest["target"]["name"],
        "judges": saved.manifest["judges"],
        "kept": kept(saved),
        "seed": saved.recipe.settings.run.seed,
        "wrote_steps": sorted({entry["metric"] for entry in PreparedFile(folder).entries() if entry.get("steps")}),
    }


def facts_of_metrics(saved: Saved) -> list[dict[str, Any]]:
    """What is said of each metric of a run, which may still be under way."""
    recipe, measured, judges = saved.recipe, saved.manifest["metrics"], saved.manifest["judges"]
    limits, made_with = standing(saved), declared(saved)
    return [
        {
            "name": name,
            "judge": recipe.judge_of[name],
            "threshold": limits.get(name),
            "declared": made_with.get(name),
            "direction": metric.config.direction,
            "bounded": metric.bounded,
            "description": metric.config.description,
            "judged": judge_lines(
                {
                    "metrics": {name: measured[name]},
                    "judges": {judge: about for judge, about in judges.items() if judge == recipe.judge_of[name]},
                }
            )[0],
        }
        for name, metric in recipe.metrics.items()
    ]


def _gates(saved: Saved) -> list[Any]:
    import polars as pl

    frame = pl.read_parquet(saved.folder.path / "summary.parquet")
    _, held = hold_gates(saved.recipe, frame, pl.scan_parquet(saved.folder.scores))
    return json.loads(json_line([dict(row) for row in held]))


def _some(run: int, found: Iterable[tuple[int, Row]]) -> Tables | None:
    """The next rows of all four tables, of whole answers; None where there are none."""
    tables: Tables = ([], [], [], [])
    answered, tagged, scored, steps = tables
    for position, row in found:
        answered.append(answer_row(run, position, row.case, row.answer, (row.target, row.target_repeat)))
        tagged += tag_rows(run, position, row.case)
        # A panel's members stand in the run's own files; its row tells what each of them said.
        for n, score in enumerate(one for one in row.scores if one["member_of"] is None):
            scored.append(score_row(run, position, n, score))
            steps += step_rows(run, position, n, score)
        if len(scored) >= SCORES_AT_ONCE or len(answered) >= SCORES_AT_ONCE:
            break
    return tables if answered else None
