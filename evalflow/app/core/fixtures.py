"""A metric's fixture: cases with the scores that people would give, to hold a judge's scores against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalflow import datasets
from evalflow.config.schema import DatasetConfig, MetricConfig
from evalflow.errors import Problem, UserError
from evalflow.metrics.scale import UNDEFINED, label_scale, read_judgement
from evalflow.paths import shown
from evalflow.records import Case
from evalflow.summary.fixture_agreement import FIXTURE

FEWEST = 6


@dataclass(frozen=True, slots=True)
class FixtureCase:
    """A case, the score that people would give (None: there is nothing to score), why, and whether it is the best."""

    case: Case
    score: float | None
    why: str
    is_good: bool


def read_fixture(
    name: str, config: MetricConfig, *, bounded: bool, conf_folders: Sequence[Path]
) -> Sequence[FixtureCase]:
    """The cases of a metric's fixture that are labelled for it, in the order of the file.

    UserError if the metric names none or a missing one, if too few cases are labelled for it, or a label is not on
    the metric's scale; it lists every problem.
    """
    file = _file(name, config, conf_folders)
    source = DatasetConfig(path=str(file), allow_irregular=True)
    cases = list(datasets.read(FIXTURE, source))
    own = [case for case in cases if name in (case.labels or {})]
    if len(own) < FEWEST:
        others = sorted({label for case in cases for label in case.labels or {}} - {name})
        what = f"{len(own)} of {len(cases)} cases have a label of {name}, and {FEWEST} are needed"
        hint = f'label more: "labels": {{"{name}": SCORE}}'
        if others and not own:
            hint = f"its labels are of {', '.join(others)}; {hint}"
        raise UserError(Problem(what, shown(file), hint))
    places = datasets.places(source, [case.index for case in own])
    found = list(_scored(name, config, own, bounded=bounded))
    problems = [Problem(one, places[case.index]) for case, one in zip(own, found, strict=True) if isinstance(one, str)]
    if problems:
        raise UserError(problems)
    return [one for one in found if isinstance(one, FixtureCase)]


def _scored(name: str, config: MetricConfig, cases: Sequence[Case], *, bounded: bool) -> Iterator[FixtureCase | str]:
    """Each case with its score, or what is wrong with its label."""
    scale, best = label_scale(config, bounded=bounded), float(config.direction == "higher_is_better")
    for case in cases:
        label, why = (case.labels or {})[name], str(case.vars.get("why") or "")
        try:
            score, _ = read_judgement(scale, label)
            yield FixtureCase(case, score, why, bounded and score == best)
        except ValueError as error:
            yield f'the label of {name}: {error}; give a score on its own scale, or "{UNDEFINED}"'


def _file(name: str, config: MetricConfig, conf_folders: Sequence[Path]) -> Path:
    """The fixture's file: below the working directory, or beside a folder with configuration, there or in its data/."""
    where = f"metric.{name}.fixture"
    if config.fixture is None:
        hint = f"name a file with cases and labels: fixture: fixtures/{name}.jsonl"
        raise UserError(Problem(f"{name} has no fixture", where, hint))
    given = Path(config.fixture).expanduser()
    folders = dict.fromkeys([Path.cwd(), *(folder.parent for folder in conf_folders)])
    places = [place for folder in folders for place in (folder / "data" / given, folder / given)]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        hint = f"write it to {shown(places[0])}, or correct its name"
        raise UserError(Problem(f"no such file: {config.fixture}", where, hint))
    return found
