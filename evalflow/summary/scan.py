"""Reads a journal of any size in bounded memory, in the order written or in input order.

Lines are long (a judge's steps) and keys are short. So only the keys are sorted into input order; the lines are then
read from the file in that order, in batches. A run writes nearly in input order, so these reads are nearly sequential.
Composites are computed from an answer's other scores as its rows stream by.
"""

from __future__ import annotations

import io
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from evalflow.errors import command
from evalflow.lazy import np, pl
from evalflow.metrics.kinds.composite import CompositeMetricConfig, Part, combine
from evalflow.records import Direction, Outcome, ScoreRecord, Status, passes
from evalflow.stats.arrays import Ints
from evalflow.summary.journal import ABSENT, journal_row, journal_schema, torn_tail

if TYPE_CHECKING:
    Offsets = Ints


log = logging.getLogger("evalflow")

_BLOCK = 2 << 20
_NAMED = 5  # damaged lines to name in a warning
_NEEDED = ("dataset", "index", "case_id", "target", "metric", "status")
# A case is identified by its index in the dataset.
_CELL = ("dataset", "index", "target", "target_repeat", "metric", "judge", "repeat", "member_of")


@dataclass(frozen=True, slots=True)
class InputOrder:
    """The order of datasets and metrics: as composed, then others by name."""

    datasets: Sequence[str]
    metrics: Sequence[str]


@dataclass(frozen=True, slots=True)
class JournalReader:
    """A journal's complete lines: `size` bytes; `torn` unfinished last lines (0 or 1) are left out.

    Each row has the run's id, and the values of `journal.ABSENT` for what its line leaves out.

    A damaged line, or one with an impossible score, is left out; its cell counts as unfinished. Scores of the
    metrics in `bounded` lie in 0..1.
    """

    path: Path
    run_id: str
    size: int
    torn: int
    bounded: Collection[str] = ()

    def frame(self) -> pl.LazyFrame:
        """Every line in the order written; columns as in `journal_schema`. Streams."""
        return _source(lambda: (self.parse(block) for block, _ in self._blocks()))

    def parse(self, block: bytes) -> pl.DataFrame:
        """Parse a block of complete lines; damaged ones are left out."""
        return _parse(block).with_columns(self._complete()).filter(self._is_valid())

    def ordered(self, order: InputOrder, composites: Sequence[Composite] = ()) -> pl.LazyFrame:
        """Each cell once, in input order: dataset, index, target, target_repeat, metric, judge, repeat. Streams.

        A cell with two lines was repeated after an error; the last line counts. A panel's members follow
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
        read = 0
        for block, at in self._blocks():
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")).astype(np.int64) + at + 1
            rows = _parse(block).with_columns(self._complete())
            keys = rows.select(*_CELL, sound=self._is_valid()).cast({pl.String: pl.Categorical})
            keys = keys.with_columns(begin=pl.Series([at, *ends[:-1]], dtype=pl.Int64), end=pl.Series(ends))
            damaged += (keys.with_row_index("line", read + 1).filter(~pl.col("sound")))["line"].to_list()
            read += keys.height
            parts.append(keys.filter("sound").drop("sound"))
        if damaged:
            lines = ", ".join(map(str, damaged[:_NAMED])) + (", ..." if len(damaged) > _NAMED else "")
            what = "%s: %d damaged lines are ignored (%s); to compute the missing results again: %s"
            again = command("resume", self.path.parent)
            log.warning(what, self.path, len(damaged), lines, again)
        if not parts:
            return np.empty((0, 2), dtype=np.int64)
        ordered = pl.concat(parts).sort(_ranks(order), maintain_order=True)
        repeated = pl.all_horizontal(pl.col(key).eq_missing(pl.col(key).shift(-1)) for key in _CELL)
        last = pl.int_range(pl.len()) == pl.len() - 1
        return ordered.filter(last | ~repeated).select("begin", "end").to_numpy()

    def _is_valid(self) -> pl.Expr:
        """Whether a line is complete and its score is possible for its state and metric."""
        score, scored, bill = pl.col("score"), pl.col("status") == "scored", pl.col("bill").struct
        possible = pl.when(scored).then(score.is_finite().fill_null(value=False)).otherwise(score.is_null())
        inside = ~pl.col("metric").is_in(list(self.bounded)) | score.is_null() | score.is_between(0, 1)
        billed = [bill.field(name).is_not_null() for name in ("requests", "reasks", "remembered", "paid")]
        whole = pl.all_horizontal(*(pl.col(name).is_not_null() for name in _NEEDED), *billed)
        known = pl.col("status").is_in(get_args(Status))
        return (whole & known & possible & inside).fill_null(value=False)

    def _complete(self) -> list[pl.Expr]:
        schema = journal_schema()
        absent = [pl.col(name).fill_null(pl.lit(value, schema[name])) for name, value in ABSENT.items()]
        return [pl.lit(self.run_id).alias("run_id"), *absent]

    def _fetch(self, spans: Offsets) -> Iterator[pl.DataFrame]:
        if not len(spans):
            return
        batch = np.cumsum(spans[:, 1] - spans[:, 0]) // _BLOCK
        bounds = [0, *(np.flatnonzero(np.diff(batch)) + 1).tolist(), len(spans)]
        with self.path.open("rb", buffering=0) as file:
            for first, last in pairwise(bounds):
                yield _parse(b"".join(_read(file, spans[first:last]))).with_columns(self._complete())


def scan_journal(path: Path, run_id: str, bounded: Collection[str] = ()) -> JournalReader:
    """Open the journal of this run, without a torn last line; a missing file is an empty one."""
    size = path.stat().st_size if path.exists() else 0
    torn = torn_tail(path) if size else 0
    return JournalReader(path, run_id, size - torn, int(torn > 0), bounded)


def rank(column: str, names: Sequence[str]) -> pl.Expr:
    """The position of a column's value in `names`; other values come after."""
    places = {name: place for place, name in enumerate(names)}
    text = pl.col(column).cast(pl.String)
    return text.replace_strict(places, default=len(places), return_dtype=pl.Int64) if places else pl.lit(0)


