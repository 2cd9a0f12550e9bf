"""Agreement of a judge with people on labelled answers, and of people with each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalflow.lazy import np, pl
from evalflow.records import passes
from evalflow.records.scores import TOLERANCE
from evalflow.stats.agreement import accuracy, auroc, class_rates, cohen_kappa
from evalflow.stats.arrays import Array, Estimated, Floats, Ints, undefined
from evalflow.stats.intervals import mean_estimate
from evalflow.stats.rank import Correlation, correlation, grouped_spearman
from evalflow.stats.raters import (
    EPSILON,
    AlphaComparison,
    AltTest,
    alt_test,
    compare_alphas,
    fleiss_kappa,
    gwet_ac1,
    krippendorff_alpha,
    noise_ceiling,
    reliability,
)
from evalflow.summary.rows import Detail
from evalflow.summary.slices import cluster_name
from evalflow.summary.verdicts import Replacement, above_chance, may_replace

MEASURES = (
    "kappa",
    "kappa_weighted",
    "krippendorff_alpha",
    "spearman",
    "spearman_by_group",
    "kendall",
    "pearson",
    "accuracy",
    "sensitivity",
    "specificity",
    "auroc",
)
_MAX_CLASSES = 11
"""Scores count as classes, such as grades, with at most this many values, and at least three answers per value."""
_HALF = 0.5
ANSWER_KEY = ("case_id", "target_repeat")  # columns that identify an answer within a dataset, metric and target
_UNWEIGHTED = ("krippendorff_alpha", "spearman_by_group", "auroc")
_WEIGHTED = "labels carry weights"
_BEYOND_CHANCE = (("kappa", "kappa_weighted"), ("spearman",))
ANSWER = ("dataset", "case_id", "target", "target_repeat", "metric")
SERIES = ("dataset", "metric", "target", "judge")  # the key of a judge's mean score


@dataclass(frozen=True, slots=True)
class Classes:
    """Judge's scores and people's labels as classes.

    `levels` are the classes in order. An answer on which people are tied between two classes counts half in each: it
    has two entries. `rows` has the answer of each entry, and `share` the entry's weight.
    """

    levels: Sequence[float]
    judge: Floats
    human: Floats
    by_threshold: bool
    rows: Ints
    share: Floats

    @property
    def binary(self) -> bool:
        """Whether there are two classes, 0 and 1."""
        return list(self.levels) == [0.0, 1.0]

    @property
    def agreed(self) -> Floats:
        """For each answer whether judge and people agree: 1, 0, or half if people are tied."""
        shares: Floats = self.share * (self.human == self.judge)
        return np.bincount(self.rows, shares).astype(np.float64)

    @property
    def tied(self) -> int:
        return int((self.share < 1).sum()) // 2

    def matrix(self) -> list[list[float]]:
        """Counts of answers: people's level down, the judge's across."""
        return [
            [float(self.share[(self.human == down) & (self.judge == across)].sum()) for across in self.levels]
            for down in self.levels
        ]

    def clusters(self, labelled: pl.DataFrame) -> Array | None:
        """The cluster of each entry; None if every entry is its own cluster."""
        own = clusters_of(labelled)
        return own if not self.tied else (np.arange(labelled.height) if own is None else own)[self.rows]

    def weights(self, labelled: pl.DataFrame) -> Floats | None:
        """Number of answers that each entry represents; None if it is the same for all."""
        own = weights_of(labelled)
        return own if not self.tied else (1.0 if own is None else own[self.rows]) * self.share


def classes_of(labelled: pl.DataFrame, *, higher_is_better: bool) -> Classes | None:
    """The classes of judge and people: the scale's values if there are few, else pass and fail by the threshold.

    Several labels of an answer are merged: into the value nearest to their mean, or into the majority of pass or fail.
    None if there are many values and no threshold. `labelled` comes from `labelled_scores`.
    """
    judge, human = labelled["score"].to_numpy(), labelled["human"].to_numpy()
    levels = np.unique(np.concatenate([judge, _marks(labelled)]))
    if levels.size <= 2 and set(levels.tolist()) <= {0.0, 1.0}:
        return _classes(np.array([0.0, 1.0]), judge, human, by_threshold=False)
    if levels.size <= min(_MAX_CLASSES, max(3, judge.size // 3)):
        return _classes(levels, judge, human, by_threshold=False)
    threshold = labelled["threshold"].drop_nulls()
    if threshold.is_empty():
        return None
    passed = passes(judge, float(threshold[0]), higher_is_better=higher_is_better).astype(np.float64)
    return _classes(np.array([0.0, 1.0]), passed, labelled["accepted"].to_numpy(), by_threshold=True)


def _marks(labelled: pl.DataFrame) -> Floats:
    marks = labelled["marks"].explode().to_numpy()
    return marks[~np.isnan(marks)]


def _classes(levels: Floats, judge: Floats, human: Floats, *, by_threshold: bool) -> Classes:
    """The classes: people's is the level nearest to their mean; two equally near levels share the answer."""
    low, high = nearest_levels(human, levels)
    tied = np.flatnonzero(low != high)
    rows = np.sort(np.concatenate([np.arange(human.size), tied]), kind="stable")
    second = np.concatenate([[False], rows[1:] == rows[:-1]])
    share = np.where(np.isin(rows, tied), _HALF, 1.0)
    return Classes(levels.tolist(), judge[rows], np.where(second, high[rows], low[rows]), by_threshold, rows, share)


