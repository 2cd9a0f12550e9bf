"""Compare two runs: the difference B minus A of each metric, and whether it is significant."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from evalflow.lazy import pl
from evalflow.records import CASES
from evalflow.stats.paired import Adjustment, Difference, adjust, adjust_in_order, paired_difference, within_margin
from evalflow.stats.power import detectable_difference
from evalflow.stats.unpaired import unpaired_difference
from evalflow.summary.changed import Attribution
from evalflow.summary.figure_differences import (
    LOWER_IS_BETTER,
    ClassifiedCases,
    figure_differences,
    read_values,
    same_as_mean,
)
from evalflow.summary.pairing import (
    KEY,
    NOBODY,
    SIDE,
    Pairing,
    People,
    Sides,
    Traits,
    by_case,
    slices,
    whole_cases,
    with_people,
)
from evalflow.summary.slices import cluster_name
from evalflow.summary.verdicts import Verdict, cases_to_decide, level_of_each, not_worse, of_difference, unseen_share

NOT_OF_FIGURES = "labels correct means and pass rates of a metric only"
"""Why labels do not correct another statistic."""
NONE_UNUSABLE: Mapping[tuple[str, str], str] = {}


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One difference of two runs, B minus A, on all cases or those of a tag; judge is `A → B` if they have two."""

    pair: tuple[str, str]
    dataset: str
    metric: str
    judge: str | None
    tag: str | None
    statistic: str
    higher_is_better: bool
    difference: Difference
    # also, also_tags: further statistics with the same value, and further tags of exactly these cases; not part of the
    # family.
    also: Sequence[str] = ()
    bounded: bool = True  # whether no difference can exceed 1
    # The judge's uncorrected difference, if `difference` is corrected by people's labels; else None.
    judged: Difference | None = None
    labelled: int = 0  # number of cases that people labelled in both runs; if apart, in the run with fewer
    uncorrected: str = ""  # why these labels do not correct `difference`; empty if they do, and if nothing differs
    also_tags: Sequence[str] = ()
    p_adjusted: float | None = None
    # The smallest true difference detectable with power 0.8 at the Bonferroni level of the family; None if its variance
    # is unknown, or no difference can be so large.
    detectable: float | None = None
    attribution: Attribution = "answers"  # what can explain the difference

    @property
    def called(self) -> str:
        """The statistic's usual name; empty for a plain mean."""
        return ("accuracy" if "accuracy" in self.also else "") if self.statistic == "mean" else self.statistic

    @property
    def has_pass_rate(self) -> bool:
        """Whether this is the difference of pass rates, perhaps because it equals that of means."""
        return "pass_rate" in (self.statistic, *self.also)

    @property
    def verdict(self) -> Verdict:
        of_answers = self.attribution == "answers"
        return of_difference(
            self.difference, self.p_adjusted, higher_is_better=self.higher_is_better, of_answers=of_answers
        )

    def document(self, margin: float | None = None) -> dict[str, object]:
        """The row as JSON; with a margin, also whether B is not worse than A by more than it."""
        comparison = self.difference
        row: dict[str, object] = {
            "run_a": self.pair[0],
            "run_b": self.pair[1],
            "dataset": self.dataset,
            "metric": self.metric,
            "statistic": self.statistic,
            "also": list(self.also),
            "judge": self.judge,
            "tag": self.tag,
            "also_tags": list(self.also_tags),
            "n": comparison.n,
            "clusters": comparison.clusters,
            "value_a": comparison.value_a,
            "value_b": comparison.value_b,
            "difference": comparison.difference,
            "std_error": comparison.std_error,
            "ci_low": comparison.low,
            "ci_high": comparison.high,
            "p_value": comparison.p_value,
            "p_adjusted": self.p_adjusted,
            "method": comparison.method,
            "detectable_difference": self.detectable,
            "verdict": self.verdict,
            "attribution": self.attribution,
            "n_labels": self.labelled,
            "uncorrected": self.uncorrected,
            "judged": None
            if self.judged is None
            else {
                "value_a": self.judged.value_a,
                "value_b": self.judged.value_b,
                "difference": self.judged.difference,
                "ci_low": self.judged.low,
                "ci_high": self.judged.high,
                "p_value": self.judged.p_value,
            },
        }
        return row if margin is None else row | self._against(margin)

    def not_worse(self, margin: float) -> bool | None:
        """Whether B is not worse by more than the margin; None if undecided, or if not only the answers may differ."""
        if self.attribution != "answers":
            return None
        return not_worse(self.difference, margin, higher_is_better=self.higher_is_better)

    def unseen_share(self, margin: float) -> float | None:
        """The share of cases that may drop unseen and so make B worse by the margin (`verdicts.unseen_share`)."""
        if self.attribution != "answers":
            return None
        return unseen_share(self.difference, margin, higher_is_better=self.higher_is_better)

    def cases_to_decide(self, margin: float) -> int | None:
        """The number of cases that would decide `not_worse`; None if decided, or if more cases cannot decide it."""
        if self.attribution != "answers" or self.judged is not None:
            return None
        return cases_to_decide(self.difference, margin, higher_is_better=self.higher_is_better)

    def _against(self, margin: float) -> dict[str, object]:
        tested = within_margin(self.difference, margin, higher_is_better=self.higher_is_better)
        return {
            "margin": margin,
            "not_worse": self.not_worse(margin),
            "cases_needed": self.cases_to_decide(margin),
            "unseen_share": self.unseen_share(margin),
            "p_not_inferior": tested and tested.p_not_inferior,
            "p_equivalent": tested and tested.p_equivalent,
        }


