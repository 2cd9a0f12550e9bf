"""People's actions on a score or a task: agree, disagree, comment, exclude, open a task.

Buttons have the attribute `data-key` with the key that presses them: a, d, c.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import address, button, icon_button, message, plain_button, text
from evalflow.addons.studio.web.ui.score_lines import ScoreLine
from evalflow.addons.studio.web.ui.visitor import local_time, may, name_here, title_of
from evalflow.addons.studio.work import verdicts
from evalflow.addons.studio.work.comments import Comment, CommentedOn, add_comment, delete_comment, list_comments
from evalflow.addons.studio.work.scores import Score
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.tasks import Task, TaskQuery, list_tasks
from evalflow.addons.studio.work.verdicts import Exclusion, ScoreVerdicts, Verdict, VerdictScale
from evalflow.report.wording import counted, number

CAUSES = {"bot": "Bot wrong", "test": "Test wrong", "judge": "Judge wrong", "unknown": "Don't know"}
"""Possible causes of a wrong result, in words, for a task."""
STATUSES = {"open": "Open", "in_progress": "In progress", "done": "Done"}
_WHY = forms.About("Why?")
_REASON = forms.About(
    "Reason", "Reports then show the figures without it too, with your name.", "Duplicate question", required=True
)


class AnswerSaid:
    """People's judgements of an answer's scores, read together."""

    def __init__(self, workspace: Workspace, run_id: str, position: int) -> None:
        self._workspace, self._run, self._position = workspace, run_id, position
        self._reading: asyncio.Task[_Said] | None = None

    async def read(self, *, is_changed: bool = False) -> _Said:
        """The judgements; read again after a change or an error."""
        if self._reading is None or is_changed or (self._reading.done() and self._reading.exception()):
            self._reading = asyncio.create_task(to_thread.run_sync(self._read))
        return await self._reading

    def _read(self) -> _Said:
        space, run, position = self._workspace, self._run, self._position
        on = CommentedOn(run=run, position=position)
        return _Said(
            verdicts.answer_verdicts(space, run, position),
            list_tasks(space, TaskQuery(run=run, position=position), None, MOST_SHOWN).items,
            list_comments(space, on, None, MOST_SHOWN).items,
        )


@dataclass(frozen=True, slots=True)
class _Said:
    verdicts: Mapping[str, ScoreVerdicts]
    tasks: Sequence[Task]
    comments: Sequence[Comment]


def judging(workspace: Workspace, run_id: str, position: int) -> Callable[[Score, ScoreLine], None]:
    """A function that adds thumbs, a menu and people's judgements to a score's line.

    They are built when a line is first scrolled into view, since a case may have a hundred metrics.
    """
    feedback = AnswerSaid(workspace, run_id, position)

    def add(score: Score, line: ScoreLine) -> None:
        bar: _VerdictBar | None = None

        async def seen() -> None:
            nonlocal bar
            if bar is None:
                bar = _VerdictBar(workspace, run_id, score, feedback, line)
            await bar.load()

        with line.tools:
            ui.element("q-intersection").props("once").on("visibility", seen, args=[])

    return add


class _VerdictBar:
    def __init__(self, workspace: Workspace, run_id: str, score: Score, feedback: AnswerSaid, line: ScoreLine) -> None:
        self._workspace, self._run, self._score, self._feedback = workspace, run_id, score, feedback
        self._place = (run_id, score.position, score.metric)
        on = CommentedOn(run=run_id, position=score.position, metric=score.metric)
        title = title_of("metric", score.metric, score.target)
        with line.tools:
            self._buttons = ui.element("div").classes("line-buttons").props("role=group")
            self._buttons.props["aria-label"] = title
        with line.below, ui.element("div").classes("verdicts stack") as self._all:
            self._choice = ui.element("div").classes("stack")
            self._verdicts = ui.element("div").classes("stack small").props("aria-live=polite")
            self._comments = CommentList(workspace, on, f"Your comment on {title}", is_open=False)

    async def load(self, *, is_changed: bool = False) -> None:
        """Read and show the judgements."""
        feedback = await self._feedback.read(is_changed=is_changed)
        if self._all.is_deleted:  # another case is already shown
            return
        metric = self._score.metric
        with self._all:  # the pressed button may be deleted
            self._show(feedback.verdicts[metric], [one for one in feedback.tasks if one.metric == metric])
            self._comments.show([one for one in feedback.comments if one.metric == metric])

    def _show(self, judgements: ScoreVerdicts, tasks: Sequence[Task]) -> None:
        mine = next((one for one in judgements.verdicts if one.is_mine), None)
        for place in (self._buttons, self._choice, self._verdicts):
            place.clear()
        if may("edit"):
            with self._buttons:
                self._show_buttons(judgements, mine)
        with self._verdicts:
            self._show_verdicts(judgements, mine)
            for task in tasks:
                with ui.element("div"):
                    text("Task: ", "span", "muted")
                    ui.link(task.title, f"/tasks/{task.id}")
                    text(f" ({STATUSES[task.status].lower()})", "span", "muted")

    def _show_buttons(self, judgements: ScoreVerdicts, mine: Verdict | None) -> None:
        if judgements.scale is not None:
            self._thumb("Agree", "thumb_up", "a", self._agree, is_on=mine is not None and mine.agrees)
            disagree = partial(self._disagree, judgements.scale, mine)
            self._thumb("Disagree", "thumb_down", "d", disagree, is_on=mine is not None and not mine.agrees)
        with icon_button("more_horiz", "More", lambda: None).classes("slim"), ui.menu().props("auto-close"):
            ui.menu_item("Comment (c)", self._comments.open).props("role=menuitem")
            if judgements.exclusion is None:
                ui.menu_item("Exclude", self._ask_reason).props("role=menuitem")
            ui.menu_item("Open a task", self._ask_cause).props("role=menuitem")
        comment = plain_button("Comment", self._comments.open, "unseen")
        comment.props("data-key=c tabindex=-1 aria-hidden=true")

    def _thumb(self, label: str, icon: str, key: str, work: Callable[[], Any], *, is_on: bool) -> None:
        made = icon_button(icon, label, work).classes("slim thumb")
        pressed = "true" if is_on else "false"
        made.props(f'data-key={key} aria-keyshortcuts={key} title="{label} ({key})" aria-pressed={pressed}')

    def _show_verdicts(self, judgements: ScoreVerdicts, mine: Verdict | None) -> None:
        if judgements.exclusion is not None:
            self._excluded(judgements.exclusion)
        if judgements.scale is None and may("edit"):
            text(f"This score cannot be judged: {judgements.fault}.", "p", "muted")
            return
        if mine is not None and may("edit"):
            with ui.element("div").classes("actions"):
                own = "You agree." if mine.agrees else f"You say {_shown(mine.value, judgements.scale)}."
                text(own, "span")
                button("Withdraw", partial(self._do, verdicts.withdraw), kind="quiet").classes("slim")
        if mine is not None and not mine.agrees and may("edit"):
            self._why(mine)
        for summary, those in _others(judgements):
            text(f"{summary}: {', '.join(those)}", "p")

    def _why(self, mine: Verdict) -> None:
        """A field for the reason, saved on blur. The layout must not move then, or a click elsewhere would miss."""
        known = mine.comment or ""

        async def save() -> None:
            nonlocal known
            comment = forms.written(field) or ""
            if comment != known:
                known = comment
                work = partial(verdicts.disagree, self._workspace, *self._place, mine.value, comment)
                await forms.attempt(work, {"verdict.comment": field})

        field = forms.line(_WHY, known)
        field.on("blur", save).on("keydown.enter", save)

    def _excluded(self, out: Exclusion) -> None:
        with ui.element("div").classes("actions"):
            message(f"Excluded by {out.by}: {out.reason}", tone="warn")
            if may("edit"):
                button("Bring back", partial(self._do, verdicts.bring_back)).classes("slim")

    async def _agree(self) -> None:
        await self._do(verdicts.agree)

    async def _disagree(self, scale: VerdictScale, mine: Verdict | None) -> None:
        """With two values, choose the other one at once; else offer the others."""
        others = [(value, label) for value, label in scale.choices if value != scale.judged]
        if len(others) == 1:
            await self._do(verdicts.disagree, others[0][0], (mine.comment or "") if mine else "")
            return
        self._choice.clear()
        with self._choice:
            if others:
                text("What should it be?", "p", "small")
                with ui.element("div").classes("actions"):
                    for value, label in others:
                        button(label, partial(self._do, verdicts.disagree, value)).classes("slim")
            else:
                self._number(scale)

    def _number(self, scale: VerdictScale) -> None:
        bounds = "" if scale.low is None or scale.high is None else f"From {scale.low:g} to {scale.high:g}."
        field = forms.number_field(forms.About("What should it be?", bounds, required=True))
        self._ask(field, "verdict.value", "Save", verdicts.disagree)

    def _ask_reason(self) -> None:
        self._choice.clear()
        with self._choice:
            self._ask(forms.line(_REASON), "exclusion.reason", "Exclude this result", verdicts.exclude)

    def _ask(self, field: forms.Field, key: str, action: str, work: Callable[..., None]) -> None:
        """Do something with what is entered in a field, whose problems have this key."""

        async def save() -> None:
            if forms.required(field) is not None:
                await self._do(work, field.value, fields={key: field})

        field.on("keydown.enter", save)
        with ui.element("div").classes("actions"):
            button(action, save).classes("slim")
            button("Cancel", self._choice.clear, kind="quiet").classes("slim")
        field.run_method("focus")

    def _ask_cause(self) -> None:
        self._choice.clear()
        run, position, metric = self._place
        about = {"run": run, "position": str(position), "metric": metric}
        with self._choice:
            text("What is wrong?", "p", "small")
            with ui.element("div").classes("actions"):
                for cause, label in CAUSES.items():
                    ui.link(label, address("/tasks/new", {"cause": cause, **about})).classes("button slim")

    async def _do(self, work: Callable[..., None], *values: Any, fields: dict[str, forms.Field] | None = None) -> None:
        """Make a change and show the result; an error is shown at its field."""
        if await forms.succeeds(partial(work, self._workspace, *self._place, *values), fields):
            await self.load(is_changed=True)


def _others(judgements: ScoreVerdicts) -> list[tuple[str, list[str]]]:
    """Other people's judgements, such as `2 people agree: ann, ben`; those who disagree with values and reasons."""
    others = [one for one in judgements.verdicts if not one.is_mine or not may("edit")]
    agreeing = [one.by for one in others if one.agrees]
    differing = [
        f"{one.by} says {_shown(one.value, judgements.scale)}" + (f" (“{one.comment}”)" if one.comment else "")
        for one in others
        if not one.agrees
    ]
    shown = [(f"{_people(agreeing)} agree{'s' if len(agreeing) == 1 else ''}", agreeing)]
    shown += [(f"{_people(differing)} disagree{'s' if len(differing) == 1 else ''}", differing)]
    return [(summary, those) for summary, those in shown if those]


