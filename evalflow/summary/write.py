"""The summary's three files: Parquet for programs, CSV for spreadsheets, JSON with the details."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.files import completed, write_atomically

if TYPE_CHECKING:
    from evalflow.summary.summarise import Summary


def write_summary(summary: Summary, folder: Path) -> None:
    """Write summary.parquet, summary.csv and summary.json into an existing folder."""
    with completed(folder / "summary.parquet") as draft:
        summary.frame.write_parquet(draft)
    with completed(folder / "summary.csv") as draft:
        summary.frame.write_csv(draft)
    text = json.dumps(summary_document(summary), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(folder / "summary.json", text + "\n")


def summary_document(summary: Summary) -> dict[str, Any]:
    """The summary as one JSON document: rows, and under details what is more than a number."""
    return {"rows": summary.frame.to_dicts(), "details": summary.details}
