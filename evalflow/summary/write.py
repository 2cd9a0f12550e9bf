"""The summary's three files: Parquet for programs, CSV for spreadsheets, JSON with the details."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.files import completed, write_atomically

if TYPE_CHECKING:
    from evalflow.summary.summarise import Summary

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_summary(summary: Summary, folder: Path) -> None:
    """Write summary.parquet, summary.csv and summary.json into an existing folder; see `safe_text` for texts in CSV."""
    import polars as pl

    with completed(folder / "summary.parquet") as draft:
        summary.frame.write_parquet(draft)
    texts = pl.col(pl.String).map_elements(safe_text, return_dtype=pl.String)
    with completed(folder / "summary.csv") as draft:
        summary.frame.with_columns(texts).write_csv(draft)
    text = json.dumps(summary_document(summary), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(folder / "summary.json", text + "\n")


def safe_text(text: str) -> str:
    """`text`, with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def summary_document(summary: Summary) -> dict[str, Any]:
    """The summary as one JSON document: rows, and under details what is more than a number."""
    return {"rows": summary.frame.to_dicts(), "details": summary.details}
