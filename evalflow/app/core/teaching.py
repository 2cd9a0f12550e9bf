"""Teach a metric's judge with human labels: what it is shown, what that costs, and whether it helped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from evalflow.app.core.saved import SavedRun
from evalflow.app.core.taught import (
    CriterionWording,
    NewVersion,
    expect_criterion,
    new_version,
    reasons_ask,
    replies_of,
    wording_ask,
)
from evalflow.errors import Problem, UserError, unknown_name
from evalflow.lazy import pl
from evalflow.paths import shown
from evalflow.summary.alignment import Alignment, alignment_of

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
    """What a judge is taught, and the labels used.

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
        return [one for one in self.examples if self.lesson.reasons and not one.reason]

    @property
    def questions(self) -> int:
        return bool(self.unexplained) + bool(self.mistakes)

    def version(self, written: Written | None = None) -> NewVersion:
        """The metric's next version; without what the judge wrote, one of the same length to plan with."""
        criterion = written.wording.criterion if written and written.wording else None
        return new_version(self.run, self.lesson, self.examples, written.reasons if written else {}, criterion)

    def order(self, version: NewVersion, requests: int | None = None, folder: Path | None = None) -> RunOrder:
        """The run that scores the held-out answers again, within a budget of requests, in a folder."""
        return rescoring(self.run, self.lesson, self.halves.held_out, version.config, requests, folder)

    def ask(self, found: Inspection) -> Written:
        """Have the judge write what `questions` counts; InfrastructureError if it does not."""
        missing = self.unexplained
        asks = [reasons_ask(found, self.lesson, missing)] if missing else []
        asks += [wording_ask(found, self.lesson, self.mistakes)] if self.mistakes else []
        replies = replies_of(found, self.lesson, asks)
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
