"""How many labels a corrected mean needs, for `plan`."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evalflow.app.calibration.bound_labels import bound_labels
from evalflow.app.comparison.comparable import open_scored
from evalflow.app.locate import find_run
from evalflow.app.results.saved import load
from evalflow.errors import Problem
from evalflow.report.plan import LabelRow
from evalflow.stats.label_planning import Spread, alike, observed
from evalflow.stats.paired import standard_error
from evalflow.stats.power import cases_for_rate_width, cases_for_width
from evalflow.summary.labelled import labelled_scores
from evalflow.summary.plan import Basis

_ANSWERS = (500, 2_000, 10_000, None)


def label_problems(options: argparse.Namespace) -> Iterator[Problem]:
    """What makes no sense of options that are about labels."""
    stated = options.sd is not None or options.rate is not None
    if options.judge_correlation is not None and not (stated and options.width is not None):
        what = "labels are planned for an interval, from a guess of what people's labels are like"
        yield Problem(what, "command line", "--width 0.1 --rate 0.8 --judge-correlation 0.7")
    if options.labels is not None and (options.width is None or stated or options.flips is not None):
        what = "labels tell of a run, for an interval"
        yield Problem(what, "command line", "--width 0.1 --from RUN --labels labels.csv")


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


def measured_labels(options: argparse.Namespace) -> tuple[list[LabelRow], dict[str, list[str]]]:
    """Labels from those of a pilot run, with what they rest on, by name.

    Args:
        options: runs (of which the last has the labels), labels (a file), metric, width, cases.

    Raises:
        UserError: There is no such run, there are no labels, or some are wrong.
    """
    folder = find_run(options.runs[-1] if options.runs else None, "plan", "--from")
    run = open_scored(folder, folder.path.name)
    people = bound_labels(load(folder), run, options.labels)
    rows: list[LabelRow] = []
    said: dict[str, list[str]] = {}
    answers = labelled_scores(run.scores(), people.frame).sort("metric", "judge", maintain_order=True)
    for key, part in answers.group_by("dataset", "metric", "target", "judge", maintain_order=True):
        given = part.drop_nulls("human")
        labels, judged = given["human"].to_numpy(), given["score"].to_numpy()
        spread = observed(labels, judged)
        if spread is None or options.metric not in (None, key[1]):
            continue
        name = " · ".join(str(word) for word in (key[1], key[3]) if word)
        alone, together = standard_error(labels - judged), standard_error(labels - judged, given["cluster"].to_numpy())
        spread = replace(spread, design_effect=max(1.0, (together / alone) ** 2) if alone and together else 1.0)
        sizes = (part.height, 10 * part.height, None) if options.cases is None else (options.cases,)
        rows += _rows(name, spread, options.width, sizes, None)
        said[name] = [_measured(spread, len(labels), folder.path.name)]
    return rows, said


def _measured(spread: Spread, n: int, run: str) -> str:
    scale = math.sqrt(spread.labels * spread.judged)
    related = f"correlate by {spread.shared / scale:.2g}" if scale else "do not vary together"
    said = (
        f"measured: people's labels have a standard deviation of {spread.labels**0.5:.3g}, the judge's scores of "
        f"{spread.judged**0.5:.3g}, and they {related}, on {n} labelled answers of {run}"
    )
    return said if spread.design_effect == 1 else f"{said}; groups: {spread.design_effect:.3g} times the labels"


def _rows(
    name: str, spread: Spread, width: float, answers: Sequence[int | None], rate: float | None
) -> Iterator[LabelRow]:
    if rate is None:
        alone = cases_for_width(spread.labels * spread.design_effect, width)
    else:
        alone = math.ceil(cases_for_rate_width(rate, width) * spread.design_effect)
    for judged in answers:
        yield LabelRow(name, width, judged, spread.labels_for(width, judged or math.inf), alone)
