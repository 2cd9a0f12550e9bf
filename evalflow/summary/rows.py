"""Types of results: rows of the summary, and entries of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from typing_extensions import TypedDict

from evalflow.lazy import pl

Detail: TypeAlias = Mapping[str, Any]
"""A result that is not a single number: an entry of `details` in summary.json, or of a list in one."""


class JudgedGate(TypedDict):
    """The judge's own result of a gate whose value people's labels correct."""

    value: float | None
    ci_low: float | None
    ci_high: float | None
    passed: bool | None


class GateOutcome(TypedDict):
    """A gate's outcome for one dataset, target and judge; an entry of gates.json.

    Attributes:
        metric, statistic, condition, limit, name, looks: The gate: `metric` may be `NAME@TAG`; `name` is all of it.
        value, ci_low, ci_high: The estimate and its 95 % interval; None if there is none.
        dataset, of_metric: The value's dataset and metric; None if the gate found no row.
        passed: None if undecided.
        cases_needed: The number of cases or labels that would decide at the same estimate.
        method: How the interval was computed.
        n_labels, judged: The labelled answers that correct the value, and the judge's own result.
        basis, of, note, message, in_spite: The outcome in words, as in `report.gate_sentences.GateSentence`.
    """

    metric: str
    statistic: str
    condition: str
    limit: float
    name: str
    looks: str | int | None
    value: float | None
    ci_low: float | None
    ci_high: float | None
    dataset: str | None
    passed: bool | None
    cases_needed: int | None
    method: str | None
    n_labels: int | None
    judged: JudgedGate | None
    of_metric: str | None
    basis: str
    of: str
    note: str
    message: str
    in_spite: str


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row of the summary: a statistic of a metric, by dataset, target, judge and tag.

    The fields, but `run`, are the columns of summary.parquet. Those from `raw_value` to `uncorrected` are from
    `summary.finding`, and None without labels; the last ones are from `summary.details.repeat_rates`, and None without
    repeats. `tag` is None for all cases, `judge` for a metric without one. `run` is the name of the run in a sweep.
    """

    dataset: str
    target: str
    metric: str
    statistic: str
    judge: str | None
    tag: str | None
    n: int
    n_scored: int
    n_undefined: int
    n_error: int
    n_skipped: int
    value: float | None = None
    std: float | None = None
    std_error: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    ci_method: str | None = None
    bound_low: float | None = None
    bound_high: float | None = None
    median: float | None = None
    lowest: float | None = None
    pass_rate: float | None = None
    pass_rate_low: float | None = None
    pass_rate_high: float | None = None
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_p50: float | None = None
    latency_p95: float | None = None
    n_cut_off: int = 0
    raw_value: float | None = None
    raw_low: float | None = None
    raw_high: float | None = None
    raw_method: str | None = None
    raw_pass_rate: float | None = None
    raw_pass_rate_low: float | None = None
    raw_pass_rate_high: float | None = None
    n_labels: int | None = None
    n_missing_labels: int | None = None
    uncorrected: str | None = None
    repeats: int | None = None
    pass_hat_k: float | None = None
    pass_hat_k_low: float | None = None
    pass_hat_k_high: float | None = None
    repeat_pass_share: float | None = None
    repeat_pass_share_low: float | None = None
    repeat_pass_share_high: float | None = None
    run: str = ""

    @property
    def series(self) -> tuple[str, str, str, str | None]:
        """The row's dataset, target, metric and judge."""
        return self.dataset, self.target, self.metric, self.judge

    @property
    def has_pass_rate(self) -> bool:
        """Whether the row has a metric's pass rate, beside its mean."""
        return self.statistic == "mean" and self.pass_rate is not None

    @property
    def states(self) -> dict[str, int]:
        """The number of scores in each state."""
        counts = (self.n_scored, self.n_undefined, self.n_error, self.n_skipped)
        return dict(zip(("scored", "undefined", "error", "skipped"), counts, strict=True))


@cache
def summary_schema() -> pl.Schema:
    """Columns of summary.parquet, in order."""
    types = {"str": pl.String, "int": pl.Int64, "float": pl.Float64}
    named = {field.name: types[str(field.type).removesuffix(" | None")] for field in fields(SummaryRow)}
    return pl.Schema({name: dtype for name, dtype in named.items() if name != "run"})


def rows_of(summary: pl.DataFrame) -> list[SummaryRow]:
    """The rows of a summary, of one run or of a sweep."""
    columns = [*summary_schema(), *(["run"] if "run" in summary.columns else [])]
    return [SummaryRow(*row) for row in summary.select(columns).iter_rows()]


def frame_of(rows: Sequence[SummaryRow]) -> pl.DataFrame:
    """The rows as the summary of a run."""
    schema = summary_schema()
    return pl.DataFrame([*map(attrgetter(*schema), rows)], schema=schema, orient="row")


class OfSeries(Protocol):
    """Rows of one dataset, target and judge, in the summary and in a calibration."""

    @property
    def dataset(self) -> str | None: ...
    @property
    def target(self) -> str | None: ...
    @property
    def judge(self) -> str | None: ...


class DetailSeries(NamedTuple):
    """The dataset, target and judge of a detail; implements OfSeries."""

    dataset: str | None
    target: str | None
    judge: str | None

    @classmethod
    def of(cls, detail: Detail) -> DetailSeries:
        return cls(*(detail.get(part) for part in cls._fields))
