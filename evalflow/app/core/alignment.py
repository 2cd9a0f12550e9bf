"""Human labels for teaching a judge, split by group into a half to learn from and a half to measure with."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalflow.app.core.begin import RunOrder, keep_cases
from evalflow.app.core.kept_labels import RunLabels
from evalflow.app.core.saved import SavedRun, answered_rows, composed_of
from evalflow.config.schema import MetricConfig
from evalflow.datasets import case_to_row
from evalflow.errors import Problem, UserError, command
from evalflow.labels.sheet import advised_size
from evalflow.lazy import pl
from evalflow.metrics.case_fields import fields_of
from evalflow.metrics.kinds.g_eval import GEvalMetricConfig
from evalflow.metrics.kinds.judge import FIELD, JudgeMetricConfig, RubricMetricConfig
from evalflow.metrics.returns import StrType
from evalflow.metrics.rules import MapRule, ValueRule
from evalflow.metrics.scale import BooleanScale, LabelScale, LikertScale, PercentageScale, label_scale
from evalflow.paths import new_run_id
from evalflow.records import Case
from evalflow.report.results_csv import as_answered
from evalflow.report.wording import counted
from evalflow.stats.bootstrap import FEW_CASES
from evalflow.summary.agreement import labelled_scores
from evalflow.summary.pairing import lower_is_better
from evalflow.values.jsonvalues import look_up

_KEY = ("case_id", "target_repeat")
_GRADES = LabelScale | BooleanScale | LikertScale | PercentageScale
UNKNOWN = "…"
"""Placeholder for a reason that the judge has not written yet."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A metric whose judge can be taught with human-graded answers: a single reply decides the score.

    `grade` is the reply's field with the grade, on `scale`; `reasons` are its other fields, which are texts. `place` is
    the key path of the step in the metric's YAML, empty if the metric itself is the step.
    """

    metric: str
    config: MetricConfig
    place: tuple[str | int, ...]
    grade: str
    reasons: Sequence[str]
    fields: Sequence[str]
    scale: _GRADES

    @classmethod
    def of(cls, run: SavedRun, metric: str) -> Lesson:
        """Return the lesson of a metric; UserError says why examples of whole answers cannot teach its judge."""
        run_metric = run.rules.metrics[metric]
        config, place = run_metric.config, f"metric.{run_metric.declared}"
        scale = label_scale(config, bounded=run_metric.bounded)
        if isinstance(scale, _GRADES):
            if isinstance(config, GEvalMetricConfig) or (
                isinstance(config, RubricMetricConfig) and config.criteria is None
            ):
                return cls(metric, config, (), FIELD, ["reason"], config.shown, scale)
            if isinstance(config, JudgeMetricConfig) and len(config.steps) == 1 and not config.steps[0].one_per:
                step, rule = config.steps[0], config.score
                others = {name: kind for name, kind in step.returns.items() if name != getattr(rule, "field", None)}
                if isinstance(rule, MapRule | ValueRule) and all(isinstance(kind, StrType) for kind in others.values()):
                    return cls(metric, config, ("steps", 0), rule.field, list(others), config.shown, scale)
        raise UserError(Problem(_why_not(metric, config, asks=run_metric.asks), place, _INSTEAD))

    def reply(self, human: float, given_labels: Sequence[str], reasons: Mapping[str, str]) -> dict[str, object]:
        """Return the reply of a judge that agrees with people, with the fields in the step's order."""
        return {
            **{name: reasons.get(name, UNKNOWN) for name in self.reasons},
            self.grade: self.graded(human, given_labels),
        }

    def graded(self, human: float, given_labels: Sequence[str] = ()) -> object:
        """Return the grade nearest to people's score; if several labels are as near, the one that people used."""
        match self.scale:
            case BooleanScale():
                return human >= 0.5
            case LikertScale():
                return round(self.scale.min + human * (self.scale.max - self.scale.min))
            case PercentageScale():
                return round(100 * human, 1)
            case LabelScale():
                values = self.scale.values
                nearest = min(abs(value - human) for value in values.values())
                candidates = [word for word, value in values.items() if abs(value - human) <= nearest]
                return next((word for word in candidates if word in given_labels), candidates[0])


def _why_not(metric: str, config: MetricConfig, *, asks: bool) -> str:
    if not asks:
        return f"{metric} does not ask a judge that can be taught"
    steps = [step.id for step in getattr(config, "steps", None) or () if hasattr(step, "id")]
    if isinstance(config, JudgeMetricConfig):
        named = f"the steps {', '.join(steps)}" if len(steps) > 1 else f"the step {steps[0]}"
        return (
            f"people's labels grade the answer, and {metric} asks for other things ({named}), from which its score is "
            "computed: no label is an example of such a reply"
        )
    if getattr(config, "criteria", None) and not isinstance(getattr(config, "criteria", None), str):
        return f"people's labels grade the answer, and the judge of {metric} grades each criterion: no label says how"
    return f"align supports the kinds rubric, g_eval and judge, but {metric} is of the kind {config.kind}"


