"""Spread and noise of the scores of earlier runs, and the cost of a case, for `plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from evalflow.app.core.comparison import obstacles
from evalflow.app.core.saved import SavedRun, find_run, open_scored
from evalflow.errors import Problem, UserError
from evalflow.lazy import pl
from evalflow.run.journal import read_answers
from evalflow.stats.paired import standard_error
from evalflow.stats.variance import Components
from evalflow.summary.compare import pair_scores
from evalflow.summary.noise import components_of
from evalflow.summary.plan import Basis, difference_variance
from evalflow.summary.slices import own_cells, repeats_of

_SLICE = ("dataset", "metric", "target", "judge")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost in dollars of one answer, and of judging it with all of the run's metrics."""

    answer: float
    judgement: float

    def of(self, cases: int, answers: int, judgements: int) -> float:
        """Dollars of one run."""
        return cases * answers * (self.answer + judgements * self.judgement)


@dataclass(frozen=True, slots=True)
class Pilot:
    """A basis for each metric, and the cost of a case; None if a price is unknown."""

    bases: Sequence[Basis]
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class _Slice:
    """One metric's scored cases in one run."""

    cases: pl.DataFrame
    parts: Components

    @property
    def rate(self) -> float | None:
        """The pass rate, if scores are 0 or 1, nothing was repeated and no cases share a group; else None."""
        mean = self.cases["mean"]
        alone = self.cases["cluster"].null_count() == self.cases.height and self.cases["judgements"].max() == 1
        share = float(mean.mean())  # pyright: ignore[reportArgumentType] - a number, of a column of numbers
        return share if alone and mean.is_in([0.0, 1.0]).all() and 0 < share < 1 else None

    def noise(self) -> float:
        """The variance of a case's mean score due to answers and judge, with as many repeats as the run has."""
        answers = int(self.cases["answers"].sum())
        return self.parts.noise(answers / self.cases.height, int(self.cases["judgements"].sum()) / answers)


def pilot(runs: Sequence[str], metric: str | None, correlation: float | None, *verb: str) -> Pilot:
    """Estimate from one run, or from two that can be compared.

    Args:
        runs: Folders of one or two runs; by default the latest.
        metric: Only this metric.
        correlation: Assumed correlation of the cases' scores in two runs, if only one run is given.
        verb: The words of the command line before the runs, to suggest commands for the runs of a sweep.

    Raises:
        UserError: There is no such run or metric, the two cannot be compared, or no score varies.
    """
    if len(runs) > 2 or (len(runs) == 2 and correlation is not None):
        what = "two pilot runs know their correlation" if len(runs) == 2 else f"{len(runs)} pilot runs"
        raise UserError(Problem(what, "command line", "--from RUN --correlation R, or --from RUN_A RUN_B"))
    found = [find_run(run, *verb) for run in runs or [None]]
    opened = [open_scored(folder) for folder in found]
    if len(opened) == 2:
        hint = "two pilots are runs that compare takes as they are"
        unlike = [Problem(o.what, f"{opened[0].name} and {opened[1].name}", hint) for o in obstacles(*opened)]
        if unlike:
            raise UserError(unlike)
        bases = list(_pairs(opened[0], opened[1], metric))
    else:
        bases = list(_singles(opened[0], metric, correlation))
    if not bases:
        where = " and ".join(run.name for run in opened)
        cases = "common cases" if len(opened) == 2 else "cases"
        varies = f"no metric has two {cases}, or groups of them, whose scores differ"
        what = varies if metric is None else f"nothing to learn of {metric!r}"
        raise UserError(Problem(what, where, "state a guess: --sd S or --rate P"))
    return Pilot(bases, _cost(opened[-1]))


def related(correlation: float | None) -> str:
    """The assumption on the correlation of two runs, for when fewer than two are given."""
    if correlation is None:
        return "assumed: two runs' scores of a case are unrelated, the cautious end (--correlation, or a second run)"
    return f"stated: two runs' scores of a case correlate by {correlation:g}"


def _singles(run: SavedRun, metric: str | None, correlation: float | None) -> Iterator[Basis]:
    slices = _slices(run, metric)
    for key, one in slices.items():
        measured = f"measured: {_measured(one.parts)}, on {one.parts.cases} cases of {run.name}"
        spread = difference_variance(one.parts.case_spread, correlation or 0.0)
        yield Basis(
            _name(key, slices), [measured, related(correlation), *_unknown(one)], one.parts, one.parts, spread,
            rate=one.rate, correlation=correlation or 0.0,
        )  # fmt: skip


def _pairs(a: SavedRun, b: SavedRun, metric: str | None) -> Iterator[Basis]:
    first, second = ({key[:2]: one for key, one in _slices(run, metric).items()} for run in (a, b))
    pairing = pair_scores(a.scores(), b.scores()).cases
    for key in (key for key in second if key in first):
        cases = pairing.filter((pl.col("dataset") == key[0]) & (pl.col("metric") == key[1]))
        old, new = first[key], second[key]
        error = standard_error((cases["score_b"] - cases["score_a"]).to_numpy(), cases["cluster"].to_numpy())
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
            max(0.0, variance - noise), flips=flips,
        )  # fmt: skip


def _slices(run: SavedRun, metric: str | None) -> dict[tuple[Any, ...], _Slice]:
    cells = own_cells(run.scores())
    cells = cells if metric is None else cells.filter(pl.col("metric") == metric)
    keys = cells.select("part", *_SLICE).unique().collect(engine="streaming")
    scored = repeats_of(cells).filter(pl.col("judgements") > 0)
    cases = scored.collect(engine="streaming").join(keys, on="part").sort(*_SLICE, "case_id")
    found: dict[tuple[Any, ...], _Slice] = {}
    for key, own in cases.group_by(_SLICE, maintain_order=True):
        parts = components_of(own)
        if parts is not None and parts.variance() > 0:
            found[key] = _Slice(own, parts)
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


def _cost(run: SavedRun) -> Cost | None:
    """The cost of an answer and a judgement without cache; None where unknown."""
    manifest = run.manifest
    total = _sum(manifest.get("cost_usd"), manifest.get("saved_usd"))
    cases = sum(facts["cases"] for facts in manifest["datasets"].values())
    repeats = manifest["config"]["repeats"]
    target: float | None = 0.0
    for answer in read_answers(run.folder.answers):
        target = _sum(target, answer and answer.cost_usd, answer and answer.saved_usd)
    if total is None or target is None or not cases:
        return None
    answers = cases * repeats["target"]
    return Cost(target / answers, max(0.0, total - target) / (answers * repeats["judge"]))


def _sum(*terms: float | None) -> float | None:
    return None if None in terms else sum(term for term in terms if term is not None)
