"""Cases out of files: JSON lines, JSON, CSV, Parquet, or a glob of them, streamed one row at a time."""

from evalflow.datasets.cases import Sifted, columns, examples, excerpt, places, read, sift
from evalflow.datasets.export import case_to_row
from evalflow.datasets.plain import plain_rows
from evalflow.datasets.proposal import propose_fields
from evalflow.datasets.sources import digest, files, text_bytes
from evalflow.datasets.tags import tag_levels, tag_name
from evalflow.datasets.turns import irregular
from evalflow.datasets.values import FIELDS

__all__ = [
    "FIELDS",
    "Sifted",
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
    "sift",
    "tag_levels",
    "tag_name",
    "text_bytes",
]