_INSTEAD = (
    "change its prompt by hand, or try other judges and let the labels choose: calibrate a sweep; or align a metric "
    f"whose judge gives one grade: {command('new', 'metric', 'NAME', '--from', 'coherence')}"
)


@dataclass(frozen=True, slots=True)
class LabelHalves:
    """Labelled answers of one dataset, metric and target, from `labelled_scores`, in two halves."""

    learning: pl.DataFrame
    held_out: pl.DataFrame

    @classmethod
    def of(cls, answers: pl.DataFrame, lesson: Lesson, seed: int) -> LabelHalves:
        """Split whole groups at random, with each grade spread as evenly over both halves as the groups allow.

        UserError if the held-out half would be too small for an interval.
        """
        members: dict[float, list[int]] = defaultdict(list)
        for row, cluster in enumerate(answers["cluster"].to_list()):
            members[cluster].append(row)
        grades = [lesson.graded(human) for human in answers["human"].to_list()]
        groups = [members[name] for name in sorted(members)]
        rng = random.Random(seed)  # noqa: S311 - no secret
        rng.shuffle(groups)
        groups.sort(key=len, reverse=True)
        sizes: tuple[Counter[object], Counter[object]] = Counter(), Counter()
        chosen: tuple[list[int], list[int]] = [], []
        for group in groups:
            own = Counter(grades[row] for row in group)
            surplus = sum(n * (sizes[0][grade] - sizes[1][grade]) for grade, n in own.items())
            surplus = surplus or len(chosen[0]) - len(chosen[1])
            side = 1 if surplus > 0 else 0 if surplus < 0 else rng.randrange(2)
            sizes[side].update(own)
            chosen[side].extend(group)
        halves = cls(*(answers[sorted(rows)] for rows in chosen))
        halves._expect_enough(answers, lesson.metric)
        return halves

    def _expect_enough(self, answers: pl.DataFrame, metric: str) -> None:
        n, groups = self.held_out.height, self.held_out["cluster"].n_unique()
        if groups >= FEW_CASES:
            return
        grouped = answers["cluster"].n_unique() < answers.height
        held, least = (f" of {counted(groups, 'group')}", f"{FEW_CASES} groups") if grouped else ("", f"{FEW_CASES}")
        what = (
            f"{counted(answers.height, 'answer')} labelled on {metric} leave {n}{held} held out, and it takes {least}"
        )
        raise UserError(Problem(what, "labels", f"label more: {command('calibrate', '--sample', 2 * FEW_CASES + 20)}"))


def labelled_answers(run: SavedRun, metric: str, people: RunLabels, review: str | None) -> pl.DataFrame:
    """Return the labelled answers of a metric; UserError unless they are of exactly one dataset and target."""
    given = people.frame.filter(pl.col("metric") == metric)
    if review is not None:
        named = given["review"].drop_nulls().unique().sort().to_list()
        given = given.filter(pl.col("review") == review)
        if not given.height:
            hint = f"their reviews are {', '.join(named)}" if named else "these labels name no review; leave it out"
            raise UserError(Problem(f"no label on {metric} is of the review {review!r}", "--review", hint))
    traits = run.traits[metric]
    labelled = labelled_scores(run.scores(), given, lower=lower_is_better({metric: traits}))
    labelled = labelled.filter((pl.col("metric") == metric) & pl.col("human").is_not_null())
    series = labelled.select("dataset", "target", "judge").unique(maintain_order=True)
    if not series.height:
        what = f"no answer has both a score of {metric} and a label"
        size = advised_size(run.manifest.answered)
        raise UserError(Problem(what, people.source, f"label some: {command('calibrate', '--sample', size)}"))
    if series.height > 1:
        names = ", ".join(" · ".join(str(part) for part in row if part) for row in series.iter_rows())
        hint = "give labels of one of them: --labels FILE"
        raise UserError(
            Problem(f"a judge is aligned on one dataset, but there are several: {names}", people.source, hint)
        )
    return labelled


@dataclass(frozen=True, slots=True)
class Example:
    """An answer as shown to the judge: the fields of its prompt, and the reply according to people's label.

    `judged` is the judge's own score; `reason` is people's comment, or the reason of a resolution, if there is one.
    """

    key: tuple[str, int]
    fields: Mapping[str, object]
    human: float
    judged: float
    said: Sequence[str]
    reason: str

    def reply(self, lesson: Lesson, written: str | None = None) -> dict[str, object]:
        text = self.reason or written
        return lesson.reply(self.human, self.said, {} if text is None else dict.fromkeys(lesson.reasons, text))


