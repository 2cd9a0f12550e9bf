"""The command `plan`: the cases, repeats and labels needed for a wanted precision, and their cost."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from rich.console import Console

from evalflow.app.core.labels import bound_labels, labels_to_compare
from evalflow.app.core.plan_bases import pilot_bases, stated_basis
from evalflow.app.core.saved import SavedRun, find_scored
from evalflow.errors import Problem, UserError, command
from evalflow.labels.sheet import advised_size
from evalflow.lazy import pl
from evalflow.report.plan import Goal, LabelRow, PilotCosts, PlanReport, PlanRow, print_plan
from evalflow.report.wording import print_json
from evalflow.stats.labelled import widest
from evalflow.stats.power import cases_for_rate_width, cases_for_width
from evalflow.stats.prediction import MOST_LABELS, Spread, assumed_spread, observed_spread
from evalflow.summary.agreement import SERIES, labelled_scores
from evalflow.summary.pairing import pair_scores
from evalflow.summary.plan import Basis, Level, Planner

_GOALS: Final = ("detect", "width", "cases")
_ANSWERS = (500, 2_000, 10_000, None)
_Measured = tuple[list[LabelRow], dict[str, list[str]]]


def plan(options: argparse.Namespace, console: Console) -> int:
    """Print what a wanted precision needs: from pilot runs, or from the values that the options state."""
    if problems := list(_problems(options)):
        raise UserError(problems)
    pilot, family = PilotCosts(), 1
    if any(value is not None for value in (options.sd, options.rate, options.flips)):
        bases = [stated_basis(options)]
    else:
        bases, pilot, family = pilot_bases(options)
    level = Level(options.alpha, options.power, options.comparisons or family)
    goals = [Goal(kind, value) for kind in _GOALS if (value := getattr(options, kind)) is not None]
    rows = [row for basis in bases for goal in goals for row in _rows(basis, goal, level, pilot, options.assurance)]
    assumptions = {basis.name: basis.assumptions for basis in bases}
    labels: list[LabelRow] = []
    if options.judge_correlation is not None:
        answers = _ANSWERS if options.cases is None else (options.cases,)
        for goal in goals:
            labels += _label_rows(bases[0].name, _assumed(bases[0], goal, options), goal, answers, level, bases[0].rate)
    if options.labels is not None:
        labels, of_labels = _measured_labels(options, goals, level)
        assumptions |= {name: [*assumptions.get(name, []), *lines] for name, lines in of_labels.items()}
    whole = PlanReport(rows, labels, assumptions, level, pilot, options.assurance)
    if options.json:
        print_json(console, whole.document())
    else:
        print_plan(console, whole)
    return 0


_RANGES = {
    "detect": (0.0, math.inf, "a difference is more than 0: --detect 0.05"),
    "width": (0.0, math.inf, "a width is more than 0: --width 0.1"),
    "cases": (0, math.inf, "the number of cases must be more than 0: --cases 200"),
    "sd": (0.0, math.inf, "a standard deviation is more than 0: --sd 0.3"),
    "mean": (0.0, 1.0, "a mean score lies between 0 and 1: --sd 0.1 --mean 0.9"),
    "comparisons": (0, math.inf, "a number of comparisons is more than 0: --comparisons 4"),
    "noise": (0.0, math.inf, "a standard deviation is more than 0: --noise 0.1"),
    "rate": (0.0, 1.0, "a pass rate lies between 0 and 1: --rate 0.8"),
    "flips": (0.0, 1.0, "a share of cases lies between 0 and 1: --flips 0.2"),
    "correlation": (-1.0, 1.0, "a correlation lies between -1 and 1: --correlation 0.5"),
    "judge_correlation": (-1.0, 1.0, "a correlation lies between -1 and 1: --judge-correlation 0.7"),
    "cluster_size": (0.0, math.inf, "cases in a group: --cluster-size 5"),
    "icc": (0.0, 1.0, "a correlation of cases in one group lies between 0 and 1: --icc 0.2"),
    "alpha": (0.0, 1.0, "a level lies between 0 and 1: --alpha 0.05"),
    "power": (0.0, 1.0, "a power lies between 0 and 1: --power 0.8"),
    "assurance": (0.5, 1.0, "a chance lies between 0.5, which is the plan without it, and 1: --assurance 0.8"),
}
_MAY_BE_0 = ("correlation", "judge_correlation", "icc")


def _problems(options: argparse.Namespace) -> Iterator[Problem]:
    where = "command line"
    if options.detect is None and options.width is None and options.cases is None:
        forms = (("--detect", 0.05), ("--width", 0.1), ("--cases", 200))
        hint = "\n    ".join(["try one of these:", *(command("plan", *form) for form in forms)])
        yield Problem("say what to plan for: --detect, --width or --cases", where, hint)
    for name, (low, high, hint) in _RANGES.items():
        value = getattr(options, name)
        if value is not None and not low < value < high and not (value == 0 and name in _MAY_BE_0):
            yield Problem(f"--{name.replace('_', '-')} is {value:g}", where, hint)
    sources = [name for name in ("runs", "sd", "rate", "flips") if getattr(options, name)]
    if len(sources) > 1:
        named = " and ".join("--from" if name == "runs" else f"--{name}" for name in sources)
        yield Problem(f"{named} say the same thing twice", where, "a pilot run, or one stated guess")
    if options.noise is not None and options.sd is None:
        yield Problem("--noise is about scores whose spread is stated", where, "--sd 0.3 --noise 0.1")
    if options.mean is not None and (options.sd is None or options.sd**2 >= options.mean * (1 - options.mean)):
        what = "--mean is about scores in 0..1 whose spread is stated, and fits their mean"
        yield Problem(what, where, "--sd 0.1 --mean 0.9")
    stated = {"sd", "rate"} & set(sources)
    is_for_labels = options.width is not None or options.detect is not None
    if options.judge_correlation is not None and not (stated and is_for_labels):
        what = "labels are planned for an interval or a difference, from a guess of what people's labels are like"
        yield Problem(what, where, "--width 0.1 --rate 0.8 --judge-correlation 0.7")
    if options.assurance is not None and (stated or options.flips is not None):
        what = "--assurance is about how uncertain a pilot is, and guesses do not say that"
        yield Problem(what, where, "--assurance 0.8 --from RUN, or leave it out")
    if options.labels is not None and (not is_for_labels or stated or options.flips is not None):
        what = "labels tell of a run, for an interval, or of two, for a difference"
        yield Problem(what, where, "--width 0.1 --from RUN --labels labels.csv")
    elif options.labels is not None and options.detect is not None and len(options.runs or ()) != 2:
        what = "a difference is corrected by labels of the two runs that it is of"
        yield Problem(what, where, "--detect 0.05 --from RUN_A RUN_B --labels labels.csv")
    yield from _contradictions(options, sources)


def _contradictions(options: argparse.Namespace, sources: Sequence[str]) -> Iterator[Problem]:
    where = "command line"
    if (options.cluster_size is None) != (options.icc is None):
        yield Problem("groups have a size and a correlation", where, "--cluster-size 5 --icc 0.2")
    elif options.icc is not None and not {"sd", "rate", "flips"} & set(sources):
        yield Problem("a pilot run knows its own groups", where, "leave out --cluster-size and --icc")
    if options.flips is not None and options.width is not None:
        yield Problem("a share of flips says nothing of one run's interval", where, "--rate P --width W")
    if options.flips is not None and options.detect is not None and options.detect > options.flips:
        what = f"runs whose pass rates differ by {options.detect:g} differ in at least that share of cases"
        yield Problem(what, where, f"--flips {options.detect:g} or more")
    if options.rate is not None and options.detect is not None and options.detect > max(options.rate, 1 - options.rate):
        yield Problem(f"no pass rate is {options.detect:g} away from {options.rate:g}", where, "a smaller --detect")


def _rows(estimated: Basis, goal: Goal, level: Level, costs: PilotCosts, assurance: float | None) -> Iterator[PlanRow]:
    basis = estimated if assurance is None else estimated.assured(assurance)
    by_estimate = Planner(estimated, level)
    planner = by_estimate if assurance is None else Planner(basis, level)
    for answers, judgements in basis.repeats:
        cases, least = _cases(planner, goal, answers, judgements), None
        seen = basis.difference_spread if goal.kind == "detect" else basis.scores.case_spread
        if len(basis.repeats) > 1 and goal.kind != "cases" and seen:  # repeats are known to help, and cases differ
            least = _cases(planner, goal, math.inf, math.inf)
        yield PlanRow(
            least_cases=least,
            name=basis.name,
            goal=goal,
            cases=cases,
            cases_by_estimate=_cases(by_estimate, goal, answers, judgements),
            answers=answers,
            judgements=judgements,
            detectable=planner.detectable(cases, answers, judgements),
            width=planner.width(cases, answers, judgements),
            cost_usd=costs.of_run(cases, answers, judgements),
        )


def _cases(planner: Planner, goal: Goal, answers: float, judgements: float) -> int:
    if goal.kind == "detect":
        return planner.cases_to_detect(goal.value, answers, judgements)
    return planner.cases_for_width(goal.value, answers, judgements) if goal.kind == "width" else int(goal.value)


def _assumed(basis: Basis, goal: Goal, options: argparse.Namespace) -> Spread:
    """Return the assumed spread of labels, or of their differences between two runs, and of the judge's scores."""
    variance = basis.scores.variance()
    if goal.kind == "detect":
        variance = basis.difference_spread + 2 * (basis.scores.generator_noise or 0.0)
    return assumed_spread(variance, options.judge_correlation, basis.design_effect)


