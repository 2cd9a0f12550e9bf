"""The command `plan`: the cases, repeats and labels needed for a wanted precision, and their cost."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.console import Console

from evalflow.app.core.changed import obstacles, what_changed
from evalflow.app.core.comparison import test_orders
from evalflow.app.core.labels import bound_labels, labels_to_compare
from evalflow.app.core.saved import SavedRun, find_scored
from evalflow.engine.journal import read_answers
from evalflow.errors import Problem, UserError, command
from evalflow.lazy import pl
from evalflow.records import NOTHING, Answer
from evalflow.report.plan import Conversations, Goal, LabelRow, PilotCosts, PlanReport, PlanRow, print_plan
from evalflow.report.wording import print_json
from evalflow.stats.arrays import cluster_codes
from evalflow.stats.labelled import widest
from evalflow.stats.paired import standard_error
from evalflow.stats.power import cases_for_rate_width, cases_for_width, flips_expected
from evalflow.stats.prediction import MOST_LABELS, Spread, assumed_spread, observed_spread
from evalflow.stats.simulation import Population, guessed, unrelated
from evalflow.stats.variance import Components, variance_limit
from evalflow.summary.agreement import SERIES, labelled_scores
from evalflow.summary.compare import compare_cases, pair_scores
from evalflow.summary.details import components_of
from evalflow.summary.families import tests_in_order
from evalflow.summary.plan import Basis, Level, Planner, difference_variance
from evalflow.summary.slices import case_clusters, find_units, own_cells, repeats_of, values_of
from evalflow.targets.conversation import SIMULATION

_GOALS: Final = ("detect", "width", "cases")
_WIDEST = 0.25  # variance of scores in 0..1
_ANSWERS = (500, 2_000, 10_000, None)
_Measured = tuple[list[LabelRow], dict[str, list[str]]]


def plan(options: argparse.Namespace, console: Console) -> int:
    """Print what a wanted precision needs: from pilot runs, or from the values that the options state."""
    if problems := list(_problems(options)):
        raise UserError(problems)
    pilot, family = PilotCosts(), 1
    if any(value is not None for value in (options.sd, options.rate, options.flips)):
        bases = [_stated(options)]
    else:
        bases, pilot, family = _pilot(options)
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
    "cases": (0, math.inf, "a number of cases is more than 0: --cases 200"),
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
        hint = f"{command('plan', '--detect', 0.05)}, or --width 0.1, or --cases 200"
        yield Problem("what is wanted?", where, hint)
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


def _stated(options: argparse.Namespace) -> Basis:
    correlation = options.correlation or 0.0
    assumptions: list[str] = []
    noise = None
    if options.sd is not None:
        spread = options.sd**2
        noise = None if options.noise is None else options.noise**2
        assumptions.append(f"stated: cases' scores have a standard deviation of {options.sd:g}")
        if options.noise is None:
            assumptions.append(
                "not stated: how much one case's answers differ; so no number of repeats helps (--noise)"
            )
        else:
            assumptions.append(
                f"stated: answers to one case have a standard deviation of {options.noise:g}, in both runs"
            )
    elif options.rate is not None:
        spread = options.rate * (1 - options.rate)
        assumptions.append(f"stated: {options.rate:.1%} of the cases pass")
    else:
        spread = options.flips / 2
        assumptions.append(f"stated: {options.flips:.1%} of the cases pass in one run and fail in the other")
    if options.flips is None:
        assumptions.append(_related(options.correlation))
    if options.judge_correlation is not None:
        how = f"stated: a judge's scores correlate by {options.judge_correlation:g} with people's labels; "
        assumptions.append(f"{how}assumed: they are spread as the labels are")
    effect, groups = 1.0, (1.0, 0.0)
    if options.icc is not None:
        groups = options.cluster_size, options.icc
        effect = max(1.0, 1 + (options.cluster_size - 1) * options.icc)
        alike = f"stated: groups of {options.cluster_size:g} cases that correlate by {options.icc:g}"
        assumptions.append(f"{alike}: {effect:.3g} times the cases")
    scores, between = Components(0, spread, noise, None), difference_variance(spread, correlation)
    if options.sd is not None:
        sd, bounded = math.sqrt(scores.variance()), scores.variance() < _WIDEST
        mean = options.mean or (1 - sd if bounded else 0.0)
        if bounded and options.width is not None and options.mean is None:
            assumptions.append(f"assumed: scores in 0..1 with a mean of {mean:.3g}, the cautious end (--mean)")
        cases = guessed("graded" if bounded else "normal", mean, sd, *groups)
        differences = guessed("normal", 0.0, max(sd, math.sqrt(between)), *groups)
        cases, differences = replace(cases, bounded=bounded), replace(differences, bounded=bounded)
    else:
        cases, share = None, options.flips
        if options.rate is not None:
            cases = guessed("pass", options.rate, math.sqrt(spread), *groups)
            share = flips_expected(options.rate, options.detect or 0.0, correlation)
        differences = guessed("flips", 0.0, math.sqrt(share or 0.0), *groups)
    return Basis(
        "stated guesses", assumptions, scores, scores, between, cases, differences, options.rate, options.flips,
        correlation, effect,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Slice:
    """One metric's scored cases in one run."""

    cases: pl.DataFrame
    parts: Components
    bounded: bool

    @property
    def population(self) -> Population:
        """The scores that simulated runs draw from."""
        clusters = case_clusters(self.cases)
        codes = None if clusters is None else cluster_codes(clusters)
        return Population(self.cases["mean"].to_numpy(), codes, self.bounded)

    @property
    def rate(self) -> float | None:
        """The pass rate, if scores are 0 or 1, nothing was repeated and no cases share a group; else None."""
        mean = self.cases["mean"]
        alone = self.cases["cluster"].null_count() == self.cases.height and self.cases["judgements"].max() == 1
        share = float(mean.mean())  # pyright: ignore[reportArgumentType] - a number, of a column of numbers
        return share if alone and mean.is_in([0.0, 1.0]).all() and 0 < share < 1 else None

    def limit(self, chance: float | None) -> float:
        """The factor to the upper limit of the variance; 1 without a wanted chance."""
        return 1.0 if chance is None else variance_limit(self.cases["mean"], case_clusters(self.cases), chance)

    def noise(self) -> float:
        """The variance of a case's mean score due to answers and judge, with as many repeats as the run has."""
        answers = int(self.cases["answers"].sum())
        return self.parts.noise(answers / self.cases.height, int(self.cases["judgements"].sum()) / answers)


