"""The cases of several runs: how hard they are, whether they separate runs, and a short set with the same ranking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from evalflow.lazy import pl
from evalflow.stats.arrays import Floats
from evalflow.stats.items import FEWEST_TO_MEASURE, Loss, choose, items, measured_loss
from evalflow.summary.agreement import labelled_scores
from evalflow.summary.ranking import CommonCases
from evalflow.summary.verdicts import ItemKind, of_items, reversed_by_chance, side_of

_HALF = 0.5


@dataclass(frozen=True, slots=True)
class RankedItem:
    """A case of several runs; see `ItemTable`."""

    case_id: str
    kind: ItemKind
    mean: float
    spread: float
    discrimination: float | None
    ci_low: float | None
    ci_high: float | None
    p_adjusted: float | None
    labelled: int | None
    contradicted: int | None


@dataclass(frozen=True, slots=True)
class ItemTable:
    """The cases of one dataset and metric over several runs.

    `rows` has each case's mean, spread (standard deviation over the runs), and discrimination with interval and
    p-value, null for fewer runs than FEWEST_SYSTEMS; labelled (answers that people labelled) and contradicted (those
    whose score and label are half the scale or more apart; null for scores without fixed ends).
    """

    dataset: str
    metric: str
    runs: int
    rows: pl.DataFrame

    def document(self) -> dict[str, object]:
        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "runs": self.runs,
            "n": self.rows.height,
            "counts": self.counts,
            "cases": self.rows.to_dicts(),
        }

    @property
    def counts(self) -> dict[ItemKind, int]:
        """The number of cases of each kind."""
        return {row[0]: row[1] for row in self.rows["kind"].value_counts(sort=True).iter_rows()}

    def of(self, *kinds: ItemKind) -> list[RankedItem]:
        """The cases of some kinds; first those that better runs fail."""
        selected = self.rows.filter(pl.col("kind").is_in(list(kinds)))
        ordered = selected.sort("discrimination", nulls_last=True, maintain_order=True)
        return [RankedItem(*row) for row in ordered.iter_rows()]

    @property
    def contradicted(self) -> list[RankedItem]:
        """The cases with answers whose score contradicts people's label, most contradictions first."""
        selected = self.rows.filter(pl.col("contradicted").fill_null(0) > 0)
        ordered = selected.sort("contradicted", descending=True, maintain_order=True)
        return [RankedItem(*row) for row in ordered.iter_rows()]

    @property
    def by_chance(self) -> float:
        """How many cases would be `reversed` by chance if no case separated better runs from worse ones."""
        return reversed_by_chance(self.rows["discrimination"].count())


def item_table(
    common: CommonCases,
    runs: Mapping[str, pl.LazyFrame],
    labels: Mapping[str, pl.DataFrame],
    *,
    higher_is_better: bool,
    bounded: bool,
) -> ItemTable:
    """The items of the common cases; `labels` are people's of each run's answers, as in `label_frame`."""
    item_stats = items(common.scores if higher_is_better else -common.scores)
    systems = len(common.names)
    table = common.cases.select("case_id").with_columns(
        kind=pl.Series(of_items(item_stats, common.passed)),
        mean=pl.Series(common.scores.mean(axis=1)),
        spread=pl.Series(item_stats.spread),
        discrimination=_series(item_stats.discrimination),
        ci_low=_series(item_stats.low),
        ci_high=_series(item_stats.high),
        p_adjusted=_series(item_stats.p_adjusted),
    )
    parts = [_labelled(common, runs[name], labels[name]) for name in common.names if name in labels] if bounded else []
    none = pl.lit(None, pl.Int64)
    if parts:
        people = pl.concat(parts).group_by("case_id").agg(pl.len().alias("labelled"), pl.col("apart").sum())
        table = table.join(people.rename({"apart": "contradicted"}), on="case_id", how="left", maintain_order="left")
    else:
        table = table.with_columns(labelled=none, contradicted=none)
    return ItemTable(common.dataset, common.metric, systems, table)


def _series(values: Floats) -> pl.Series:
    return pl.Series(values).fill_nan(None)


def _labelled(common: CommonCases, scores: pl.LazyFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """The labelled answers of a run: case_id, and whether score and label are at least half the scale apart.

    A tie of people between the ends contradicts no score.
    """
    of_metric = {"dataset": common.dataset, "metric": common.metric}
    answers = labelled_scores(scores.filter(**of_metric), labels.filter(**of_metric)).drop_nulls("human")
    distance = (pl.col("score") - pl.col("human")).abs()
    return answers.select("case_id", apart=(distance > _HALF) | ((distance == _HALF) & (pl.col("people") == 1)))


@dataclass(frozen=True, slots=True)
class ShortSet:
    """A selection of the `of` common cases of several runs; `loss` is None with too few runs to measure it."""

    dataset: str
    metric: str
    runs: int
    ids: Sequence[str]
    of: int
    loss: Loss | None

    @property
    def is_better(self) -> bool:
        """Whether the set is shown to be better than a random one."""
        return self.loss is not None and side_of(0, self.loss.low, self.loss.high) > 0

    def document(self) -> dict[str, object]:
        loss: dict[str, object] | None = None
        if self.loss is not None:
            known = {name: None if math.isnan(value) else value for name, value in asdict(self.loss).items()}
            loss = {**known, "is_better_than_random": self.is_better}
        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "n": len(self.ids),
            "of": self.of,
            "ids": list(self.ids),
            "loss": loss,
        }


def short_set(common: CommonCases, n: int, *, seed: int) -> ShortSet:
    """Choose n of the common cases by tag and difficulty, and measure the loss; ValueError with fewer than n cases."""
    tags = common.cases["tags"].list.join(";").fill_null("").to_numpy()
    places = choose(common.scores, n, tags, seed=seed)
    enough = len(common.names) >= FEWEST_TO_MEASURE
    loss = measured_loss(common.scores, n, tags, seed=seed) if enough else None
    ids: list[str] = common.cases["case_id"].gather(places).to_list()
    return ShortSet(common.dataset, common.metric, len(common.names), ids, common.cases.height, loss)
