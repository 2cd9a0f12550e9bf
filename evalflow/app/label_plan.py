"""How many labels a corrected mean needs, for `plan`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence

from evalflow.report.plan import LabelRow
from evalflow.stats.label_planning import Spread, alike
from evalflow.stats.power import cases_for_rate_width, cases_for_width
from evalflow.summary.plan import Basis

_ANSWERS = (500, 2_000, 10_000, None)


def stated_agreement(correlation: float) -> str:
    """What is assumed of a judge of which only this is stated."""
    return (
        f"stated: a judge's scores correlate by {correlation:g} with people's labels; "
        "assumed: they are spread as the labels are"
    )


def stated_labels(options: argparse.Namespace, basis: Basis) -> Iterator[LabelRow]:
    """Labels from guesses.

    Args:
        options: width, judge_correlation, cases (that are judged; else several numbers of them).
        basis: The other guesses, which are then of people's labels.
    """
    spread = alike(basis.scores.variance(), options.judge_correlation, basis.design_effect)
    answers = _ANSWERS if options.cases is None else (options.cases,)
    yield from _rows(basis.name, spread, options.width, answers, basis.rate)


def _rows(
    name: str, spread: Spread, width: float, answers: Sequence[int | None], rate: float | None
) -> Iterator[LabelRow]:
    if rate is None:
        alone = cases_for_width(spread.labels * spread.design_effect, width)
    else:
        alone = math.ceil(cases_for_rate_width(rate, width) * spread.design_effect)
    for judged in answers:
        yield LabelRow(name, width, judged, spread.labels_for(width, judged or math.inf), alone)
