"""Differences of runs as people would score them: the judge's, corrected by its bias on labelled cases (`prediction`).

    two runs of the same cases      by the cases labelled in both (`corrected_difference`)
    if these are too few            each run by its own labels (`corrected_apart`)
    two runs of different cases     each run by its own labels
    several runs of the same cases  by the cases labelled in all, else each by its own (`corrected_means`)

The best weight of the judge for a difference is not the best one for a run's mean. So runs that are corrected together
get the differences from their common cases, and their overall mean from each run's own labels: among all values with
these differences, the nearest to the means of the single runs.

A judge that favours one run is corrected in every row of the table, since each run's bias is measured on its own
labels. If the runs are corrected apart, each case or cluster adds its influence on both means, so that the error
includes the covariance of shared cases. `bench/calibration.py` measures coverage and false differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from evalflow.lazy import np
from evalflow.stats.arrays import ROUNDING, ArrayLike, Bools, Floats, Ints, cluster_codes, cluster_sums
from evalflow.stats.intervals import interval, t_interval
from evalflow.stats.labelled import Sample, sample, widest
from evalflow.stats.paired import Difference, paired_difference, t_test
from evalflow.stats.prediction import MIN_LABELS, centred, few_labels, lambdas_of, method_of, unseen, unsure
from evalflow.stats.ranks import mean_covariance, unsure_pairs
from evalflow.stats.skewness import mean_skewness, unreliable
from evalflow.stats.unpaired import unpaired_difference

_APART = "each run by its own labels"


def corrected_difference(
    judged: tuple[ArrayLike, ArrayLike],
    people: tuple[ArrayLike, ArrayLike],
    clusters: ArrayLike | None = None,
    seed: int = 0,
    *,
    bounded: bool = False,
) -> Difference | None:
    """The difference of two runs as people would score it: the judge's, corrected by the cases labelled in both.

    Args:
        judged: The judge's scores of A and B, one per case; or each case's share of passes.
        people: People's scores of A and B, NaN without a label.
        clusters: The cluster of each case; None if each stands alone.
        seed: The seed of the folds.
        bounded: Whether scores lie in 0..1.

    Returns:
        The means, which differ by exactly this difference. None if fewer than MIN_LABELS cases, or only one cluster,
        are labelled, and if neither judge nor people see any difference.
    """
    table, labels = (np.column_stack([np.asarray(x, dtype=np.float64) for x in side]) for side in (judged, people))
    cases = _Cases(table, labels, _codes(clusters, len(table)))
    known: Bools = ~np.isnan(labels.sum(axis=1))
    s = cases.pair(known, 0, 1)
    differs = s.labels.any() or s.judged.any() or s.unlabelled.any()
    if s.labels.size < MIN_LABELS or s.labelled_units < 2 or not differs:
        return None
    middle = sum(cases.level(one, seed) for one in (0, 1)) / 2
    lambdas, why = lambdas_of(s, seed)
    if why:
        sides = labels[known, 0], labels[known, 1]
        difference = paired_difference(*sides, s.units if s.clustered else None, seed, bounded=bounded)
        half = (difference.difference or 0.0) / 2
        return _by_labels(replace(difference, value_a=middle - half, value_b=middle + half), why)
    value, error = centred(s, lambdas)
    value_a, value_b = middle - value / 2, middle + value / 2
    groups = int(np.unique(cases.codes).size)
    if not bounded and (why := unsure(s, lambdas)):
        return Difference(known.size, groups, value_a, value_b, value, method=f"none: {why}")
    df = s.labelled_units - 1
    low, high = (float(end) for end in t_interval(value, error, df))
    p = t_test(value, error, df)
    return Difference(known.size, groups, value_a, value_b, value, error, df, low, high, p, method_of(s))


def corrected_apart(
    judged: tuple[ArrayLike, ArrayLike],
    people: tuple[ArrayLike, ArrayLike],
    clusters: tuple[ArrayLike, ArrayLike],
    seed: int = 0,
    *,
    bounded: bool = False,
) -> Difference | None:
    """The difference of two runs as people would score it, each corrected by its own labels; their cases may differ.

    Arguments as in `corrected_difference`, but with clusters for each run; a cluster has the same name in both. None if
    a run has fewer than MIN_LABELS labels, or labels in one cluster only.
    """
    table, labels = ([np.asarray(x, dtype=np.float64) for x in side] for side in (judged, people))
    codes = cluster_codes(np.concatenate([np.asarray(own) for own in clusters]))
    sides = [
        _Cases(score[:, None], label[:, None], own)
        for score, label, own in zip(table, labels, np.split(codes, [table[0].size]), strict=True)
    ]
    known = [~np.isnan(label) for label in labels]
    samples = [side.run(own, 0) for side, own in zip(sides, known, strict=True)]
    if any(s.labels.size < MIN_LABELS or s.labelled_units < 2 for s in samples):
        return None
    tunings = [lambdas_of(s, seed) for s in samples]
    if all(why for _, why in tunings):
        units = [side.codes[own] for side, own in zip(sides, known, strict=True)]
        return _by_labels(unpaired_difference(*(s.labels for s in samples), *units, bounded=bounded), tunings[0][1])
    groups = int(codes.max()) + 1
    parts = [
        side.influences(own, 0, lambdas, groups) for side, own, (lambdas, _) in zip(sides, known, tunings, strict=True)
    ]
    unseen_of = [unseen(s, s.mean(lambdas)) for s, (lambdas, _) in zip(samples, tunings, strict=True)]
    (value_a, of_a), (value_b, of_b) = parts
    if not bounded and (
        why := unreliable(mean_skewness(of_b - of_a), min(s.labelled_units for s in samples), "labels")
    ):
        n = table[0].size + table[1].size
        return Difference(n, groups, value_a, value_b, value_b - value_a, method=f"none: {why}")
    variances = [float((of**2).sum()) + more for (_, of), more in zip(parts, unseen_of, strict=True)]
    freedoms = [s.labelled_units - 1 for s in samples]
    if bool((of_a * of_b).any()):
        variance, df = float(((of_b - of_a) ** 2).sum()) + sum(unseen_of), float(min(freedoms))
    else:
        variance = sum(variances)
        df = variance**2 / sum(own**2 / of for own, of in zip(variances, freedoms, strict=True))
    value, error = value_b - value_a, math.sqrt(variance)
    low, high = (float(end) for end in t_interval(value, error, df))
    method = f"{method_of(min(samples, key=lambda s: s.labelled_units)).partition(':')[0]}: {_APART}"
    n, p = table[0].size + table[1].size, t_test(value, error, df)
    return Difference(n, groups, value_a, value_b, value, error, df, low, high, p, method)


@dataclass(frozen=True, slots=True)
class CorrectedMeans:
    """People's means of several runs on the same cases, with their covariance and its degrees of freedom.

    `ends` are the intervals of the single means; `parts` are for `rank_intervals`; `labelled` is the number of labelled
    cases that correct a run, the minimum over the runs.
    """

    values: Floats
    ends: Sequence[tuple[float | None, float | None]]
    covariance: Floats
    df: float
    parts: Floats | None
    labelled: int
    method: str
    unsure: Bools | None = None  # pairs of runs not to be told apart, for scores without fixed ends


def labelled_together(cases: int, fewest: int) -> bool:
    """Whether enough cases are labelled in all runs to correct by; else each run uses its own, `fewest` in one."""
    return cases >= MIN_LABELS and 2 * cases >= fewest


def corrected_means(
    judged: ArrayLike, people: ArrayLike, clusters: ArrayLike | None = None, seed: int = 0, *, bounded: bool = False
) -> CorrectedMeans | str:
    """The means of runs on the same cases as people would score them; or the reason why the labels correct none.

    `judged` and `people` have the shape (cases, runs); a missing label is NaN. Uses the cases labelled in all runs if
    there are enough (`labelled_together`), with the mean lambda of all pairs; else each run's labels.
    """
    table, labels = np.asarray(judged, dtype=np.float64), np.asarray(people, dtype=np.float64)
    cases, runs = _Cases(table, labels, _codes(clusters, len(table))), table.shape[1]
    known: Bools = ~np.isnan(labels)
    everywhere: Bools = ~np.isnan(labels.sum(axis=1))
    own = int(known.sum(axis=0).min())
    together = labelled_together(int(everywhere.sum()), own)
    if together:
        known = np.repeat(everywhere[:, None], runs, axis=1)
    elif own < MIN_LABELS:
        return few_labels(own)
    units = min(int(np.unique(cases.codes[column]).size) for column in known.T)
    if units < 2:
        return few_labels(MIN_LABELS)
    means = cases.alone(seed)
    missed, method = means.unseen, method_of(cases.run(known[:, 0], 0))
    if not together:
        method = f"{method.partition(':')[0]}: {_APART}"
    else:
        pairs = [cases.pair(everywhere, a, b) for a, b in combinations(range(runs), 2)]
        apart = [s for s in pairs if s.labels.any() or s.judged.any() or s.unlabelled.any()]
        shared = np.mean([lambdas_of(s, seed)[0] for s in apart] or [np.zeros(int(everywhere.sum()))], axis=0)
        if not shared.any():
            return _means_of_labels(cases, everywhere, means, bounded=bounded)
        missed = np.full(runs, max(unseen(s, s.mean(shared)) for s in pairs) / 2)
        means = cases.means(known, [shared] * runs).about(means)
    covariance = means.spread.T @ means.spread + np.diag(missed)
    pairs_unsure = None if bounded else unsure_pairs(means.spread)
    ends, labelled = means.ends(units, bounded=bounded), int(known.sum(axis=0).min())
    return CorrectedMeans(means.values, ends, covariance, units - 1, None, labelled, method, pairs_unsure)


def _means_of_labels(cases: _Cases, known: Bools, alone: _Means, *, bounded: bool) -> CorrectedMeans:
    """Means of runs with the differences of their labels, for when the judge makes no difference more precise."""
    labels, codes = cases.labels[known], cases.codes[known]
    grouped = None if np.unique(codes).size == codes.size else codes
    values, covariance, df, parts = mean_covariance(labels, grouped)
    bounds = [interval(column, grouped, bounded=bounded) for column in labels.T]
    ends = [(one.low, one.high) for one in bounds]
    method = f"{bounds[0].method.partition(':')[0]}: labels alone"
    off = np.column_stack([cluster_sums(column - column.mean(), grouped) for column in labels.T])
    pairs_unsure = None if bounded else unsure_pairs(off)
    zeros = [np.zeros(len(labels))] * len(values)
    means = cases.means(np.repeat(known[:, None], len(values), axis=1), zeros).about(alone)
    if not np.allclose(means.values, values, rtol=0, atol=ROUNDING):
        values, ends = means.values, means.ends(int(np.unique(codes).size), bounded=bounded)
    return CorrectedMeans(values, ends, covariance, df, parts, len(labels), method, pairs_unsure)


def _by_labels(difference: Difference, why: str) -> Difference:
    return replace(
        difference, method=f"{difference.method}{', ' if ':' in difference.method else ': '}labels alone, {why}"
    )


def _codes(clusters: ArrayLike | None, n: int) -> Ints:
    return np.arange(n, dtype=np.int64) if clusters is None else cluster_codes(clusters)


@dataclass(frozen=True, slots=True)
class _Means:
    """Means of runs, each cluster's influence on them (clusters, runs), and the variance that labels may miss."""

    values: Floats
    spread: Floats
    unseen: Floats

    def about(self, alone: _Means) -> _Means:
        """Return means with the same differences, shifted to the overall mean of the single runs."""
        values = self.values + (alone.values.mean() - self.values.mean())
        spread = self.spread + (alone.spread.mean(axis=1) - self.spread.mean(axis=1))[:, None]
        return _Means(values, spread, np.maximum(self.unseen, alone.unseen))

    def ends(self, units: int, *, bounded: bool) -> list[tuple[float | None, float | None]]:
        """The intervals of the means, by t with one degree of freedom fewer than labelled units."""
        errors = np.sqrt((self.spread**2).sum(axis=0) + self.unseen)
        low, high = t_interval(self.values, errors, np.full(errors.size, units - 1.0))
        unsure = [not bounded and bool(unreliable(mean_skewness(of), units)) for of in self.spread.T]
        return [
            (None, None) if without else (one_low, one_high)
            for without, one_low, one_high in zip(unsure, low.tolist(), high.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class _Cases:
    """Scores and labels of shape (cases, runs), NaN without a label, and the cluster of each case."""

    table: Floats
    labels: Floats
    codes: Ints

    def run(self, known: Bools, one: int) -> Sample:
        return self._sample(known, self.table[:, one], self.labels[:, one], self._step(known, [one]))

    def pair(self, known: Bools, a: int, b: int) -> Sample:
        scores, labels = (side[:, b] - side[:, a] for side in (self.table, self.labels))
        return self._sample(known, scores, labels, self._step(known, [a, b]))

    def _step(self, known: Bools, runs: Sequence[int]) -> float:
        return widest(*(self.table[:, one] for one in runs), *(self.labels[known, one] for one in runs))

    def _sample(self, known: Bools, scores: Floats, labels: Floats, step: float) -> Sample:
        units = {"clusters": self.codes[known], "unlabelled_clusters": self.codes[~known]}
        return sample(labels[known], scores[known], scores[~known], **units, step=step)

    def means(self, known: Bools, lambdas: Sequence[Floats]) -> _Means:
        """The corrected means by these labels and lambdas, one array of shape (cases,) for each run."""
        groups = int(self.codes.max()) + 1
        parts = [self.influences(known[:, one], one, of, groups) for one, of in enumerate(lambdas)]
        missed = [unseen(s := self.run(known[:, one], one), s.mean(of)) for one, of in enumerate(lambdas)]
        return _Means(
            np.array([value for value, _ in parts]), np.column_stack([of for _, of in parts]), np.array(missed)
        )

    def alone(self, seed: int) -> _Means:
        """The mean of each run by all of its own labels, with the best lambdas for it."""
        known: Bools = ~np.isnan(self.labels)
        return self.means(known, [lambdas_of(self.run(own, one), seed)[0] for one, own in enumerate(known.T)])

    def level(self, one: int, seed: int) -> float:
        """The value of `alone` for one run."""
        known: Bools = ~np.isnan(self.labels[:, one])
        if known.all():
            return float(self.labels[:, one].mean())
        s = self.run(known, one)
        return centred(s, lambdas_of(s, seed)[0])[0]

    def influences(self, known: Bools, one: int, lambdas: Floats, groups: int) -> tuple[float, Floats]:
        """A run's corrected mean and each cluster's influence on it, with the CR1 factor (`rectified`)."""
        scores, rest = self.table[known, one], self.table[~known, one]
        origin = float(rest.mean()) if rest.size else 0.0
        off = self.labels[known, one] - lambdas * (scores - origin)
        value = float(off.mean())
        of = self._influence(known, (off - value) / off.size, groups)
        if rest.size and lambdas.any():
            of += self._influence(~known, float(lambdas.mean()) * (rest - origin) / rest.size, groups)
        return value, of

    def _influence(self, chosen: Bools, values: Floats, groups: int) -> Floats:
        codes = self.codes[chosen]
        n = int(np.unique(codes).size)
        sums: Floats = np.bincount(codes, values, groups).astype(np.float64)
        return sums * math.sqrt(n / max(1, n - 1))
