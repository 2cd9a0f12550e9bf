"""Calibrate a judge with people's labels: its mean, its bias and agreement, and the corrected mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalflow.lazy import np, pl
from evalflow.records import passes
from evalflow.stats.arrays import Estimated, Interval, undefined
from evalflow.stats.intervals import interval
from evalflow.stats.labelled import SamplingBias, sampling_bias
from evalflow.stats.paired import adjust
from evalflow.stats.prediction import MIN_LABELS, CorrectedMean, corrected_mean, few_labels, rogan_gladen
from evalflow.summary.agreement import (
    ANSWER,
    MEASURES,
    NOT_AT_RANDOM,
    SERIES,
    Classes,
    Raters,
    UndefinedAgreement,
    agreement,
    beyond_chance,
    classes_of,
    clusters_of,
    labelled_scores,
    of_series,
    raters_of,
    series_sizes,
    truths,
    undefined_agreement,
    unscored_labels,
    weights_of,
)
from evalflow.summary.pairing import Traits, tagged
from evalflow.summary.verdicts import SAMPLING_LEVEL, is_biased_sample, is_significant


@dataclass(frozen=True, slots=True)
class TagShare:
    """A tag whose answers were labelled at another rate than the rest; p is adjusted over tags."""

    tag: str
    labelled: float
    elsewhere: float
    p_value: float


def uneven_tags(answers: pl.DataFrame) -> list[TagShare]:
    """Tags whose answers are labelled far more or far less often than the others (Holm over tags, 1 %)."""
    labelled, clusters = answers["human"].is_not_null().to_numpy(), answers["cluster"].to_numpy()
    shares: list[TagShare] = []
    for tag, inside in tagged(answers).items():
        test = sampling_bias(*(column[side] for column in (labelled, clusters) for side in (inside, ~inside)))
        if test.p_value is not None and test.labelled is not None and test.rest is not None:
            shares.append(TagShare(tag, test.labelled, test.rest, test.p_value))
    if not shares:
        return []
    p = adjust([one.p_value for one in shares], "holm")
    adjusted = [replace(one, p_value=float(value)) for one, value in zip(shares, p, strict=True)]
    return [one for one in adjusted if is_significant(one.p_value, SAMPLING_LEVEL)]


def unusable_labels(answers: pl.DataFrame, labels: pl.DataFrame) -> dict[tuple[str, str], str]:
    """The datasets and metrics whose labels must not correct anything, with the reason; see `why_unusable`.

    `answers` are the `labelled_scores` of the labels.
    """
    reasons: dict[tuple[str, str], str] = {}
    for (dataset, metric, *_), part in answers.group_by(SERIES, maintain_order=True):
        weighted = weights_of(part.filter(pl.col("human").is_not_null())) is not None
        own = _declared_unusable(labels, str(dataset), str(metric))
        tests = (None, ()) if weighted else (_bias_of(part), uneven_tags(part))
        if why := why_unusable(own, *tests):
            reasons[str(dataset), str(metric)] = why
    return reasons


def why_unusable(declared: str, bias: SamplingBias | None, uneven: Sequence[TagShare]) -> str:
    """Why labels must not correct anything; "" if they may.

    `declared` is the known reason (`unusable` of `label_frame`). Without one, both tests decide whether the labelled
    answers may be a random sample.
    """
    return declared or (NOT_AT_RANDOM if uneven or (bias is not None and is_biased_sample(bias)) else "")


def _declared_unusable(labels: pl.DataFrame, dataset: str, metric: str) -> str:
    known = labels.filter(dataset=dataset, metric=metric)["unusable"].drop_nulls()
    return "" if known.is_empty() else str(known[0])


def _bias_of(answers: pl.DataFrame) -> SamplingBias:
    """Test labelled against unlabelled answers: by pass and fail if there is a threshold, else by scores."""
    known = ~np.isnan(answers["human"].to_numpy())
    values = answers["score" if answers["passed"].null_count() else "passed"].to_numpy()
    clusters = answers["cluster"].to_numpy()
    return sampling_bias(values[known], values[~known], clusters[known], clusters[~known])


MOST_MISSING = 0.05
"""Above this share of missing labels, the corrected mean has worst and best bounds."""


@dataclass(frozen=True, slots=True)
class MissingLabels:
    """Answers that people were shown but did not label: their number, and their share of all shown.

    `worst` and `best` are the corrected mean with every missing label at the worst or best end of the scale;
    `pass_rate_worst` and `pass_rate_best` likewise. None if the share is at most MOST_MISSING, if there are no ends or
    no threshold, and if labels correct nothing.
    """

    n: int
    share: float
    worst: CorrectedMean | None = None
    best: CorrectedMean | None = None
    pass_rate_worst: CorrectedMean | None = None
    pass_rate_best: CorrectedMean | None = None


@dataclass(frozen=True, slots=True)
class LabelsApart:
    """Agreement with labels that count in no mean: given with the judge's score in view, or of hand-picked answers."""

    by: Mapping[str, int]  # number of labels by person
    n_answers: int
    agreement: Mapping[str, Estimated]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRow:
    """One judge's mean on one metric, compared with people.

    judge is None for a metric without a judge, tag None for all answers.
    """

    dataset: str
    metric: str
    target: str
    judge: str | None
    tag: str | None
    traits: Traits
    # The means of judge and people, the bias, and the corrected estimate.
    corrected: CorrectedMean
    # The pass rate, corrected like the mean; of an answer with several labels counts the share that reaches the
    # threshold. None without one.
    pass_rate: CorrectedMean | None
    judged: Interval  # the interval of the judge's own mean, which ignores its bias
    agreement: Mapping[str, Estimated]
    people: tuple[int, int]  # number of people who labelled, and of their labels
    raters: Raters | None  # agreement among people; None if no answer has two labels, or a tag has few
    classes: Classes | None
    # The share of unlabelled answers that people would pass, if labels were chosen by class (Rogan-Gladen); None unless
    # both say yes or no.
    by_class: Estimated | None
    # The test for sampling bias, and the tags labelled far more, or less, often than others; none for weighted labels.
    sampling_bias: SamplingBias | None
    uneven: Sequence[TagShare]
    weighted: bool
    unscored: int  # number of labelled answers without a score of the judge
    left_out: int  # number of answers not in the means: undefined (also by people), skipped, or failed without a label
    # Number of answers for which the judge failed, and of the labelled ones among them. If any is labelled, all count
    # in `corrected` with the judge's mean as score.
    failed: tuple[int, int]
    constant: tuple[bool, bool]  # whether all labels are equal, and whether all scores are
    answers: pl.DataFrame  # all scored answers, from `labelled_scores`
    tags: Sequence[CalibrationRow] = ()
    resolved: int = 0  # number of answers whose label is a resolution
    missing: MissingLabels | None = None  # None if no requested label is missing
    apart: LabelsApart | None = None
    undefined: UndefinedAgreement | None = None  # None if neither people nor the judge found nothing to score
    declared_unusable: str = ""  # why its labels must not correct anything (`unusable` of `label_frame`)

    @property
    def who(self) -> str:
        """The source of the scores, for texts: "judge", or "metric" without a judge."""
        return "judge" if self.judge else "metric"

    @property
    def named(self) -> str:
        """The name in texts of the answers in the means; it depends on whether some answers have no score."""
        if not self.left_out:
            return "answers"
        return "answers that can be judged" if self.failed[1] else "answers with a score"

    @property
    def all_tied(self) -> bool:
        """Whether people are tied on each answer that they labelled."""
        return self.classes is not None and 0 < self.classes.tied == self.classes.agreed.size

    @property
    def biased_sample(self) -> bool:
        """Whether the labelled answers are unlikely to be a random sample."""
        return bool(why_unusable("", self.sampling_bias, self.uneven))

    @property
    def unusable(self) -> str:
        """Why the labels must not correct anything, however many there are; "" if they may."""
        return why_unusable(self.declared_unusable, self.sampling_bias, self.uneven)

    @property
    def uncorrected(self) -> str:
        """Why the labels correct nothing; "" if they do."""
        return self.unusable or ("" if self.corrected.estimate is not None else few_labels(self.corrected.n))

    @property
    def at_random(self) -> bool | None:
        """Whether the labelled answers may be a random sample; None if unknown."""
        if self.biased_sample or self.sampling_bias is None:
            return False if self.biased_sample else None
        return True if self.sampling_bias.has_power or not self.corrected.n_unlabelled else None


