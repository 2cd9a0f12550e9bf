"""Reading a journal of any size in bounded memory, in the order written or in the order of the input.

Lines are long (a judge's steps) and keys are short. So input order is found by sorting the keys alone, and the lines
are then fetched from the file in that order, a batch at a time. A run writes nearly in input order already, which
makes those reads nearly sequential.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.summary.composites import Composite, with_composites
from evalflow.summary.journal import torn_tail
from evalflow.summary.schema import journal_schema

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    Offsets = NDArray[np.int64]

_BLOCK = 2 << 20
# The case's place in its dataset stands for the case.
_CELL = ("dataset", "index", "target", "target_repeat", "metric", "judge", "repeat", "member_of")


@dataclass(frozen=True, slots=True)
class Order:
    """The order of the composition; what is not listed follows, by name."""

    datasets: Sequence[str]
    metrics: Sequence[str]


@dataclass(frozen=True, slots=True)
class Journal:
    """A journal's complete lines.

    Attributes:
        path: The file.
        size: Bytes up to the end of the last complete line.
        torn: Lines left out since they were never finished, 0 or 1.
    """

    path: Path
    size: int
    torn: int

    def frame(self) -> pl.LazyFrame:
        """Every line in the order written; columns as in `journal_schema`. Streams."""
        return _source(lambda: (_parse(block) for block, _ in self._blocks()))

    def ordered(self, order: Order, composites: Sequence[Composite] = ()) -> pl.LazyFrame:
        """Each cell once, in input order: dataset, index, target, target_repeat, metric, judge, repeat. Streams.

        A cell that stands there twice was asked again after an error; its last line holds. A panel's members follow
        the panel, and what is made of an answer's scores follows these.
        """
        spans = self._spans(order)

        def batches() -> Iterator[pl.DataFrame]:
            rows = self._fetch(spans)
            return with_composites(rows, composites) if composites else rows

        return _source(batches)

    def _blocks(self) -> Iterator[tuple[bytes, int]]:
        """Whole lines of about _BLOCK bytes together, and where in the file they begin."""
        at = 0
        if not self.size:
            return
        with self.path.open("rb") as file:
            while at < self.size:
                block = file.read(min(_BLOCK, self.size - at))
                block += b"" if block.endswith(b"\n") else file.readline()
                yield block, at
                at += len(block)

    def _spans(self, order: Order) -> Offsets:
        """Begin and end of the lines that hold, in input order; shape (lines, 2)."""
        import numpy as np
        import polars as pl

        parts: list[pl.DataFrame] = []
        for block, at in self._blocks():
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")).astype(np.int64) + at + 1
            keys = _parse(block).select(_CELL).cast({pl.String: pl.Categorical})
            parts.append(keys.with_columns(begin=pl.Series([at, *ends[:-1]], dtype=pl.Int64), end=pl.Series(ends)))
        if not parts:
            return np.empty((0, 2), dtype=np.int64)
        ordered = pl.concat(parts).sort(_ranks(order), maintain_order=True)
        again = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).shift(-1)) for key in _CELL)
        last = pl.int_range(pl.len()) == pl.len() - 1
        return ordered.filter(last | ~again).select("begin", "end").to_numpy()

    def _fetch(self, spans: Offsets) -> Iterator[pl.DataFrame]:
        import numpy as np

        if not len(spans):
            return
        batch = np.cumsum(spans[:, 1] - spans[:, 0]) // _BLOCK
        bounds = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(spans)]
        with self.path.open("rb", buffering=0) as file:
            for first, last in pairwise(bounds):
                yield _parse(b"".join(_read(file, spans[first:last])))


def scan_journal(path: Path) -> Journal:
    """Open a journal. A torn last line is left out and counted; a missing file is an empty journal."""
    size = path.stat().st_size if path.exists() else 0
    torn = torn_tail(path) if size else 0
    return Journal(path, size - torn, int(torn > 0))


def rank(column: str, names: Sequence[str]) -> pl.Expr:
    """The place of a column's value among `names`; those not listed come after."""
    import polars as pl

    places = {name: place for place, name in enumerate(names)}
    text = pl.col(column).cast(pl.String)
    return text.replace_strict(places, default=len(places), return_dtype=pl.Int64) if places else pl.lit(0)


def _ranks(order: Order) -> list[pl.Expr]:
    import polars as pl

    names = {name: pl.col(name).cast(pl.String) for name in ("dataset", "target", "metric", "judge")}
    return [
        rank("dataset", order.datasets), names["dataset"], pl.col("index"), names["target"], pl.col("target_repeat"),
        rank("metric", order.metrics), names["metric"], pl.col("member_of").is_not_null(), names["judge"],
        pl.col("repeat"),
    ]  # fmt: skip


def _read(file: io.FileIO, spans: Offsets) -> Iterator[bytes]:
    """The lines' bytes; neighbours in the file are read in one go."""
    import numpy as np

    gaps = np.flatnonzero(spans[1:, 0] != spans[:-1, 1]) + 1
    for first, last in pairwise([0, *gaps.tolist(), len(spans)]):
        begin, end = int(spans[first, 0]), int(spans[last - 1, 1])
        file.seek(begin)
        yield file.read(end - begin)


def _parse(block: bytes) -> pl.DataFrame:
    import polars as pl

    return pl.read_ndjson(block, schema=journal_schema())


def _source(batches: Any) -> pl.LazyFrame:
    """A LazyFrame over batches that are made as they are asked for."""
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
