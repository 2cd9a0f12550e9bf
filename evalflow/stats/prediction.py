"""Prediction-powered inference: estimate people's mean score from a few labels and a judge's scores of all answers.

The estimate is the judge's mean over unlabelled answers, corrected by its bias on labelled ones. With judge scores F
and labels Y

    estimate = lambda mean(F unlabelled) + mean(Y - lambda F labelled)
    SE^2     = lambda^2 Var(F unlabelled) / N + Var(Y - lambda F labelled) / n

(Angelopoulos et al. 2023, Science 382:669; lambda as in PPI++, Angelopoulos, Duchi & Zrnic 2023, arXiv:2311.01453). It
is valid for randomly drawn labels, however biased the judge; with a useless judge it is the mean of the labels. The
method is the first that applies (`corrected_mean`):

    fewer than MIN_LABELS labels                       none: too few to estimate the bias
    no or one unlabelled answer                        the labels alone
    the judge never varies, or lambda is 0             the labels alone
    weighted labels show no mistake of the judge       the labels alone
    fewer than CROSSFIT_LABELS labels (or clusters)    lambda N / (N + n) or 0, t with n - 1 degrees of freedom
    otherwise                                          lambda cross-fitted over FOLDS folds, t with n - 1

A lambda estimated from the same labels makes intervals too narrow in small samples, so it is estimated from other
folds. With few labels it is the best value for a judge that agrees with people. For unweighted labels it is 0 if the
labels of the other folds show no smaller error with the judge than without (`judge_helps`).

Mistakes of the judge are often rare, so that the labels show none or one, which does not prove that there are no
others. The error therefore includes pseudo-labels (`pseudo_variance`), one for each direction in which the judge may be
wrong. In Y - lambda F = lambda (Y - F) + (1 - lambda) Y they are added to both terms, times lambda^2 and (1 -
lambda)^2. In a stratified sample, a stratum without an observed error adds the variance of a smoothed rate instead
(`unseen_variance`).

For clustered cases, variances are those of cluster sums (CR1) with the covariance of labelled and unlabelled cases of a
cluster, folds consist of clusters, and t has G - 1 degrees of freedom.
`bench/calibration.py` measures the coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalflow.lazy import np
from evalflow.stats.arrays import LEVEL, UPPER, Estimated, Interval, constant, no_interval, undefined
from evalflow.stats.intervals import FEW_CLUSTERS, t_interval
from evalflow.stats.labelled import (
    Sample,
    alike,
    bias_interval,
    cluster_variance,
    human_interval,
    pseudo_size,
    pseudo_variance,
    sample,
    unseen_variance,
    widest,
)
from evalflow.stats.paired import standard_error
from evalflow.stats.power import POWER, cases_for_rate_width, cases_for_width
from evalflow.stats.quantiles import quantile, student_quantile
from evalflow.stats.skewness import mean_skewness, unreliable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from evalflow.stats.arrays import Bools, Floats, Ints


MIN_LABELS = 15
CROSSFIT_LABELS = 50
FOLDS = 5


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A judge's mean, corrected by labels. Values that cannot be estimated are None; `method` says why after a colon.

    Attributes:
        estimate, low, high, std_error: People's mean over all answers.
        lambda_: Weight of the judge, 0..1; mean over folds.
        judge_mean: The judge's uncorrected mean over all answers.
        human_mean, bias: People's mean over labelled answers, and the judge's mean over these minus it.
        labels_saved: Number of additional labels that would make the interval as narrow without a judge; negative if
            the judge makes it wider.
        finite_low, finite_high: The interval of people's mean over exactly these answers: the only uncertainty is which
            of them were labelled; None for fewer than CROSSFIT_LABELS labels or clusters, and for weighted labels.
        spread: The variances of the labelled answers; None for fewer than two, and for weighted labels.
    """

    estimate: float | None
    low: float | None
    high: float | None
    std_error: float | None
    method: str
    lambda_: float | None
    judge_mean: float | None
    human_mean: float | None
    human_low: float | None
    human_high: float | None
    bias: float | None
    bias_low: float | None
    bias_high: float | None
    n: int
    n_unlabelled: int
    labels_saved: int | None
    finite_low: float | None
    finite_high: float | None
    spread: Spread | None


