"""Teach a metric's judge with human labels: its new version, what that costs, and whether it helped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.core.alignment import (
    Example,
    LabelHalves,
    Lesson,
    choose_examples,
    labelled_answers,
    rescored,
    rescoring,
)
from evalflow.app.core.begin import RunOrder
from evalflow.app.core.inspect import Inspection
from evalflow.app.core.kept_labels import RunLabels
from evalflow.app.core.options import option_values
from evalflow.app.core.saved import SavedRun, declared_meaning, prepared_steps
from evalflow.config.yaml_text import escaped, with_values
from evalflow.datasets.rows import json_value
from evalflow.errors import InfrastructureError, JudgeError, Problem, UserError, command, unknown_name
from evalflow.lazy import pl
from evalflow.llm.panel import single
from evalflow.metrics.kinds.g_eval import GEvalMetricConfig
from evalflow.metrics.kinds.judge import RubricMetricConfig
from evalflow.metrics.registry import build_metric
from evalflow.metrics.returns import StrType, reply_model
from evalflow.paths import share_dir, shown, write_atomically
from evalflow.prompts import Prompts, messages
from evalflow.records import Ask
from evalflow.summary.alignment import Alignment, alignment_of
from evalflow.values.contexts import Context
from evalflow.values.jsonvalues import is_sequence, json_text

_REASONS, _WORDING = "align/reasons.jinja", "align/wording.jinja"
CRITERION = "description"
"""The key with the criterion of a rubric."""
LONGEST_CRITERION = 2000


class CriterionWording(BaseModel):
    """The judge's reply with another wording of a criterion. Endpoints show the class name to the model."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    cause: str
    criterion: str = Field(min_length=1, max_length=LONGEST_CRITERION)


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A metric's next version: its configuration, and the new values by key path."""

    config: Mapping[str, Any]
    changes: Mapping[tuple[str | int, ...], object]

    @property
    def version(self) -> int:
        return int(self.config["version"])

    def write(self, file: Path) -> Path:
        """Write the metric of a file into that file, or into the project if it is shipped; returns the path.

        UserError if it cannot be written.
        """
        home = file if share_dir() / "conf" not in file.parents else Path("conf", "metric", file.name)
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(home, with_values(file.read_text(encoding="utf-8"), self.changes))
        except OSError as error:
            raise UserError(Problem(f"cannot be written: {error.strerror}", shown(home))) from None
        return home


def new_version(
    run: SavedRun,
    lesson: Lesson,
    examples: Sequence[Example],
    reasons: Mapping[tuple[str, int], str],
    criterion: str | None = None,
) -> NewVersion:
    """Return a run's metric with its examples replaced by these and its criterion reworded."""
    changes: dict[tuple[str | int, ...], object] = {("version",): run.manifest.metrics[lesson.metric].version + 1}
    if isinstance(lesson.config, GEvalMetricConfig) and not (lesson.config.steps or lesson.config.steps_from):
        changes["steps",] = next(iter(prepared_steps(run.folder, lesson.metric)))
    if criterion is not None:
        changes[CRITERION,] = criterion
    if examples:
        shown_to_judge = [{**fields_of(one), "reply": one.reply(lesson, reasons.get(one.key))} for one in examples]
        changes[(*lesson.place, "examples")] = shown_to_judge
    config = deepcopy(dict(run.manifest.metric_config(lesson.metric)))
    for path, value in changes.items():
        here: Any = config
        for part in path[:-1]:
            here = here[part]
        here[path[-1]] = escaped(value)  # run.json has the configuration as it is written
    return NewVersion(config, changes)


def file_of(run: SavedRun, lesson: Lesson) -> Path:
    """The file of a run's metric; UserError if it or its prompt is no longer what the run was scored with."""
    facts, where = run.manifest.metrics[lesson.metric], shown(run.folder.path)
    again = f"run it again: {command(f'metric={facts.key}')}, with its data and judge, and label those answers"
    folders = [Path(folder) for folder in run.manifest.search_folders["conf"]]
    candidates = [file for folder in folders if (file := folder / "metric" / f"{facts.key}.yaml").is_file()]
    if not candidates:
        what = f"the run's metric {lesson.metric} has no file in a conf/metric any more"
        raise UserError(Problem(what, where, "put it back, or name a newer run"))
    meaning = declared_meaning(run.manifest, lesson.metric)
    values: Mapping[str, Any] = json.loads(json_text(option_values(candidates[0])))  # as run.json has them
    ignored = {"defaults", *set(run.manifest.metric_config(lesson.metric)) - set(meaning)}
    other = [key for key in {*meaning, *values} - ignored if meaning.get(key) != values.get(key)]
    if other or values.get("version", 1) != facts.version:
        what = f"{', '.join(sorted(other)) or 'version'} of {lesson.metric} has changed since the run"
        raise UserError(Problem(what, shown(candidates[0]), again))
    expect_prompts(run, lesson, again)
    return candidates[0]