def _ranks(order: InputOrder) -> list[pl.Expr]:
    names = {name: pl.col(name).cast(pl.String) for name in ("dataset", "target", "metric", "judge")}
    return [
        rank("dataset", order.datasets),
        names["dataset"],
        pl.col("index"),
        names["target"],
        pl.col("target_repeat"),
        rank("metric", order.metrics),
        names["metric"],
        pl.col("member_of").is_not_null(),
        names["judge"],
        pl.col("repeat"),
    ]


def _read(file: io.FileIO, spans: Offsets) -> Iterator[bytes]:
    """The lines' bytes; adjacent lines are read together."""
    gaps = np.flatnonzero(spans[1:, 0] != spans[:-1, 1]) + 1
    for first, last in pairwise([0, *gaps.tolist(), len(spans)]):
        begin, end = int(spans[first, 0]), int(spans[last - 1, 1])
        file.seek(begin)
        yield file.read(end - begin)


def _parse(block: bytes) -> pl.DataFrame:
    """One row for each line; all columns are null if it cannot be read."""
    table = _read_lines(block)
    if table is None or table.height != block.count(b"\n"):
        lines = (line + b"\n" for line in block.split(b"\n")[:-1])
        table = _read_lines(b"".join(line if _is_one(line) else b"{}\n" for line in lines))
    assert table is not None
    return table


def _is_one(line: bytes) -> bool:
    table = _read_lines(line)
    return table is not None and table.height == 1


def _read_lines(block: bytes) -> pl.DataFrame | None:
    try:
        return pl.read_ndjson(block, schema=journal_schema())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None


def _source(batches: Any) -> pl.LazyFrame:
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


_ANSWER_KEY = ("dataset", "index", "target", "target_repeat")
_ANSWER_COLUMNS = (*_ANSWER_KEY, "run_id", "case_id", "group", "tags", "finish_reason", "extracted", "finished_at")
_PART_COLUMNS = ("status", "score", "reason", "error_type", "error", "remedy")
_Scores = Mapping[str, Mapping[int, tuple[Any, ...]]]
"""An answer's scores: by metric and judge's repeat, the values of `_PART_COLUMNS`."""