def nearest_levels(values: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """For each value the lowest and the highest nearest level; they differ if it is a tie. `levels` ascend."""
    distance = np.abs(values[:, None] - levels)
    nearest = distance <= distance.min(axis=1, keepdims=True) + TOLERANCE
    return levels[nearest.argmax(axis=1)], levels[levels.size - 1 - nearest[:, ::-1].argmax(axis=1)]


def agreement(labelled: pl.DataFrame, classes: Classes | None, *, seed: int) -> dict[str, Estimated]:
    """All MEASURES, undefined if not applicable; with weighted labels they estimate the agreement on all answers."""
    judge, human = labelled["score"].to_numpy(), labelled["human"].to_numpy()
    clusters, weights = clusters_of(labelled), weights_of(labelled)
    n, none = judge.size, "scores are not classes, and there is no threshold"
    measures: dict[str, Estimated] = {name: undefined(n, none) for name in MEASURES}
    kinds: tuple[Correlation, ...] = ("spearman", "kendall", "pearson")
    measures |= {kind: correlation(human, judge, kind, clusters, weights) for kind in kinds}
    measures |= (
        _unweighted(labelled, clusters, seed)
        if weights is None
        else dict.fromkeys(_UNWEIGHTED, undefined(n, _WEIGHTED))
    )
    if classes is None:
        return measures
    measures["accuracy"] = (
        mean_estimate(classes.agreed, clusters, bounded=True)
        if weights is None
        else accuracy(classes.human, classes.judge, classes.clusters(labelled), classes.weights(labelled))
    )
    pair, clusters, weights = (classes.human, classes.judge), classes.clusters(labelled), classes.weights(labelled)
    measures["kappa"] = cohen_kappa(*pair, "plain", clusters, weights)
    measures["kappa_weighted"] = cohen_kappa(*pair, "quadratic", clusters, weights)
    rates: Mapping[Any, Estimated] = class_rates(*pair, clusters, weights) if classes.binary else {}
    missing = undefined(n, "no answer has this label" if classes.binary else "there are more than two classes")
    return measures | {"sensitivity": rates.get(1.0, missing), "specificity": rates.get(0.0, missing)}


def _unweighted(labelled: pl.DataFrame, clusters: Array | None, seed: int) -> dict[str, Estimated]:
    judge, human = labelled["score"].to_numpy(), labelled["human"].to_numpy()
    n, verdicts = human.size, np.isin(_marks(labelled), (0.0, 1.0)).all()
    alone, graded = undefined(n, "answers are not grouped"), undefined(n, "labels are not yes or no")
    low, high = nearest_levels(human, np.array([0.0, 1.0]))
    return {
        "krippendorff_alpha": krippendorff_alpha(np.stack([human, judge]), "interval", clusters, seed=seed),
        "spearman_by_group": alone if clusters is None else grouped_spearman(clusters, human, judge),
        "auroc": auroc((low + high) / 2, judge, clusters) if verdicts else graded,
    }


def headline_measure(measures: Mapping[str, Detail]) -> str | None:
    """The measure of agreement beyond chance to report: a kappa, else Spearman's; None if they have no value.

    `measures` are documents of `Estimated`. If there are two kappas, the first whose interval lies above 0 is taken.
    """
    for line in _BEYOND_CHANCE:
        known = [name for name in line if measures.get(name, {}).get("value") is not None]
        if known:
            return next((name for name in known if _above_chance(measures[name])), known[0])
    return None


def beyond_chance(measures: Mapping[str, Detail]) -> bool:
    """Whether labels show that a judge agrees with people more than by chance."""
    name = headline_measure(measures)
    return name is not None and _above_chance(measures[name])


def _above_chance(measure: Detail) -> bool:
    return above_chance(measure["value"], measure.get("ci_low"))


def weights_of(labelled: pl.DataFrame) -> Floats | None:
    """Number of answers that each labelled answer represents; None if it is the same for all."""
    return labelled["weight"].to_numpy() if labelled["weight"].n_unique() > 1 else None


def clusters_of(answers: pl.DataFrame) -> Array | None:
    """The cluster of each answer; None if every answer is its own cluster."""
    names = answers["cluster"]
    return None if names.n_unique() == names.len() else names.to_numpy()


@dataclass(frozen=True, slots=True)
class Raters:
    """Agreement among people on the answers that several of them labelled."""

    # Krippendorff's alpha (interval) among people, and among people and judge, on the same answers.
    alphas: AlphaComparison
    # Ordinal alpha of people, for unevenly spaced grades.
    alpha_ordinal: Estimated
    # Agreement on classes beyond chance; None if labels are not classes, or answers differ in their number of labels.
    # If one class is rare, use AC1.
    fleiss_kappa: float | None
    gwet_ac1: float | None
    reliability: Estimated  # of an answer's mean label, with which the judge is compared
    ceiling: Estimated  # the highest correlation that a judge can have with that mean
    alt_test: AltTest
    replaces: Replacement  # whether the judge may replace a person, by that test

    @property
    def alpha(self) -> Estimated:
        """Krippendorff's alpha (interval) of people with each other."""
        return self.alphas.people

    def alt_document(self) -> dict[str, Any]:
        """The alternative annotator test and its verdict as JSON, without the values per person."""
        test, replacement = self.alt_test, self.replaces
        return {
            "passes": replacement.may,
            "winning_rate": replacement.rate,
            "agrees": replacement.agrees,
            "advantage": test.advantage,
            "behind": test.behind,
            "method": test.method,
            "epsilon": EPSILON,
        }


def raters_of(
    labels: pl.DataFrame, answers: pl.DataFrame, *, seed: int, agrees: bool = True, higher_is_better: bool = True
) -> Raters | None:
    """Agreement among people; None if no answer has two labels. `agrees`: the judge agrees with them beyond chance."""
    about = answers.select(*ANSWER_KEY, "cluster", "score", "threshold")
    known = labels.join(about, on=ANSWER_KEY, how="inner").sort(*ANSWER_KEY)
    ratings, first = _ratings(known)
    several = (~np.isnan(ratings)).sum(axis=1) > 1
    if not several.any():
        return None
    table = known[first]
    clusters = clusters_of(table)
    judge, threshold = table["score"].to_numpy(), table["threshold"].drop_nulls()
    same_scale = judge
    if not threshold.is_empty() and set(np.unique(ratings[~np.isnan(ratings)]).tolist()) == {0.0, 1.0}:
        passed = passes(judge, float(threshold[0]), higher_is_better=higher_is_better)
        same_scale = (passed == higher_is_better).astype(np.float64)  # people said yes or no
    alphas = compare_alphas(ratings.T, same_scale, clusters, seed=seed)
    counts = _counts(ratings[several])
    reliable = reliability(ratings.T, clusters, seed=seed)
    as_classes = counts is not None and set(judge.tolist()) <= set(ratings.ravel().tolist())
    test = alt_test(ratings.T, judge, "accuracy" if as_classes else "neg_rmse")
    return Raters(
        alphas=alphas,
        alpha_ordinal=krippendorff_alpha(ratings.T, "ordinal", clusters, seed=seed),
        fleiss_kappa=None if counts is None else fleiss_kappa(counts),
        gwet_ac1=None if counts is None else gwet_ac1(counts),
        reliability=reliable,
        ceiling=noise_ceiling(reliable),
        alt_test=test,
        replaces=may_replace(test, agrees=agrees),
    )


def _ratings(labels: pl.DataFrame) -> tuple[Floats, Ints]:
    """The label of each answer by each person, NaN without one, and the place of each answer's first label.

    `labels` are sorted by answer.
    """
    keys = [labels[name].to_numpy() for name in ANSWER_KEY]
    begins = np.ones(labels.height, dtype=np.bool_)
    begins[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    people, person = np.unique(labels["by"].to_numpy(), return_inverse=True)
    ratings = np.full((int(begins.sum()), people.size), np.nan)
    ratings[np.cumsum(begins) - 1, person] = labels["human"].to_numpy()
    return ratings, np.flatnonzero(begins)


def _counts(ratings: Floats) -> Floats | None:
    """Number of people who gave each class to each answer; None if labels are not classes, or their number differs."""
    given = ~np.isnan(ratings)
    classes = np.unique(ratings[given])
    if classes.size > _MAX_CLASSES or np.unique(given.sum(axis=1)).size > 1:
        return None
    return np.stack([(ratings == one).sum(axis=1) for one in classes], axis=1).astype(np.float64)


def label_frame(rows: Iterable[Mapping[str, object]]) -> pl.DataFrame:
    """Labels as a table: `human` is the label as a score, `value` the same on the metric's own scale.

    `use` is that of `Label`; `human` and `value` are null if the label is missing. If a person found nothing to score,
    only `human` is null. `unusable` is why the labels on a dataset and metric may correct nothing; null if they may.
    `case_hash` is a hash of what people saw beside the answer, `review` the review it was given in; null if unknown.
    """
    return _given(pl.DataFrame(list(rows), _label_schema()))


def parsed_labels(lines: bytes) -> pl.DataFrame:
    """The `label_frame` of lines of JSON; PolarsError if they are not labels."""
    return _given(pl.read_ndjson(lines, schema=_label_schema()))


def _given(labels: pl.DataFrame) -> pl.DataFrame:
    return labels.with_columns(pl.col("use").fill_null("label"))


def _label_schema() -> pl.Schema:
    text, number = pl.String(), pl.Float64()
    texts = (
        "dataset",
        "case_id",
        "target",
        "metric",
        "answer_hash",
        "case_hash",
        "by",
        "value",
        "comment",
        "use",
        "unusable",
        "review",
    )
    own = {"target_repeat": pl.Int64(), "human": number, "weight": number}
    return pl.Schema({**dict.fromkeys(texts, text), **own})


def truths(labels: pl.DataFrame) -> pl.DataFrame:
    """The labels and resolutions that give the true score of an answer."""
    return labels.filter(pl.col("use").is_in(["label", "resolution"]) & pl.col("human").is_not_null())


def nothing_to_score(labels: pl.DataFrame) -> pl.DataFrame:
    """The answers (ANSWER) with nothing to score, by their resolution, else by more than half of the people."""
    resolved, empty = pl.col("use") == "resolution", pl.col("human").is_null().cast(pl.Float64)
    judged = labels.filter(pl.col("use").is_in(["label", "resolution"]))
    shares = judged.group_by(ANSWER, maintain_order=True).agg(
        share=pl.coalesce(empty.filter(resolved).mean(), empty.mean())
    )
    return shares.filter(pl.col("share") > _HALF).select(ANSWER)


@dataclass(frozen=True, slots=True)
class UndefinedAgreement:
    """Labelled answers with nothing to score by people or the judge. They count in no mean or agreement."""

    answers: int  # labelled answers that the judge scored, or found to be undefined
    both: int
    people_alone: int
    judge_alone: int


def undefined_agreement(cells: pl.DataFrame, labels: pl.DataFrame) -> UndefinedAgreement | None:
    """Compare the answers with nothing to score by people and by the judge of one series; None if there are none.

    Over several repeats of the judge the majority decides; a tie means that the answer can be scored.
    """
    done = cells.filter(pl.col("status").is_in(["scored", "undefined"]))
    judge = done.group_by(ANSWER).agg(by_judge=(pl.col("status") == "undefined").mean() > _HALF)
    people = nothing_to_score(labels).with_columns(by_people=pl.lit(value=True))
    scored = truths(labels).select(ANSWER).unique().with_columns(by_people=pl.lit(value=False))
    every = pl.concat([people, scored.join(people, on=ANSWER, how="anti")]).join(judge, on=ANSWER, how="inner")
    both, alone = pl.col("by_people") & pl.col("by_judge"), pl.col("by_people") & ~pl.col("by_judge")
    counts = every.select(both.sum().alias("both"), alone.sum().alias("alone"), judged=pl.col("by_judge").sum())
    n_both, n_alone, judged = counts.row(0)
    return UndefinedAgreement(every.height, n_both, n_alone, judged - n_both) if n_alone or judged else None


NOT_AT_RANDOM = "the labelled answers are hardly a random sample"
"""Why labels correct nothing, if a test finds that the labelled answers are not a random sample."""


OF_MEANS = (*ANSWER, "judge", "cluster", "tags", "score", "passed", "human", "accepted", "weight")
"""The columns of `labelled_scores` for correcting means and testing labels; computing all doubles the time."""


def labelled_scores(
    scores: pl.LazyFrame,
    labels: pl.DataFrame,
    *,
    failed: bool = False,
    lower: Collection[str] = (),
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Every scored answer of series with labels, in the order of `scores`, with its labels from `label_frame`.

    A judge's repeats are averaged, and so are several people's labels, unless there is a resolution; value and reason
    are from the first repeat. Answers with `nothing_to_score` are left out. With `failed` it returns instead the
    answers on which the judge failed every time; their score is null. `human` is null without a label, `accepted` is
    the share of the labels that reach the threshold (null without one), `people` their number, `said` their values,
    `marks` the labels as scores. Metrics in `lower` pass at or below their threshold. `columns` selects some of them,
    the cluster among them.
    """
    series = labels.select("dataset", "metric", "target").unique().lazy()
    status, cell = pl.col("status"), [*ANSWER, "judge"]
    own = scores.filter(pl.col("member_of").is_null()).with_columns(pl.col("target_repeat").cast(pl.Int64))
    scored, own = own.filter(status == "scored"), own.filter(status == ("error" if failed else "scored"))
    own = own.join(scored, on=cell, how="anti", nulls_equal=True, maintain_order="left") if failed else own
    own = own.with_row_index("place")
    own = own.join(series, on=["dataset", "metric", "target"], how="semi", maintain_order="left")
    own = own.join(nothing_to_score(labels).lazy(), on=ANSWER, how="anti", maintain_order="left")
    cluster = cluster_name(pl.col("group"), pl.col("case_id"))
    # Taking the first of many lists or texts would take several times as long.
    about = own.select(*cell, "place", cluster.alias("cluster"), "tags", "threshold", "value", "reason")
    means = own.group_by(cell).agg(pl.col("place").min(), pl.col("score", "passed").cast(pl.Float64).mean())
    answers = about.join(means.drop(cell), on="place", maintain_order="left").drop("place")
    own, resolved = pl.col("use") == "label", pl.col("use") == "resolution"
    label_text = pl.when(resolved).then(pl.col("value") + " (resolved)").otherwise("value")
    weight = pl.col("weight")
    reached = pl.when(pl.col("metric").is_in(list(lower))).then(_reaches(higher_is_better=False))
    limits = scored.join(series, on=["dataset", "metric", "target"], how="semi").group_by("dataset", "metric")
    limits = limits.agg(usual=pl.col("threshold").drop_nulls().first())  # a failed answer has no value of its own
    given = truths(labels).lazy()
    thresholds = answers.select(*ANSWER, "threshold").join(given, on=ANSWER, how="semi", maintain_order="left")
    thresholds = thresholds.unique(ANSWER, keep="first", maintain_order=True)
    given = given.join(thresholds, on=ANSWER, how="left", maintain_order="left")
    given = given.join(limits, on=["dataset", "metric"], how="left", maintain_order="left")
    given = given.with_columns(pl.coalesce("threshold", "usual").alias("threshold"))
    given = given.with_columns(accepted=reached.otherwise(_reaches(higher_is_better=True)).cast(pl.Float64))
    people = given.group_by(ANSWER).agg(
        *(pl.coalesce(pl.col(name).filter(resolved).mean(), pl.col(name).mean()) for name in ("human", "accepted")),
        said=label_text.sort_by(resolved, "by"),
        marks=pl.col("human").unique(),
        people=pl.col("by").filter(own).n_unique().clip(1),
        weight=pl.coalesce(weight.filter(own).first(), weight.first()),
        comment=pl.col("comment").drop_nulls().str.join("; "),
    )
    joined = answers.join(people, on=ANSWER, how="left", maintain_order="left")
    joined = joined if columns is None else joined.select(columns)
    # Numbers sort like the names, and are far faster to count and sort.
    return joined.collect(engine="streaming").with_columns(pl.col("cluster").rank("dense"))


def people_of(answers: pl.DataFrame, nothing: pl.DataFrame) -> pl.DataFrame:
    """People's mean `human` of each labelled case, the share of labels that pass, `accepted`, and `human_undefined`.

    By dataset, metric and case_id; `answers` are of `labelled_scores`, `nothing` of `nothing_to_score`. A case is
    `human_undefined`, without the others, if people found nothing to score in each answer that they labelled.
    """
    key = ("dataset", "metric", "case_id")
    scored = answers.drop_nulls("human").group_by(key).agg(pl.col("human", "accepted").mean())
    empty = nothing.select(key).unique(maintain_order=True).join(scored, on=key, how="anti", maintain_order="left")
    sides = (side.with_columns(human_undefined=pl.lit(value)) for side, value in ((scored, False), (empty, True)))
    return pl.concat(sides, how="diagonal")


def partly_labelled(answers: pl.DataFrame) -> int:
    """The number of cases of which people labelled some of several answers on a metric, of `labelled_scores`."""
    labelled = pl.col("human").is_not_null()
    cases = answers.group_by("dataset", "metric", "case_id").agg(partly=labelled.any() & ~labelled.all())
    return cases.filter("partly").select("dataset", "case_id").n_unique()


def _reaches(*, higher_is_better: bool) -> pl.Expr:
    """Whether a label passes; null without a threshold."""
    reached: pl.Expr = passes(pl.col("human"), pl.col("threshold"), higher_is_better=higher_is_better)
    return reached


def of_series(names: Sequence[str | None]) -> pl.Expr:
    """Whether a row is of one of SERIES."""
    return pl.all_horizontal(
        pl.col(name).eq_missing(pl.lit(value, pl.String)) for name, value in zip(SERIES, names, strict=True)
    )


def series_sizes(scores: pl.LazyFrame) -> dict[tuple[str | None, ...], int]:
    """Number of answers of each of SERIES, in any state."""
    cells = scores.filter(pl.col("member_of").is_null()).select(*ANSWER, "judge").unique()
    return {row[:-1]: row[-1] for row in cells.group_by(SERIES).agg(pl.len()).collect().iter_rows()}


def unscored_labels(scores: pl.LazyFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Number of labelled answers without a score, by dataset, metric and target; rows with 0 are left out."""
    known = scores.filter(pl.col("member_of").is_null() & (pl.col("status") == "scored"))
    known = known.with_columns(pl.col("target_repeat").cast(pl.Int64))
    left = truths(labels).lazy().select(ANSWER).unique().join(known, on=ANSWER, how="anti")
    return left.group_by("dataset", "metric", "target").agg(n=pl.len()).sort("dataset", "metric", "target").collect()
