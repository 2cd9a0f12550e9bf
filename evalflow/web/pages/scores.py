"""The scores of a run, and one score in full."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.app.studio.run_cases import JudgeCall, score_prompts
from evalflow.app.studio.run_types import Run
from evalflow.app.studio.scores import Score, ScorePage, count_scores, get_score, list_scores
from evalflow.app.studio.space import Workspace
from evalflow.errors import EvalflowError
from evalflow.report.wording import cost, number
from evalflow.web.pages.runs import ACTIVE, metrics_of
from evalflow.web.pages.score_filter import FilterBar, Wanted
from evalflow.web.ui.parts import Tone, badge, button, copyable, facts, message, tell_fault, text

_HOW = (
    "The run stores the judge's replies, not the prompts. These prompts are rendered again from the templates, the "
    "case and the answer that the run stored. Nothing was sent for this."
)
_GONE = "The raw reply is no longer in the cache; its content is in the steps."
_BY_TASK = "This judge works by task and reads no prompt. Its input:"


class PromptFold:
    """A fold that shows them; nothing is looked up before it is opened."""

    def __init__(self, workspace: Workspace, run: str, score: Score) -> None:
        self._workspace, self._run, self._score = workspace, run, score
        self._is_filled = False
        with ui.element("details").classes("prompts") as details:
            text("The prompts as sent, and the raw replies", "summary")
            self._place = ui.element("div").classes("stack").props("aria-live=polite")
        details.on("toggle", self._open, args=[])

    async def _open(self) -> None:
        if self._is_filled:
            return
        self._is_filled = True
        with self._place:
            waiting = text("Rendering …", "p", "muted small")
        try:
            found = await self._workspace.render(lambda: score_prompts(self._workspace, self._run, self._score.id))
        except EvalflowError as error:
            with self._place:
                message("The prompts cannot be shown.", str(error), "warn")
        else:
            with self._place:
                _show(found)
        waiting.delete()


def _show(found: Sequence[JudgeCall]) -> None:
    if not found:
        text("No judge was asked for this score.", "p", "muted small")
        return
    text(_HOW, "p", "muted small")
    for call in found:
        _call(call)


def _call(call: JudgeCall) -> None:
    prompt = call.prompt
    with ui.element("div").classes("step"):
        text(prompt.step if prompt.times == 1 else f"{prompt.step}, sampled {prompt.times} times", "h4")
        if prompt.request is None:
            text(_BY_TASK, "p", "muted small")
        for role, content in prompt.messages:
            _fold(f"Prompt ({role})", content, is_open=True)
        if prompt.request is not None:
            _fold("The rest of the request", json.dumps(prompt.request, indent=2, ensure_ascii=False))
            if not call.replies:
                text(_GONE, "p", "muted small")
        for place, reply in enumerate(call.replies, 1):
            _fold("Raw reply" if len(call.replies) == 1 else f"Raw reply {place}", reply, is_open=place == 1)


def _fold(title: str, content: str, *, is_open: bool = False) -> None:
    with ui.element("details").props("open" if is_open else ""):
        text(title, "summary")
        copyable(content, "pre")


_TONES: dict[bool | None, Tone] = {True: "pass", False: "fail", None: ""}


def verdict(score: Score) -> None:
    """The number and whether it passed, or else in which state it is instead."""
    with ui.element("div").classes("verdict"):
        if score.status == "scored":
            text(number(score.score, 2), classes="reading")
            if score.passed is not None:
                badge("passed" if score.passed else "failed", _TONES[score.passed])
        else:
            badge(score.status, "fail" if score.status == "error" else "")


def why(score: Score) -> str:
    """In words: the judge's reason, or why there is no score."""
    fault = f"{score.error_type}: {score.error}" if score.error_type and score.error else score.error
    return score.reason or fault or score.answer_error or ""


def details(score: Score) -> None:
    """Who judged and what it took."""
    repeat = f"{score.repeat + 1}" if score.repeat else ""
    facts([
        ("Judge", score.judge or ""),
        ("On the metric's scale", "" if score.value is None else _said(score.value)),
        ("Threshold", "" if score.threshold is None else number(score.threshold, 2)),
        ("Scored from", found_by(score)),
        ("Time", "" if score.latency_s is None else f"{score.latency_s:.2f} s"),
        ("Cost", "" if score.cost_usd is None else cost(score.cost_usd)),
        ("Repeat of the judge", repeat),
    ])  # fmt: skip