def expect_prompts(run: SavedRun, lesson: Lesson, again: str) -> None:
    """Raise UserError if the metric's prompts have changed since the run; `again` is the next step."""
    prompts = Prompts([Path(folder) for folder in run.manifest.search_folders["prompts"]])
    metric = build_metric(lesson.metric, lesson.config, prompts)
    if prompts.digest(metric.prompts) != run.manifest.metrics[lesson.metric].prompt_sha256:
        what = f"the prompt {metric.prompts[0]} has changed since the run"
        raise UserError(Problem(what, shown(run.folder.path), again))


def fields_of(example: Example) -> dict[str, object]:
    """Return the non-empty fields of an example, as YAML values."""
    return {name: _value(value) for name, value in example.fields.items() if value is not None}


def _value(value: object) -> object:
    if is_sequence(value) and value and all(isinstance(one, Context) for one in value):
        return [one.text for one in value if isinstance(one, Context)]
    return json.loads(json_text(json_value(value)))


def texts_of(example: Example) -> dict[str, str]:
    """Return the non-empty fields of an example, as texts."""
    return {name: value if isinstance(value, str) else json_text(value) for name, value in fields_of(example).items()}


def reasons_ask(inspection: Inspection, lesson: Lesson, examples: Sequence[Example]) -> Ask:
    """Ask for the reason of each of these grades."""
    variables = {"description": lesson.config.description, "graded": [_graded(lesson, one) for one in examples]}
    return Ask(
        metric=lesson.metric,
        step="reasons",
        task=None,
        messages=messages(inspection.parts.prompts.get(_REASONS), variables, _REASONS),
        reply_model=reply_model("reasons", {"reason": StrType(type="str")}, one_per=True),
        variables=variables,
        items=tuple(one.key[0] for one in examples),
    )


def wording_ask(inspection: Inspection, lesson: Lesson, mistakes: Sequence[Example]) -> Ask:
    """Ask for a new wording of the criterion that would avoid these mistakes of the judge."""
    variables = {
        "criterion": lesson.config.description,
        "scale": lesson.scale.model_dump(),
        "graded": [_graded(lesson, one) for one in mistakes],
    }
    return Ask(
        metric=lesson.metric,
        step="wording",
        task=None,
        messages=messages(inspection.parts.prompts.get(_WORDING), variables, _WORDING),
        reply_model=CriterionWording,
        variables=variables,
    )


def _graded(lesson: Lesson, one: Example) -> Mapping[str, object]:
    grades = {"grade": lesson.graded(one.human, one.said), "judged": lesson.graded(one.judged)}
    return {"shown": texts_of(one), **grades, "reason": one.reason}


def expect_criterion(run: SavedRun, lesson: Lesson) -> None:
    """UserError unless the metric's criterion is a text of its YAML, which the prompt shows."""
    prompts = Prompts([Path(folder) for folder in run.manifest.search_folders["prompts"]])
    config, where = lesson.config, f"metric.{lesson.metric}"
    if isinstance(config, RubricMetricConfig) and CRITERION in prompts.variables(config.prompt):
        return
    if isinstance(config, RubricMetricConfig):
        what = f"the prompt {config.prompt} has the criterion in its own words, not the metric's `{CRITERION}`"
        hint = "change the prompt by hand, or use `prompt: rubric/grade.jinja`, which shows the description"
    else:
        what = f"a judge can only reword the criterion of a rubric, but {lesson.metric} is of the kind {config.kind}"
        hint = "leave out --wording: examples can be tried"
    raise UserError(Problem(what, where, hint))


def replies_of(inspection: Inspection, lesson: Lesson, asks: Sequence[Ask]) -> list[Any]:
    """Return the replies of an inspected run's judge; InfrastructureError if it does not reply."""
    (scorer,) = (pair.judge for name, pair in inspection.scored.items() if name == lesson.metric)
    assert scorer is not None
    judge = single(scorer)[0]

    async def work() -> list[Any]:
        try:
            return [(await judge.ask(ask)).parsed for ask in asks]
        finally:
            await inspection.parts.close()

    try:
        return asyncio.run(work())
    except JudgeError as error:
        hint = "label with a comment, which is then the reason; or name another judge"
        steps = " and ".join(ask.step for ask in asks)
        raise InfrastructureError(f"the judge could not write the {steps}: {error}", hint) from None


MOST_EXAMPLES = 20
_MISTAKES = 12
"""Maximum number of answers shown to the judge for rewording a criterion."""


