"""Read cases from JSON Lines, JSON, CSV or Parquet files, or a glob of them, one row at a time."""

from evalflow.datasets.cases import (
    ReadRow,
    case_to_row,
    columns,
    examples,
    excerpt,
    irregular,
    places,
    plain_rows,
    read,
    read_rows,
)
from evalflow.datasets.fields import FIELDS, propose_fields, tag_levels, tag_name
from evalflow.datasets.sources import digest, files, text_bytes

__all__ = [
    "FIELDS",
    "ReadRow",
    "case_to_row",
    "columns",
    "digest",
    "examples",
    "excerpt",
    "files",
    "irregular",
    "places",
    "plain_rows",
    "propose_fields",
    "read",
    "read_rows",
    "tag_levels",
    "tag_name",
    "text_bytes",
]
