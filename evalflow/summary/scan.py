"""Reading a journal of any size in bounded memory, in the order written or in the order of the input.

Lines are long (a judge's steps) and keys are short. So input order is found by sorting the keys alone, and the lines
are then fetched from the file in that order, a batch at a time. A run writes nearly in input order already, which
makes those reads nearly sequential.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, get_args

from evalflow.lazy import np, pl
from evalflow.records import Status
from evalflow.summary.composites import Composite, with_composites
from evalflow.summary.journal import journal_schema, torn_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Offsets = NDArray[np.int64]

log = logging.getLogger("evalflow")

_BLOCK = 2 << 20
_NAMED = 5
"""Damaged lines to name in a warning."""
_NEEDED = (
    "run_id", "dataset", "index", "case_id", "target", "target_repeat", "metric", "metric_version", "repeat", "status",
    "cached",
)  # fmt: skip
# A case is identified by its index in the dataset.
_CELL = ("dataset", "index", "target", "target_repeat", "metric", "judge", "repeat", "member_of")


@dataclass(frozen=True, slots=True)
class InputOrder:
    """The order of datasets and metrics as composed; others follow by name."""

    datasets: Sequence[str]
    metrics: Sequence[str]


@dataclass(frozen=True, slots=True)
class JournalReader:
    """A journal's complete lines.

    A damaged line, or one with an impossible score, is left out; its cell then counts as not finished.

    Attributes:
        path: The file.
        size: Bytes up to the end of the last complete line.
        torn: Number of unfinished last lines, left out: 0 or 1.
        bounded: The metrics whose scores lie in 0..1.
    """

    path: Path
    size: int
    torn: int
    bounded: Collection[str] = ()

    def frame(self) -> pl.LazyFrame:
        """Every line in the order written; columns as in `journal_schema`. Streams."""
        return _source(lambda: (self.parse(block) for block, _ in self._blocks()))

    def parse(self, block: bytes) -> pl.DataFrame:
        """The lines of a block of whole ones, without those that are damaged."""
        return _parse(block).filter(self._is_valid())

    def ordered(self, order: InputOrder, composites: Sequence[Composite] = ()) -> pl.LazyFrame:
        """Each cell once, in input order: dataset, index, target, target_repeat, metric, judge, repeat. Streams.

        If a cell has two lines, it was repeated after an error, and the last line counts. A panel's members follow
        the panel, and composites follow the other scores of the answer.
        """
        spans = self._spans(order)

        def batches() -> Iterator[pl.DataFrame]:
            rows = self._fetch(spans)
            return with_composites(rows, composites) if composites else rows

        return _source(batches)

    def _blocks(self) -> Iterator[tuple[bytes, int]]:
        """Blocks of whole lines, about _BLOCK bytes each, and their offsets in the file."""
        at = 0
        if not self.size:
            return
        with self.path.open("rb") as file:
            while at < self.size:
                block = file.read(min(_BLOCK, self.size - at))
                block += b"" if block.endswith(b"\n") else file.readline()
                yield block, at
                at += len(block)

    def _spans(self, order: InputOrder) -> Offsets:
        """Begin and end of the lines that count, in input order; shape (lines, 2)."""
        parts: list[pl.DataFrame] = []
        damaged: list[int] = []
        lines = 0
        for block, at in self._blocks():
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")).astype(np.int64) + at + 1
            keys = _parse(block).select(*_CELL, sound=self._is_valid()).cast({pl.String: pl.Categorical})
            keys = keys.with_columns(begin=pl.Series([at, *ends[:-1]], dtype=pl.Int64), end=pl.Series(ends))
            damaged += (keys.with_row_index("line", lines + 1).filter(~pl.col("sound")))["line"].to_list()
            lines += keys.height
            parts.append(keys.filter("sound").drop("sound"))
        if damaged:
            self._warn_damaged(damaged)
        if not parts:
            return np.empty((0, 2), dtype=np.int64)
        ordered = pl.concat(parts).sort(_ranks(order), maintain_order=True)
        again = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).shift(-1)) for key in _CELL)
        last = pl.int_range(pl.len()) == pl.len() - 1
        return ordered.filter(last | ~again).select("begin", "end").to_numpy()

    def _is_valid(self) -> pl.Expr:
        """Whether a line is complete, and its score possible for its state and metric."""
        score, scored, bill = pl.col("score"), pl.col("status") == "scored", pl.col("bill").struct
        possible = pl.when(scored).then(score.is_finite().fill_null(value=False)).otherwise(score.is_null())
        inside = ~pl.col("metric").is_in(list(self.bounded)) | score.is_null() | score.is_between(0, 1)
        billed = [bill.field(name).is_not_null() for name in ("requests", "reasks", "remembered", "paid")]
        whole = pl.all_horizontal(*(pl.col(name).is_not_null() for name in _NEEDED), *billed)
        known = pl.col("status").is_in(get_args(Status))
        return (whole & known & possible & inside).fill_null(value=False)

    def _warn_damaged(self, damaged: Sequence[int]) -> None:
        lines = ", ".join(map(str, damaged[:_NAMED])) + (", ..." if len(damaged) > _NAMED else "")
        what = "%s: %d of its lines are damaged and do not count (%s); what is missing is made again by: %s"
        log.warning(what, self.path, len(damaged), lines, f"python -m evalflow resume {quote(str(self.path.parent))}")

    def _fetch(self, spans: Offsets) -> Iterator[pl.DataFrame]:
        if not len(spans):
            return
        batch = np.cumsum(spans[:, 1] - spans[:, 0]) // _BLOCK
        bounds = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(spans)]
        with self.path.open("rb", buffering=0) as file:
            for first, last in pairwise(bounds):
                yield _parse(b"".join(_read(file, spans[first:last])))


def scan_journal(path: Path, bounded: Collection[str] = ()) -> JournalReader:
    """Open a journal. A torn last line is left out and counted; a missing file is an empty journal.

    `bounded` names the metrics whose scores lie in 0..1.
    """
    size = path.stat().st_size if path.exists() else 0
    torn = torn_tail(path) if size else 0
    return JournalReader(path, size - torn, int(torn > 0), bounded)


def rank(column: str, names: Sequence[str]) -> pl.Expr:
    """The place of a column's value among `names`; those not listed come after."""
    places = {name: place for place, name in enumerate(names)}
    text = pl.col(column).cast(pl.String)
    return text.replace_strict(places, default=len(places), return_dtype=pl.Int64) if places else pl.lit(0)