def found_by(score: Score) -> str:
    """How the score came out of the judge's replies; empty where it is the one grade of a first reply."""
    if score.path != "weighted":
        return "a second request" if score.path == "reasked" else ""
    weighed = [step for step in score.steps or () if step.get("probabilities")]
    if any("mass" in step for step in weighed):
        return "token probabilities"
    drawn = next((step["samples"] for step in weighed if "samples" in step), None)
    return f"the mean of {drawn} sampled replies" if drawn else "probabilities of the judge"


def steps(found: Sequence[Mapping[str, Any]]) -> None:
    """What the judge said, step by step."""
    if not found:
        text("No judge was asked for this score.", "p", "muted small")
    for step in found:
        with ui.element("div").classes("step"):
            text(str(step.get("id", "step")), "h4")
            _replies(step)


def _replies(step: Mapping[str, Any]) -> None:
    reply: Any = step["reply"] if "reply" in step else {key: value for key, value in step.items() if key != "id"}
    replies = cast("list[Any]", reply) if isinstance(reply, list) else [reply]
    items: Sequence[Any] = step.get("items") or []
    for place, one in enumerate(replies):
        if place < len(items):
            text(_said(items[place]), classes="text item")
        text(_said(one), classes="text reply")
    probabilities: Sequence[Any] = step.get("probabilities") or []
    if probabilities and not items:
        text(_chances(probabilities[0]), classes="muted small")
    if step.get("raw"):
        text(f"Reply: {step['raw']}", classes="text small muted")


def _chances(chances: Mapping[str, Mapping[str, float]]) -> str:
    """How likely each value was."""
    parts = [
        f"{name}: "
        + ", ".join(f"{value} {chance:.2f}" for value, chance in sorted(of.items(), key=lambda one: -one[1]))
        for name, of in chances.items()
    ]
    return f"Probabilities of {'; '.join(parts)}"


