"""Prints the cases of each dataset and metric with their scores."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from evalflow.lazy import pl
from evalflow.records import numbered, texts_of
from evalflow.report.wording import cut, literal, number

_LINES = 200  # characters of a text that a cell shows


def native_means(scores: pl.LazyFrame) -> pl.DataFrame:
    """The mean on the metric's own scale; true counts as 1; null without a score, and for labels."""
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

    `cases` have the keys of `cases --json`; `means` is what `native_means` gives, of all cases.
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
        table.add_row(
            *(literal(cut(text, _LINES)) for text in (asked, said, numbered(texts_of(case["reference"])) or "–", value))
        )
    return table