def choose_examples(
    run: SavedRun, lesson: Lesson, learning: pl.DataFrame, people: pl.DataFrame, n: int
) -> list[Example]:
    """Choose the answers on which judge and people differ most, grade by grade in turn, at most one per group.

    Among equal differences the shortest texts come first. `people` are the labels, whose comments are the reasons.
    """
    texts = {key: fields for key, _, fields in _answers(run, lesson, learning)}
    resolved = people.filter((pl.col("use") == "resolution") & pl.col("comment").is_not_null())
    cell = "case_id", "target_repeat"
    reasons = {(case, repeat): comment for case, repeat, comment in resolved.select(*cell, "comment").iter_rows()}
    by_grade: dict[object, list[tuple[tuple[float, int], Any, Example]]] = defaultdict(list)
    labelled = learning.select(*cell, "human", "score", "said", "comment", "cluster")
    for case, repeat, human, score, given_labels, comment, cluster in labelled.iter_rows():
        if (key := (case, repeat)) not in texts:
            continue
        reason = reasons.get(key) or comment or ""
        one = Example(
            key, texts[key], human, score, [text.removesuffix(" (resolved)") for text in given_labels], reason
        )
        rank = -round(abs(one.judged - one.human), 9), len(str(one.fields))
        by_grade[lesson.graded(one.human)].append((rank, cluster, one))
    waiting = [
        sorted(rows, key=lambda row: row[0]) for _, rows in sorted(by_grade.items(), key=lambda item: str(item[0]))
    ]
    waiting.sort(key=lambda rows: rows[0][0])
    chosen: list[Example] = []
    groups: set[object] = set()
    while len(chosen) < n and any(waiting):
        for rows in waiting:
            while rows and rows[0][1] in groups:
                rows.pop(0)
            if rows and len(chosen) < n:
                groups.add(rows[0][1])
                chosen.append(rows.pop(0)[2])
    return chosen


def _answers(
    run: SavedRun, lesson: Lesson, wanted: pl.DataFrame
) -> Iterator[tuple[tuple[str, int], Case, dict[str, object]]]:
    """Yield each wanted answer: its key, its case with the answer as recorded, and the judge's fields."""
    keys = set(wanted.select(_KEY).iter_rows())
    scores = run.scores().filter(pl.col("metric") == lesson.metric)
    target = wanted["target"][0]
    for row in answered_rows(run, scores, set(wanted.select("dataset", "case_id").iter_rows())):
        key = row.case.id, row.target_repeat
        if key in keys and row.target == target and row.answer is not None:
            fields = fields_of(row.case, row.answer)
            shown = {name: fields[name] if name in fields else look_up(name, fields) for name in lesson.fields}
            yield key, as_answered(row.case, row.answer), shown


def rescoring(
    run: SavedRun,
    lesson: Lesson,
    answers: pl.DataFrame,
    config: Mapping[str, Any],
    requests: int | None = None,
    folder: Path | None = None,
) -> RunOrder:
    """Return the order of a run that scores these answers again, with only the metric's configuration changed.

    `requests` is the budget; `folder` is that of the new run and gets its cases too.
    """
    manifest, dataset = run.manifest, str(answers["dataset"][0])
    names = _names(run, answers)
    rows = [
        case_to_row(replace(case, id=names[key], labels=None, group=case.group or key[0]))
        for key, case, _ in _answers(run, lesson, answers)
    ]
    from evalflow.config.load import self_contained  # late, as in `composed_of`

    key = manifest.metrics[lesson.metric].key
    # Other parts may name what is replaced here, such as the model of the target.
    storable = self_contained(
        {**manifest.config, "metric": {**manifest.config["metric"], key: {**config, "gate": None}}}
    )
    nothing = ("limit", "sample", "stop", "baseline", "objective", "gate", "copy_to")
    storable |= {"generate": False, **dict.fromkeys(nothing)}
    if storable["target"]["kind"] != "recorded":
        storable["target"] = {"kind": "recorded"}
    storable["repeats"]["target"] = 1
    if requests is not None:
        storable["budget"]["requests"] = min(requests, storable["budget"]["requests"] or requests)
    path = str(keep_cases(rows, folder / "cases") if folder else keep_cases(rows))
    title = manifest.dataset_config(dataset).get("title")
    storable["dataset"] = {dataset: {"title": title, "path": path, "allow_irregular": True}}
    storable["metric"] = {key: storable["metric"][key]}
    composed = composed_of(manifest.model_copy(update={"config": storable}))
    run_id = folder.name if folder else new_run_id([f"dataset={dataset}", f"metric={lesson.metric}"])
    folder = folder or Path("outputs", "runs", run_id).absolute()
    return RunOrder(replace(composed, overrides=()), folder, run_id, None)


def rescored(run: SavedRun, answers: pl.DataFrame, after: SavedRun) -> pl.LazyFrame:
    """Return the scores of a run from `rescoring`, by the keys of the answers in the original run."""
    rows = [(name, *key) for key, name in _names(run, answers).items()]
    schema = {"own": pl.String, "case_id": pl.String, "target_repeat": pl.Int64}
    known = pl.LazyFrame(rows, schema, orient="row")
    scores = after.scores().filter(pl.col("member_of").is_null()).drop("target_repeat").rename({"case_id": "own"})
    return scores.join(known, on="own", how="inner", maintain_order="left").drop("own")


def _names(run: SavedRun, answers: pl.DataFrame) -> dict[tuple[str, int], str]:
    single = run.manifest.config["repeats"]["target"] == 1
    return {key: key[0] if single else f"{key[0]} ({key[1] + 1})" for key in answers.select(_KEY).iter_rows()}