def compare_cases(
    pairing: Pairing,
    pair: tuple[str, str],
    metrics: Mapping[str, Traits],
    *,
    by_tag: bool = False,
    by_class: bool = False,
    seed: int = 0,
    unusable: Mapping[tuple[str, str], str] = NONE_UNUSABLE,
) -> list[ComparisonRow]:
    """The differences on the same cases, p-values not yet adjusted; also by tag, and of the figures of each class.

    `unusable` has the reasons why labels of a dataset and metric correct nothing.
    """
    design = _Comparing(pairing.sides, pair, metrics, by_tag, by_class, seed, paired=True, unusable=unusable)
    shared = [*KEY, "cluster", "tags"]
    rows: list[ComparisonRow] = []
    both = [pairing.cases, *([_whole_pairs(pairing.whole.cases, pairing)] if pairing.whole else [])]
    cases = pl.concat(both).with_columns(pl.col("cluster").rank("dense"))  # many times faster than names
    for (dataset, metric), part in cases.group_by("dataset", "metric", maintain_order=True):
        a, b = (part.select(*shared, *(pl.col(f"{name}_{side}").alias(name) for name in SIDE)) for side in "ab")
        rows += design.rows(str(dataset), str(metric), (a, b))
    return rows


def _whole_pairs(cases: pl.DataFrame, pairing: Pairing) -> pl.DataFrame:
    """The cases as wholes. They count as labelled if people labelled any metric."""
    key, people = ("dataset", "case_id"), ("human_a", "human_b")
    labelled = pairing.cases.group_by(key).agg(pl.col(people).max())
    return cases.drop(people).join(labelled, on=key, how="left", maintain_order="left").select(cases.columns)


def compare_samples(
    a: pl.LazyFrame,
    b: pl.LazyFrame,
    pair: tuple[str, str],
    metrics: Mapping[str, Traits],
    *,
    by_tag: bool = False,
    by_class: bool = False,
    seed: int = 0,
    people: People = NOBODY,
    unusable: Mapping[tuple[str, str], str] = NONE_UNUSABLE,
) -> tuple[list[ComparisonRow], int]:
    """The differences of two runs with different samples of cases, p-values not yet adjusted; and the cases in both.

    Datasets are matched by name; if each run has only one, these are compared. `unusable` is that of `compare_cases`.
    """
    design = _Comparing((a, b), pair, metrics, by_tag, by_class, seed, paired=False, unusable=unusable)
    left, right = (
        with_people(by_case(scores).collect(engine="streaming"), given)
        for scores, given in zip((a, b), people, strict=True)
    )
    if whole := whole_cases((a, b), metrics):
        left, right = (_followed_by(*one) for one in zip((left, right), whole.scores, strict=True))
    sides = left, right
    common = sides[0].select("dataset", "case_id").unique().join(sides[1], on=["dataset", "case_id"], how="semi").height
    case = pl.concat_str("dataset", pl.lit(":"), "case_id")
    rows: list[ComparisonRow] = []
    for names in _datasets(sides):
        own = tuple(
            side.filter(pl.col("dataset") == name)
            .drop_nulls("score")
            .sort("place")
            .with_columns(cluster=cluster_name(pl.col("group"), case))
            for side, name in zip(sides, names, strict=True)
        )
        for metric in own[0]["metric"].unique(maintain_order=True):
            left, right = (side.filter(pl.col("metric") == metric) for side in own)
            if left.height and right.height:
                rows += design.rows(" → ".join(dict.fromkeys(names)), metric, (left, right))
    return rows, common


def _followed_by(side: pl.DataFrame, whole: pl.LazyFrame) -> pl.DataFrame:
    rows = by_case(whole).with_columns(pl.col("place") + side["seen"].sum()).collect(engine="streaming")
    key = ("dataset", "case_id")
    unused = pl.lit(None, pl.Float64).alias("accepted"), pl.lit(None, pl.Boolean).alias("human_undefined")
    people = side.group_by(key).agg(pl.col("human").max(), *unused)
    return pl.concat([side, rows.join(people, on=key, how="left", maintain_order="left").select(side.columns)])


