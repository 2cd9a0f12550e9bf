"""The desk: a person reads and grades one answer after the other, without seeing scores or other people's labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import dialog, question
from evalflow.addons.studio.web.ui.faults import tell_fault
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.grading import Grading
from evalflow.addons.studio.web.ui.parts import button, capitalised, empty, link_button, text
from evalflow.addons.studio.web.ui.reading import AnswerShown, ContextsShown, Reading, show_reading
from evalflow.addons.studio.work import review_desk
from evalflow.addons.studio.work.review_desk import DeskItem, OwnProgress
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.errors import EvalflowError, InfrastructureError, UserError
from evalflow.report.wording import counted, joined

SAVE_S = 0.8
"""Seconds between a change and its draft being saved."""
_KEYS = (
    ("1 to 9", "choose the value with this number"),
    ("Arrow keys", "go to the next or the previous question"),
    ("U", "cannot tell"),
    ("E", "show the expected answer, and X the contexts"),
    ("F", "flag the answer"),
    ("Ctrl + Enter", "submit, and open the next answer"),
    ("?", "show these keys"),
)
_NOT_SAVED = "Not saved"
_COMMENT = forms.About("Comment")
_REASON = forms.About("Why", "E.g. you wrote this answer yourself, or it is in a language that you do not read.")


@guarded_page("/reviews/{review}/label", "label")
async def _label_page(workspace: Workspace, review: str, item: int | None = None) -> None:
    if item is None:
        desk_item = await to_thread.run_sync(review_desk.next_item, workspace, review)
    else:
        desk_item = await to_thread.run_sync(review_desk.open_item, workspace, review, item)
    progress = await to_thread.run_sync(review_desk.own_progress, workspace, review)
    with frame(review, place="Reviews", trail=[("Reviews", "/reviews")]) as actions:
        Desk(workspace, review, desk_item, progress, actions)


@dataclass(slots=True)
class _Watch:
    """Measures the seconds spent on an answer while its page was visible."""

    spent: float = 0.0
    since: float | None = field(default_factory=time.monotonic)

    def away(self, is_away: bool) -> None:
        if self.since is not None:
            self.spent += time.monotonic() - self.since
        self.since = None if is_away else time.monotonic()

    def read(self) -> float:
        """The seconds so far."""
        self.away(self.since is None)
        return self.spent


class Desk:
    """One answer after the other, on one page."""

    def __init__(
        self,
        workspace: Workspace,
        review: str,
        item: DeskItem | None,
        progress: OwnProgress,
        actions: ui.element,
    ) -> None:
        self._workspace, self._review = workspace, review
        self._watch, self._is_changed, self._is_busy = _Watch(), False, False
        self._read: dict[str, int] = {}  # the versions of the guidelines by metric
        if item is not None and progress.done:
            self._read = {metric.name: metric.rubric for metric in item.metrics}
        self._keys = _keys_dialog()
        with actions:
            self._count = text("", "span", "muted desk-count").props("aria-live=polite")
            self._bar = ui.element("progress").props('aria-label="Your progress"')
        self._place = ui.element("div")
        self._show(item, progress)
        ui.timer(SAVE_S, self._save)
        ui.on("desk_away", lambda event: self._watch.away(bool(event.args)))
        ui.context.client.on_disconnect(self._save)  # pyright: ignore[reportUnknownMemberType] - untyped in NiceGUI

    def _show(self, item: DeskItem | None, progress: OwnProgress) -> None:
        self._item, self._is_changed, self._watch = item, False, _Watch(item.seconds if item else 0.0)
        self._before = _before(item, progress)
        self._place.clear()
        whole = progress.done + progress.left
        self._count.set_text(f"{progress.done:,} of {whole:,} done")
        self._bar.props["value"], self._bar.props["max"] = progress.done, max(whole, 1)
        with self._place:
            if item is None:
                _ending(progress, self._next)
                return
            with ui.element("div").classes("desk") as desk:
                desk.props["data-answer"] = str(item.item)
                with ui.element("div").classes("desk-read"):
                    _reading(item)
                with ui.element("section").classes("desk-grade card").props('aria-label="Your judgement"'):
                    self._controls(item)
            ui.run_javascript("beginAnswer()")

    def _controls(self, item: DeskItem) -> None:
        draft: Mapping[str, Any] = item.draft.get("values", {})
        unsure: Sequence[str] = item.draft.get("cannot_tell", ())
        self._gradings = [
            Grading(
                metric,
                draft.get(metric.name),
                self._changed,
                is_unsure=metric.name in unsure,
                is_new=self._read.get(metric.name) != metric.rubric,
            )
            for metric in item.metrics
        ]
        self._read.update({metric.name: metric.rubric for metric in item.metrics})
        self._is_flagged = item.is_flagged
        self._comment = forms.area(_COMMENT, item.draft.get("comment"))
        self._comment.on_value_change(self._changed)
        self._comment.props["maxlength"] = 2000
        with ui.element("div").classes("actions desk-asides"):
            self._flag = button("Flag", self._toggle_flag, kind="quiet", icon="outlined_flag")
            self._flag.props('data-desk-key=f title="Flag this answer for the reader of the results (F)"')
            self._tell_flag()
            button("Decline", self._declining().open, kind="quiet", icon="do_not_disturb_on").props(
                'title="Leave this answer to somebody else"'
            )
            button("Keys", self._keys.open, kind="quiet", icon="keyboard").props(
                'data-desk-key="?" title="Show the keys (?)"'
            )
        with ui.element("div").classes("desk-foot"):
            if self._before is not None:
                button("Back", self._back, icon="arrow_back").props('title="Your answer before this one"')
            self._saved = text("", "span", "muted small saved").props("role=status")
            submit = button("Submit", self._submit, kind="primary").classes("submit")
            submit.props('title="Submit, and open the next answer (Ctrl + Enter)"')

    def _changed(self) -> None:
        self._is_changed = True
        self._saved.set_text("")

    def _toggle_flag(self) -> None:
        self._is_flagged = not self._is_flagged
        self._tell_flag()
        self._changed()

    def _tell_flag(self) -> None:
        self._flag.set_text("Flagged" if self._is_flagged else "Flag")
        self._flag.props["icon"] = "flag" if self._is_flagged else "outlined_flag"
        self._flag.props["aria-pressed"] = "true" if self._is_flagged else "false"

    async def _save(self) -> None:
        """Save what has changed since the last draft."""
        if not self._is_changed or self._is_busy or self._item is None:
            return
        self._is_changed, item = False, self._item
        if item.state == "submitted":  # the submitted label counts until it is submitted again
            self._saved.set_text("Submit to save the change")
            return
        try:
            await to_thread.run_sync(self._draft(item))
        except (TakenError, NotFoundError) as error:
            await self._open_again(item, error)
        except EvalflowError as error:
            if item is not self._item:
                return  # it was finished meanwhile, with all that it had
            if self._saved.text != _NOT_SAVED:  # it is told once
                self._saved.set_text(_NOT_SAVED)
                tell_fault(error, focus=False)
            self._is_changed |= isinstance(error, InfrastructureError)  # such as a database that is away: save again
        else:
            if item is self._item and not self._is_changed:
                self._saved.set_text("Saved")

    def _draft(self, item: DeskItem) -> Callable[[], None]:
        """A function that saves the current values."""
        draft = {
            "values": {one.name: one.value for one in self._gradings if one.value is not None},
            "cannot_tell": [one.name for one in self._gradings if one.is_unsure],
            "comment": self._comment.value or "",
        }
        given = (self._workspace, self._review, item.item, draft, self._watch.read())
        return partial(review_desk.save_draft, *given, flagged=self._is_flagged)

    async def _submit(self) -> None:
        if self._is_busy or self._item is None:
            return
        missing = [one for one in self._gradings if one.tell_missing()]
        if missing:
            missing[0].focus()
            return
        values = {one.name: one.answer for one in self._gradings}
        given = (self._workspace, self._review, self._item.item, values, self._comment.value or "")
        rubrics = {metric.name: metric.rubric for metric in self._item.metrics}
        about: dict[str, Any] = {"flagged": self._is_flagged, "seconds": self._watch.read(), "rubrics": rubrics}
        await self._leave(partial(review_desk.submit_item, *given, **about))

    async def _leave(self, work: Callable[[], object]) -> None:
        """Run the work that finishes this answer, and show the next."""
        if self._is_busy or (item := self._item) is None:
            return
        self._is_busy = True
        try:
            with forms.faults_shown():
                try:
                    await to_thread.run_sync(work)
                except (TakenError, NotFoundError) as error:
                    await self._open_again(item, error)
                else:
                    await self._next()
        finally:
            self._is_busy = False

    async def _open_again(self, item: DeskItem, error: UserError) -> None:
        """After a refusal: show the answer as it is now, or say why it is no longer the person's."""
        if item is not self._item:
            return  # the refusal came late: another answer is shown
        comment, now = self._comment.value or "", None
        with suppress(TakenError, NotFoundError):
            await to_thread.run_sync(self._draft(item))
            desk_item = await to_thread.run_sync(review_desk.open_item, self._workspace, self._review, item.item)
            now = desk_item, await to_thread.run_sync(review_desk.own_progress, self._workspace, self._review)
        if item is not self._item:
            return
        if now is not None:
            tell_fault(error)
            self._to(*now)
            return
        self._item = None
        self._place.clear()
        with self._place:
            _lost(error, comment, self._next)

    async def _next(self) -> None:
        desk_item = await to_thread.run_sync(review_desk.next_item, self._workspace, self._review)
        self._to(desk_item, await to_thread.run_sync(review_desk.own_progress, self._workspace, self._review))

    def _to(self, item: DeskItem | None, progress: OwnProgress) -> None:
        query = f"?item={item.item}" if item else ""
        with self._place:  # the pressed button is deleted together with its answer
            ui.navigate.history.replace(f"/reviews/{quote(self._review, safe='')}/label{query}")
        self._show(item, progress)

    async def _back(self) -> None:
        item = self._item
        await self._save()
        if self._before is None:
            return
        with forms.faults_shown():
            desk_item = await to_thread.run_sync(review_desk.open_item, self._workspace, self._review, self._before)
            progress = await to_thread.run_sync(review_desk.own_progress, self._workspace, self._review)
            if item is self._item:
                self._to(desk_item, progress)

    def _declining(self) -> ui.dialog:
        async def decline(_: ui.button) -> None:
            asked.close()
            assert self._item is not None
            given = (self._review, self._item.item, forms.written(reason) or "")
            await self._leave(lambda: review_desk.decline_item(self._workspace, *given))

        about = (
            "Somebody else gets it, and you do not see it again. If you only cannot judge a part, use “Cannot tell”."
        )
        with question("Decline this answer?", about, "Decline", decline, kind="danger") as asked:
            reason = forms.line(_REASON)
        return asked