def corrected_mean(
    labels: ArrayLike,
    judged: ArrayLike,
    unlabelled: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    unlabelled_clusters: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    bounded: bool = False,
    seed: int = 0,
) -> CorrectedMean:
    """Estimate people's mean over all answers from labels, and the judge's scores of labelled and unlabelled answers.

    Cluster names are common to both sides. Weights are 1 / the sampling probability of each labelled answer. `bounded`:
    0 and 1 are the ends of the scale, and so of the estimate and the intervals. The order of the answers does not
    change the folds.
    """
    s = sample(labels, judged, unlabelled, clusters=clusters, unlabelled_clusters=unlabelled_clusters, weights=weights)
    binary = bool(np.isin(s.labels, (0.0, 1.0)).all())
    human = human_interval(s, binary, bounded=bounded)
    bias_low, bias_high = bias_interval(s, has_ends=bounded or binary)
    mean, off = (s.mean(s.labels), s.mean(s.judged - s.labels)) if s.labels.size else (None, None)
    everything = np.concatenate([s.judged, s.unlabelled])
    raw = float(everything.mean()) if everything.size else None
    estimate, interval, lambdas = _estimate(s, mean, human, seed, has_ends=bounded or binary)
    lambda_ = None if lambdas is None else s.mean(lambdas)
    saved = _saved(s, human, interval, binary) if lambda_ else (None if lambda_ is None else 0)
    corrected = CorrectedMean(
        estimate,
        interval.low,
        interval.high,
        interval.std_error,
        interval.method,
        lambda_,
        raw,
        mean,
        human.low,
        human.high,
        off,
        bias_low,
        bias_high,
        s.labels.size,
        s.unlabelled.size,
        saved,
        *_finite(s, mean, human, interval, lambdas),
        observed_spread(s.labels, s.judged, s.units, s.step) if s.weights is None else None,
    )
    return _clipped(corrected) if bounded else corrected


def few_labels(n: int) -> str:
    """The reason why n labels are too few to correct anything."""
    return f"fewer than {MIN_LABELS} labels" if n < MIN_LABELS else "labels in one cluster only"


def _clipped(corrected: CorrectedMean) -> CorrectedMean:
    ends = ("estimate", "low", "high", "human_low", "human_high", "finite_low", "finite_high")
    known = {name: getattr(corrected, name) for name in ends}
    return replace(corrected, **{name: _share(end) for name, end in known.items() if end is not None})


def rectified(s: Sample, lambdas: ArrayLike) -> tuple[float, float]:
    """The estimate and its standard error, for given lambdas; NaN for a single cluster.

    The error sums the answers' influences by cluster, which includes the covariance of labelled and unlabelled answers
    of one cluster. Weighted labels are a sample of all answers, so the judge's mean is then over all of them; the error
    of Hajek's ratio is linearised (Sarndal, Swensson & Wretman 1992, sec. 5.7) for independent draws, which is
    conservative for stratified samples.
    """
    value, a, b, units = _influences(s, lambdas)
    return value, float(np.sqrt(cluster_variance(a, units) + cluster_variance(b, s.units) + 2 * float(a @ b)))


