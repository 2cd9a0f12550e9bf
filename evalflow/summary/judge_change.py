"""Agreement with people before and after a change of the judge (model or prompt), on the same answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from evalflow.lazy import np, pl
from evalflow.stats.arrays import Estimated
from evalflow.stats.paired import Difference, paired_difference
from evalflow.stats.rank import Measure, agreements
from evalflow.summary.agreement import (
    ANSWER_KEY,
    Classes,
    agreement,
    classes_of,
    clusters_of,
    headline_measure,
    labelled_scores,
    weights_of,
)
from evalflow.summary.pairing import Traits, lower_is_better

_ANSWERS = ("dataset", "metric", *ANSWER_KEY)
_SERIES = ("dataset", "metric", "judge", "judge_after")
_HEADLINES: Mapping[str, Measure] = {"kappa": "kappa", "kappa_weighted": "kappa_weighted", "spearman": "spearman"}


@dataclass(frozen=True, slots=True)
class AgreementChange:
    """One measure of agreement with people, before and after; the difference is after minus before, paired."""

    measure: Measure
    before: Estimated
    after: Estimated
    difference: Difference

    def document(self) -> dict[str, object]:
        """As JSON; the difference as {value, ci_low, ci_high, p_value, method}."""
        ends = {"before": self.before.document(), "after": self.after.document()}
        return {**ends, "difference": self.difference.document()}


@dataclass(frozen=True, slots=True)
class JudgeAgreementChange:
    """Agreement of a changed judge with people, on the labelled answers that it scored before and after.

    `changes` has the measure of agreement beyond chance that a calibration reports first, and the share of equal
    verdicts (accuracy) if scores are classes; it is empty if nothing can be measured. Judges are None for a metric
    without one.
    """

    dataset: str
    metric: str
    judges: tuple[str | None, str | None]
    n_labels: int  # number of labelled answers
    changes: Sequence[AgreementChange]

    def document(self) -> dict[str, object]:
        """As JSON, with the changes by measure."""
        about = {name: value for name, value in asdict(self).items() if name != "changes"}
        return {**about, "changes": {one.measure: one.document() for one in self.changes}}


def judge_changes(
    before: pl.LazyFrame, after: pl.LazyFrame, labels: pl.DataFrame, traits: Mapping[str, Traits], *, seed: int = 0
) -> list[JudgeAgreementChange]:
    """The change of agreement for each dataset and metric, of two runs that scored the same answers.

    `labels` are those of either run, or of both, from `label_frame`. Each answer that both judges scored counts once,
    with the mean of its labels. The interval of a difference is a paired bootstrap over answers, or over groups of
    them; that of accuracy is Newcombe's, tested by McNemar, if answers stand alone and labels carry no weights.
    """
    lower = lower_is_better(traits)
    sides = [_labelled(scores, labels, lower) for scores in (before, after)]
    second = sides[1].select(*_ANSWERS, judge_after="judge", score_after="score", threshold_after="threshold")
    both = sides[0].join(second, on=_ANSWERS, how="inner", maintain_order="left")
    agreement_changes: list[JudgeAgreementChange] = []
    for (dataset, metric, old, new), rows in both.group_by(_SERIES, maintain_order=True):
        changes = _changes(rows, traits.get(str(metric), Traits()), seed)
        agreement_changes.append(
            JudgeAgreementChange(str(dataset), str(metric), (_name(old), _name(new)), rows.height, changes)
        )
    return agreement_changes


def _name(judge: object) -> str | None:
    return None if judge is None else str(judge)


def _labelled(scores: pl.LazyFrame, labels: pl.DataFrame, lower: Collection[str]) -> pl.DataFrame:
    """The labelled answers that a run scored, without regard to the target's name."""
    given = labels.drop("target").unique([*_ANSWERS, "by", "use"], keep="first", maintain_order=True)
    targets = scores.select(*_ANSWERS, "target").with_columns(pl.col("target_repeat").cast(pl.Int64)).unique()
    known = given.join(targets.collect(), on=_ANSWERS, how="inner", maintain_order="left")
    return labelled_scores(scores, known.select(labels.columns), lower=lower).filter(pl.col("human").is_not_null())


def _changes(rows: pl.DataFrame, traits: Traits, seed: int) -> list[AgreementChange]:
    """The change of the first measure of agreement, and of accuracy, on rows with both judges' scores."""
    sides = rows, rows.with_columns(score="score_after", threshold="threshold_after")
    classes = _classes(sides, traits)
    measured = [agreement(side, own, seed=seed) for side, own in zip(sides, classes, strict=True)]
    documents = [{name: one.document() for name, one in results.items()} for results in measured]
    headline = next((name for one in documents if (name := headline_measure(one)) in _HEADLINES), None)
    names: list[Measure] = []
    if headline:
        names.append(_HEADLINES[headline])
    if classes[0] is not None:
        names.append("accuracy")
    results: list[AgreementChange] = []
    for name in names:
        clusters, weights = clusters_of(rows), weights_of(rows)
        human, judges = rows["human"].to_numpy(), np.stack([side["score"].to_numpy() for side in sides])
        old, new = classes
        if name == "accuracy" and weights is None and old is not None and new is not None:
            difference = paired_difference(old.agreed, new.agreed, clusters, seed, bounded=True)
        else:
            if name != "spearman" and old is not None and new is not None:
                human, judges = old.human, np.stack([old.judge, new.judge])
                clusters, weights = old.clusters(rows), old.weights(rows)
            both = agreements(human, judges, name, clusters, weights, seed=seed)
            difference = replace(both, n=rows.height).difference(0, 1)
        results.append(AgreementChange(name, measured[0][name], measured[1][name], difference))
    return results


def _classes(sides: Sequence[pl.DataFrame], traits: Traits) -> Sequence[Classes | None]:
    """The same classes for both judges; none if their thresholds differ, since people's verdicts then differ, too."""
    both = classes_of(pl.concat(sides), higher_is_better=traits.higher_is_better)
    if both is None or (both.by_threshold and sides[0]["threshold"].to_list() != sides[1]["threshold"].to_list()):
        return None, None
    cut = sides[0].height
    halves = [both.rows < cut, both.rows >= cut]
    return [
        replace(both, judge=both.judge[own], human=both.human[own], rows=both.rows[own] % cut, share=both.share[own])
        for own in halves
    ]