def calibrate_scores(
    scores: pl.LazyFrame, labels: pl.DataFrame, traits: Mapping[str, Traits], *, seed: int = 0
) -> list[CalibrationRow]:
    """A row for each dataset, metric, target and judge whose answers have labels, in the order of the scores.

    Several people's labels of an answer are averaged, unless a resolution replaces them; a judge's repeats are
    averaged, too. Clusters are groups of cases, or several answers to one case.
    """
    unscored = {row[:3]: row[3] for row in unscored_labels(scores, labels).iter_rows()}
    rows: list[CalibrationRow] = []
    lower = [name for name, one in traits.items() if not one.higher_is_better]
    failed, sizes = labelled_scores(scores, labels, failed=True, lower=lower), series_sizes(scores)
    for names, answers in labelled_scores(scores, labels, lower=lower).group_by(SERIES, maintain_order=True):
        dataset, metric, target, judge = (None if name is None else str(name) for name in names)
        assert dataset is not None and metric is not None and target is not None  # noqa: PT018 - one key
        series_labels = labels.filter(dataset=dataset, metric=metric, target=target)
        key = (dataset, metric, target, judge)
        gaps = failed.filter(of_series(key))
        true = truths(series_labels).filter(use="label"), series_labels.filter(use="resolution")
        row = _row(key, answers, gaps, true, traits[metric], seed)
        tags: list[CalibrationRow] = []
        lacking = tagged(gaps)
        for tag, inside in tagged(answers).items():
            part = answers.filter(inside)
            if part["people"].sum() and part.height < answers.height:
                own = gaps.filter(lacking[tag]) if tag in lacking else gaps.clear()
                tags.append(_row(key, part, own, true, traits[metric], seed, tag))
        left_out = sizes[key] - row.corrected.n - row.corrected.n_unlabelled
        missing = unscored.get((dataset, metric, target), 0) - row.failed[1]
        uneven = [] if row.weighted else uneven_tags(answers)
        declared = _declared_unusable(series_labels, dataset, metric)
        row = replace(row, unscored=missing, left_out=left_out, uneven=uneven, declared_unusable=declared)
        if row.unusable:
            row, *tags = (_without_correction(one, row.unusable) for one in (row, *tags))
        row = replace(row, tags=tags)
        missing_labels = _missing(scores, pl.concat([answers, gaps]), series_labels, row, seed)
        undefined = undefined_agreement(_cells(scores, key), series_labels)
        apart = _apart(answers, series_labels, traits[metric], seed)
        rows.append(replace(row, missing=missing_labels, apart=apart, undefined=undefined))
    return rows


