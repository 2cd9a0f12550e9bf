"""Figures over a run: means of a measure, pairs compared in both orders, and calibration of stated confidences.

The Brier score is the mean of (confidence - right)^2, with right 1 or 0 (Brier 1950, Monthly Weather Review 78:1); for
several classes, the confidence in the predicted one. The expected calibration error is the mean over records of
|accuracy - confidence| of their bin, with bins of equal width (Naeini et al. 2015, AAAI 29). For both, 0 is best.

Noise makes the absolute gap of a bin too large, so that even calibrated confidences have an error, and resampling would
add more noise. The interval of the calibration error is therefore derived from the noise of the gaps: normal, with the
covariance of their sums over clusters (`_noise_bound`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evalflow.lazy import np, pl
from evalflow.stats.arrays import UPPER, Bools, Estimated, Floats, Hashes, Interval, Ints, no_interval
from evalflow.stats.bootstrap import DRAWS, small_sample_note
from evalflow.stats.intervals import interval
from evalflow.stats.paired import mcnemar
from evalflow.stats.quantiles import normal_quantile, quantile

PREFERENCE_FIGURES = ("win_rate", "consistency", "first_preferred", "longer_preferred")
BINS = 10
# A gap of more standard errors than this is sure to have the sign of the true gap.
_CLEAR = 2.5


@dataclass(frozen=True, slots=True)
class Figure(Estimated):
    """A number over a run that is not a mean of scores, such as recall; None if the divisor is 0."""

    statistic: str
    details: Mapping[str, Any] | None = None


def figure_of(
    statistic: str, value: float | None, n: int, ci: Interval, details: Mapping[str, Any] | None = None
) -> Figure:
    """Return a figure with this interval."""
    return Figure(value, ci.low, ci.high, ci.std_error, n, ci.method, statistic, details)


def mean_figure(statistic: str, values: pl.Series, counts: pl.DataFrame) -> Figure:
    """The mean over records of a measure in 0..1, given for each row of `counts`; null if undefined.

    `n` counts the defined records; `details` has their median, min, max and std (n - 1), and the undefined records.
    """
    repeats = (counts["n"] * counts["clusters"]).to_numpy()
    known = values.is_not_null().to_numpy()
    scores = np.repeat(values.drop_nulls().to_numpy(), repeats[known])
    undefined = int(repeats[~known].sum())
    if not scores.size:
        return figure_of(statistic, None, 0, no_interval("undefined in every case"))
    ci = interval(scores, _clusters(counts, known, repeats), bounded=True)
    spread = {
        "median": float(np.median(scores)),
        "min": float(scores.min()),
        "max": float(scores.max()),
        "std": float(scores.std(ddof=1)) if scores.size > 1 else None,
        "undefined": undefined,
    }
    return figure_of(statistic, float(scores.mean()), scores.size, ci, spread)


def _clusters(counts: pl.DataFrame, known: Bools, repeats: Ints) -> Hashes | None:
    """The cluster of each record; None if each is its own cluster."""
    names = counts["cluster"].hash().to_numpy()[known]
    if (counts["n"].to_numpy()[known] == 1).all() and np.unique(names).size == names.size:
        return None
    return np.repeat(names, repeats[known])


def preference_figures(counts: pl.DataFrame) -> list[Figure]:
    """Win rate, consistency, position bias and length preference of pairwise verdicts.

    - win_rate: the mean of the scores; a tie counts half.
    - consistency: the share of the pairs whose verdict does not change with the order.
    - first_preferred: among the pairs whose verdict changes with the order, the share that prefers the answer read
      first, with the swap test for position bias as details.
    - longer_preferred: among the pairs won or lost whose answers differ in length, the share that prefers the longer
      one. A longer answer may be better, so this alone is not evidence of bias.

    `counts` also has score, lean (1 if the judge favours the answer read first, -1 the second, 0 if the order does not
    matter), and longer (1 or 0), each null if undefined.
    """
    lean = pl.col("lean")
    columns = counts.select(
        win_rate="score",
        consistency=(lean == 0).cast(pl.Float64),
        first_preferred=pl.when(lean != 0).then((lean > 0).cast(pl.Float64)),
        longer_preferred="longer",
    )
    details = {
        "win_rate": _verdicts(counts),
        "consistency": {},
        "first_preferred": swap_test(counts),
        "longer_preferred": {},
    }
    return [replace(mean_figure(name, columns[name], counts), details=details[name]) for name in PREFERENCE_FIGURES]


def swap_test(counts: pl.DataFrame) -> dict[str, Any]:
    """Exact sign test for position bias: whether verdicts that change with the order favour one position.

    Records of a cluster are not independent, so a cluster counts once, for the position that most of its records
    favour. `first` and `second` are the numbers of clusters that favour each; `p_value` is None if none does.
    """
    net = (pl.col("lean") * pl.col("n")).sum()
    leaning = counts.group_by("cluster").agg(net=net, alike=pl.col("clusters").first())
    first, second = (int(leaning.filter(side)["alike"].sum()) for side in (pl.col("net") > 0, pl.col("net") < 0))
    return {"first": first, "second": second, "p_value": mcnemar(first, second) if first + second else None}


def _verdicts(counts: pl.DataFrame) -> dict[str, int]:
    pairs = pl.col("n") * pl.col("clusters")
    kinds = {
        "wins": pl.col("score") > 0.5,  # for a panel: the majority
        "losses": pl.col("score") < 0.5,
        "ties": (pl.col("score") == 0.5) & (pl.col("lean").fill_null(0) == 0),
        "decided_by_order": pl.col("lean") != 0,
    }
    return {name: int(counts.select(pairs.filter(kind).sum()).item()) for name, kind in kinds.items()}


def reliability_figures(counts: pl.DataFrame, seed: int = 0, bins: int = BINS) -> list[Figure]:
    """Brier score and expected calibration error of predictions that state their confidence.

    `counts` also has confidence (0..1, null if none is stated) and correct. The details of ece are the reliability
    diagram: `bins`, each with low, high, n, confidence and accuracy (means; null where n is 0); and `by_chance`, the
    mean error that calibrated confidences would show with as many records.
    """
    gap = pl.col("confidence") - pl.col("correct").cast(pl.Float64)
    rows = counts.with_columns(squared=gap**2)
    brier = mean_figure("brier", rows["squared"], rows)
    stated = counts.drop_nulls("confidence")
    return [brier, _calibration_error(stated, seed, bins)]


def calibration_error(totals: Floats) -> Floats:
    """The expected calibration error for each row of totals.

    The columns of `totals` are the sum of (right - confidence) in each bin, then the number of records.
    """
    gaps: Floats = np.abs(totals[:, :-1]).sum(axis=1)
    return np.divide(gaps, totals[:, -1], out=np.full(gaps.shape, np.nan), where=totals[:, -1] > 0)


def bin_of(confidence: Floats, bins: int = BINS) -> Ints:
    """The bin of each confidence."""
    return np.minimum((confidence * bins).astype(np.int64), bins - 1)


def _calibration_error(counts: pl.DataFrame, seed: int, bins: int) -> Figure:
    if not counts.height:
        return figure_of("ece", None, 0, no_interval("no confidence is stated"))
    confidence = counts["confidence"].to_numpy().astype(np.float64)
    correct = counts["correct"].to_numpy().astype(np.float64)
    records = (counts["n"] * counts["clusters"]).to_numpy().astype(np.float64)
    place = bin_of(confidence, bins)
    n, stated, right = (np.bincount(place, records * x, bins).astype(np.float64) for x in (1.0, confidence, correct))
    total = float(records.sum())
    value = float(np.abs(right - stated).sum() / total)
    ci, chance = no_interval("one case"), None
    sums, sizes, alike, alone = _by_cluster(counts, place, correct - confidence, bins)
    if alike.sum() > 1:
        # The few records of a bin may all agree. Its variance is at least that with one more right and one more wrong
        # record, and at least that of calibrated confidences.
        share = (right + 1) / (n + 2)
        least = np.maximum(n * share * (1 - share), np.bincount(place, records * confidence * (1 - confidence), bins))
        ci, chance = _noise_bound(sums, sizes, alike, least, seed, alone=alone)
    elif not alone:
        ci = no_interval("one cluster")
    return figure_of("ece", value, int(total), ci, {"bins": _diagram(n, stated, right), "by_chance": chance})


def _diagram(n: Floats, confidence: Floats, correct: Floats) -> list[dict[str, Any]]:
    return [
        {
            "low": i / n.size,
            "high": (i + 1) / n.size,
            "n": int(n[i]),
            "confidence": float(confidence[i] / n[i]) if n[i] else None,
            "accuracy": float(correct[i] / n[i]) if n[i] else None,
        }
        for i in range(n.size)
    ]


def _by_cluster(counts: pl.DataFrame, place: Ints, gap: Floats, bins: int) -> tuple[Floats, Floats, Ints, bool]:
    """Sum the gaps and count the records by cluster and bin.

    Also returns how many clusters each row stands for, and whether each record is its own cluster.
    """
    n, clusters = counts["n"].to_numpy().astype(np.float64), counts["clusters"].to_numpy().astype(np.int64)
    names = counts["cluster"].hash().to_numpy()
    _, codes = np.unique(names, return_inverse=True)
    sums, sizes = (np.zeros((int(codes.max()) + 1, bins)) for _ in range(2))
    np.add.at(sums, (codes, place), n * gap)
    np.add.at(sizes, (codes, place), n)
    alike = np.ones(len(sums), dtype=np.int64)
    alike[codes] = clusters
    return sums, sizes, alike, bool((n == 1).all()) and len(sums) == n.size


def _noise_bound(
    sums: Floats, sizes: Floats, alike: Ints, least: Floats, seed: int, *, alone: bool
) -> tuple[Interval, float]:
    """The interval of the calibration error, and the mean error of calibrated confidences.

    With gaps g = d + e (true gaps and noise, weighted by the bins' shares), sum |d| lies within sum |g| - sum |e| and
    sum |g| - sum sign(d) e, by the triangle inequality. The lower end subtracts the 97.5th percentile of sum |e|, in
    which a bin whose sign is clear counts sign(g) e instead of |e| (a selection of binding inequalities, as Andrews &
    Soares 2010, Econometrica 78:119); the upper end adds the standard error of sum sign(g) e times t. `sums` (of right
    - confidence) and `sizes` are by cluster and bin, `alike` is the number of equal clusters that a row stands for, and
    `least` the minimum variance of each bin's sum.
    """
    groups, total, size = int(alike.sum()), alike @ sums, alike @ sizes
    records = float(size.sum())
    mean = np.divide(total, size, out=np.zeros(total.shape), where=size > 0)
    within = alike @ (sums - sizes * mean) ** 2
    covariance = ((sums.T * alike) @ sums - np.outer(total, total) / groups) * groups / (groups - 1)
    covariance = (covariance + np.diag(np.maximum(least - within, 0))) / records**2
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    t = quantile(UPPER, groups - 1)
    noise = np.random.default_rng(seed).standard_normal((DRAWS, total.size)) @ root
    sign = np.where(total < 0, -1.0, 1.0)
    clear = np.abs(total) > _CLEAR * records * np.sqrt(np.diag(covariance))
    added = noise[:, clear] @ sign[clear] + np.abs(noise[:, ~clear]).sum(axis=1)
    error = float(np.sqrt(sign @ covariance @ sign))
    value = float(np.abs(total).sum() / records)
    low = value - float(np.quantile(added, UPPER)) * t / normal_quantile(UPPER)
    caveat = "" if alone else small_sample_note(groups, clustered=True)
    method = f"{'' if alone else 'cluster_'}noise_bound{': ' if caveat else ''}{caveat}"
    return Interval(max(0.0, low), min(1.0, value + t * error), error, method), float(np.abs(noise).sum(axis=1).mean())