def _influences(s: Sample, lambdas: ArrayLike) -> tuple[float, Floats, Floats, Ints]:
    """The estimate, each cluster's influence on it by scores and by labels, and the clusters of the scores."""
    lam = np.broadcast_to(np.asarray(lambdas, dtype=np.float64), s.labels.shape)
    r, level = s.labels - lam * s.judged, s.mean(lam)
    whole, units = s.unlabelled, s.unlabelled_units
    if s.weights is not None:
        whole, units = np.concatenate([s.judged, whole]), np.concatenate([s.units, units])
    share = np.full(r.size, 1 / r.size) if s.weights is None else s.weights
    of_judge, of_labels = level * (whole - whole.mean()) / whole.size, share * (r - s.mean(r))
    size = int(max(s.units.max(), s.unlabelled_units.max())) + 1
    a, b = (np.bincount(*one, size).astype(np.float64) for one in ((units, of_judge), (s.units, of_labels)))
    return level * float(whole.mean()) + s.mean(r), a, b, units


def unsure(s: Sample, lambdas: Floats) -> str:
    """Why t cannot be trusted for labels without fixed ends; empty if it can (`evalflow.stats.skewness`)."""
    _, a, b, _ = _influences(_about_mean(s), lambdas)
    return unreliable(mean_skewness(a + b), s.labelled_units, "clusters" if s.clustered else "labels")


def power_tuned(labels: Floats, judged: Floats, unlabelled: Floats, weights: Floats | None = None) -> float:
    """Lambda of least variance: Cov(Y, F) / ((1 + n / N) Var F), in 0..1 (arXiv:2311.01453, sec. 6); 0 if undefined."""
    spread = float(np.concatenate([judged, unlabelled]).var(ddof=1))
    if constant(np.concatenate([judged, unlabelled])):
        return 0.0
    mean = [np.average(x, weights=weights) for x in (labels, judged)]
    shared = float(np.average((labels - mean[0]) * (judged - mean[1]), weights=weights))
    return float(np.clip(shared / ((1 + labels.size / unlabelled.size) * spread), 0, 1))


def crossfitted(s: Sample, folds: Ints) -> Floats:
    """For each labelled answer, the lambda estimated from the labels of the other folds."""
    lambdas = np.empty(s.labels.size)
    for fold in np.unique(folds):
        other = folds != fold
        weights = None if s.weights is None else s.weights[other]
        lambdas[~other] = power_tuned(s.labels[other], s.judged[other], s.unlabelled, weights)
    return lambdas


def _estimate(
    s: Sample, mean: float | None, human: Interval, seed: int, *, has_ends: bool
) -> tuple[float | None, Interval, Floats | None]:
    """The estimate, its interval, and the judge's weight at each labelled answer; None for too few labels."""
    n, groups = s.labels.size, s.labelled_units
    if n < MIN_LABELS:
        return None, no_interval(few_labels(s.labels.size)), None
    if groups < 2:
        return None, no_interval(few_labels(s.labels.size)), None
    lambdas, why = lambdas_of(s, seed)
    if why:
        method = human.method if human.low is None else f"{human.method.split(':')[0]}: labels alone, {why}"
        return mean, replace(human, method=method), lambdas
    value, error = centred(s, lambdas)
    if not has_ends and (why := unsure(s, lambdas)):
        return value, no_interval(why), lambdas
    low, high = (float(end) for end in t_interval(value, error, groups - 1))
    return value, Interval(low, high, error, method_of(s)), lambdas


def _finite(
    s: Sample, mean: float | None, human: Interval, interval: Interval, lambdas: Floats | None
) -> tuple[float | None, float | None]:
    """The interval of people's mean over exactly these answers, as for a simple random sample without replacement.

    This is the interval of the difference estimator (Cochran 1977, Sampling Techniques, sec. 7.2 to 7.4), t with G - 1
    degrees of freedom; with labels alone, the labels' interval times the root of the unlabelled share.
    """
    n, rest = s.labels.size, s.unlabelled.size
    if lambdas is None or mean is None or s.weights is not None:
        return None, None
    if not rest:
        return mean, mean
    if s.labelled_units < CROSSFIT_LABELS or interval.low is None:
        return None, None
    share = rest / (rest + n)
    if not lambdas.any():
        if human.low is None or human.high is None:
            return None, None
        return mean - math.sqrt(share) * (mean - human.low), mean + math.sqrt(share) * (human.high - mean)
    value, _ = centred(s, lambdas)
    left = s.labels - lambdas / share * (s.judged - float(s.unlabelled.mean()))
    sums = np.bincount(s.units, (left - left.mean()) / n)
    variance = share * (cluster_variance(sums, s.units) + unseen(s, s.mean(lambdas) / share))
    low, high = t_interval(value, math.sqrt(variance), s.labelled_units - 1)
    return float(low), float(high)


