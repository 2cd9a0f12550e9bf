"""What was pasted, as a file that the readers take."""

from __future__ import annotations

import json
from pathlib import Path


def pasted_file(said: str, folder: Path) -> Path:
    """Write it down: a table of tabs as it stands, else each line as a question.

    Args:
        said: One question a line, or what a spreadsheet copies: rows of cells with tabs between them.
        folder: Where.
    """
    lines = said.strip("\r\n").splitlines()
    if "\t" in lines[0]:
        path = folder / "pasted.csv"
        path.write_text(said.strip("\r\n") + "\n", encoding="utf-8", newline="")
        return path
    path = folder / "pasted.jsonl"
    rows = (json.dumps({"question": said}) if (said := line.strip()) else "" for line in lines)  # faults name the line
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path