def _measured_labels(options: argparse.Namespace, goals: Sequence[Goal], level: Level) -> _Measured:
    """Estimate the labels needed from the labels of pilot runs; also return the basis of the estimate by name."""
    runs = [find_scored(run, "plan", "--from") for run in options.runs or [None]]
    rows: list[LabelRow] = []
    assumptions: dict[str, list[str]] = {}
    for goal in goals:
        named = ("differences between the runs", "differences") if goal.kind == "detect" else ("labels", "scores")
        for name, answers, spread, on in _labelled(goal, runs, options) if goal.kind != "cases" else ():
            sizes = (answers, 10 * answers, None) if options.cases is None else (options.cases,)
            rows += _label_rows(name, spread, goal, sizes, level, None)
            scale = math.sqrt(spread.labels * spread.judged)
            related = f"correlate by {spread.shared / scale:.2g}" if scale else "do not vary together"
            groups = "" if spread.design_effect == 1 else f"; groups: {spread.design_effect:.3g} times the labels"
            assumptions.setdefault(name, []).append(
                f"measured: people's {named[0]} have a standard deviation of {spread.labels**0.5:.3g}, the judge's "
                f"{named[1]} of {spread.judged**0.5:.3g}, and they {related}, on {on}{groups}"
            )
    return rows, assumptions


