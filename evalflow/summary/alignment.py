"""Whether a judge agrees better with held-out labels after it was taught with people's labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evalflow.lazy import np, pl
from evalflow.stats.arrays import Floats
from evalflow.stats.bootstrap import cluster_counts
from evalflow.stats.drawn_spreads import drawn_spreads
from evalflow.stats.paired import Difference, cases_needed
from evalflow.stats.prediction import observed_spread
from evalflow.stats.rank import Agreements
from evalflow.summary.agreement import clusters_of, labelled_scores
from evalflow.summary.judge_change import AgreementChange, judge_changes
from evalflow.summary.pairing import Traits, lower_is_better
from evalflow.summary.verdicts import Verdict, helps, of_taught_judge

_KEY = ("case_id", "target_repeat")


@dataclass(frozen=True, slots=True)
class Alignment:
    """A judge before and after it was taught, on the labelled answers that were held out and that it scored both times.

    Attributes:
        changes: Measures of agreement with people; see `deciding`.
        width: Interval width of the mean over all answers, corrected by these labels; None if nothing varies.
        learned: Labelled answers of the other part, which the examples come from.
        held_out: Labelled answers that were held out; `scored` of them were scored both times.
        answers: Scored answers of the run, which the mean is over.
    """

    metric: str
    dataset: str
    judge: str | None
    changes: Sequence[AgreementChange]
    width: Difference | None
    learned: int
    held_out: int
    scored: int
    answers: int

    @property
    def deciding(self) -> AgreementChange | None:
        """The first measure whose difference has an interval. Kappa has none if both judges are at its extremes."""
        return next((one for one in self.changes if one.difference.low is not None), next(iter(self.changes), None))

    @property
    def verdict(self) -> Verdict:
        return of_taught_judge(self.deciding.difference if self.deciding else None)

    @property
    def helps(self) -> bool | None:
        """Whether the judge agrees better with people (True) or less (False); None if the labels do not decide."""
        return helps(self.verdict)

    @property
    def labels_needed(self) -> int | None:
        """Labelled answers, both parts together, that would decide such a difference; None if no number would."""
        comparison = self.deciding.difference if self.deciding else None
        if comparison is None or comparison.difference is None or comparison.low is None or comparison.high is None:
            return None
        needed = cases_needed(comparison.difference, comparison.low, comparison.high, 0.0, comparison.n)
        whole = self.learned + self.held_out
        return None if needed is None else max(whole + 1, math.ceil(needed * whole / self.scored))

    def document(self) -> dict[str, object]:
        """As JSON, with the changes by measure, and differences as {value, ci_low, ci_high, p_value, method}."""
        width = self.width
        return {
            "metric": self.metric,
            "dataset": self.dataset,
            "judge": self.judge,
            "verdict": self.verdict,
            "learned": self.learned,
            "held_out": self.held_out,
            "scored": self.scored,
            "changes": {one.measure: one.document() for one in self.changes},
            "corrected_width": width
            and {"before": width.value_a, "after": width.value_b, "difference": width.document()},
            "labels_needed": self.labels_needed if self.helps is None else None,
        }


def alignment_of(
    before: pl.LazyFrame,
    after: pl.LazyFrame,
    labels: pl.DataFrame,
    traits: Traits,
    *,
    learned: int,
    answers: int,
    seed: int = 0,
) -> Alignment:
    """Compare two judges of one metric on the same answers, by held-out labels from `label_frame`."""
    metric, dataset = str(labels["metric"][0]), str(labels["dataset"][0])
    held_out = labels.select(_KEY).n_unique()
    agreement_changes = judge_changes(before, after, labels, {metric: traits}, seed=seed)
    if not agreement_changes:
        return Alignment(metric, dataset, None, [], None, learned, held_out, 0, answers)
    (change,) = agreement_changes
    width = _width(before, after, labels, traits, answers, seed)
    return Alignment(
        metric, dataset, change.judges[1], change.changes, width, learned, held_out, change.n_labels, answers
    )


def _width(
    before: pl.LazyFrame, after: pl.LazyFrame, labels: pl.DataFrame, traits: Traits, answers: int, seed: int
) -> Difference | None:
    """The width of the corrected mean's interval, before and after; a paired bootstrap over answers or groups of them.

    It is the width expected from the spread of labels and scores (`Spread.width`), since only the labelled answers
    were scored by both judges. None for weighted labels.
    """
    lower = lower_is_better({str(labels["metric"][0]): traits})
    both = labelled_scores(before, labels, lower=lower).filter(pl.col("human").is_not_null())
    if both["weight"].n_unique() > 1:
        return None
    new = after.group_by(_KEY).agg(score_after=pl.col("score").mean()).with_columns(pl.col("target_repeat").cast(int))
    both = both.join(new.drop_nulls().collect(), on=list(_KEY), how="inner", maintain_order="left")
    human = both["human"].to_numpy()
    sides = [both[name].to_numpy() for name in ("score", "score_after")]
    own = clusters_of(both)
    clusters = np.arange(human.size) if own is None else np.unique(own, return_inverse=True)[1]
    groups = int(clusters.max()) + 1 if clusters.size else 0
    total = max(answers, human.size + 2)
    spreads = [observed_spread(human, side, clusters) for side in sides]
    values = np.array([math.nan if one is None else float(one.width(human.size, total)) for one in spreads])
    if np.isnan(values).any():
        return None
    draws: list[Floats] = []
    for times in cluster_counts(groups, human.size, seed):
        resampled = [drawn_spreads(human, side, clusters, times) for side in sides]
        draws.append(np.stack([one.width(human.size, total) for one in resampled], axis=1))
    return Agreements(values, np.concatenate(draws), human.size, groups).difference(0, 1)
