"""An error model of several judges: how often each says class l if the truth is k (Dawid & Skene 1979).

Judges err independently of each other, given the truth; if people labelled an answer, their label is the truth.
Expectation-maximisation (Applied Statistics 28:20) starts from the judges' vote shares. Half an observation in each
cell of a confusion matrix (Jeffreys) keeps a judge without an observed error from counting as infallible.
"""

from __future__ import annotations

from dataclasses import dataclass

from evalflow.lazy import np
from evalflow.stats.arrays import Estimated, Floats, Ints
from evalflow.stats.bootstrap import bootstrap_method, percentile_interval, resample

MISSING = -1  # an unknown class: no verdict of a judge, or no label of an answer
PRIOR = 0.5
_ITERATIONS = 200
_CLOSE = 1e-6
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class JudgeModel:
    """Judges' errors, for K classes.

    `prior` is the share of each true class, shape (K,); `confusion` the probability that judge j says l if the truth is
    k, shape (J, K, K); `truth` the probability of each class by answer, 1 for a label, shape (n, K).
    """

    prior: Floats
    confusion: Floats
    truth: Floats


def dawid_skene(votes: Ints, labels: Ints, classes: int, *, prior: float = PRIOR) -> JudgeModel:
    """Fit the model to `votes`, shape (n, J), and `labels`, shape (n,): classes 0 to K - 1, or MISSING.

    `prior` is the number of observations added to each cell of a confusion matrix.
    """
    rows, place, counts = np.unique(
        np.column_stack([votes, labels]), axis=0, return_inverse=True, return_counts=True
    )  # answers with equal votes are fitted once
    labels = rows[:, -1]
    one_hot = (rows[:, :-1, None] == np.arange(classes)).astype(np.float64)
    truth = _settled(one_hot.sum(axis=1) + _TINY, labels)
    for _ in range(_ITERATIONS):
        share, confusion = _errors(one_hot, truth * counts[:, None], prior)
        errors = np.log(np.maximum(confusion, _TINY))
        likely = np.log(np.maximum(share, _TINY)) + np.einsum("jkl,njl->nk", errors, one_hot)
        before, truth = truth, _settled(np.exp(likely - likely.max(axis=1, keepdims=True)), labels)
        if float(np.abs(truth - before).max()) < _CLOSE:
            break
    return JudgeModel(*_errors(one_hot, truth * counts[:, None], prior), truth[place.ravel()])


def _settled(shares: Floats, labels: Ints) -> Floats:
    """Normalise the shares to sum to 1; a labelled row has all of its share at the label."""
    normalised: Floats = shares / shares.sum(axis=1, keepdims=True)
    known = labels != MISSING
    normalised[known] = np.arange(shares.shape[1]) == labels[known, None]
    return normalised


def _errors(one_hot: Floats, truth: Floats, prior: float) -> tuple[Floats, Floats]:
    """Estimate prior and confusion; `truth` is the number of answers, by row of votes and class."""
    cells = np.einsum("nk,njl->jkl", truth, one_hot) + prior
    confusion: Floats = cells / np.maximum(cells.sum(axis=2, keepdims=True), _TINY)
    return truth.sum(axis=0) / truth.sum(), confusion


def shared_errors(one: Ints, other: Ints, truth: Ints, classes: int, units: Ints, seed: int = 0) -> Estimated:
    """How much more often two judges agree than they would if they erred independently, given the truth.

    The interval is a percentile bootstrap over units (clusters, numbered from 0).
    """
    true = truth[:, None] == np.arange(classes)
    cells = [(side[:, None, None] == np.arange(classes)) & true[:, :, None] for side in (one, other)]
    columns = np.concatenate([true, *(cell.reshape(len(cell), -1) for cell in cells), (one == other)[:, None]], axis=1)
    by_column = [np.bincount(units, column) for column in columns.T.astype(np.float64)]
    sums: Floats = np.stack(by_column, axis=1).astype(np.float64)

    def excess(totals: Floats) -> Floats:
        size, first, second, same = np.split(totals, np.cumsum([classes, classes**2, classes**2]), axis=1)
        shape = (-1, classes, classes)
        by_chance = (first.reshape(shape) * second.reshape(shape)).sum(axis=2) / np.maximum(size, 1)
        return (same[:, 0] - by_chance.sum(axis=1)) / size.sum(axis=1)

    patterns, count = np.unique(sums, axis=0, return_counts=True)
    draws = excess(resample(patterns, count, seed))
    clustered = len(sums) < truth.size
    method = bootstrap_method("{}bootstrap", len(sums), clustered=clustered)
    interval = percentile_interval(draws, method, len(sums))
    value = float(excess(sums.sum(axis=0, keepdims=True))[0])
    return Estimated(value, interval.low, interval.high, interval.std_error, truth.size, interval.method)