def _before(item: DeskItem | None, progress: OwnProgress) -> int | None:
    """The previously submitted answer."""
    submitted = [one for one in progress.items if one.state == "submitted"]
    earlier = [one.item for one in submitted if item is None or one.number < item.number]
    return earlier[-1] if earlier else None


def _reading(item: DeskItem) -> None:
    """The conversation, and the answer to judge beside what the guidelines compare it with."""
    contexts: list[ContextsShown] = []
    if item.contexts is not None:
        contexts = [ContextsShown([(str(one.get("title") or ""), str(one["text"])) for one in item.contexts])]
    answers = [AnswerShown(text=item.answer)]
    if item.other is not None:
        answers = [AnswerShown(title="First", text=item.answer), AnswerShown(title="Second", text=item.other)]
    with ui.element("section").classes("judged").props('aria-label="Answer to judge"'):
        text("Judge this answer" if item.other is None else "Which of these two is better?", "h2", "unseen")
        show_reading(
            Reading(
                turns=[(str(turn["role"]), str(turn["content"])) for turn in item.messages],
                answers=answers,
                reference=item.reference,
                contexts=contexts,
                without="",
                is_unfolded=True,
            )
        )


def _keys_dialog() -> ui.dialog:
    with dialog("Keys") as shown:
        with ui.element("dl").classes("keys"):
            for key, does in _KEYS:
                text(key, "dt")
                text(does, "dd")
        with ui.element("div").classes("actions"):
            button("Close", shown.close)
    return shown