@dataclass(frozen=True, slots=True)
class Written:
    """The judge's texts: reasons by answer, and the reworded criterion with its explanation; None if not asked."""

    reasons: Mapping[tuple[str, int], str]
    wording: CriterionWording | None = None


@dataclass(frozen=True, slots=True)
class Teaching:
    """The material that a judge is taught with, and the labels used.

    Attributes:
        examples: The answers that it will be shown, from the learning half of the labels.
        mistakes: Answers of that half for rewording the criterion; empty: the criterion stays.
        labels: All labels on the metric, as in `label_frame`.
    """

    run: SavedRun
    lesson: Lesson
    halves: LabelHalves
    examples: Sequence[Example]
    mistakes: Sequence[Example]
    labels: pl.DataFrame
    seed: int

    @classmethod
    def of(
        cls,
        run: SavedRun,
        metric: str,
        people: RunLabels,
        *,
        review: str | None = None,
        examples: int = 4,
        wording: bool = False,
        seed: int = 0,
    ) -> Teaching:
        """Plan it; UserError if the metric cannot be taught, or there are too few labels. Nothing is sent."""
        if metric not in run.rules.metrics:
            what = f"the run has no metric {metric!r}"
            raise UserError(unknown_name(what, shown(run.folder.path), metric, run.rules.metrics))
        if not (not wording) <= examples <= MOST_EXAMPLES:
            hint = f"from 1 to {MOST_EXAMPLES}, such as --examples 4; 0 only with --wording"
            raise UserError(Problem(f"{examples} examples", "--examples", hint))
        lesson = Lesson.of(run, metric)
        if wording:
            expect_criterion(run, lesson)
        answers = labelled_answers(run, metric, people, review)
        halves = LabelHalves.of(answers, lesson, seed)
        labels = people.frame.filter(pl.col("metric") == metric)
        ranked = choose_examples(run, lesson, halves.learning, labels, halves.learning.height)
        mistakes = [one for one in ranked if lesson.graded(one.human, one.said) != lesson.graded(one.judged)]
        if wording and not mistakes:
            what = f"the judge of {metric} makes no mistake in the half of the labels to learn from"
            raise UserError(Problem(what, "--wording", "keep the criterion as it is"))
        return cls(run, lesson, halves, ranked[:examples], mistakes[:_MISTAKES] if wording else [], labels, seed)

    @property
    def unexplained(self) -> list[Example]:
        """The examples that need a reason that no person gave."""
        return [one for one in self.examples if self.lesson.reasons and not one.reason]

    @property
    def questions(self) -> int:
        """The calls before the held-out answers are scored."""
        return bool(self.unexplained) + bool(self.mistakes)

    def version(self, written: Written | None = None) -> NewVersion:
        """The metric's next version; without what the judge wrote, one of the same length to plan with."""
        criterion = written.wording.criterion if written and written.wording else None
        return new_version(self.run, self.lesson, self.examples, written.reasons if written else {}, criterion)

    def order(self, version: NewVersion, requests: int | None = None, folder: Path | None = None) -> RunOrder:
        """The run that scores the held-out answers again, within a budget of requests, in a folder."""
        return rescoring(self.run, self.lesson, self.halves.held_out, version.config, requests, folder)

    def ask(self, inspection: Inspection) -> Written:
        """Have the judge write what `questions` counts; InfrastructureError if it does not."""
        missing = self.unexplained
        asks = [reasons_ask(inspection, self.lesson, missing)] if missing else []
        asks += [wording_ask(inspection, self.lesson, self.mistakes)] if self.mistakes else []
        replies = replies_of(inspection, self.lesson, asks)
        rows: Sequence[Mapping[str, str]] = replies[0].model_dump()["results"] if missing else ()
        reasons = {one.key: row["reason"] for one, row in zip(missing, rows, strict=True)}
        return Written(reasons, replies[-1] if self.mistakes else None)

    def measured(self, after: SavedRun) -> Alignment:
        """Compare the judge before and after on the held-out labels; `after` is the run of `order`."""
        run, halves, metric = self.run, self.halves, self.lesson.metric
        keys = ["case_id", "target_repeat"]
        held = self.labels.join(halves.held_out.select(keys), on=keys, how="semi")
        before = run.scores().filter(pl.col("target") == halves.held_out["target"][0])
        own = before.filter((pl.col("metric") == metric) & pl.col("member_of").is_null())
        return alignment_of(
            own,
            rescored(run, halves.held_out, after),
            held,
            run.traits[metric],
            learned=halves.learning.height,
            answers=own.filter(pl.col("status") == "scored").select(keys).unique().collect().height,
            seed=self.seed,
        )
