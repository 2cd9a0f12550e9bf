"""Differences of runs by people's labels: the judge's, corrected by its bias on labelled cases (see `prediction`).

    two runs of the same cases      by the cases labelled in both (`corrected_difference`)
    if these are too few            each run by its own labels (`corrected_apart`)
    two runs of different cases     each run by its own labels
    several runs of the same cases  by the cases labelled in all, else each by its own (`corrected_means`)

A judge who favours a run is corrected in all of them, since each run's bias is measured on its own labels. Where the
runs are corrected apart, each case or cluster adds its influence on both means, so that the error has the covariance
of cases that several runs share. `bench/calibration.py` measures coverage and false differences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from evalflow.lazy import np
from evalflow.stats.arrays import ArrayLike, Bools, Floats, Ints, cluster_codes, cluster_sums
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
    """People's difference of two runs on the same cases: the judge's, corrected by the cases labelled in both.

    Args:
        judged: The judge's scores of A and of B, one per case; or the shares that pass.
        people: People's, NaN without a label.
        clusters: The cluster of each case; None if each stands alone.
        seed: Of the folds.
        bounded: Whether scores lie in 0..1.

    Returns:
        Both means are corrected with the same lambdas, so that they differ by the difference. None for labels of fewer
        than MIN_LABELS cases, or of one cluster, and where neither judge nor people see any difference.
    """
    table, labels = (np.column_stack([np.asarray(x, dtype=np.float64) for x in side]) for side in (judged, people))
    cases = _Cases(table, labels, _codes(clusters, len(table)))
    known: Bools = ~np.isnan(labels.sum(axis=1))
    s = cases.pair(known, 0, 1)
    differs = s.labels.any() or s.judged.any() or s.unlabelled.any()
    if s.labels.size < MIN_LABELS or s.labelled_units < 2 or not differs:
        return None
    lambdas, why = lambdas_of(s, seed)
    if why:
        sides = labels[known, 0], labels[known, 1]
        return _by_labels(paired_difference(*sides, s.units if s.clustered else None, seed, bounded=bounded), why)
    value_a, value_b = (centred(cases.run(known, one), lambdas)[0] for one in (0, 1))
    value, error = centred(s, lambdas)
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
    """People's difference of two runs, each corrected by its own labels; the runs may have different cases.

    Arguments are those of `corrected_difference`, but with clusters for each run, of the same names in both. None if a
    run has fewer than MIN_LABELS labels, or labels in one cluster only.
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
    found = [lambdas_of(s, seed) for s in samples]
    if all(why for _, why in found):
        units = [side.codes[own] for side, own in zip(sides, known, strict=True)]
        return _by_labels(unpaired_difference(*(s.labels for s in samples), *units, bounded=bounded), found[0][1])
    groups = int(codes.max()) + 1
    parts = [
        side.influences(own, 0, lambdas, groups) for side, own, (lambdas, _) in zip(sides, known, found, strict=True)
    ]
    unseen_of = [unseen(s, s.mean(lambdas)) for s, (lambdas, _) in zip(samples, found, strict=True)]
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

    `ends` are the intervals of the single means; `parts` are for `rank_intervals`; `labelled` is the number of cases
    whose labels correct a run, the smallest of all runs.
    """

    values: Floats
    ends: Sequence[tuple[float | None, float | None]]
    covariance: Floats
    df: float
    parts: Floats | None
    labelled: int
    method: str
    unsure: Bools | None = None  # pairs of runs that cannot be told apart, of scores without fixed ends


def corrected_means(
    judged: ArrayLike, people: ArrayLike, clusters: ArrayLike | None = None, seed: int = 0, *, bounded: bool = False
) -> CorrectedMeans | str:
    """People's means of runs of the same cases; or why the labels correct none of them.

    `judged` and `people` have the shape (cases, runs); a label is NaN where there is none. By the cases labelled in
    all runs if there are MIN_LABELS, with the mean of the lambdas of every two runs; else each run by its own labels.
    """
    table, labels = np.asarray(judged, dtype=np.float64), np.asarray(people, dtype=np.float64)
    cases, runs = _Cases(table, labels, _codes(clusters, len(table))), range(table.shape[1])
    known: Bools = ~np.isnan(labels)
    everywhere: Bools = ~np.isnan(labels.sum(axis=1))
    own, together = int(known.sum(axis=0).min()), int(everywhere.sum()) >= MIN_LABELS
    if together:
        known = np.repeat(everywhere[:, None], table.shape[1], axis=1)
    elif own < MIN_LABELS:
        return few_labels(own)
    samples = [cases.run(known[:, one], one) for one in runs]
    units = min(s.labelled_units for s in samples)
    if units < 2:
        return few_labels(MIN_LABELS)
    if together:
        pairs = [cases.pair(known[:, 0], a, b) for a, b in combinations(runs, 2)]
        apart = [s for s in pairs if s.labels.any() or s.judged.any() or s.unlabelled.any()]
        shared = np.mean([lambdas_of(s, seed)[0] for s in apart] or [np.zeros(samples[0].labels.size)], axis=0)
        if not shared.any():
            return _means_of_labels(labels[known[:, 0]], cases.codes[known[:, 0]], bounded=bounded)
        lambdas = [shared for _ in runs]
        missed = [max(unseen(s, s.mean(shared)) for s in pairs) / 2 for _ in runs]
    else:
        lambdas = [lambdas_of(s, seed)[0] for s in samples]
        missed = [unseen(s, s.mean(lam)) for s, lam in zip(samples, lambdas, strict=True)]
    groups = int(cases.codes.max()) + 1
    parts = [cases.influences(known[:, one], one, lambdas[one], groups) for one in runs]
    spread = np.column_stack([of for _, of in parts])
    errors = [
        math.sqrt(float((of**2).sum()) + unseen(s, s.mean(lam)))
        for (_, of), s, lam in zip(parts, samples, lambdas, strict=True)
    ]
    values = np.array([value for value, _ in parts])
    low, high = t_interval(values, errors, np.full(len(parts), units - 1.0))
    ends = [
        (None, None) if not bounded and unreliable(mean_skewness(of), units) else (one_low, one_high)
        for (_, of), one_low, one_high in zip(parts, low.tolist(), high.tolist(), strict=True)
    ]
    method = method_of(samples[0]) if together else f"{method_of(samples[0]).partition(':')[0]}: {_APART}"
    covariance = spread.T @ spread + np.diag(missed)
    labelled = int(known[:, 0].sum()) if together else own
    pairs_unsure = None if bounded else unsure_pairs(spread)
    return CorrectedMeans(values, ends, covariance, units - 1, None, labelled, method, pairs_unsure)


def _means_of_labels(labels: Floats, codes: Ints, *, bounded: bool) -> CorrectedMeans:
    """The labels' own means, if the judge makes none of them more precise."""
    grouped = None if np.unique(codes).size == codes.size else codes
    values, covariance, df, parts = mean_covariance(labels, grouped)
    found = [interval(column, grouped, bounded=bounded) for column in labels.T]
    ends = [(one.low, one.high) for one in found]
    method = f"{found[0].method.partition(':')[0]}: labels alone"
    off = np.column_stack([cluster_sums(column - column.mean(), grouped) for column in labels.T])
    pairs_unsure = None if bounded else unsure_pairs(off)
    return CorrectedMeans(values, ends, covariance, df, parts, len(labels), method, pairs_unsure)