@dataclass(frozen=True, slots=True)
class Source:
    """A part of a composite, with its threshold. Without a judge its single score counts in every repeat.

    `title` names it in the reasons of the composite; empty: its name does.
    """

    asks: bool
    direction: Direction
    limit: float | None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Composite:
    """A metric computed from others: the judge of its parts, the rule that combines them, and its parts by name."""

    name: str
    judge: str | None
    config: CompositeMetricConfig
    sources: Mapping[str, Source]


def with_composites(batches: Iterable[pl.DataFrame], composites: Sequence[Composite]) -> Iterator[pl.DataFrame]:
    """Add the composites' rows after an answer's other rows: one for each judge's repeat that has all parts."""
    for rows in whole_answers(batches, _ANSWER_KEY):
        yield _completed(rows, composites)


def whole_answers(batches: Iterable[pl.DataFrame], key: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The same rows in batches that divide no answer; the rows of an answer have the same `key`, and are adjacent."""
    unfinished: pl.DataFrame | None = None
    for batch in batches:
        rows = batch if unfinished is None else pl.concat([unfinished, batch])
        last = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).last()) for name in key)
        unfinished = rows.filter(last)
        yield rows.filter(~last)
    if unfinished is not None:
        yield unfinished


def _completed(rows: pl.DataFrame, composites: Sequence[Composite]) -> pl.DataFrame:
    numbered = rows.with_row_index("place").with_columns(pl.col("place").first().over(_ANSWER_KEY))
    firsts = numbered.unique("place", keep="first").select("place", *_ANSWER_COLUMNS).rows_by_key("place", named=True)
    made = [
        {"place": place, **journal_row(_record(composite, repeat, outcome, firsts[place][0]))}
        for place, scores in _answers(numbered)
        for composite in composites
        for repeat, outcome in _outcomes(composite, scores)
    ]
    added = pl.DataFrame(made, schema=numbered.schema)
    return pl.concat([numbered, added]).sort("place", maintain_order=True).drop("place")


def _answers(rows: pl.DataFrame) -> Iterator[tuple[int, _Scores]]:
    own = rows.filter(pl.col("member_of").is_null())
    by_place: defaultdict[int, defaultdict[str, dict[int, tuple[Any, ...]]]] = defaultdict(lambda: defaultdict(dict))
    for place, metric, repeat, *values in own.select("place", "metric", "repeat", *_PART_COLUMNS).iter_rows():
        by_place[place][metric][repeat] = tuple(values)
    yield from by_place.items()


def _outcomes(composite: Composite, scores: _Scores) -> Iterator[tuple[int, Outcome]]:
    """The composite's outcome in each repeat in which all of its parts have one."""
    sources = composite.sources
    if not all(name in scores for name in sources):
        return
    repeats = sorted({repeat for name in sources for repeat in scores[name]})
    for repeat in repeats:
        at = {name: repeat if source.asks else 0 for name, source in sources.items()}
        if all(at[name] in scores[name] for name in sources):
            parts = {name: _part(composite, name, scores[name][at[name]]) for name in sources}
            yield repeat, combine(composite.config, parts)


def _part(composite: Composite, name: str, values: tuple[Any, ...]) -> Part:
    part = dict(zip(_PART_COLUMNS, values, strict=True))
    source = composite.sources[name]
    passed = None
    if part["score"] is not None and source.limit is not None:
        higher = source.direction == "higher_is_better"
        passed = bool(passes(part["score"], source.limit, higher_is_better=higher))
    inverted = source.direction != composite.config.direction
    return Part(**part, passed=passed, inverted=inverted, title=source.title)


def _record(composite: Composite, repeat: int, outcome: Outcome, first: Mapping[str, Any]) -> ScoreRecord:
    """The composite's score of an answer; `first` is the answer's first row.

    A composite makes no calls, so it costs 0.
    """
    about: dict[str, Any] = {**first, "tags": tuple(first["tags"] or ())}
    return ScoreRecord(
        **about,
        metric=composite.name,
        metric_version=composite.config.version,
        judge=composite.judge,
        repeat=repeat,
        status=outcome.status,
        score=outcome.score,
        value=outcome.value,
        reason=outcome.reason,
        steps=outcome.steps,
        error_type=outcome.error_type,
        error=outcome.error,
        remedy=outcome.remedy,
        path=outcome.path,
        input_tokens=0,
        output_tokens=0,
        cost_usd=0.0,
    )
