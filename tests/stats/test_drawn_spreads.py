"""The spreads of many resamples at once are those of each resample alone."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from evalflow.stats.drawn_spreads import drawn_spreads
from evalflow.stats.prediction import observed_spread

LEVELS = {"verdicts": [0.0, 1.0], "grades": [0.0, 0.25, 0.5, 0.75, 1.0], "shares": np.linspace(0, 1, 97)}


@pytest.mark.parametrize("clustered", [False, True], ids=["alone", "clustered"])
@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_each_is_the_spread_of_its_answers(levels: list[float], clustered: bool) -> None:
    rng = np.random.default_rng(7)
    for size in (2, 3, 40):
        labels = rng.choice(levels, size)
        judged = np.where(rng.random(size) < 0.7, labels, rng.choice(levels, size))
        clusters = np.arange(size) // (3 if clustered else 1)
        groups = int(clusters.max()) + 1
        picked = rng.integers(groups, size=(30, groups))
        times = np.stack([np.bincount(one, minlength=groups) for one in picked])
        drawn = np.stack(astuple(drawn_spreads(labels, judged, clusters, times)), axis=1)
        for chosen, found in zip(picked, drawn, strict=True):
            members = [np.flatnonzero(clusters == one) for one in chosen]
            rows = np.concatenate(members)
            units = np.repeat(np.arange(groups), [len(one) for one in members])
            alone = observed_spread(labels[rows], judged[rows], units)
            assert alone is not None
            assert found == pytest.approx(astuple(alone), abs=1e-12)


def test_a_judge_who_makes_no_mistake_has_no_design_effect() -> None:
    labels, clusters = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0, 0, 1, 1])
    found = drawn_spreads(labels, labels, clusters, np.array([[1, 1]]))
    assert np.concatenate(astuple(found)) == pytest.approx((1 / 3, 1 / 3, 1 / 3, 1.0, 1.0, 1.0))