def _without_correction(row: CalibrationRow, why: str) -> CalibrationRow:
    """The row with the means of judge and people, but without the corrected mean."""
    names = ("estimate", "low", "high", "std_error", "lambda_", "labels_saved", "finite_low", "finite_high")
    nothing = {**dict.fromkeys(names), "method": f"none: {why}"}
    rate = None if row.pass_rate is None else replace(row.pass_rate, **nothing)
    return replace(row, corrected=replace(row.corrected, **nothing), pass_rate=rate)


def _cells(scores: pl.LazyFrame, key: tuple[str | None, ...]) -> pl.DataFrame:
    own = scores.filter(pl.col("member_of").is_null(), of_series(key)).select(*ANSWER, "status")
    return own.with_columns(pl.col("target_repeat").cast(pl.Int64)).collect(engine="streaming")


def _missing(
    scores: pl.LazyFrame, answers: pl.DataFrame, series_labels: pl.DataFrame, row: CalibrationRow, seed: int
) -> MissingLabels | None:
    """Answers that people were shown but did not label: a row's answers, and those on which its judge failed."""
    unlabelled = answers.filter(pl.col("human").is_null())
    lacking = (
        series_labels.filter(use="missing").join(unlabelled, on=ANSWER, how="semi").unique(ANSWER, maintain_order=True)
    )
    n, known = lacking.height, answers.height - unlabelled.height
    if not n:
        return None
    missing = MissingLabels(n, n / (n + known))
    if missing.share <= MOST_MISSING or not row.traits.bounded or row.unusable:
        return missing
    up = row.traits.higher_is_better
    names = (row.dataset, row.metric, row.target, row.judge)

    def at(end: float) -> tuple[CorrectedMean, CorrectedMean | None]:
        filled = lacking.with_columns(human=pl.lit(end), use=pl.lit("label"))
        table = pl.concat([series_labels.filter(pl.col("use") != "missing"), filled])
        lower = () if up else (row.metric,)
        parts = (labelled_scores(scores, table, failed=failed, lower=lower) for failed in (False, True))
        everything = _with_failed(*(part.filter(of_series(names)) for part in parts))
        return _corrected(everything, bounded=True, seed=seed), _pass_rate(everything, seed=seed)

    worst, best = at(0.0 if up else 1.0), at(1.0 if up else 0.0)
    return replace(missing, worst=worst[0], best=best[0], pass_rate_worst=worst[1], pass_rate_best=best[1])