def _pilot(options: argparse.Namespace) -> tuple[list[Basis], PilotCosts, int]:
    """A basis for each metric of one run, or of two to compare; what the last run took; the size of the family."""
    given, metric, correlation = options.runs, options.metric, options.correlation
    if len(given) > 2 or (len(given) == 2 and correlation is not None):
        what = "two pilot runs know their correlation" if len(given) == 2 else f"{len(given)} pilot runs"
        raise UserError(Problem(what, "command line", "--from RUN --correlation R, or --from RUN_A RUN_B"))
    stated = {
        name: getattr(options, name)
        for name in ("detect", "width", "cases", "metric", "correlation", "labels", "assurance")
    }
    flags = [word for name, value in stated.items() if value is not None for word in (f"--{name}", str(value))]
    runs = [find_scored(run, "plan", *flags, "--from") for run in given or [None]]
    names = " and ".join(run.name for run in runs)
    if len(runs) == 2:
        hint = "two pilots are runs that compare takes as they are"
        if unlike := [Problem(one.what, names, hint) for one in obstacles(what_changed(*runs))]:
            raise UserError(unlike)
        bases = list(_pairs(runs[0], runs[1], metric, options.assurance))
    else:
        bases = list(_singles(runs[0], metric, correlation, options.assurance))
    if not bases:
        cases = "common cases" if len(runs) == 2 else "cases"
        varies = f"no metric has two {cases}, or groups of them, whose scores differ"
        what = varies if metric is None else f"nothing to learn of {metric!r}"
        raise UserError(Problem(what, names, "state a guess: --sd S or --rate P"))
    return bases, _costs(runs[-1]), _family(runs[0], runs[-1])


def _family(a: SavedRun, b: SavedRun) -> int:
    """Number of tests that `compare` makes of two such runs, as of its adjustment."""
    rows = compare_cases(pair_scores(a.scores(), b.scores()), (a.name, b.name), b.traits)
    made = sum(row.found.p_value is not None for row in rows)
    return max(1, made - tests_in_order(rows, test_orders([a, b])))


def _related(correlation: float | None) -> str:
    """The assumption on the correlation of two runs, for when fewer than two are given."""
    if correlation is None:
        return "assumed: two runs' scores of a case are unrelated, the cautious end (--correlation, or a second run)"
    return f"stated: two runs' scores of a case correlate by {correlation:g}"