def _ranks(order: InputOrder) -> list[pl.Expr]:
    names = {name: pl.col(name).cast(pl.String) for name in ("dataset", "target", "metric", "judge")}
    return [
        rank("dataset", order.datasets), names["dataset"], pl.col("index"), names["target"], pl.col("target_repeat"),
        rank("metric", order.metrics), names["metric"], pl.col("member_of").is_not_null(), names["judge"],
        pl.col("repeat"),
    ]  # fmt: skip


def _read(file: io.FileIO, spans: Offsets) -> Iterator[bytes]:
    """The lines' bytes; adjacent lines are read together."""
    gaps = np.flatnonzero(spans[1:, 0] != spans[:-1, 1]) + 1
    for first, last in pairwise([0, *gaps.tolist(), len(spans)]):
        begin, end = int(spans[first, 0]), int(spans[last - 1, 1])
        file.seek(begin)
        yield file.read(end - begin)


def _parse(block: bytes) -> pl.DataFrame:
    """One row for each line; all columns are null if it cannot be read."""
    found = _read_lines(block)
    if found is None or found.height != block.count(b"\n"):
        lines = (line + b"\n" for line in block.split(b"\n")[:-1])
        found = _read_lines(b"".join(line if _is_one(line) else b"{}\n" for line in lines))
    assert found is not None
    return found


def _is_one(line: bytes) -> bool:
    found = _read_lines(line)
    return found is not None and found.height == 1


def _read_lines(block: bytes) -> pl.DataFrame | None:
    try:
        return pl.read_ndjson(block, schema=journal_schema())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None


def _source(batches: Any) -> pl.LazyFrame:
    """A LazyFrame over batches that are produced on demand."""
    from polars.io.plugins import register_io_source

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        left = n_rows
        for batch in batches():
            frame = batch if left is None else batch.head(left)
            left = None if left is None else left - frame.height
            frame = frame if columns is None else frame.select(columns)
            yield frame if predicate is None else frame.filter(predicate)
            if left == 0:
                return

    return register_io_source(read, schema=journal_schema(), is_pure=True)