def lambdas_of(s: Sample, seed: int) -> tuple[Floats, str]:
    """The judge's weight at each labelled answer, and the reason to use the labels alone; empty if the judge helps."""
    why, n = _labels_suffice(s), s.labels.size
    if why:
        return np.zeros(n), why
    folds = _folds(s, seed)
    cross = s.labelled_units >= CROSSFIT_LABELS
    lambdas = crossfitted(s, folds) if cross else np.full(n, s.unlabelled.size / (s.unlabelled.size + n))
    if s.weights is None:
        lambdas = np.where(judge_helps(s, folds, lambdas), lambdas, 0.0)
    return lambdas, "" if lambdas.any() else "no narrower with the scores"


def judge_helps(s: Sample, folds: Ints, lambdas: Floats) -> Bools:
    """For each labelled answer, whether its lambda gives a smaller error than 0 does, by the labels of other folds.

    Both errors include pseudo-labels; for the labels alone, one at each end of a step, as in `plus_two_t`.
    """
    helps = np.zeros(s.labels.size, dtype=bool)
    for fold in np.unique(folds):
        other = folds != fold
        labels, judged, units = s.labels[other], s.judged[other], s.units[other]
        level = float(lambdas[~other][0])

        def squares(values: Floats, units: Ints = units) -> float:
            return float((np.bincount(units, values - values.mean()) ** 2).sum())

        def pseudo(values: Floats, units: Ints = units) -> float:
            same = alike(values, s.step)
            return same and same * (pseudo_size(values, units) * s.step) ** 2

        with_judge = squares(labels - level * judged) + level**2 * s.labels.size / s.unlabelled.size * squares(judged)
        of_labels = pseudo(labels)
        with_judge += 2 * (level**2 * pseudo(labels - judged) + (1 - level) ** 2 * of_labels)
        helps[~other] = with_judge <= squares(labels) + of_labels / 2
    return helps


def centred(s: Sample, lambdas: Floats) -> tuple[float, float]:
    """`rectified` with centred scores, since differences of lambda between folds would else count as variation.

    The error includes `unseen` variance.
    """
    value, error = rectified(_about_mean(s), lambdas)
    return value, math.sqrt(error**2 + unseen(s, s.mean(lambdas)))


def _about_mean(s: Sample) -> Sample:
    origin = float(s.unlabelled.mean())
    return replace(s, judged=s.judged - origin, unlabelled=s.unlabelled - origin)


def unseen(s: Sample, level: float) -> float:
    """The variance that the labels may have missed, for a mean lambda."""
    errors = s.labels - s.judged
    if s.weights is not None:
        return unseen_variance(errors, s.weights, s.units, s.step)
    parts = ((level, errors), (1 - level, s.labels))
    return sum(part**2 * pseudo_variance(values, s.units, s.step) for part, values in parts)


def _labels_suffice(s: Sample) -> str:
    """The reason to use the labels alone; empty if the judge helps."""
    if s.unlabelled.size < 2:
        return "every answer has one" if not s.unlabelled.size else "all answers but one have one"
    if constant(np.concatenate([s.judged, s.unlabelled])):
        return "the judge gives all answers one score"
    if s.weights is not None and constant(s.labels - s.judged):  # `unseen_variance` alone would be too small
        return "the judge makes no mistake on them"
    return ""


