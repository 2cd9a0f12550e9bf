"""What a metric sees: how its scores follow faults put into good answers, and changes that should not matter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evalflow.datasets.perturbations import ABOUT, CHANGES
from evalflow.lazy import pl
from evalflow.stats.intervals import interval
from evalflow.summary.slices import case_clusters

Finding = Literal["seen", "not seen", "kept", "not kept", "cannot tell"]
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Rate:
    """A share or a mean over cases, with its 95 % interval; all None without a case."""

    n: int
    value: float | None
    low: float | None
    high: float | None
    method: str


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """The scores of answers with one change against those of the answers as they are.

    Attributes:
        change: Its name; `all faults` and `all other changes` for the rows of the sums.
        fault: Whether it must worsen the score; a change that is none must leave it as it is.
        as_expected: The share of the cases whose score did so, by at least `Proof.by`.
        shift: The mean change of the score, positive where it became better.
        finding: Whether that is so for more than half of the cases, or for less, with 95 % confidence.
        unscored: Changed answers without a score, left out.
        flips: Of a metric with a threshold, the share that passes only without the change, or only with it.
    """

    change: str
    fault: bool
    as_expected: Rate
    shift: Rate
    finding: Finding
    unscored: int
    flips: Rate | None


@dataclass(frozen=True, slots=True)
class Proof:
    """What a judge sees in answers by a metric.

    Attributes:
        by: How far a score must move to count as another.
        accepted: The share of good answers that pass; None without a threshold. Faults are counted in these alone.
        same: Over pairs of repeats of the judge on one answer, the share that are less than `by` apart; None without.
    """

    metric: str
    judge: str | None
    dataset: str
    by: float
    accepted: Rate | None
    same: Rate | None
    rows: Sequence[ChangeRow]

    def document(self) -> dict[str, Any]:
        return asdict(self)

    def findings(self) -> dict[str, list[str]]:
        """The changes, by what was found of them."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            if row.change in ABOUT:
                found.setdefault(row.finding, []).append(row.change)
        return found


def proof_of(
    scores: pl.DataFrame,
    metric: str,
    *,
    faults: Collection[str],
    higher_is_better: bool,
    by: float,
    limits: tuple[float, float] | None = (0.0, 1.0),
) -> Proof:
    """Compare the scores of changed answers with those of the answers as they are.

    `scores` are those of a run over `perturbed` cases; `limits` the ends of the metric's scale, None without. A fault
    is counted where the good answer passes (or, without a threshold, where its score can still fall by `by`).
    """
    cells = scores.filter((pl.col("metric") == metric) & pl.col("member_of").is_null())
    change = pl.col("tags").list.first()
    base = pl.col("case_id").str.strip_suffix(pl.concat_str(pl.lit("~"), change))
    cells = cells.with_columns(change=change, base=base, cluster=pl.col("group"))
    sign = 1.0 if higher_is_better else -1.0
    answers = cells.group_by("base", "change", "cluster", maintain_order=True).agg(
        score=pl.when((pl.col("status") == "scored").all()).then(pl.col("score").mean()) * sign,
        passed=pl.when(pl.col("passed").is_not_null().all()).then(pl.col("passed").mean() > _HALF),
    )
    good = answers.filter(~pl.col("change").is_in(CHANGES))
    pairs = answers.filter(pl.col("change").is_in(CHANGES)).join(
        good.select("base", before="score", passed_before="passed"), on="base", maintain_order="left"
    )
    has_threshold = cells["threshold"].is_not_null().any()
    worst = None if limits is None else min(limit * sign for limit in limits)
    if has_threshold:
        usable = pl.col("passed_before")
    else:
        usable = pl.lit(value=True) if worst is None else pl.col("before") - worst >= by
    pairs = pairs.with_columns(
        moved=pl.col("score") - pl.col("before"), usable=usable.fill_null(value=False),
        flipped=(pl.col("passed") != pl.col("passed_before")).cast(pl.Float64),
    )  # fmt: skip
    rows: list[ChangeRow] = []
    for is_fault, heading in ((True, "all faults"), (False, "all other changes")):
        own = [name for name in CHANGES if (name in faults) == is_fault]
        parts = {heading: own, **{name: [name] for name in own}}
        for name, changes in parts.items():
            part = pairs.filter(pl.col("change").is_in(changes))
            if part.height:
                rows.append(_row(name, part, fault=is_fault, by=by, has_threshold=has_threshold))
    first = cells.row(0, named=True)
    accepted = _rate(good.filter(pl.col("passed").is_not_null()), pl.col("passed").cast(pl.Float64), bounded=True)
    return Proof(
        metric, first["judge"], first["dataset"], by, accepted if has_threshold else None, _same(cells, by), rows
    )


def _row(name: str, pairs: pl.DataFrame, *, fault: bool, by: float, has_threshold: bool) -> ChangeRow:
    considered = pairs.filter(pl.col("usable") & pl.col("before").is_not_null()) if fault else pairs
    scored = considered.filter(pl.col("moved").is_not_null())
    close = by - 1e-9
    held = (pl.col("moved") <= -close) if fault else (pl.col("moved").abs() < close)
    rate = _rate(scored, held.cast(pl.Float64), bounded=True)
    yes, no = ("seen", "not seen") if fault else ("kept", "not kept")
    finding: Finding = "cannot tell"
    if rate.low is not None and rate.low > _HALF:
        finding = yes
    elif rate.high is not None and rate.high < _HALF:
        finding = no
    flips = _rate(scored.filter(pl.col("flipped").is_not_null()), pl.col("flipped"), bounded=True)
    return ChangeRow(
        name, fault, rate, _rate(scored, pl.col("moved"), bounded=False), finding, considered.height - scored.height,
        flips if has_threshold else None,
    )  # fmt: skip


def _rate(frame: pl.DataFrame, value: pl.Expr, *, bounded: bool) -> Rate:
    values = frame.select(value.alias("value"))["value"].to_numpy()
    if not values.size:
        return Rate(0, None, None, None, "none: no case")
    found = interval(values, case_clusters(frame), bounded=bounded)
    return Rate(int(values.size), float(values.mean()), found.low, found.high, found.method)


def _same(cells: pl.DataFrame, by: float) -> Rate | None:
    """How often two repeats of the judge on one answer agree, over all pairs of an answer."""
    scored = cells.filter(pl.col("status") == "scored").select("case_id", "cluster", "repeat", "score")
    pairs = scored.join(scored, on="case_id", suffix="_other").filter(pl.col("repeat") < pl.col("repeat_other"))
    if not pairs.height:
        return None
    close = ((pl.col("score") - pl.col("score_other")).abs() < by - 1e-9).cast(pl.Float64)
    answers = pairs.group_by("case_id", "cluster", maintain_order=True).agg(value=close.mean())
    return _rate(answers, pl.col("value"), bounded=True)