def _by_labels(found: Difference, why: str) -> Difference:
    return replace(found, method=f"{found.method}{', ' if ':' in found.method else ': '}labels alone, {why}")


def _codes(clusters: ArrayLike | None, n: int) -> Ints:
    return np.arange(n, dtype=np.int64) if clusters is None else cluster_codes(clusters)


@dataclass(frozen=True, slots=True)
class _Cases:
    """Scores and labels of the shape (cases, runs), NaN without a label, and the cluster of each case."""

    table: Floats
    labels: Floats
    codes: Ints

    def run(self, known: Bools, one: int) -> Sample:
        return self._sample(known, self.table[:, one], self.labels[:, one], self._step(known, [one]))

    def pair(self, known: Bools, a: int, b: int) -> Sample:
        """The differences, B minus A."""
        scores, labels = (side[:, b] - side[:, a] for side in (self.table, self.labels))
        return self._sample(known, scores, labels, self._step(known, [a, b]))

    def _step(self, known: Bools, runs: Sequence[int]) -> float:
        return widest(*(self.table[:, one] for one in runs), *(self.labels[known, one] for one in runs))

    def _sample(self, known: Bools, scores: Floats, labels: Floats, step: float) -> Sample:
        units = {"clusters": self.codes[known], "unlabelled_clusters": self.codes[~known]}
        return sample(labels[known], scores[known], scores[~known], **units, step=step)

    def influences(self, known: Bools, one: int, lambdas: Floats, groups: int) -> tuple[float, Floats]:
        """A run's corrected mean, and the influence of each cluster on it, with the factor of CR1 (`rectified`)."""
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