def _datasets(sides: Sides) -> list[tuple[str, str]]:
    a, b = (side["dataset"].unique(maintain_order=True).to_list() for side in sides)
    return [(a[0], b[0])] if len(a) == len(b) == 1 else [(name, name) for name in a if name in b]


def _uncorrected(row: ComparisonRow, labelled: int, unusable: str = "") -> ComparisonRow:
    """The row with its number of labels and, if there are any, why they do not correct it."""
    return replace(row, labelled=labelled, uncorrected=(unusable or NOT_OF_FIGURES) if labelled else "")


@dataclass(frozen=True, slots=True)
class _Comparing:
    """Compares two runs: on the same cases (paired), or as two samples."""

    scores: tuple[pl.LazyFrame, pl.LazyFrame]
    pair: tuple[str, str]
    metrics: Mapping[str, Traits]
    by_tag: bool
    by_class: bool
    seed: int
    paired: bool
    unusable: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])

    def rows(self, dataset: str, metric: str, sides: Sides) -> Iterator[ComparisonRow]:
        traits = self.metrics.get(metric, Traits())
        spec, values = traits.figures, None
        if spec and (self.by_class or not spec.per_label):
            values = read_values(self.scores, sides, spec, paired=self.paired)
        judges = (side["judge"][0] for side in sides)
        judge = " → ".join(dict.fromkeys(name for name in judges if name)) or None
        names = dataset.split(" → ")
        unusable = next((why for name in names if (why := self.unusable.get((name, metric)))), "")
        for tag, also_tags, own in slices(sides, by_tag=self.by_tag):
            make_row = partial(ComparisonRow, self.pair, dataset, metric, judge, tag, also_tags=also_tags)
            yield from self._differences(make_row, own, traits, values, unusable)

    def _differences(
        self,
        make_row: partial[ComparisonRow],
        sides: Sides,
        traits: Traits,
        values: ClassifiedCases | None,
        unusable: str,
    ) -> Iterator[ComparisonRow]:
        """The mean and pass rate (if both runs have one), corrected by labels; and figures that differ from the mean.

        The cases as wholes have only a pass rate.
        """
        if sides[0]["metric"][0] == CASES:
            difference = self._difference(sides, "passed", bounded=True)
            yield _uncorrected(make_row("pass_rate", True, difference), max(self._labelled(sides, "human")))
            return
        judged = self._judged(sides)
        same = [
            own.height == side.height
            and (side["passed"] == side["score"]).all()
            and side["human"].eq_missing(side["accepted"]).all()
            for side, own in zip(sides, judged, strict=True)
        ]
        mean = self._corrected(make_row, sides, ("score", "human"), unusable, bounded=traits.bounded)
        alone = mean.judged or mean.difference
        figures = list(figure_differences(values, sides, self.seed, by_class=self.by_class)) if values else []
        also = ["pass_rate"] if traits.higher_is_better and all(same) else []
        also += same_as_mean(traits.figures) if traits.figures else ()
        if self.paired and values and values.spec.kind == "retrieval":
            also += [name for name, difference in figures if _same(difference, alone)]
        yield replace(
            mean, statistic="mean", higher_is_better=traits.higher_is_better, also=also, bounded=traits.bounded
        )
        if "pass_rate" not in also and all(own.height for own in judged):
            yield self._corrected(make_row, judged, ("passed", "accepted"), unusable, bounded=True)
        for name, difference in figures:
            if name not in also:
                yield _uncorrected(make_row(name, name not in LOWER_IS_BETTER, difference), mean.labelled, unusable)

    def _labelled(self, sides: Sides, people: str) -> tuple[int, int]:
        """The number of cases labelled in both runs, and the number in the run with fewer labels."""
        known = [side[people].is_not_null() for side in sides]
        fewer = min(int(one.sum()) for one in known)
        return (int((known[0] & known[1]).sum()) if self.paired else 0), fewer

    def _without_label(self, sides: Sides, people: str) -> str:
        """Why labels of only one run correct nothing; "" if neither run has labels."""
        without = [name for name, side in zip(self.pair, sides, strict=True) if not side[people].count()]
        return f"no label is of {without[0]}" if len(without) == 1 else ""

    def _corrected(
        self, make_row: partial[ComparisonRow], sides: Sides, columns: tuple[str, str], unusable: str, *, bounded: bool
    ) -> ComparisonRow:
        """The difference of means or pass rates, corrected by labels if they may correct it, else with the reason.

        Uses the cases labelled in both runs, or each run's own labels (`labelled_together`).
        """
        score, people = columns
        alone = self._difference(sides, score, bounded=bounded)
        both, fewer = self._labelled(sides, people)
        row = make_row("pass_rate", True, alone, labelled=both or fewer)
        if not fewer:
            return replace(row, uncorrected=self._without_label(sides, people) if alone.difference else "")
        if unusable:
            return replace(row, uncorrected=unusable if alone.difference else "")
        from evalflow.stats.corrected_differences import corrected_apart, corrected_difference, labelled_together
        from evalflow.stats.prediction import MIN_LABELS, few_labels

        judged, given = (
            [side[name].cast(pl.Float64).fill_null(math.nan).to_numpy() for side in sides] for name in columns
        )
        clusters = [side["cluster"].to_numpy() for side in sides]
        scores, labels = (judged[0], judged[1]), (given[0], given[1])
        corrected = None
        if labelled_together(both, fewer):
            corrected = corrected_difference(scores, labels, clusters[0], self.seed, bounded=bounded)
        elif fewer >= MIN_LABELS:
            corrected = corrected_apart(scores, labels, (clusters[0], clusters[1]), self.seed, bounded=bounded)
            row = replace(row, labelled=fewer)
            if corrected and self.paired:
                corrected = replace(corrected, n=alone.n)
        if corrected:
            return replace(row, difference=corrected, judged=alone)
        return replace(row, uncorrected=few_labels(row.labelled) if alone.difference else "")

    def _judged(self, sides: Sides) -> Sides:
        """The cases with pass or fail; if paired, in both runs."""
        a, b = (side["passed"].is_not_null() for side in sides)
        known = (a & b, a & b) if self.paired else (a, b)
        return sides[0].filter(known[0]), sides[1].filter(known[1])

    def _difference(self, sides: Sides, column: str, *, bounded: bool) -> Difference:
        a, b = (side[column].to_numpy() for side in sides)
        clusters = [side["cluster"].to_numpy() for side in sides]
        if self.paired:
            return paired_difference(a, b, clusters[0], self.seed, bounded=bounded)
        return unpaired_difference(a, b, *clusters, bounded=bounded)