def _said(value: Any) -> str:
    """A reply as people read it: a line for each field."""
    if value is None:
        return "no reply"
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        return "\n".join(f"{key}: {_said(one)}" for key, one in fields.items())
    if isinstance(value, list):
        return "\n".join(f"- {_said(one)}" for one in cast("list[Any]", value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


AT_ONCE = 25


class ScoreList:
    """A page of scores with the fields that choose them.

    Args:
        workspace: The door to what is stored.
        run: Whose scores.
        wanted: What the fields say at first.
        tags: What there is to choose from.
        thresholds: Gives those that passing is told by, where they are others than the run's.
    """

    def __init__(
        self,
        workspace: Workspace,
        run: Run,
        wanted: Wanted,
        tags: Sequence[tuple[str, int]],
        thresholds: Callable[[], Mapping[str, float]],
    ) -> None:
        self._workspace, self._run, self._thresholds = workspace, run, thresholds
        self._cursors: list[str | None] = [None]
        """Where each page begins, as far as that is known."""
        self._page = wanted.number
        self._asked = 0
        self._rows_of: dict[str, tuple[Score, str, ui.element]] = {}
        self.bar = FilterBar(wanted, metrics_of(run), tags, self._choose)
        with ui.element("div").classes("above"):
            self._count = text("", "span", "muted small").props("aria-live=polite")
            self._verbose = ui.switch("Show the judge's steps and prompts", on_change=self._again).props("dense")
        self._rows = ui.element("ul").classes("scores")
        with ui.element("nav").classes("actions page-nav").props('aria-label="Pages of scores"'):
            self._before = button("Previous", self._back)
            self._after = button("Next", self._on)
        self._next: str | None = None

    def follow(self, run: Run, tags: Sequence[tuple[str, int]]) -> None:
        """Go on with the run as it is now; the rows follow with `load`."""
        self._run = run
        self.bar.offer(metrics_of(run), tags)

    async def load(self) -> None:
        """Show what is asked for, and then how many there are; what was asked for in the meantime wins.

        Rows that are there already stay as they are. While the run goes on, their number is not told.
        """
        self._asked += 1
        asked, wanted = self._asked, self.bar.wanted
        try:
            found = await to_thread.run_sync(self._read, wanted)
        except EvalflowError as error:
            tell_fault(str(error))
            return
        if asked != self._asked:
            return
        self._show(found)
        if self._page == 1 or not self._count.text:
            self._count.set_text("")
            if self._run.state in ACTIVE:
                return
            number = await to_thread.run_sync(self._number, wanted)
            if asked == self._asked:
                self._count.set_text(f"{number:,} score{'' if number == 1 else 's'}")

    async def rejudge(self) -> None:
        """Show them anew after a threshold has moved."""
        if self.bar.wanted.status in ("passed", "failed"):
            self._restart()
        await self.load()

    @property
    def _query(self) -> str:
        """The address of what is shown, after the run's."""
        return replace(self.bar.wanted, page=str(self._page) if self._page > 1 else "").query

    def _read(self, wanted: Wanted) -> ScorePage:
        others, cursors = self._thresholds(), self._cursors

        def read(cursor: str | None) -> ScorePage:
            of, order = wanted.filter(), wanted.sort or "input"
            return list_scores(self._workspace, self._run.run_id, of, cursor, AT_ONCE, sort=order, thresholds=others)

        page = read(cursors[min(self._page, len(cursors)) - 1])
        while len(cursors) < self._page and page.next is not None:
            cursors.append(page.next)
            page = read(page.next)
        self._page = min(self._page, len(cursors))
        if not self._verbose.value:
            return page
        whole = [get_score(self._workspace, self._run.run_id, one.id, others) for one in page.items]
        return ScorePage(whole, page.next)

    def _number(self, wanted: Wanted) -> int:
        return count_scores(self._workspace, self._run.run_id, wanted.filter(), self._thresholds())

    async def _choose(self, wanted: Wanted) -> None:
        self._restart()
        await self._turn(1)

    def _restart(self) -> None:
        """Begin with the first page of another list."""
        self._cursors = [None]
        self._page = 1
        self._count.set_text("")

    async def _again(self) -> None:
        await self.load()

    async def _on(self) -> None:
        if self._next is not None:
            await self._turn(self._page + 1)

    async def _back(self) -> None:
        if self._page > 1:
            await self._turn(self._page - 1)

    async def _turn(self, page: int) -> None:
        self._page = page
        ui.navigate.history.replace(f"/runs/{self._run.run_id}{self._query}")
        await self.load()

    def _show(self, found: ScorePage) -> None:
        self._next = found.next
        self._before.set_enabled(self._page > 1)
        self._after.set_enabled(found.next is not None)
        before, self._rows_of, query = self._rows_of, {}, self._query
        for score in found.items:
            known = before.get(score.id)
            if known is not None and known[:2] == (score, query):
                self._rows_of[score.id] = before.pop(score.id)
            else:
                with self._rows:
                    row = _row(self._workspace, self._run.run_id, score, query)
                    self._rows_of[score.id] = (score, query, row)
        self._order([row for *_, row in self._rows_of.values()])

    def _order(self, rows: list[ui.element]) -> None:
        """Have these rows and no others in the list, or else a word on why there is none."""
        if not rows:
            with self._rows:
                rows = [text(self._nothing(), "li", "muted none")]
        for other in [one for one in self._rows if one not in rows]:
            other.delete()
        for place, row in enumerate(rows):
            if self._rows.default_slot.children[place] is not row:
                row.move(target_index=place)

    def _nothing(self) -> str:
        if self._run.state in ACTIVE and not self.bar.wanted.query:
            return "Nothing is scored yet. Scores appear here as they come in."
        return "No matching scores. Clear the filters to see all scores."


def _row(workspace: Workspace, run: str, score: Score, query: str) -> ui.element:
    with ui.element("li") as row:
        verdict(score)
        with ui.element("div").classes("about"):
            with ui.element("div").classes("of"), ui.link(target=f"/runs/{run}/cases/{score.position}{query}"):
                text(score.question or score.case_id, "span", "clamp question")
            with ui.element("div").classes("actions small muted"):
                text(score.metric, "span")
                text(score.case_id, "span", "line")
                for tag in score.tags:
                    badge(tag)
            if said := why(score):
                text(said, "p", "text reason" if score.steps is not None else "text reason clamp")
            if score.steps is not None:
                details(score)
                steps(score.steps)
                if score.judge:
                    PromptFold(workspace, run, score)
    return row
