"""How far people agree among themselves on labelled answers: the ceiling of what a judge can be asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.stats.agreement import Agreement
from evalflow.stats.alpha import krippendorff_alpha
from evalflow.stats.alt_test import AltTest, alt_test
from evalflow.stats.raters import fleiss_kappa, gwet_ac1, icc, noise_ceiling, spearman_brown

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_ANSWER = ("case_id", "target_repeat")
_CLASSES = 11
"""Labels of up to so many different values are classes, such as grades."""


@dataclass(frozen=True, slots=True)
class Raters:
    """People among themselves, on the answers that several of them labelled.

    Attributes:
        alpha: Krippendorff's alpha (interval).
        alpha_ordinal: The same where only the order of labels counts, such as of grades that are not evenly apart.
        fleiss_kappa, gwet_ac1: Agreement on classes beyond chance; None where labels are no classes, or answers have
            unequally many. Where one class is rare, AC1 is the one that holds.
        reliability: Of the mean of an answer's labels, 0..1, which is what the judge is held against; None below 0.
        ceiling: The highest correlation that a judge can have with that mean.
        alt_test: Whether the judge may take a person's place.
    """

    alpha: Agreement
    alpha_ordinal: Agreement
    fleiss_kappa: float | None
    gwet_ac1: float | None
    reliability: float | None
    ceiling: float | None
    alt_test: AltTest


def raters_of(labels: pl.DataFrame, answers: pl.DataFrame, *, seed: int) -> Raters | None:
    """What people's labels show of each other; None where no answer has two.

    Args:
        labels: Of one metric: case_id, target_repeat, by, human.
        answers: The labelled answers: case_id, target_repeat, cluster, score.
        seed: Of the bootstrap.
    """
    import numpy as np
    import polars as pl

    known = labels.join(answers.select(*_ANSWER, "cluster", "score"), on=_ANSWER, how="inner")
    table = known.sort("by").pivot("by", index=[*_ANSWER, "cluster", "score"], values="human").sort(*_ANSWER)
    ratings = table.drop(*_ANSWER, "cluster", "score").cast(pl.Float64).to_numpy()
    several = (~np.isnan(ratings)).sum(axis=1) > 1 if table.height else np.zeros(0, dtype=bool)
    if not several.any():
        return None
    names = table["cluster"]
    clusters = None if names.n_unique() == names.len() else names.to_numpy()
    alpha, ordinal = (krippendorff_alpha(ratings.T, level, clusters, seed=seed) for level in ("interval", "ordinal"))
    counts = _counts(ratings[several])
    reliability = _reliability(ratings[several], alpha.value)
    judge = table["score"].to_numpy()
    as_classes = counts is not None and set(judge.tolist()) <= set(ratings.ravel().tolist())
    return Raters(
        alpha=alpha,
        alpha_ordinal=ordinal,
        fleiss_kappa=None if counts is None else fleiss_kappa(counts),
        gwet_ac1=None if counts is None else gwet_ac1(counts),
        reliability=reliability,
        ceiling=None if reliability is None else noise_ceiling(reliability),
        alt_test=alt_test(ratings.T, judge, "accuracy" if as_classes else "neg_rmse"),
    )


def _counts(ratings: Floats) -> Floats | None:
    """How many people gave each class to each answer; None where labels are no classes, or unequally many."""
    import numpy as np

    given = ~np.isnan(ratings)
    classes = np.unique(ratings[given])
    if classes.size > _CLASSES or np.unique(given.sum(axis=1)).size > 1:
        return None
    return np.stack([(ratings == one).sum(axis=1) for one in classes], axis=1).astype(np.float64)


def _reliability(ratings: Floats, alpha: float | None) -> float | None:
    """Of the mean of an answer's labels: by the intraclass correlation, and where there are gaps from alpha."""
    import numpy as np

    given = ~np.isnan(ratings)
    found = icc(ratings).icc1k if given.all() else None
    if found is None and alpha is not None:
        found = spearman_brown(alpha, float(given.sum(axis=1).mean())) if alpha > 0 else None
    return found if found is not None and found >= 0 else None
