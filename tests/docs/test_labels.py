"""The page on labels: its columns are those that are read, and its example is a labels file."""

import csv

from evalflow.labels.columns import LABEL_COLUMNS
from evalflow.labels.read import parse
from tests.docs.test_readme import ROOT, blocks

PAGE = (ROOT / "docs" / "labels.md").read_text(encoding="utf-8")


def test_the_table_has_every_column_as_it_is_read() -> None:
    table = PAGE.partition("## What counts")[0]
    assert [line for line in table.splitlines() if line.startswith("| `")] == [
        f"| `{name}` | {column.meaning} |" for name, column in LABEL_COLUMNS.items()
    ]


def test_the_example_is_a_labels_file() -> None:
    [block] = blocks("csv", PAGE)
    found = parse([(str(line), row) for line, row in enumerate(csv.DictReader(block.splitlines()), 2)], "labels.csv")
    assert found.problems == []
    assert [one.use for one in found.given] == ["label", "label", "resolution", "missing", "apart"]
    assert {one.weight for one in found.given} == {2.0, 1.0}
