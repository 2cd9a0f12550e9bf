"""The cases of several runs: how hard each is, whether it separates them; and a short set that keeps their ranking."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from evalflow.lazy import np, pl
from evalflow.stats.arrays import Floats
from evalflow.stats.items import FEWEST_SYSTEMS, FEWEST_TO_MEASURE, Loss, choose, items, measured_loss
from evalflow.summary.agreement import labelled_scores
from evalflow.summary.ranking import CommonCases
from evalflow.summary.verdicts import LEVEL

Kind = Literal["key_suspect", "reversed", "separates", "all_pass", "all_fail", "alike"]
_KINDS: Mapping[Kind, str] = {
    "all_pass": "pass in all of them",
    "all_fail": "fail in all of them",
    "alike": "have the same score in all of them",
}
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class ItemTable:
    """The cases of one dataset and metric over several runs.

    `rows` has each case's mean, spread (standard deviation over the runs), and discrimination with interval and
    p-value, null where `why_not` says so; labelled (answers that people labelled) and contradicted (those whose score
    and label are half the scale or more apart; null for scores without fixed ends).
    """

    dataset: str
    metric: str
    runs: int
    rows: pl.DataFrame
    why_not: str

    @property
    def sentences(self) -> Iterator[str]:
        """What the table says, and how much of it could be chance."""
        counts = self.counts
        cases = self.rows.height
        same = [f"{counts[kind]:,} {_KINDS[kind]}" for kind in ("all_pass", "all_fail", "alike") if kind in counts]
        apart = cases - sum(counts.get(kind, 0) for kind in ("all_pass", "all_fail", "alike"))
        yield f"{apart:,} of {cases:,} cases separate the {self.runs} runs" + (f"; {', '.join(same)}." if same else ".")
        if self.why_not:
            yield f"{self.why_not[0].upper()}{self.why_not[1:]}."
            return
        suspects = counts.get("key_suspect", 0)
        turned = counts.get("reversed", 0) + suspects
        some = f"{turned:,} case{'' if turned == 1 else 's'}"
        yield f"Better runs score worse on {some}; by chance alone it could be {self.by_chance:.1f}."
        yield f"Beyond chance, adjusted for the number of cases, a wrong key is suspected in {suspects:,}."
        if labelled := int(self.rows["labelled"].fill_null(0).sum()):
            wrong = int(self.rows["contradicted"].fill_null(0).sum())
            yield f"Scores of {wrong:,} of {labelled:,} labelled answers contradict people's labels."

    def document(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "runs": self.runs,
            "n": self.rows.height,
            "counts": self.counts,
            "sentences": list(self.sentences),
            "cases": self.rows.to_dicts(),
        }

    @property
    def counts(self) -> dict[Kind, int]:
        return {row[0]: row[1] for row in self.rows["kind"].value_counts(sort=True).iter_rows()}

    def of(self, *kinds: Kind) -> list[dict[str, Any]]:
        """The cases of some kinds, those that better runs fail first."""
        found = self.rows.filter(pl.col("kind").is_in(list(kinds)))
        return found.sort("discrimination", nulls_last=True, maintain_order=True).to_dicts()

    @property
    def contradicted(self) -> list[dict[str, Any]]:
        """The cases with answers whose score contradicts people's label, those with the most first."""
        found = self.rows.filter(pl.col("contradicted").fill_null(0) > 0)
        return found.sort("contradicted", descending=True, maintain_order=True).to_dicts()

    @property
    def by_chance(self) -> float:
        """How many cases would be `reversed` by chance, if no case told better runs from worse."""
        return self.rows["discrimination"].count() * LEVEL / 2