def _lost(error: UserError, comment: str, again: Callable[[], Any]) -> None:
    """Say that the answer is no longer the person's, and why."""
    problem = error.problems[0]
    with empty("lock_clock", "This answer cannot be submitted", f"{capitalised(problem.what)}."):
        if isinstance(error, TakenError):
            button("Go on", again, kind="primary")
        link_button("To your reviews", "/reviews")
    if comment:
        text("Your comment, which was not saved:", "p", "small muted")
        text(comment, "p", "text")


def _ending(progress: OwnProgress, again: Callable[[], Any]) -> None:
    parts = (
        f"{counted(progress.done, 'answer')} labelled",
        f"{progress.declined:,} declined" if progress.declined else "",
    )
    about = f"{joined(*parts)}. Your labels are saved; you can close this page."
    if progress.left:
        about = f"{joined(*parts)}. Others are working on the last ones; look again later in case one comes back."
    icon, title = ("task_alt", "All done, thank you") if progress.done else ("inbox", "Nothing left to label")
    if progress.left:
        icon, title = "task_alt" if progress.done else "inbox", "Nothing free just now"
    elif progress.state == "closed":
        icon, title, about = "lock", "This review is closed", f"{joined(*parts)}. No more answers are given out."
    with empty(icon, title, about):
        if progress.left:
            button("Look again", partial(again))
        back = link_button("To your reviews", "/reviews", primary=True)
    ui.run_javascript(f"getHtmlElement({back.id})?.focus()")  # the pressed button, and with it the focus, is gone
