"""The difference of two runs on different cases in a figure that is no mean over cases, such as precision or F1.

The rule (`unpaired_figure_difference`):

    the figure is undefined in a run                     none
    a proportion, and each case stands alone, said once  Newcombe's interval and Fisher's test, as for pass rates
    otherwise                                            percentile bootstrap of the difference; t on its standard error

The bootstrap draws the clusters of both runs (Efron & Tibshirani 1993, ch. 8); one that is in both is drawn with what
both said of it. The degrees of freedom are the clusters of the run with fewer, less one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalflow.stats.intervals import FEW_CASES, FEW_CLUSTERS
from evalflow.stats.paired import Difference, t_test
from evalflow.stats.paired_figures import PairedClusters, resampled_difference, undefined
from evalflow.stats.ratios import Of, Ratio
from evalflow.stats.unpaired import unpaired_difference

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def unpaired_figure_difference(figure: Of | Ratio, clusters: PairedClusters, sizes: tuple[int, int]) -> Difference:
    """Compare a figure of two samples of cases, B minus A, by the rule of this module.

    Args:
        figure: As a function of cell totals, or as a ratio of them.
        clusters: Those of both runs; one that is in one run alone adds nothing to the other's cells.
        sizes: How many cases each run has.

    Returns:
        The difference; its `n` counts the cases of both runs, of a proportion those that it is about.
    """
    import numpy as np

    of = figure.of if isinstance(figure, Ratio) else figure
    n, groups = clusters.cases, clusters.clusters
    value_a, value_b = clusters.values(of)
    if np.isnan(value_a) or np.isnan(value_b):
        return undefined(clusters, value_a, value_b)
    if isinstance(figure, Ratio) and figure.jaccard is None and _apart(clusters):
        return unpaired_difference(*(_trials(figure, clusters.weights @ side) for side in (clusters.a, clusters.b)))
    difference = value_b - value_a
    fewest = min(int(clusters.weights[side.any(axis=1)].sum()) for side in (clusters.a, clusters.b))
    if fewest == 1:
        why = "none: one case in a run" if groups == n else "none: one cluster in a run"
        return Difference(n, groups, value_a, value_b, difference, None, None, None, None, None, why)
    low, high, error, why = resampled_difference(of, clusters)
    if error is None:
        return Difference(n, groups, value_a, value_b, difference, None, None, None, None, None, why)
    p = t_test(difference, error, fewest - 1)
    method = _method(sizes, fewest, alone=groups == n)
    return Difference(n, groups, value_a, value_b, difference, error, fewest - 1, low, high, p, method)


def _apart(clusters: PairedClusters) -> bool:
    """Whether every cluster is one record of one run."""
    import numpy as np

    both = np.concatenate([clusters.a, clusters.b], axis=1)
    return bool((both.max(axis=1) == 1).all() and (both.sum(axis=1) == 1).all())


def _trials(ratio: Ratio, totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The records that a proportion is about: 1 for each that counts above the line, else 0."""
    import numpy as np

    above, below = round(float(totals @ ratio.above)), round(float(totals @ ratio.below))
    return np.repeat([1.0, 0.0], [above, below - above])


def _method(sizes: tuple[int, int], fewest: int, *, alone: bool) -> str:
    name, few, what = ("", FEW_CASES, "cases") if alone else ("cluster_", FEW_CLUSTERS, "clusters")
    note = f", fewer than {few} {what} in one" if fewest < few else ""
    return f"unpaired_{name}bootstrap_t: {sizes[0]:,} against {sizes[1]:,} cases{note}"