def _same(one: Difference, other: Difference) -> bool:
    """Whether two differences are equal up to rounding, since a retrieval metric's score is one of its measures."""
    pairs = ((one.value_a, other.value_a), (one.value_b, other.value_b), (one.std_error, other.std_error))
    return one.n == other.n and all(x == y or math.isclose(x or 0.0, y or 0.0, abs_tol=1e-12) for x, y in pairs)


Orders = Mapping[str, Sequence[str]]  # by metric, its statistics in the order in which they are tested
UNORDERED: Orders = {}


def adjusted(rows: Sequence[ComparisonRow], method: Adjustment, orders: Orders = UNORDERED) -> list[ComparisonRow]:
    """Treat the rows as one family of tests: adds adjusted p-values and detectable differences.

    Holm follows the orders.
    """
    made = [row for row in rows if row.difference.p_value is not None]
    p = [row.difference.p_value or 0.0 for row in made]
    after = _after(made, orders) if method == "holm" else [None] * len(made)
    adjusted_p = adjust_in_order(p, after) if any(one is not None for one in after) else adjust(p, method)
    known = {id(row): float(value) for row, value in zip(made, adjusted_p, strict=True)}
    level = level_of_each(after.count(None))
    return [replace(row, p_adjusted=known.get(id(row)), detectable=_detectable(row, level)) for row in rows]


def orders_used(rows: Sequence[ComparisonRow], orders: Orders) -> Orders:
    """The orders that apply: those of metrics in which some row is tested after another one."""
    made = [row for row in rows if row.difference.p_value is not None]
    later = {row.metric for row, before in zip(made, _after(made, orders), strict=True) if before is not None}
    return {name: order for name, order in orders.items() if name in later}


def tests_in_order(rows: Sequence[ComparisonRow], orders: Orders) -> int:
    """Number of rows that are tested after another one and therefore use its level."""
    return len(rows) - _after(rows, orders).count(None)


def _after(rows: Sequence[ComparisonRow], orders: Orders) -> list[int | None]:
    """For each row, the position of the row that is tested before it."""
    places = {(row.pair, row.dataset, row.metric, row.tag, row.statistic): at for at, row in enumerate(rows)}

    def before(row: ComparisonRow) -> int | None:
        order = [*orders.get(row.metric, ())]
        if row.statistic not in order[1:]:
            return None
        one = order[order.index(row.statistic) - 1]
        return places.get((row.pair, row.dataset, row.metric, row.tag, one))

    return [before(row) for row in rows]


def _detectable(row: ComparisonRow, level: float) -> float | None:
    error, df = row.difference.std_error, row.difference.df
    if error is None or df is None:
        return None
    least = detectable_difference(error, df=df, alpha=level)
    return None if row.bounded and least > 1 else least
