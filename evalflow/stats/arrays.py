"""Array types, the confidence level, intervals, estimates, and helpers that all statistics share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from evalflow.lazy import np

if TYPE_CHECKING:
    from numpy import typing as npt

ArrayLike: TypeAlias = "npt.ArrayLike"
Array: TypeAlias = "npt.NDArray[Any]"
Floats: TypeAlias = "npt.NDArray[np.float64]"
Ints: TypeAlias = "npt.NDArray[np.int64]"
Bools: TypeAlias = "npt.NDArray[np.bool_]"
Hashes: TypeAlias = "npt.NDArray[np.uint64]"

CONFIDENCE = 0.95  # coverage of every interval
LEVEL = 0.05  # significance level of every test
LOWER, UPPER = 0.5 - CONFIDENCE / 2, 0.5 + CONFIDENCE / 2

# Integers are counted instead of sorted if their range is at most this many times their number.
_DENSE = 8

# Differences below this share of the largest value are rounding errors.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval. If undefined, all fields but `method` are None, and `method` says why."""

    low: float | None
    high: float | None
    std_error: float | None
    method: str


@dataclass(frozen=True, slots=True)
class Estimated:
    """A value over n answers or cases, with its interval. If either is undefined, `method` says why."""

    value: float | None
    low: float | None
    high: float | None
    std_error: float | None
    n: int
    method: str

    def document(self) -> dict[str, Any]:
        """The estimate as JSON, without n."""
        return {"value": self.value, "ci_low": self.low, "ci_high": self.high, "method": self.method}


def undefined(n: int, why: str, value: float | None = None) -> Estimated:
    """Return an estimate without an interval, and without a value unless one is passed."""
    return Estimated(value, None, None, None, n, f"none: {why}")


def no_interval(why: str) -> Interval:
    """Return an undefined interval with the reason."""
    return Interval(None, None, None, f"none: {why}")


def cluster_codes(names: ArrayLike) -> Ints:
    """Return cluster names as numbers from 0, in sorted order of the names."""
    cluster_names = np.asarray(names)
    if cluster_names.size and cluster_names.dtype.kind in "iu":
        least = cluster_names.min()
        span = int(cluster_names.max()) - int(least) + 1
        if span <= _DENSE * cluster_names.size:  # counting is far faster than sorting
            places = (cluster_names - least).astype(np.int64)
            present = np.zeros(span, dtype=np.int64)
            present[places] = 1
            numbered: Ints = (np.cumsum(present) - 1)[places]
            return numbered
    return np.unique(cluster_names, return_inverse=True)[1].astype(np.int64)


def n_clusters(codes: Ints) -> int:
    """The number of different clusters in a subset of `cluster_codes`."""
    return int(np.count_nonzero(np.bincount(codes)))


def cluster_sums(values: ArrayLike, clusters: ArrayLike | None) -> Floats:
    """Return the values summed by cluster; unchanged if `clusters` is None: each value is then its own cluster."""
    x = np.asarray(values, dtype=np.float64)
    return x if clusters is None else np.bincount(cluster_codes(clusters), weights=x).astype(np.float64)


def is_binary(values: Floats) -> bool:
    """Whether all values are exactly 0 or 1; True for no values."""
    return bool(((values == 0) | (values == 1)).all())


def constant(values: Floats) -> bool:
    """Whether all values are equal up to rounding; True for no values."""
    return bool(not values.size or np.ptp(values) <= ROUNDING * max(1.0, float(np.abs(values).max())))


def mean_ranks(values: Floats, count: Floats | None = None) -> Floats:
    """Ranks from 1, ties at their mean rank; each value may stand for a `count` of records."""
    levels, place = np.unique(values, return_inverse=True)
    tied = np.bincount(place, count, levels.size)
    ranks: Floats = (np.cumsum(tied) - (tied - 1) / 2)[place]
    return ranks