def _people(those: Sequence[str]) -> str:
    return counted(len(those), "person") if len(those) == 1 else f"{len(those):,} people"


def _shown(value: Any, scale: VerdictScale | None) -> str:
    label = next((label for one, label in (scale.choices if scale else ()) if one == value), None)
    return label or (number(value) if isinstance(value, float) else str(value))


MOST_SHOWN = 500


class CommentList:
    """The comments on something, and a field to add one, which `is_open` shows at once."""

    def __init__(
        self, workspace: Workspace, on: CommentedOn, label: str = "Your comment", *, is_open: bool = True
    ) -> None:
        self._workspace, self._on, self._label, self._is_open = workspace, on, label, is_open
        self._list = ui.element("ul").classes("comments").props("aria-live=polite")
        self._form = ui.element("div").classes("stack commenting")
        self._form.set_visibility(is_open)
        self._is_built = False
        if is_open:
            self._build()

    def _build(self) -> None:
        self._is_built = True
        if may("edit"):
            forms.keep_draft(self._form)
            with self._form:
                self._field = forms.area(forms.About(self._label, required=True))
                with ui.element("div").classes("actions"):
                    self._adding = button("Add comment", self._add)

    async def open(self) -> None:
        """Show or hide the field."""
        if not self._is_built:
            self._build()
        self._form.set_visibility(not self._form.visible)
        if self._form.visible:
            self._field.run_method("focus")

    async def load(self) -> None:
        """Read the comments and show them."""
        page = await to_thread.run_sync(lambda: list_comments(self._workspace, self._on, None, MOST_SHOWN))
        if not self._list.is_deleted:
            self.show(page.items)

    def show(self, comments: Sequence[Comment]) -> None:
        """Show comments that were already read."""
        self._list.clear()
        with self._list:
            for one in comments:
                with ui.element("li"):
                    with ui.element("div").classes("actions small"):
                        text(one.by, "strong")
                        text(local_time(one.at), "span", "muted")
                        if may("edit") and (one.by == name_here() or may("admin")):
                            icon_button("delete", f"Delete the comment by {one.by}", partial(self._delete, one.id))
                    text(one.text, classes="text")

    async def _add(self) -> None:
        comment = forms.required(self._field)
        if comment is None:
            return
        fields = {"comment.text": self._field}
        if await forms.attempt(lambda: add_comment(self._workspace, self._on, comment), fields, by=self._adding):
            self._field.value = ""
            forms.saved(self._form)
            self._form.set_visibility(self._is_open)
            await self.load()

    async def _delete(self, comment: int) -> None:
        await forms.attempt(lambda: delete_comment(self._workspace, comment))
        await self.load()