def item_table(
    common: CommonCases,
    runs: Mapping[str, pl.LazyFrame],
    labels: Mapping[str, pl.DataFrame],
    *,
    higher_is_better: bool,
    bounded: bool,
) -> ItemTable:
    """The items of the common cases; `labels` are people's of each run's answers, as of `label_frame`."""
    found = items(common.scores if higher_is_better else -common.scores)
    systems = len(common.names)
    why_not = ""
    if systems < FEWEST_SYSTEMS:
        why_not = f"no discrimination: it needs {FEWEST_SYSTEMS} runs or more, and these are {systems}"
    table = common.cases.select("case_id").with_columns(
        kind=pl.Series(_kinds(common, found.spread, found.high, found.p_adjusted)),
        mean=pl.Series(common.scores.mean(axis=1)),
        spread=pl.Series(found.spread),
        discrimination=_series(found.discrimination),
        ci_low=_series(found.low),
        ci_high=_series(found.high),
        p_adjusted=_series(found.p_adjusted),
    )
    parts = [_labelled(common, runs[name], labels[name]) for name in common.names if name in labels] if bounded else []
    none = pl.lit(None, pl.Int64)
    if parts:
        people = pl.concat(parts).group_by("case_id").agg(pl.len().alias("labelled"), pl.col("apart").sum())
        table = table.join(people.rename({"apart": "contradicted"}), on="case_id", how="left", maintain_order="left")
    else:
        table = table.with_columns(labelled=none, contradicted=none)
    return ItemTable(common.dataset, common.metric, systems, table, why_not)


def _series(values: Floats) -> pl.Series:
    return pl.Series(values).fill_nan(None)


def _kinds(common: CommonCases, spread: Floats, high: Floats, p: Floats) -> Sequence[Kind]:
    constant = spread == 0
    passed = common.passed
    all_pass, all_fail = (constant & (False if passed is None else (passed == end).all(axis=1)) for end in (1, 0))
    kinds = np.select(
        [all_pass, all_fail, constant, p < LEVEL, high < 0],
        ["all_pass", "all_fail", "alike", "key_suspect", "reversed"],
        "separates",
    )
    return kinds.tolist()


def _labelled(common: CommonCases, scores: pl.LazyFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """The labelled answers of a run: case_id, and whether score and label are half the scale or more apart.

    People who are tied between the ends contradict no score.
    """
    of_metric = {"dataset": common.dataset, "metric": common.metric}
    found = labelled_scores(scores.filter(**of_metric), labels.filter(**of_metric)).drop_nulls("human")
    distance = (pl.col("score") - pl.col("human")).abs()
    return found.select("case_id", apart=(distance > _HALF) | ((distance == _HALF) & (pl.col("people") == 1)))


@dataclass(frozen=True, slots=True)
class ShortSet:
    """Some of the `of` common cases of several runs; `loss` is None for fewer runs than it takes to measure that."""

    dataset: str
    metric: str
    runs: int
    ids: Sequence[str]
    of: int
    loss: Loss | None

    @property
    def sentence(self) -> str:
        found, n = self.loss, len(self.ids)
        if found is None:
            return (
                f"What it loses is not known: that takes {FEWEST_TO_MEASURE} runs or more, and these are {self.runs}."
            )
        order = (
            ""
            if math.isnan(found.order)
            else (
                f"; {100 * found.order:.0f} % of the pairs of runs stand in the same order (random: "
                f"{100 * found.random_order:.0f} %)"
            )
        )
        less = f"{found.gain:.4f} less ({found.low:.4f} to {found.high:.4f})"
        verdict = "" if found.is_better else f" It is not shown to be better than a random set of {n:,} cases."
        off = f"a mean is off by {found.error:.4f}, and by {found.random_error:.4f} with a random set"
        return f"On runs that had no part in the choice, {off}: {less}{order}.{verdict}"

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] | None = None
        if self.loss is not None:
            known = {name: None if math.isnan(value) else value for name, value in asdict(self.loss).items()}
            found = known | {"is_better_than_random": self.loss.is_better}
        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "n": len(self.ids),
            "of": self.of,
            "ids": list(self.ids),
            "loss": found,
            "sentence": self.sentence,
        }


def short_set(common: CommonCases, n: int, *, seed: int) -> ShortSet:
    """Choose n of the common cases, by tag and difficulty, and measure what that loses; ValueError without n cases."""
    tags = common.cases["tags"].list.join(";").fill_null("").to_numpy()
    places = choose(common.scores, n, tags, seed=seed)
    enough = len(common.names) >= FEWEST_TO_MEASURE
    loss = measured_loss(common.scores, n, tags, seed=seed) if enough else None
    ids: list[str] = common.cases["case_id"].gather(places).to_list()
    return ShortSet(common.dataset, common.metric, len(common.names), ids, common.cases.height, loss)
