"""The metric that is proved: what it reads, the faults it must detect, and its cases with people's scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evalflow import datasets
from evalflow.config.schema import FAULTS, DatasetConfig, MetricConfig
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError, command
from evalflow.lazy import pl
from evalflow.metrics.kinds.checks import ChecksMetricConfig
from evalflow.metrics.kinds.composite import CompositeMetricConfig
from evalflow.metrics.registry import build_metric
from evalflow.metrics.scale import UNDEFINED, label_scale, read_judgement
from evalflow.paths import from_home, shown
from evalflow.prompts import Prompts
from evalflow.records import Case
from evalflow.summary.proof import FIXTURE

FEWEST = 6
_FALL_WITH_A_PART = ("mean", "min", "product", "share_passed", "all")
"""The rules by which a composite is worse if one of its parts is."""


@dataclass(frozen=True, slots=True)
class FixtureCase:
    """A case, the score that people would give (None: there is nothing to score), why, and whether it is the best."""

    case: Case
    score: float | None
    why: str
    is_good: bool


@dataclass(frozen=True, slots=True)
class ProofSubject:
    """The one metric of a run that is proved; `parts` are those that a composite is made of."""

    name: str
    config: MetricConfig
    parts: Mapping[str, MetricConfig] = field(default_factory=dict[str, MetricConfig])

    @classmethod
    def find(cls, settings: Settings) -> ProofSubject:
        """The metric that is not part of another; UserError unless it is one."""
        declared = settings.run.metric
        made_of = {part for one in declared.values() if isinstance(one, CompositeMetricConfig) for part in one.weights}
        name, *more = [one for one in declared if one not in made_of] or declared
        if more:
            what = f"prove one metric at a time; got {', '.join((name, *more))}"
            raise UserError(Problem(what, "command line", command("prove", name)))
        return cls(name, declared[name], {part: declared[part] for part in made_of if part in declared})

    @property
    def part_names(self) -> Sequence[str]:
        """The metrics that must be scored for it."""
        return list(self.config.weights) if isinstance(self.config, CompositeMetricConfig) else []

    @property
    def reads_answer(self) -> bool:
        if isinstance(self.config, ChecksMetricConfig):
            return True
        return any("answer" in one.needs for one in (self.config, *self.parts.values()))

    @property
    def faults(self) -> Sequence[str] | None:
        """The faults that must worsen its score, of a composite those of its parts unless stated; None if unsaid."""
        if self.config.faults is not None or not isinstance(self.config, CompositeMetricConfig):
            return self.config.faults
        if self.config.op not in _FALL_WITH_A_PART or any(one.faults is None for one in self.parts.values()):
            return None
        return [fault for fault in FAULTS if any(fault in (one.faults or ()) for one in self.parts.values())]

    def expect_changeable(self) -> None:
        """UserError unless it reads the answer, and it is known which faults must worsen its score."""
        alone = ""
        if self.config.fixture:
            alone = f", or compare it with its fixture alone: {command('prove', self.name)}"
        if not self.reads_answer:
            what = f"{self.name} does not read the answer, so no change of it can be seen"
            hint = f"prove a metric that needs the answer{alone}"
            raise UserError(Problem(what, f"metric.{self.name}.needs", hint))
        if self.faults is None:
            named = command("prove", self.name, f"++metric.{self.name}.faults=[{','.join(FAULTS)}]")
            hint = f"say so in its YAML, or here, such as {named}{alone}"
            raise UserError(Problem(self._unsaid(), f"metric.{self.name}.faults", hint))

    def _unsaid(self) -> str:
        """Return why it is unknown which faults must worsen its score."""
        what = f"{self.name} does not say which faults must worsen its score"
        if isinstance(self.config, CompositeMetricConfig):
            silent = [name for name, one in self.parts.items() if one.faults is None]
            if self.config.op not in _FALL_WITH_A_PART:
                return f"{what}, and by {self.config.op} it need not fall with one of its parts"
            return f"{what}, and nor does its part {silent[0]}"
        if isinstance(self.config, ChecksMetricConfig):
            return f"{what}: every case has its own checks"
        return what

    def read_fixture(self, settings: Settings) -> Sequence[FixtureCase]:
        """The cases of its fixture; UserError as in `read_fixture`."""
        metric = build_metric(self.name, self.config, Prompts(settings.composed.prompt_folders))
        folders = settings.composed.conf_folders
        return read_fixture(self.name, self.config, bounded=metric.bounded, conf_folders=folders)

    def scores(self, scores: pl.DataFrame) -> pl.DataFrame:
        """Its own scores among those of a run. A case's checks are one score: the share of them that hold."""
        scores = scores.filter(pl.col("member_of").is_null())
        if not isinstance(self.config, ChecksMetricConfig):
            return scores.filter(pl.col("metric") == self.name)
        state = pl.col("status")
        has_score = state == "scored"
        reasons = pl.concat_str(pl.col("metric"), pl.lit(": "), pl.coalesce("reason", "error", pl.lit("")))
        status = pl.when((state == "error").any()).then(pl.lit("error")).when(has_score.any()).then(pl.lit("scored"))
        return scores.group_by("dataset", "case_id", "repeat", maintain_order=True).agg(
            pl.col("tags", "group").first(),
            pl.col("judge").drop_nulls().first(),
            metric=pl.lit(self.name),
            reason=reasons.str.join("; "),
            status=status.when((state == "undefined").any()).then(pl.lit("undefined")).otherwise(pl.lit("skipped")),
            score=pl.when((state != "error").all()).then(pl.col("score").filter(has_score).mean()),
            passed=pl.when(pl.col("passed").filter(has_score).is_not_null().all()).then(pl.col("passed").all()),
            threshold=pl.when(pl.col("threshold").filter(has_score).is_not_null().all()).then(
                pl.col("threshold").min()
            ),
        )


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
    outcomes = list(_scored(name, config, own, bounded=bounded))
    problems = [
        Problem(one, places[case.index]) for case, one in zip(own, outcomes, strict=True) if isinstance(one, str)
    ]
    if problems:
        raise UserError(problems)
    return [one for one in outcomes if isinstance(one, FixtureCase)]


def _scored(name: str, config: MetricConfig, cases: Sequence[Case], *, bounded: bool) -> Iterator[FixtureCase | str]:
    """Yield each case with its score, or the problem of its label."""
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
    given = from_home(config.fixture)
    folders = dict.fromkeys([Path.cwd(), *(folder.parent for folder in conf_folders)])
    places = [place for folder in folders for place in (folder / "data" / given, folder / given)]
    fixture = next((place for place in places if place.is_file()), None)
    if fixture is None:
        hint = f"write it to {shown(places[0])}, or correct its name"
        raise UserError(Problem(f"no such file: {config.fixture}", where, hint))
    return fixture