def _apart(answers: pl.DataFrame, series_labels: pl.DataFrame, traits: Traits, seed: int) -> LabelsApart | None:
    """Agreement of a row's scores with the labels that count in no mean; None if there are none."""
    own = series_labels.filter(use="apart").drop_nulls("human").join(answers, on=ANSWER, how="semi")
    if not own.height:
        return None
    limits = own.join(answers.select(*ANSWER, "threshold"), on=ANSWER, how="left")
    passed = passes(pl.col("human"), pl.col("threshold"), higher_is_better=traits.higher_is_better).cast(pl.Float64)
    means = limits.group_by(ANSWER).agg(
        pl.col("human").mean(), accepted=passed.mean(), people=pl.col("by").n_unique(), marks=pl.col("human").unique()
    )
    labelled = answers.drop("human", "accepted", "people", "marks", "weight").join(
        means, on=ANSWER, how="inner", maintain_order="left"
    )
    labelled = labelled.with_columns(weight=pl.lit(1.0))
    agreed = agreement(labelled, classes_of(labelled, higher_is_better=traits.higher_is_better), seed=seed)
    by = {str(name): n for name, n in own["by"].value_counts().sort("by").iter_rows()}
    return LabelsApart(by, labelled.height, agreed)


def _row(
    names: tuple[str, str, str, str | None],
    answers: pl.DataFrame,
    gaps: pl.DataFrame,
    true: tuple[pl.DataFrame, pl.DataFrame],
    traits: Traits,
    seed: int,
    tag: str | None = None,
) -> CalibrationRow:
    """The row of these answers.

    `true` has people's labels and resolutions. Called once per tag, mostly with few answers: a query would take longer
    than all the statistics. A tag with fewer labels than a corrected mean needs has no agreement either.
    """
    dataset, metric, target, judge = names
    known = pl.col("human").is_not_null()
    labelled, failed = answers.filter(known), (gaps.height, gaps["human"].count())
    everything = _with_failed(answers, gaps)
    all_labelled = everything.filter(known) if failed[1] else labelled
    weighted = weights_of(all_labelled) is not None
    classes = classes_of(labelled, higher_is_better=traits.higher_is_better)
    given, resolutions = true
    own = given.join(all_labelled, on=["case_id", "target_repeat"], how="semi")
    if resolutions.height:
        resolutions = resolutions.join(everything, on=["case_id", "target_repeat"], how="semi").unique(ANSWER)
    corrected = _corrected(everything, bounded=traits.bounded, seed=seed)
    if failed[1]:  # the bias is measured on answers that the judge scored
        scored = _corrected(answers, bounded=traits.bounded, seed=seed)
        corrected = replace(corrected, bias=scored.bias, bias_low=scored.bias_low, bias_high=scored.bias_high)
    scores, is_told = answers["score"].to_numpy(), tag is None or labelled.height >= MIN_LABELS
    agreed, raters = _agreement(labelled, classes, own, traits, seed) if is_told else (_none(labelled.height), None)
    return CalibrationRow(
        dataset=dataset,
        metric=metric,
        target=target,
        judge=judge,
        tag=tag,
        traits=traits,
        corrected=corrected,
        pass_rate=_pass_rate(everything, seed=seed),
        judged=interval(scores, clusters_of(answers), bounded=traits.bounded),
        agreement=agreed,
        people=(own["by"].n_unique(), own.height),
        raters=raters,
        classes=classes,
        by_class=_rate(answers),
        sampling_bias=None if weighted else _bias_of(answers),
        uneven=(),
        weighted=weighted,
        unscored=0,
        left_out=0,
        failed=failed,
        constant=(labelled["human"].n_unique() == 1, answers["score"].n_unique() == 1),
        answers=answers,
        resolved=resolutions.height,
    )