def _singles(run: SavedRun, metric: str | None, correlation: float | None, assurance: float | None) -> Iterator[Basis]:
    slices = _slices(run, metric)
    for key, one in slices.items():
        measured = f"measured: {_measured(one.parts)}, on {one.parts.cases} cases of {run.name}"
        spread = difference_variance(one.parts.case_spread, correlation or 0.0)
        yield Basis(
            _name(key, slices), [measured, _related(correlation), *_unknown(one)], one.parts, one.parts, spread,
            one.population, unrelated(one.population), rate=one.rate, correlation=correlation or 0.0,
            sampled=one.cases.height,
            scores_limit=one.limit(assurance), difference_limit=one.limit(assurance),
        )  # fmt: skip


def _pairs(a: SavedRun, b: SavedRun, metric: str | None, assurance: float | None) -> Iterator[Basis]:
    first, second = ({key[:2]: one for key, one in _slices(run, metric).items()} for run in (a, b))
    pairing = pair_scores(a.scores(), b.scores()).cases
    for key in (key for key in second if key in first):
        cases = pairing.filter((pl.col("dataset") == key[0]) & (pl.col("metric") == key[1]))
        old, new = first[key], second[key]
        differences, clusters = (cases["score_b"] - cases["score_a"]).to_numpy(), cases["cluster"].to_numpy()
        error, _ = standard_error(differences, clusters)
        if error is None:
            continue
        variance = cases.height * error**2
        noise = old.noise() + new.noise()
        flips = None
        measured = f"measured: case by case the runs differ by a standard deviation of {variance**0.5:.3g}"
        if old.rate is not None and new.rate is not None:
            flips = float((cases["score_a"] != cases["score_b"]).mean())  # pyright: ignore[reportArgumentType]
            measured = f"measured: {flips:.1%} of the cases pass in one run and fail in the other"
        measured += f", on {cases.height} cases of {a.name} and {b.name}"
        yield Basis(
            _name((*key, None, None), second), [measured, *_unknown(new)], new.parts, old.parts,
            max(0.0, variance - noise), new.population, _differences(cases, bounded=new.bounded),
            flips=flips, sampled=cases.height, scores_limit=new.limit(assurance),
            difference_limit=1.0 if assurance is None else variance_limit(differences, clusters, assurance),
        )  # fmt: skip


def _differences(cases: pl.DataFrame, *, bounded: bool) -> Population:
    """The differences of two runs that simulated comparisons draw from."""
    codes = cluster_codes(cases["cluster"].to_numpy())
    alone = int(codes.max()) + 1 == cases.height
    differences = (cases["score_b"] - cases["score_a"]).to_numpy()
    return Population(differences, None if alone else codes, bounded, cases["score_a"].to_numpy())


def _slices(run: SavedRun, metric: str | None) -> dict[tuple[Any, ...], _Slice]:
    cells = own_cells(run.scores())
    cells = cells if metric is None else cells.filter(pl.col("metric") == metric)
    units = find_units(cells)
    keys = units.whole.join(units.table, on="unit").select(pl.col("number").alias("part"), *SERIES)
    scored = repeats_of(values_of(cells, units, repeats=True)).filter(pl.col("judgements") > 0)
    cases = scored.join(keys, on="part").sort(*SERIES, "case_id")
    found: dict[tuple[Any, ...], _Slice] = {}
    for key, own in cases.group_by(SERIES, maintain_order=True):
        parts = components_of(own)
        if parts is not None and parts.variance() > 0:
            found[key] = _Slice(own, parts, key[1] in run.traits and run.traits[str(key[1])].bounded)
    return found


def _name(key: Sequence[Any], slices: Any) -> str:
    """The metric, with dataset, target and judge where they vary."""
    varying = [at for at in (0, 2, 3) if len({other[at] for other in slices if at < len(other)}) > 1]
    return " · ".join([key[1], *(key[at] for at in varying if at < len(key) and key[at])])


def _measured(parts: Components) -> str:
    spread = f"have a standard deviation of {parts.case_spread**0.5:.3g}"
    hidden = "differ by no more than noise would, so what repeats save may be less than it seems"
    measured = [f"cases' scores {spread if parts.case_spread > 0 else hidden}"]
    if parts.generator_noise is not None:
        measured.append(f"answers to one case of {parts.generator_noise**0.5:.3g}")
    if parts.judge_noise is not None:
        measured.append(f"judgements of one answer of {parts.judge_noise**0.5:.3g}")
    return ", ".join(measured)


def _unknown(one: _Slice) -> Iterator[str]:
    if one.parts.generator_noise is None and one.parts.judge_noise is None:
        yield "not known: the noise of answers and judge; a pilot with repeats={target: 2, judge: 2} tells it apart"
    if one.cases["cluster"].null_count() < one.cases.height:
        yield "assumed: new cases come in groups as large as the pilot's"


