"""Moments of numbers: taken part by part, merged to those of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

NAMES = ("score", "passed")


def moments(*names: str) -> list[pl.Expr]:
    """Of columns of numbers, to aggregate rows with: *_n, _mean, _m2 (about the mean), _low, _high, _binary.

    `_binary` says that every number is exactly 0 or 1.
    """
    import polars as pl

    found: list[pl.Expr] = []
    for name in names:
        x = pl.col(name)
        parts = {
            "n": x.count().cast(pl.Int64),
            "mean": x.mean(),
            "m2": x.var(ddof=0) * x.count(),
            "low": x.min(),
            "high": x.max(),
            "binary": ((x == 0) | (x == 1)).all(),
        }
        found += [expression.alias(f"{name}_{part}") for part, expression in parts.items()]
    return found


def moments_of_verdicts(name: str) -> list[pl.Expr]:
    """The same of a column that is true or false, taken as 1 and 0: two counts say it all."""
    import polars as pl

    n, true = pl.col(name).count().cast(pl.Int64), pl.col(name).sum().cast(pl.Int64)
    known = pl.when(n > 0)
    parts = {
        "n": n,
        "mean": known.then(true / n),
        "m2": known.then(true * (n - true) / n),
        "low": known.then((true == n).cast(pl.Float64)),
        "high": known.then((true > 0).cast(pl.Float64)),
        "binary": n >= 0,
    }
    return [expression.alias(f"{name}_{part}") for part, expression in parts.items()]


def merged() -> list[pl.Expr]:
    """To aggregate rows of moments with: as they are, with _std (sample) for _m2 (Chan, Golub & LeVeque 1983)."""
    import polars as pl

    found: list[pl.Expr] = []
    for name in NAMES:
        n, mean, m2, low, high, binary = (
            pl.col(f"{name}_{part}") for part in ("n", "mean", "m2", "low", "high", "binary")
        )
        total = n.sum()
        grand = (n * mean).sum() / total
        squares = m2.sum() + (n * (mean - grand) ** 2).sum()
        whole = {
            "n": total,
            "mean": grand.fill_nan(None),
            "std": pl.when(total > 1).then((squares / (total - 1)).sqrt()),
            "low": low.min(),
            "high": high.max(),
            "binary": binary.all(),
        }
        found += [expression.alias(f"{name}_{part}") for part, expression in whole.items()]
    return found
