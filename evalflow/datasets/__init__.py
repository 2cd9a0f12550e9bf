"""Cases out of files: JSON lines, JSON, CSV, Parquet, or a glob of them, streamed one row at a time."""

from evalflow.datasets.cases import columns, places, read
from evalflow.datasets.export import case_to_row
from evalflow.datasets.plain import plain_rows
from evalflow.datasets.proposal import propose_fields
from evalflow.datasets.sources import digest, files, text_bytes
from evalflow.datasets.tags import tag_levels, tag_name

__all__ = [
    "case_to_row",
    "columns",
    "digest",
    "files",
    "places",
    "plain_rows",
    "propose_fields",
    "read",
    "tag_levels",
    "tag_name",
    "text_bytes",
]
