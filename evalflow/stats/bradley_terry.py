"""Strengths of systems from pairwise wins and ties: Bradley & Terry 1952, with ties by Davidson 1970.

With strengths s and the tie parameter t, i beats j with odds exp(s_i) : exp(s_j), and they tie with exp(t + (s_i + s_j)
/ 2) (Davidson 1970, JASA 65:317). Strengths are log-odds and add up to 0. Their covariance is the sandwich over
clusters of comparisons (Liang & Zeger 1986, Biometrika 73:13): comparisons of one case, or group of cases, may depend
on each other in any way. With G clusters and p parameters it has the factor G / (G - p) and G - p degrees of freedom,
as HC1 has (MacKinnon & White 1985, Journal of Econometrics 29:305).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evalflow.lazy import np
from evalflow.stats.arrays import ArrayLike, Floats, Ints, cluster_codes

_STEPS = 100
_CLOSE = 1e-9
# Odds of 1 to 3 million between two systems: the likelihood has no maximum.
_DIVERGED = 15.0


class NoStrengthsError(ValueError):
    """Raised if the comparisons determine no strengths; the message says why."""


@dataclass(frozen=True, slots=True)
class Strengths:
    """Strengths as log-odds that add up to 0, their covariance, and the tie parameter; None without ties."""

    values: Floats
    covariance: Floats
    tie: float | None
    df: int
    clusters: int


def strengths(
    first: ArrayLike, second: ArrayLike, points: ArrayLike, names: Sequence[str], clusters: ArrayLike | None = None
) -> Strengths:
    """Fit the strengths of the named systems by maximum likelihood.

    `first` and `second` are each comparison's systems, as indices into `names`; `points` are the first's: 1 for a win,
    0.5 for a tie, 0 for a loss. NoStrengthsError if some systems are not connected by comparisons, everything ties,
    there are no more clusters than parameters, or the likelihood has no maximum: some win or lose everything.
    """
    i, j = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    doubled = np.round(2 * np.asarray(points, dtype=np.float64)).astype(np.int64)
    codes = np.arange(i.size) if clusters is None else cluster_codes(clusters)
    groups, systems = int(codes.max(initial=-1)) + 1, len(names)
    _expect_connected(i, j, names)
    if (doubled == 1).all():
        raise NoStrengthsError("all comparisons are ties")
    # Comparisons of the same pair with the same result count together.
    kind = (i * systems + j) * 3 + doubled
    count = np.bincount(kind, minlength=3 * systems**2).astype(np.float64)
    known = np.flatnonzero(count)
    table = _Comparisons(known // 3 // systems, known // 3 % systems, known % 3 / 2, count[known])
    fit = _fitted(table, names)
    df = groups - systems + int(np.isinf(fit[-1]))
    if df < 1:
        raise NoStrengthsError(f"too few cases or groups ({groups}) for the strengths of {systems} systems")
    rest, tie_rest, _ = _residuals(fit, table)
    place = np.searchsorted(known, kind)
    scores = np.zeros(groups * (systems + 1))
    for parts, column in ((rest, i), (-rest, j), (tie_rest, np.full(i.size, systems))):
        scores += np.bincount(codes * (systems + 1) + column, parts[place], scores.size)
    by_cluster = scores.reshape(groups, systems + 1)
    bread = np.linalg.pinv(_information(fit, table), hermitian=True)
    covariance = bread @ (by_cluster.T @ by_cluster) @ bread * groups / df
    tie = None if np.isinf(fit[-1]) else float(fit[-1])
    return Strengths(fit[:-1], covariance[:systems, :systems], tie, df, groups)


class _Comparisons(NamedTuple):
    """Numbers of comparisons with the same first system, second system and points."""

    i: Ints
    j: Ints
    points: Floats
    number: Floats


def _fitted(table: _Comparisons, names: Sequence[str]) -> Floats:
    """Fit the strengths and the tie parameter (-inf without ties) by Newton's method with halved steps."""
    systems = len(names)
    fit = np.zeros(systems + 1)
    fit[-1] = 0.0 if (table.points == 0.5).any() else -np.inf
    best = _log_likelihood(fit, table)
    for _ in range(_STEPS):
        rest, tie_rest, _ = _residuals(fit, table)
        balance = rest * table.number
        gradient = np.bincount(table.i, balance, systems + 1) - np.bincount(table.j, balance, systems + 1)
        gradient[-1] = tie_rest @ table.number
        if np.ptp(fit[:-1]) > _DIVERGED:
            break
        if np.abs(gradient).max() < _CLOSE * table.number.sum():
            return fit
        step = np.linalg.pinv(_information(fit, table), hermitian=True) @ gradient
        while (reached := _log_likelihood(fit + step, table)) < best and np.abs(step).max() > _CLOSE:
            step /= 2
        fit, best = fit + step, reached
    raise NoStrengthsError(_why_none(table, names))


def _chances(fit: Floats, table: _Comparisons) -> Floats:
    """Log-probabilities that the first wins, that both tie, and that the second wins; shape (3, comparisons)."""
    half = (fit[table.i] - fit[table.j]) / 2
    terms = np.stack([half, np.full(half.shape, fit[-1]), -half])
    return terms - np.logaddexp.reduce(terms, axis=0)


def _log_likelihood(fit: Floats, table: _Comparisons) -> float:
    win, tie, loss = _chances(fit, table)
    return float(table.number @ np.select([table.points == 1, table.points == 0.5], [win, tie], loss))


def _residuals(fit: Floats, table: _Comparisons) -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Observed minus expected points and ties, and the probabilities of a win and of a tie."""
    win, tie, _ = np.exp(_chances(fit, table))
    return table.points - win - tie / 2, (table.points == 0.5) - tie, (win, tie)


def _information(fit: Floats, table: _Comparisons) -> Floats:
    """Fisher information: the covariance of points and ties, summed over the comparisons."""
    win, tie = _residuals(fit, table)[2]
    points = win + tie / 2
    square, mixed = win + tie / 4 - points**2, tie / 2 - points * tie
    i, j, last = table.i, table.j, np.full(table.i.size, fit.size - 1)
    information = np.zeros((fit.size, fit.size))
    for rows, columns, values in (
        (i, i, square),
        (j, j, square),
        (i, j, -square),
        (j, i, -square),
        (i, last, mixed),
        (last, i, mixed),
        (j, last, -mixed),
        (last, j, -mixed),
        (last, last, tie * (1 - tie)),
    ):
        np.add.at(information, (rows, columns), values * table.number)
    return information


def _expect_connected(i: Ints, j: Ints, names: Sequence[str]) -> None:
    reached = np.arange(len(names)) == 0
    for _ in names:
        met = reached[i] | reached[j]
        reached[i[met]] = reached[j[met]] = True
    if not reached.all():
        apart = ", ".join(name for name, known in zip(names, reached.tolist(), strict=True) if not known)
        raise NoStrengthsError(f"no chain of comparisons connects {names[0]} with {apart}")


def _why_none(table: _Comparisons, names: Sequence[str]) -> str:
    """Name the systems that only win, or only lose (Ford 1957)."""
    won = {*table.i[table.points == 1].tolist(), *table.j[table.points == 0].tolist()}
    lost = {*table.i[table.points == 0].tolist(), *table.j[table.points == 1].tolist()}
    reasons = [
        f"{', '.join(alone)} never {word}"
        for word, some in (("lost", lost), ("won", won))
        if (alone := [name for place, name in enumerate(names) if place not in some])
    ]
    return "; ".join(reasons) or "some systems won every decided comparison with the others"