def _agreement(
    labelled: pl.DataFrame, classes: Classes | None, own: pl.DataFrame, traits: Traits, seed: int
) -> tuple[dict[str, Estimated], Raters | None]:
    """Agreement of the judge with the labels, and of those who gave them (`own`) with each other."""
    agreed = agreement(labelled, classes, seed=seed)
    agrees = beyond_chance({name: one.document() for name, one in agreed.items()})
    return agreed, raters_of(own, labelled, seed=seed, agrees=agrees, higher_is_better=traits.higher_is_better)


def _none(n: int) -> dict[str, Estimated]:
    return dict.fromkeys(MEASURES, undefined(n, few_labels(n)))


def _with_failed(answers: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The scored answers. If any failed one is labelled, the failed ones too, with the judge's mean as score."""
    if not gaps["human"].count():
        return answers
    means = (pl.lit(answers[name].mean(), pl.Float64).alias(name) for name in ("score", "passed"))
    return pl.concat([answers, gaps.with_columns(*means)])


def _corrected(
    answers: pl.DataFrame, *, bounded: bool, seed: int, columns: tuple[str, str] = ("human", "score")
) -> CorrectedMean:
    """The mean of people's labels, corrected by the judge's scores; `columns` names both."""
    labels, scores = (answers[name].to_numpy() for name in columns)
    known = ~np.isnan(labels)
    clusters = answers["cluster"].to_numpy() if answers["cluster"].n_unique() < answers.height else None
    weights = answers["weight"].to_numpy()[known]
    return corrected_mean(
        labels[known],
        scores[known],
        scores[~known],
        clusters=None if clusters is None else clusters[known],
        unlabelled_clusters=None if clusters is None else clusters[~known],
        weights=weights if np.unique(weights).size > 1 else None,
        bounded=bounded,
        seed=seed,
    )


def _pass_rate(answers: pl.DataFrame, *, seed: int) -> CorrectedMean | None:
    if answers["threshold"].null_count() == answers.height or answers["passed"].null_count():
        return None
    return _corrected(answers, bounded=True, seed=seed, columns=("accepted", "passed"))


def _rate(answers: pl.DataFrame) -> Estimated | None:
    """Rogan and Gladen's estimate, if judge and people only say yes and no."""
    human, judge = answers["human"].to_numpy(), answers["score"].to_numpy()
    known = ~np.isnan(human)
    if not np.isin(np.concatenate([human[known], judge]), (0.0, 1.0)).all():
        return None
    passes, fails, others = judge[human == 1], judge[human == 0], judge[~known]
    sensitivity, passed_fails, rate = (float(side.mean()) if side.size else 0.0 for side in (passes, fails, others))
    return rogan_gladen(rate, others.size, 1 - passed_fails, fails.size, sensitivity, passes.size)


def disagreements(row: CalibrationRow, most: int) -> list[dict[str, Any]]:
    """Labelled answers on which judge and people differ, largest difference (score - human) first.

    `said` has people's labels on the metric's own scale, `comment` their comments (or null), `reason` the judge's
    reason.
    """
    labelled = row.answers.filter(pl.col("human").is_not_null())
    differences = labelled.with_columns(difference=pl.col("score") - pl.col("human"))
    differing = differences.filter(pl.col("difference").abs() > 1e-9)
    worst = differing.sort(pl.col("difference").abs(), descending=True, maintain_order=True).head(most)
    columns = (
        "dataset",
        "metric",
        "target",
        "target_repeat",
        "judge",
        "case_id",
        "score",
        "human",
        "difference",
        "said",
        "reason",
    )
    comment = pl.when(pl.col("comment") != "").then("comment").alias("comment")
    return worst.select(*columns, comment).to_dicts()
