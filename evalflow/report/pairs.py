"""Each dataset with each metric, case by case, on the metric's own scale."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

from evalflow.report.terminal import literal, plain_line
from evalflow.report.wording import number

if TYPE_CHECKING:
    import polars as pl

_LINES = 200
"""Characters of a text that a cell shows."""


def native_means(scores: pl.LazyFrame) -> pl.DataFrame:
    """The mean on the metric's own scale; true counts as 1.

    Args:
        scores: The columns of scores.parquet.

    Returns:
        dataset, metric, target, judge, n (all scores), n_scored, mean (null without a scored one, or for labels).
    """
    import polars as pl

    value = pl.col("value").replace({"true": "1", "false": "0"}).cast(pl.Float64, strict=False)
    scored = pl.col("status") == "scored"
    return (
        scores.filter(pl.col("member_of").is_null())
        .group_by("dataset", "metric", "target", "judge", maintain_order=True)
        .agg(pl.len().alias("n"), scored.sum().alias("n_scored"), value.filter(scored).mean().alias("mean"))
        .collect(engine="streaming")
    )


def print_pairs(console: Console, cases: Sequence[Mapping[str, Any]], means: pl.DataFrame) -> None:
    """A table per dataset, metric, target and judge: input, output, example output and score, and the mean below.

    Args:
        console: Where to print.
        cases: The cases to show, by the keys of `cases --json`.
        means: What `native_means` gives, of all cases.
    """
    for pair in means.iter_rows(named=True):
        shown = [
            (case, score)
            for case in cases
            if (case["dataset"], case["target"]) == (pair["dataset"], pair["target"])
            for score in case["scores"]
            if (score["metric"], score["judge"]) == (pair["metric"], pair["judge"])
        ]
        console.print(literal(f"dataset {pair['dataset']} with metric {pair['metric']}", style="bold"), soft_wrap=True)
        console.print(_table(shown))
        left = pair["n"] - len(shown)
        more = f"; {left} more in results.csv" if left else ""
        mean = "no mean" if pair["mean"] is None else f"mean {number(pair['mean'], 2)}"
        line = f"{mean} on the metric's own scale, over {pair['n_scored']} of {pair['n']} scored{more}"
        console.print(literal(line, style="dim"), soft_wrap=True)
        console.print()


def _table(shown: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("input", "output", "example output"):
        table.add_column(column, ratio=1)
    table.add_column("score", justify="right", no_wrap=True)
    for case, score in shown:
        asked = " / ".join(turn["content"] for turn in case["messages"] if turn["role"] == "user")
        said = case["answer"] if case["answer"] is not None else case["error"] or "–"
        value = json.dumps(score["value"]) if score["status"] == "scored" else score["status"]
        table.add_row(*(literal(_short(text)) for text in (asked, said, case["reference"] or "–", value)))
    return table


def _short(text: str) -> str:
    line = plain_line(text)
    return line if len(line) <= _LINES else f"{line[:_LINES]} …"
