"""The command `cases`: one failing case is never more than one command away."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from evalflow.app.locate import find_run
from evalflow.app.saved import read_cases
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.records import Case
from evalflow.report.case_console import print_case
from evalflow.run.folder import RunFolder

if TYPE_CHECKING:
    import polars as pl


def show_cases(options: argparse.Namespace, console: Console) -> int:
    """Show the cases that the options leave, in input order.

    Args:
        options: run, failed, metric, tag, id, limit, json.
        console: Where to print.

    Raises:
        UserError: There is no such run, metric, tag or case.
    """
    folder = find_run(options.run)
    scores = _matching(folder, options)
    ids = scores.select("dataset", "case_id").unique(maintain_order=True)
    wanted = ids.head(options.limit) if options.limit else ids
    shown = list(_join(folder, scores, wanted))
    if options.json:
        console.file.write(json.dumps({"n": ids.height, "cases": shown}, ensure_ascii=False, indent=2) + "\n")
        return 0
    for case in shown:
        print_case(console, case)
    left = ids.height - len(shown)
    more = f"; {left} more with --limit 0" if left else ""
    console.print(f"{len(shown)} case{'' if len(shown) == 1 else 's'}{more}", style="dim")
    return 0


def _matching(folder: RunFolder, options: argparse.Namespace) -> pl.DataFrame:
    import polars as pl

    scores = pl.scan_parquet(folder.scores)
    for column, given in (("metric", options.metric), ("case_id", options.id)):
        if given is None:
            continue
        known: list[str] = scores.select(pl.col(column).unique()).collect()[column].to_list()
        if given not in known:
            what = f"the run has no {column.removesuffix('_id')} {given!r}"
            raise UserError(Problem(what, str(folder.path), did_you_mean(given, known)))
        scores = scores.filter(pl.col(column) == given)
    if options.tag:
        below = options.tag + " > "
        element = pl.element()
        scores = scores.filter(
            pl.col("tags").list.eval((element == options.tag) | element.str.starts_with(below)).list.any()
        )
    if options.failed:
        scores = scores.filter((pl.col("status") == "error") | ~pl.col("passed").fill_null(value=True))
    return scores.collect()


def _join(folder: RunFolder, scores: pl.DataFrame, wanted: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Each wanted case with its score rows."""
    by_case: dict[tuple[str, str], list[dict[str, Any]]] = {}
    rows = scores.join(wanted, on=["dataset", "case_id"], how="semi", maintain_order="left")
    for row in rows.iter_rows(named=True):
        by_case.setdefault((row["dataset"], row["case_id"]), []).append(row)
    for case in read_cases(folder, folder.read_manifest()):
        found = by_case.pop((case.dataset, case.id), None)
        if found:
            yield _described(case, found)
        if not by_case:
            return


def _described(case: Case, scores: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "dataset": case.dataset,
        "id": case.id,
        "tags": list(case.tags),
        "messages": [{"role": message.role, "content": message.content} for message in case.messages],
        "answer": case.answer,
        "actual": case.actual,
        "reference": case.reference,
        "contexts": [{"title": c.title, "text": c.text} for c in case.contexts or ()],
        "scores": [
            {
                **{
                    key: score[key]
                    for key in ("metric", "judge", "target", "target_repeat", "repeat", "status", "score", "threshold",
                                "passed", "reason", "error_type", "error", "path")
                },
                "value": json.loads(score["value"]) if score["value"] else None,
                "steps": json.loads(score["steps"] or "[]"),
            }
            for score in scores
        ],
    }  # fmt: skip
