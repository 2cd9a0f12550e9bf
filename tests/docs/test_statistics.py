"""docs/statistics.md names every way in which an interval is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.stats.intervals import interval
from evalflow.stats.looks import anytime_interval, obrien_fleming, planned_interval
from evalflow.stats.paired import max_share_changed
from evalflow.stats.prediction import corrected_mean

PAGE = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("scores", "groups", "bounded"),
    [
        ([0.5], None, True),
        ([1, 0, 1], None, True),
        ([0.2, 0.9, 0.4], None, True),
        ([0.2, 0.9, 0.4], None, False),
        ([i / 40 for i in range(40)], None, True),
        ([i / 40 for i in range(40)], [i // 2 for i in range(40)], True),
        ([1] * 40, [i // 2 for i in range(40)], True),
    ],
)
def test_the_page_names_the_method(scores: list[float], groups: list[int] | None, bounded: bool):
    method = interval(scores, groups, bounded=bounded).method.partition(":")[0]
    assert f"`{method}`" in PAGE or f"`{method}: " in PAGE
    assert method == "none" or f"**{method}**" in PAGE


@pytest.mark.parametrize(
    ("n", "kind", "method"),
    [(14, 0.5, "none"), (20, 0.5, "ppi_t"), (60, 0.5, "ppi_crossfit_t"), (60, 0.0, "ppi_crossfit_t")],
)
def test_the_page_names_the_method_of_a_correction(n: int, kind: float, method: str):
    labels = [float(i % 2) for i in range(n)]
    judged = [1.0 if i % 5 == 0 and kind else label for i, label in enumerate(labels)]
    assert corrected_mean(labels, judged, judged * 3).method.partition(":")[0] == method
    assert f"`{method}" in PAGE


def test_the_page_says_how_many_cases_alike_a_margin_takes():
    assert max_share_changed(149) < 0.02 <= max_share_changed(148)
    assert "`not_worse_by: 0.02` passes from 149 cases on" in PAGE.replace("\n", " ")


def test_the_page_names_the_methods_for_looks_and_the_bounds_of_five():
    found = [anytime_interval(scores, [0, 0, 1]) for scores in ([1, 0, 1], [0.2, 0.4, 0.9])]
    found += [anytime_interval([1, 0, 1]), anytime_interval([0.2, 0.4, 0.9])]
    found.append(planned_interval([0.2, 0.4, 0.9], None, look=1, looks=5))
    for name in {one.method.partition(":")[0] for one in found}:
        assert f"`{name}`" in PAGE
    bounds = [f"{obrien_fleming(5) * (5 / look) ** 0.5:.2f}" for look in range(1, 6)]
    assert f"{', '.join(bounds[:-1])} and {bounds[-1]} standard errors" in PAGE