def method_of(s: Sample) -> str:
    """The name of the method, with its caveats."""
    groups = s.labelled_units
    cross = groups >= CROSSFIT_LABELS
    name = f"ppi{'_crossfit' if cross else ''}{'_cr1' if s.clustered else ''}_t"
    what = "clusters" if s.clustered else "labels"
    enough = FEW_CLUSTERS if s.clustered and groups < FEW_CLUSTERS else CROSSFIT_LABELS
    caveats = [f"fewer than {enough} {what}"] if groups < enough else []
    caveats += ["no mistake on the labels"] if constant(s.labels - s.judged) else []
    return f"{name}: {', '.join(caveats)}" if caveats else name


def _saved(s: Sample, human: Interval, interval: Interval, binary: bool) -> int | None:
    """Number of additional labels that would make an interval without the judge as narrow.

    For clusters, in more clusters of the same kind: the width shrinks with the root of their number.
    """
    if interval.low is None or interval.high is None or not interval.high > interval.low:
        return None
    width, n = interval.high - interval.low, s.labels.size
    if binary and not s.clustered and s.weights is None:
        return cases_for_rate_width(float(s.labels.mean()), width) - n
    if s.clustered:
        if human.low is None or human.high is None:
            return None
        return round(n * ((human.high - human.low) / width) ** 2) - n
    return None if not human.std_error else cases_for_width(n * human.std_error**2, width) - n


def _folds(s: Sample, seed: int) -> Ints:
    """The fold of each labelled answer: random by cluster, sorted first so that the answers' order does not matter.

    Clusters with equal sums are interchangeable, since lambda depends on the sums only.
    """
    _, codes = np.unique(s.units, return_inverse=True)
    alone = (np.ones(codes.size), s.judged, s.labels)
    squares = () if codes.max() + 1 == codes.size else (s.judged**2, s.labels**2, s.judged * s.labels)
    columns = [np.bincount(codes, x) for x in (*squares, *alone)]
    fold = np.empty(columns[0].size, dtype=np.int64)
    fold[np.lexsort(columns)] = np.random.default_rng(seed).permutation(fold.size) % FOLDS
    return fold[codes]


def rogan_gladen(rate: float, n: int, specificity: float, fails: int, sensitivity: float, passes: int) -> Estimated:
    """The share that people would pass (Rogan & Gladen); undefined if all labels are alike or the judge is useless."""
    if not (n and fails and passes):
        missing = "answers without a label" if not n else f"labels that {'fail' if not fails else 'pass'}"
        return undefined(n, f"no {missing}")
    if specificity + sensitivity <= 1:
        return undefined(n, "the judge is no better than chance")
    z = quantile(UPPER)
    size, fail, success = n + z**2, fails + 2, passes + 2
    p = (n * rate + z**2 / 2) / size
    q0, q1 = (fails * specificity + 1) / fail, (passes * sensitivity + 1) / success
    theta, slope = (p + q0 - 1) / (q0 + q1 - 1), q0 + q1 - 1
    of_fails, of_passes = q0 * (1 - q0) / fail, q1 * (1 - q1) / success
    shift = 2 * z**2 * (theta * of_passes - (1 - theta) * of_fails)
    error = (p * (1 - p) / size + (1 - theta) ** 2 * of_fails + theta**2 * of_passes) ** 0.5 / slope
    low, high = (_share(theta + shift + side * z * error) for side in (-1, 1))
    estimate = _share((rate + specificity - 1) / (specificity + sensitivity - 1))
    return Estimated(estimate, low, high, error, n, "rogan_gladen")


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


# Upper limit of the search for a number of labels.
MOST_LABELS = 1_000_000