def _labelled(
    goal: Goal, runs: Sequence[SavedRun], options: argparse.Namespace
) -> Iterator[tuple[str, int, Spread, str]]:
    """Yield for each labelled metric its name, number of answers (or common cases), spread and source."""
    of_two, notes = goal.kind == "detect", list[str]()
    on = f"labelled answers of {runs[-1].name}"
    if of_two:
        on = f"cases labelled in both {runs[0].name} and {runs[1].name}"
        labels = labels_to_compare(runs, options.labels)
        notes, people = [*labels.notes], labels.people_in(runs[0], runs[1])
        pairs = pair_scores(runs[0].scores(), runs[1].scores(), people=people).cases
        differences = ((pl.col(f"{name}_b") - pl.col(f"{name}_a")).alias(name) for name in ("human", "score"))
        parts = pairs.with_columns(*differences, judge=pl.lit(None, pl.String))
    else:
        parts = labelled_scores(runs[-1].scores(), bound_labels(runs[-1], options.labels).frame)
    has_spread = False
    keys = ("dataset", "metric") if of_two else SERIES
    for _, part in parts.sort("metric", "judge", maintain_order=True).group_by(keys, maintain_order=True):
        given, metric, judge = part.drop_nulls("human"), str(part["metric"][0]), part["judge"][0]
        human, score, cluster = (given[name].to_numpy() for name in ("human", "score", "cluster"))
        sides = (given[f"{name}_{side}"].to_numpy() for name in ("human", "score") for side in "ab") if of_two else ()
        spread = observed_spread(human, score, cluster, widest(*sides) if of_two else None)
        if spread is not None and options.metric in (None, metric):
            has_spread = True
            yield " · ".join(str(word) for word in (metric, judge) if word), part.height, spread, f"{given.height} {on}"
    if not has_spread:
        what = f"there are fewer than two {on}" + (f" on {options.metric}" if options.metric else "")
        size = advised_size(runs[-1].manifest.answered)
        hint = f"label the same cases of both: {command('calibrate', runs[-1].folder.path, '--sample', size)}"
        raise UserError(Problem(what, options.labels, "; ".join([*notes, hint])))


def _label_rows(
    name: str, spread: Spread, goal: Goal, answers: Sequence[int | None], level: Level, rate: float | None
) -> Iterator[LabelRow]:
    def needed(own: Spread, most: float) -> int | None:
        if goal.kind == "detect":
            return own.labels_to_detect(goal.value, most, alpha=level.each, power=level.power)
        return own.labels_for(goal.value, most)

    if goal.kind == "cases":
        return
    if goal.kind == "detect":
        alone = needed(replace(spread, judged=0.0, shared=0.0), math.inf) or MOST_LABELS
    elif rate is None:
        alone = cases_for_width(float(spread.labels * spread.design_effect), goal.value)
    else:
        alone = math.ceil(cases_for_rate_width(rate, goal.value) * spread.design_effect)
    for judged in answers:
        yield LabelRow(name, goal, judged, needed(spread, judged or math.inf), alone)