def _costs(run: SavedRun) -> PilotCosts:
    """What a run took for each answer, the simulated user's turns included, and for each judgement of it."""
    total = run.manifest.full_cost
    cases = sum(facts.cases for facts in run.manifest.datasets.values())
    repeats = run.manifest.config["repeats"]
    target: float | None = 0.0
    talks: list[Answer] = []
    for answer in read_answers(run.folder.answers):
        usd = None if answer is None else answer.total.full_cost_usd
        target = None if target is None or usd is None else target + usd
        if answer is not None and answer.simulator is not None:
            talks.append(answer)
    conversations = _conversations(talks) if talks else None
    if total is None or target is None or not cases:
        return PilotCosts(conversations=conversations)
    answers = cases * repeats["target"]
    judgement = max(0.0, total - target) / (answers * repeats["judge"])
    return PilotCosts(target / answers, judgement, conversations)


def _conversations(talks: Sequence[Answer]) -> Conversations:
    spent = sum((talk.total for talk in talks), NOTHING)
    users = sum((talk.simulator for talk in talks if talk.simulator), NOTHING)
    turns = sum((talk.metadata or {})[SIMULATION]["turns"] for talk in talks)
    tokens = None if spent.usage is None else spent.usage.input_tokens + spent.usage.output_tokens
    return Conversations(
        count=len(talks),
        turns=turns / len(talks),
        user_calls=(users.requests + users.cached) / len(talks),
        tokens=None if tokens is None else tokens / len(talks),
        cost_usd=None if spent.full_cost_usd is None else spent.full_cost_usd / len(talks),
        seconds=None if spent.latency_s is None else spent.latency_s / len(talks),
    )


def _assumed(basis: Basis, goal: Goal, options: argparse.Namespace) -> Spread:
    """The assumed spread of labels, or of their differences between two runs, and of the judge's scores."""
    variance = basis.scores.variance()
    if goal.kind == "detect":
        variance = basis.difference_spread + 2 * (basis.scores.generator_noise or 0.0)
    return assumed_spread(variance, options.judge_correlation, basis.design_effect)


def _measured_labels(options: argparse.Namespace, goals: Sequence[Goal], level: Level) -> _Measured:
    """Labels needed, estimated from the labels of pilot runs; and what the estimate rests on, by name."""
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
    """Of each metric with labels: its name, its number of answers (or cases of both runs), its spread, on what."""
    of_two, notes = goal.kind == "detect", list[str]()
    on = f"labelled answers of {runs[-1].name}"
    if of_two:
        on = f"cases labelled in both {runs[0].name} and {runs[1].name}"
        labels = labels_to_compare(runs, options.labels)
        notes, people = [*labels.notes], (labels.of(runs[0]), labels.of(runs[1]))
        pairs = pair_scores(runs[0].scores(), runs[1].scores(), labels=people).cases
        differences = ((pl.col(f"{name}_b") - pl.col(f"{name}_a")).alias(name) for name in ("human", "score"))
        parts = pairs.with_columns(*differences, judge=pl.lit(None, pl.String))
    else:
        parts = labelled_scores(runs[-1].scores(), bound_labels(runs[-1], options.labels).frame)
    found = False
    keys = ("dataset", "metric") if of_two else SERIES
    for _, part in parts.sort("metric", "judge", maintain_order=True).group_by(keys, maintain_order=True):
        given, metric, judge = part.drop_nulls("human"), str(part["metric"][0]), part["judge"][0]
        human, score, cluster = (given[name].to_numpy() for name in ("human", "score", "cluster"))
        sides = (given[f"{name}_{side}"].to_numpy() for name in ("human", "score") for side in "ab") if of_two else ()
        spread = observed_spread(human, score, cluster, widest(*sides) if of_two else None)
        if spread is not None and options.metric in (None, metric):
            found = True
            yield " · ".join(str(word) for word in (metric, judge) if word), part.height, spread, f"{given.height} {on}"
    if not found:
        what = f"there are fewer than two {on}" + (f" on {options.metric}" if options.metric else "")
        hint = f"label the same cases of both: {command('calibrate', runs[-1].folder.path, '--sample', 60)}"
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
        alone = cases_for_width(spread.labels * spread.design_effect, goal.value)
    else:
        alone = math.ceil(cases_for_rate_width(rate, goal.value) * spread.design_effect)
    for judged in answers:
        yield LabelRow(name, goal, judged, needed(spread, judged or math.inf), alone)