@dataclass(frozen=True, slots=True)
class Spread:
    """Variances and covariance of people's labels and a judge's scores, and the design effect of clusters.

    `step` is the largest possible error of a judge, and `alike` how often two of its errors are equal
    (`pseudo_variance`). Each is a number, or an array with one for each of many resamples.
    """

    labels: float | Floats
    judged: float | Floats
    shared: float | Floats
    design_effect: float | Floats = 1.0
    step: float | Floats = 0.0
    alike: float | Floats = 0.0

    def error(self, n: ArrayLike, answers: float = math.inf) -> Floats:
        """Expected standard error of the corrected mean with n labels among this many answers."""
        labels = np.asarray(n, dtype=np.float64)
        rest, pseudo = answers - labels, 2 * self.alike * self.step**2
        share = 1.0 if math.isinf(answers) else rest / answers
        with np.errstate(divide="ignore", invalid="ignore"):
            tuned = np.clip(self.shared / ((1 + labels / rest) * self.judged), 0, 1)
        lambda_ = np.where(np.asarray(self.judged) > 0, np.where(labels < CROSSFIT_LABELS, share, tuned), 0.0)
        gain = 2 * lambda_ * self.shared - lambda_**2 * (1 + labels / rest) * self.judged
        lambda_ = lambda_ * ((labels - 1) * gain + self.step**2 / 2 >= lambda_**2 * pseudo)
        residual = self.labels - 2 * lambda_ * self.shared + lambda_**2 * self.judged
        variance = (lambda_**2 * self.judged / rest + residual / labels) * self.design_effect
        return np.sqrt(variance + pseudo * (lambda_ / (labels / self.design_effect + 2)) ** 2)

    def width(self, n: ArrayLike, answers: float = math.inf) -> Floats:
        """Expected width of the corrected interval with n labels among this many answers."""
        return 2 * _t_quantile(UPPER, n) * self.error(n, answers)

    def labels_for(self, width: float, answers: float = math.inf) -> int | None:
        """Smallest number of labels whose corrected interval is no wider; None if even all but two are too few."""
        return self._fewest(lambda n: self.width(n, answers) <= width, answers)

    def labels_to_detect(
        self, difference: float, answers: float = math.inf, *, alpha: float = LEVEL, power: float = POWER
    ) -> int | None:
        """Smallest number of labels that detects a true difference; None if even all but two are too few.

        `self` must be the spread of the differences of two runs, by case.
        """

        def enough(n: Floats) -> NDArray[np.bool_]:
            reach = _t_quantile(1 - alpha / 2, n) + _t_quantile(power, n)
            return reach * self.error(n, answers) <= difference

        return self._fewest(enough, answers)

    def _fewest(self, enough: Callable[[Floats], NDArray[np.bool_]], answers: float) -> int | None:
        most = min(answers - 2, MOST_LABELS)
        start, step = MIN_LABELS, 1_000
        while start <= most:
            n = np.arange(start, min(start + step, most + 1))
            sufficient = np.flatnonzero(enough(n))
            if sufficient.size:
                return int(n[sufficient[0]])
            start, step = start + step, 2 * step
        return None


def _t_quantile(p: float, labels: ArrayLike) -> Floats:
    df = np.asarray(labels, dtype=np.float64) - 1
    return student_quantile(df, p) if p >= 0.5 else -student_quantile(df, 1 - p)


def observed_spread(
    labels: ArrayLike, judged: ArrayLike, clusters: ArrayLike, step: float | None = None
) -> Spread | None:
    """The spread of labelled answers; None for fewer than two. `step` is `widest` of labels and scores if None."""
    y, f = np.asarray(labels, dtype=np.float64), np.asarray(judged, dtype=np.float64)
    if y.size < 2:
        return None
    (of_y, both), (_, of_f) = np.cov(np.stack([y, f]), ddof=1).tolist()
    alone, together = standard_error(y - f)[0], standard_error(y - f, clusters)[0]
    effect = max(1.0, (together / alone) ** 2) if alone and together else 1.0
    step = widest(y, f) if step is None else step
    return Spread(of_y, of_f, both, effect, step, alike(y - f, step))


def assumed_spread(labels: float, correlation: float, design_effect: float = 1.0) -> Spread:
    """The spread for an assumed correlation, if the judge's scores and people's labels vary equally."""
    return Spread(labels, labels, correlation * labels, design_effect)
