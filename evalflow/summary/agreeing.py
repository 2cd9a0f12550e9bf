"""How far a judge and people agree on labelled answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalflow.records import passes
from evalflow.stats.agreement import Agreement, accuracy, class_rates, cohen_kappa, undefined
from evalflow.stats.alpha import krippendorff_alpha
from evalflow.stats.auroc import auroc
from evalflow.stats.rank import Correlation, correlation, grouped_spearman

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MEASURES = (
    "kappa", "kappa_weighted", "krippendorff_alpha", "spearman", "spearman_by_group", "kendall", "pearson",
    "accuracy", "sensitivity", "specificity", "auroc",
)  # fmt: skip
_CLASSES = 11
"""Scores of up to so many different values are classes, such as grades."""
_HALF = 0.5
_PLAIN = ("krippendorff_alpha", "spearman_by_group", "auroc")
_NOT = "labels carry weights"


@dataclass(frozen=True, slots=True)
class Classes:
    """Judge's scores and people's labels as classes.

    Attributes:
        levels: Scores, in order; 0 and 1 where both are pass and fail.
        judge, human: The level of each answer.
        by_threshold: Whether the classes are pass and fail by the metric's threshold.
    """

    levels: Sequence[float]
    judge: Floats
    human: Floats
    by_threshold: bool

    @property
    def binary(self) -> bool:
        """Whether there are two classes, 0 and 1."""
        return list(self.levels) == [0.0, 1.0]

    def matrix(self) -> list[list[int]]:
        """Counts of answers: people's level down, the judge's across."""
        return [
            [int(((self.human == down) & (self.judge == across)).sum()) for across in self.levels]
            for down in self.levels
        ]


def classes_of(labelled: pl.DataFrame, *, higher_is_better: bool) -> Classes | None:
    """The classes that both use: the values of the scale where there are few, else pass and fail by the threshold.

    A mean of several people's labels goes to the nearest value, half-way up.

    Args:
        labelled: Rows of `labelled_scores` that have a label.
        higher_is_better: Which side of the threshold passes.

    Returns:
        None where scores take many values and no threshold says what passes.
    """
    import numpy as np

    judge, human = labelled["score"].to_numpy(), labelled["human"].to_numpy()
    alone = labelled.filter(labelled["people"] == 1)["human"].to_numpy() if labelled.height else human
    found = np.unique(np.concatenate([judge, alone if alone.size else human]))
    if found.size <= 2 and set(found.tolist()) <= {0.0, 1.0}:
        return Classes([0.0, 1.0], judge, (human >= _HALF).astype(np.float64), by_threshold=False)
    if _is_a_scale(found, judge):
        return Classes(found.tolist(), judge, _nearest(human, found), by_threshold=False)
    threshold = labelled["threshold"].drop_nulls()
    if threshold.is_empty():
        return None
    limit = float(threshold[0])
    passed = (passes(side, limit, higher_is_better=higher_is_better).astype(np.float64) for side in (judge, human))
    return Classes([0.0, 1.0], *passed, by_threshold=True)


def agreement(labelled: pl.DataFrame, classes: Classes | None, *, seed: int) -> dict[str, Agreement]:
    """Every one of MEASURES, undefined where it does not apply; where labels carry weights, agreement on all answers.

    Args:
        labelled: Rows of `labelled_scores` that have a label.
        classes: As `classes_of` gives them.
        seed: Of the bootstrap.
    """
    judge, human = labelled["score"].to_numpy(), labelled["human"].to_numpy()
    clusters, weights = clusters_of(labelled), weights_of(labelled)
    n, none = judge.size, "scores are no classes, and no threshold says what passes"
    found: dict[str, Agreement] = {name: undefined(n, none) for name in MEASURES}
    kinds: tuple[Correlation, ...] = ("spearman", "kendall", "pearson")
    found |= {kind: correlation(human, judge, kind, clusters, weights) for kind in kinds}
    found |= _unweighted(human, judge, clusters, seed) if weights is None else dict.fromkeys(_PLAIN, undefined(n, _NOT))
    if classes is None:
        return found
    pair = classes.human, classes.judge
    found["kappa"] = cohen_kappa(*pair, "plain", clusters, weights)
    found["accuracy"] = accuracy(*pair, clusters, weights)
    found["kappa_weighted"] = cohen_kappa(*pair, "quadratic", clusters, weights)
    rates: Mapping[Any, Agreement] = class_rates(*pair, clusters, weights) if classes.binary else {}
    missing = undefined(n, "no answer has this label" if classes.binary else "there are more than two classes")
    return found | {"sensitivity": rates.get(1.0, missing), "specificity": rates.get(0.0, missing)}


def _unweighted(human: Floats, judge: Floats, clusters: NDArray[Any] | None, seed: int) -> dict[str, Agreement]:
    """The measures that are made of labels drawn alike only."""
    import numpy as np

    n, verdicts = human.size, bool(np.isin(human, (0.0, 1.0)).all())
    alone = undefined(n, "each answer stands alone")
    return {
        "krippendorff_alpha": krippendorff_alpha(np.stack([human, judge]), "interval", clusters, seed=seed),
        "spearman_by_group": alone if clusters is None else grouped_spearman(clusters, human, judge),
        "auroc": auroc(human, judge, clusters) if verdicts else undefined(n, "people do not say yes or no"),
    }


def weights_of(labelled: pl.DataFrame) -> Floats | None:
    """How many answers each labelled one stands for; None where all stand for as many."""
    return labelled["weight"].to_numpy() if labelled["weight"].n_unique() > 1 else None


def clusters_of(answers: pl.DataFrame) -> NDArray[Any] | None:
    """The cluster of each answer; None where each stands alone."""
    names = answers["cluster"]
    return None if names.n_unique() == names.len() else names.to_numpy()


def _is_a_scale(found: Floats, judge: Floats) -> bool:
    """Whether values are few, and so are classes: fewer than a third of the answers, too, where these are few."""
    return found.size <= min(_CLASSES, max(3, judge.size // 3))


def _nearest(values: Floats, levels: Floats) -> Floats:
    import numpy as np

    # From above, so that what is half-way goes up.
    away = np.abs(values[:, None] - levels[::-1])
    return levels[::-1][away.argmin(axis=1)]
