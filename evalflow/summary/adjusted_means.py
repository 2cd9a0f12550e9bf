"""A run's means, adjusted by an earlier run's scores of the same cases and of more cases.

The estimator is the one for labels (`evalflow.stats.prediction`): this run's scores play the labels, the earlier run's
scores the judge. Its scores of the other cases show whether this run's sample was easy or hard. It is the control
variate of Deng, Xu, Kohavi & Walker 2013 (WSDM), with lambda cross-fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evalflow.lazy import pl
from evalflow.stats.arrays import Interval
from evalflow.stats.intervals import interval
from evalflow.stats.labelled import sampling_bias
from evalflow.stats.prediction import CorrectedMean, corrected_mean
from evalflow.summary.pairing import Pairing, Traits, by_case
from evalflow.summary.slices import cluster_name
from evalflow.summary.verdicts import is_biased_sample

FEWEST_DIFFERING = 5
"""With fewer cases whose scores differ between the runs, the interval is too narrow: the variance is underestimated."""


@dataclass(frozen=True, slots=True)
class AdjustedMean:
    """A mean of run B over the cases that A scored, adjusted by A's scores.

    `labels_saved` of `corrected` is the number of cases saved. `plain` is the interval of B's unadjusted mean, over the
    cases that both scored.
    """

    pair: tuple[str, str]
    dataset: str
    metric: str
    plain: Interval
    corrected: CorrectedMean

    def document(self) -> dict[str, object]:
        corrected = self.corrected
        return {
            "run_a": self.pair[0],
            "run_b": self.pair[1],
            "dataset": self.dataset,
            "metric": self.metric,
            "n": corrected.n,
            "n_other": corrected.n_unlabelled,
            "mean": corrected.human_mean,
            "ci_low": self.plain.low,
            "ci_high": self.plain.high,
            "method": self.plain.method,
            "adjusted": {
                "estimate": corrected.estimate,
                "ci_low": corrected.low,
                "ci_high": corrected.high,
                "std_error": corrected.std_error,
                "method": corrected.method,
                "lambda": corrected.lambda_,
            },
            "cases_saved": corrected.labels_saved,
        }


def adjusted_means(
    pairing: Pairing, pair: tuple[str, str], metrics: Mapping[str, Traits], *, seed: int = 0
) -> Iterator[AdjustedMean]:
    """The means of B whose intervals get narrower with A's scores of more cases.

    B's cases must be a random sample of A's. Left out are metrics where B has cases that A has not scored, where fewer
    than FEWEST_DIFFERING cases differ, and where A's scores show that B's cases can hardly be drawn at random
    (`sampling_bias`).
    """
    known = pairing.counts.filter((pl.col("only_a") > 0) & (pl.col("only_b") == 0))
    if not known.height:
        return
    cluster = cluster_name(pl.col("group"), pl.col("case_id")).alias("cluster")
    every = by_case(pairing.sides[0]).drop_nulls("score").with_columns(cluster).collect(engine="streaming")
    for dataset, metric in known.select("dataset", "metric").iter_rows():
        common = pairing.cases.filter(dataset=dataset, metric=metric)
        others = every.filter(dataset=dataset, metric=metric).join(common, on="case_id", how="anti").sort("place")
        if not common.height or not others.height:
            continue
        scores, sides = common["score_b"].to_numpy(), (common["score_a"].to_numpy(), others["score"].to_numpy())
        clusters = common["cluster"].to_numpy(), others["cluster"].to_numpy()
        bounded = metrics.get(metric, Traits()).bounded
        plain = interval(scores, clusters[0], bounded=bounded)
        corrected = corrected_mean(
            scores, *sides, clusters=clusters[0], unlabelled_clusters=clusters[1], bounded=bounded, seed=seed
        )
        differing = int((scores != sides[0]).sum())
        if (
            differing >= FEWEST_DIFFERING
            and _narrower(corrected, plain)
            and not is_biased_sample(sampling_bias(*sides, *clusters))
        ):
            yield AdjustedMean(pair, dataset, metric, plain, corrected)


def _narrower(corrected: CorrectedMean, plain: Interval) -> bool:
    ends = (corrected.low, corrected.high, plain.low, plain.high)
    if None in ends or not corrected.lambda_:
        return False
    low, high, plain_low, plain_high = (end or 0.0 for end in ends)
    return high - low < plain_high - plain_low
