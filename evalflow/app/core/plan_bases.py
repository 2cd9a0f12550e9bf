"""The basis of a plan: pilot runs, or values stated on the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalflow.app.core.changed import obstacles, what_changed
from evalflow.app.core.comparison import test_orders
from evalflow.app.core.saved import SavedRun, find_scored
from evalflow.engine.journal import read_answers
from evalflow.errors import Problem, UserError
from evalflow.lazy import pl
from evalflow.records import NOTHING, Answer
from evalflow.report.plan import Conversations, PilotCosts
from evalflow.stats.arrays import cluster_codes
from evalflow.stats.paired import standard_error
from evalflow.stats.power import flips_expected
from evalflow.stats.simulation import Population, guessed, unrelated
from evalflow.stats.variance import Components, variance_limit
from evalflow.summary.agreement import SERIES
from evalflow.summary.compare import compare_cases, tests_in_order
from evalflow.summary.details import components_of
from evalflow.summary.pairing import pair_scores
from evalflow.summary.plan import Basis, difference_variance
from evalflow.summary.slices import case_clusters, find_units, own_cells, repeats_of, values_of
from evalflow.targets.conversation import SIMULATION
from evalflow.values.jsonvalues import as_map, count_at

_WIDEST = 0.25  # variance of scores in 0..1


def stated_basis(options: argparse.Namespace) -> Basis:
    """Return the basis stated by values of the command line."""
    correlation = options.correlation or 0.0
    assumptions: list[str] = []
    noise = None
    if options.sd is not None:
        spread = options.sd**2
        noise = None if options.noise is None else options.noise**2
        assumptions.append(f"stated: cases' scores have a standard deviation of {options.sd:g}")
        if options.noise is None:
            unknown = "not stated: how much one case's answers differ; so no number of repeats helps (--noise)"
            assumptions.append(unknown)
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
    groups = (1.0, 0.0) if options.icc is None else (options.cluster_size, options.icc)
    effect = max(1.0, 1 + (groups[0] - 1) * groups[1])
    if options.icc is not None:
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
        "stated guesses",
        assumptions,
        scores,
        scores,
        between,
        cases,
        differences,
        options.rate,
        options.flips,
        correlation,
        effect,
    )


@dataclass(frozen=True, slots=True)
class _Slice:
    """One metric's scored cases in one run."""

    cases: pl.DataFrame
    parts: Components
    bounded: bool

    @property
    def population(self) -> Population:
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


def pilot_bases(options: argparse.Namespace) -> tuple[list[Basis], PilotCosts, int]:
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
    """Number of tests that `compare` makes of two such runs, by its adjustment."""
    rows = compare_cases(pair_scores(a.scores(), b.scores(), b.traits), (a.name, b.name), b.traits)
    made = sum(row.difference.p_value is not None for row in rows)
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
            _name(key, slices),
            [measured, _related(correlation), *_unknown(one)],
            one.parts,
            one.parts,
            spread,
            one.population,
            unrelated(one.population),
            rate=one.rate,
            correlation=correlation or 0.0,
            sampled=one.cases.height,
            scores_limit=one.limit(assurance),
            difference_limit=one.limit(assurance),
        )


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
            _name((*key, None, None), second),
            [measured, *_unknown(new)],
            new.parts,
            old.parts,
            max(0.0, variance - noise),
            new.population,
            _differences(cases, bounded=new.bounded),
            flips=flips,
            sampled=cases.height,
            scores_limit=new.limit(assurance),
            difference_limit=1.0 if assurance is None else variance_limit(differences, clusters, assurance),
        )


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
    by_series: dict[tuple[Any, ...], _Slice] = {}
    for key, own in cases.group_by(SERIES, maintain_order=True):
        parts = components_of(own)
        if parts is not None and parts.variance() > 0:
            by_series[key] = _Slice(own, parts, key[1] in run.traits and run.traits[str(key[1])].bounded)
    return by_series


def _name(key: Sequence[Any], slices: Any) -> str:
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
    """Return a run's cost per answer, including the simulated user's turns, and per judgement."""
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
    turns = sum(count_at(as_map((talk.metadata or {})[SIMULATION]), "turns") for talk in talks)
    tokens = None if spent.usage is None else spent.usage.input_tokens + spent.usage.output_tokens
    return Conversations(
        count=len(talks),
        turns=turns / len(talks),
        user_calls=(users.requests + users.cached) / len(talks),
        tokens=None if tokens is None else tokens / len(talks),
        cost_usd=None if spent.full_cost_usd is None else spent.full_cost_usd / len(talks),
        seconds=None if spent.latency_s is None else spent.latency_s / len(talks),
    )
