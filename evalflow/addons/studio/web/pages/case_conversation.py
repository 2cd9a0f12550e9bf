"""A case's conversation as chat bubbles, its simulated user, its reference and its answer example."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import dialog, open_once, question, work_button
from evalflow.addons.studio.web.ui.faults import reveal
from evalflow.addons.studio.web.ui.parts import button, icon_button, message, tell, text
from evalflow.addons.studio.web.ui.visitor import may, title_of
from evalflow.addons.studio.work import cases
from evalflow.addons.studio.work.answer_examples import ask_bot, run_answers, run_example
from evalflow.addons.studio.work.bots import list_bots
from evalflow.addons.studio.work.space import Workspace
from evalflow.records import texts_of
from evalflow.values.jsonvalues import parsed

MessageRow = Mapping[str, Any]
Changed = Callable[[], object]
_ROLES = {"user": "User", "assistant": "Bot", "system": "System", "tool": "Tool"}
_ICONS = {"user": "person", "assistant": "smart_toy"}
_LAST = "The last turn must be the user's: the bot answers it."


@dataclass(slots=True)
class _Bubble:
    before: MessageRow
    role: str
    content: str
    field: ui.textarea | None = None

    def read(self) -> MessageRow:
        """The message; keys other than role and content are kept."""
        return {**self.before, "role": self.role, "content": self.content}


class Conversation:
    """The turns of a case, edited in place. `on_change` is called with each change.

    With `is_simulated` a second model continues as the user: there may be no turn, or the bot's may be the last.
    """

    def __init__(self, messages: Sequence[MessageRow], on_change: Changed, is_simulated: Callable[[], bool]) -> None:
        self._before, self._on_change, self._is_simulated = list(messages), on_change, is_simulated
        given = self._before or [{"role": "user", "content": ""}]
        self._bubbles = [_Bubble(one, str(one["role"]), str(one["content"])) for one in given]
        self._place = ui.element("div").classes("chat").props('role=group aria-label="Conversation"')
        self._warning = ui.element("div").props("aria-live=polite")
        if may("edit"):
            with ui.element("div").classes("actions"):
                button("Add a turn", self._add, icon="add")
        self._show()

    @property
    def last(self) -> forms.Field:
        """The field of the last turn."""
        return cast("forms.Field", self._bubbles[-1].field)

    def messages(self) -> list[MessageRow]:
        """The current turns, valid or not."""
        return [bubble.read() for bubble in self._bubbles]

    def read(self) -> list[MessageRow] | None:
        """The messages; None if one is wrong (the error is shown at its field)."""
        messages = self.messages()
        for bubble in self._bubbles:
            cast("forms.Field", bubble.field).error = None
        goes_on = self._is_simulated()
        if goes_on and not any(one["content"].strip() for one in messages):
            return []
        if messages == self._before:  # a file may have them in an unusual order
            return messages
        empty = [
            (i, forms.REQUIRED)
            for i, one in enumerate(messages)
            if not (one["content"].strip() or cases.beside_words(one))
        ]
        faults = empty or cases.irregular_turns(messages, goes_on=goes_on)
        for number, what in faults:
            is_last = number == len(messages) - 1 and messages[number]["role"] != "user"
            cast("forms.Field", self._bubbles[number].field).error = _LAST if is_last and not empty else what
        if faults:
            first = cast("forms.Field", self._bubbles[faults[0][0]].field)
            reveal(first)
            first.run_method("focus")
            return None
        return messages

    def _show(self, focused: int | None = None) -> None:
        self._place.clear()
        with self._place:
            for number, bubble in enumerate(self._bubbles):
                self._build(number, bubble)
        self.warn()
        if focused is not None:
            cast("ui.textarea", self._bubbles[focused].field).run_method("focus")

    def _build(self, number: int, bubble: _Bubble) -> None:
        who = _ROLES.get(bubble.role, bubble.role)
        with ui.element("div").classes(f"bubble {'user' if bubble.role == 'user' else 'bot'}"):
            with ui.element("div").classes("who"):
                ui.icon(_ICONS.get(bubble.role, "settings")).props("aria-hidden=true")
                text(who, "span")
                if may("edit"):
                    self._controls(number, bubble, f"turn {number + 1}")
            field = ui.textarea(value=bubble.content, placeholder="What does the licence cost?")
            field.props("autogrow outlined dense dir=auto").props["aria-label"] = f"Turn {number + 1}, {who}"
            field.on("keydown.alt.up.prevent", lambda: self._move(number, -1), args=[])
            field.on("keydown.alt.down.prevent", lambda: self._move(number, 1), args=[])
            for line in cases.beside_words(bubble.before) if bubble.before else ():
                text(line, "p", "small muted")
        field.on_value_change(lambda event: self._typed(bubble, str(event.value or "")))
        bubble.field = field

    def _controls(self, number: int, bubble: _Bubble, name: str) -> None:
        with ui.element("div").classes("turn-actions"):
            other = "Bot" if bubble.role == "user" else "User"
            icon_button("swap_horiz", f"Make {name} the {other.lower()}'s", lambda: self._swap(bubble))
            if number:
                icon_button("arrow_upward", f"Move {name} up (Alt+Up)", lambda: self._move(number, -1))
            if number < len(self._bubbles) - 1:
                icon_button("arrow_downward", f"Move {name} down (Alt+Down)", lambda: self._move(number, 1))
            if len(self._bubbles) > 1:
                icon_button("close", f"Remove {name}", lambda: self._remove(number))

    def _typed(self, bubble: _Bubble, content: str) -> None:
        bubble.content = content
        self._on_change()

    def warn(self) -> None:
        """Warn at once if the last turn is not the user's and no user is simulated."""
        self._warning.clear()
        if self._bubbles[-1].role != "user" and not self._is_simulated():
            with self._warning:
                message(_LAST, "Add a user's turn, or move it to the answer example below.", "warn")

    def _add(self) -> None:
        role = "assistant" if self._bubbles[-1].role == "user" else "user"
        self._bubbles.append(_Bubble({}, role, ""))
        self._changed(len(self._bubbles) - 1)

    def _swap(self, bubble: _Bubble) -> None:
        bubble.role = "assistant" if bubble.role == "user" else "user"
        self._changed(self._bubbles.index(bubble))

    def _remove(self, number: int) -> None:
        del self._bubbles[number]
        self._changed(min(number, len(self._bubbles) - 1))

    def _move(self, number: int, step: int) -> None:
        if 0 <= number + step < len(self._bubbles):
            self._bubbles.insert(number + step, self._bubbles.pop(number))
            self._changed(number + step)

    def _changed(self, focused: int) -> None:
        self._show(focused)
        self._on_change()


_METADATA = forms.About(
    "Metadata of the answer",
    "JSON that came with it; metadata checks read it.",
    '{"tool": "search"}',
    code=True,
)


class AnswerExample:
    """The answer example of a case: written, asked of a bot, or taken from a run.

    `case` is the row id of a stored case; `row` gives the case to ask a bot about, or None if it is not ready.
    """

    def __init__(
        self,
        workspace: Workspace,
        dataset: str,
        case: int | None,
        example: Mapping[str, Any] | None,
        row: Callable[[], dict[str, Any] | None],
        on_change: Changed,
    ) -> None:
        self._workspace, self._dataset, self._case, self._row = workspace, dataset, case, row
        self._before = dict(example or {})
        with ui.element("div").classes("bubble bot example"):
            with ui.element("div").classes("who"):
                ui.icon("smart_toy").props("aria-hidden=true")
                text("Answer example", "h2")
            text("To try the checks on. Runs do not use it: there the bot answers.", classes="help")
            self._answer = ui.textarea(value=self._before.get("content", ""), placeholder="It costs 40 pounds a year.")
            self._answer.props("autogrow outlined dense dir=auto").props["aria-label"] = "Answer example"
            if may("edit"):
                with ui.element("div").classes("actions"):
                    button("Ask the bot now", self._ask, icon="bolt")
                    if case is not None:
                        button("Take a run's answer", self._take, icon="history")
            metadata = self._before.get("metadata")
            with ui.expansion("Metadata", value=metadata is not None):
                shown = "" if metadata is None else json.dumps(metadata, indent=2, ensure_ascii=False)
                self._metadata = forms.area(_METADATA, shown)
        for field in (self._answer, self._metadata):
            field.on_value_change(lambda _: on_change())

    @property
    def fields(self) -> Mapping[str, forms.Field]:
        """The fields by key, to show errors at."""
        return {"demo_answer": self._answer}

    def read(self) -> dict[str, Any] | None:
        """The example, or None. ValueError if its metadata are not a JSON object; the field says so."""
        content = str(self._answer.value or "")
        self._metadata.error = None
        written = forms.written(self._metadata)
        if not content.strip() and written is None:
            return None
        made = {**self._before, "role": self._before.get("role", "assistant"), "content": content}
        made.pop("metadata", None)
        if written is None:
            return made
        try:
            metadata = parsed(written.encode())
        except ValueError:
            metadata = None
        if not isinstance(metadata, dict):
            self._metadata.error = 'Is not a JSON object, such as {"tool": "search"}'
            raise ValueError(self._metadata.error)
        return {**made, "metadata": metadata}

    def _put(self, example: Mapping[str, Any]) -> None:
        self._answer.value = example["content"]
        metadata = example.get("metadata")
        self._metadata.value = "" if not metadata else json.dumps(metadata, indent=2, ensure_ascii=False)

    async def _ask(self) -> None:
        row = self._row()
        if row is None:
            return
        available = await to_thread.run_sync(list_bots, self._workspace)
        live = [one for one in available if one.origin == "workspace" and one.config.get("kind") != "recorded"]
        bots = {one.name: one.title for one in live}
        if not bots:
            tell("No bot can be asked yet. Define one on the page Bots.")
            return

        async def asked(asking: ui.button) -> None:
            with forms.faults_shown({"bot": bot}, asking):
                self._put(await self._workspace.ask(lambda: ask_bot(self._workspace, str(bot.value), row)))
                opened.close()

        about = forms.About("Bot", "Its answer replaces the example; this costs one call of the bot.", required=True)
        with question("Ask the bot now", "", "Ask", asked) as opened:
            bot = forms.pick(about, bots, next(iter(bots)))
        open_once(opened)

    async def _take(self) -> None:
        case = cast("int", self._case)
        answers = await to_thread.run_sync(run_answers, self._workspace, self._dataset, case)
        if not answers:
            tell("No run has an answer to this case yet.")
            return

        def put(example: Mapping[str, Any]) -> None:
            self._put(example)
            opened.close()

        with dialog("Take a run's answer", "It replaces the example.") as opened:
            for one in answers:
                with ui.element("div").classes("run-answer"):
                    text(f"{title_of('bot', one.bot)} · {one.title or one.run_id}", classes="muted small")
                    text(one.answer, classes="text clamp")
                    work_button("Take it", partial(run_example, self._workspace, one.run_id, self._dataset, case), put)
            button("Cancel", opened.close)
        open_once(opened)


_ABOUT = {
    "scenario": forms.About(
        "Situation", "What the user is in. The bot never sees it.", "You have moved and want to park at your new home."
    ),
    "persona": forms.About("Persona", "Who the user is, and how they write.", "A nurse, friendly, short messages."),
    "goal": forms.About("Goal", "The conversation ends when it is reached.", "Learn what a permit costs."),
    "facts": forms.About("Facts", "All that the user knows, one fact a line.", "You live in Mill Lane 4."),
}
_NO_SITUATION = "Write the situation: without it nobody is simulated."


class ScenarioFields:
    """The instructions for a second model that plays the user; without a situation no user is simulated."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body
        with ui.expansion("Simulated user", value=bool(body.get("scenario"))).classes("more"):
            about = "A model plays this user and talks with the bot. Turns above are then how the conversation begins."
            text(about, classes="help")
            shown = {name: body.get(name) for name in ("scenario", "persona", "goal")}
            shown["facts"] = "\n".join(body.get("facts") or ())
            self.fields: dict[str, forms.Field] = {}
            for names in (("scenario", "goal"), ("persona", "facts")):
                with forms.pair():
                    for name in names:
                        self.fields[name] = forms.area(_ABOUT[name], shown[name])
        self._before = {name: field.value for name, field in self.fields.items()}

    @property
    def is_given(self) -> bool:
        """Whether the user of this case is simulated."""
        return forms.written(self.fields["scenario"]) is not None

    def on_change(self, call: Callable[[], object]) -> None:
        self.fields["scenario"].on_value_change(lambda _: call())

    def read(self) -> dict[str, Any] | None:
        """The values; None if there is no situation to the others (its field then says so)."""
        values = {name: self._read(name) for name in self.fields}
        situation = self.fields["scenario"]
        situation.error = None
        if not self.is_given and any(values.values()):
            situation.error = _NO_SITUATION
            reveal(situation)
            situation.run_method("focus")
            return None
        return values

    def _read(self, name: str) -> Any:
        """The value of a field. An unchanged field returns the original value, since a fact may have several lines."""
        field = self.fields[name]
        if field.value == self._before[name]:
            return self._body.get(name)
        return forms.lines_of(field) or None if name == "facts" else forms.written(field)


_REFERENCE = forms.About("Expected answer", "The ideal answer, for metrics.", "It costs 40 pounds a year.")
_OTHER_REFERENCE = forms.About("Also right", "Any one of them is enough.", "40 pounds")


class ReferenceFields:
    """One text, or several; empty ones do not count."""

    def __init__(self, given: str | Sequence[str] | None, on_change: Callable[[], object]) -> None:
        first, *others = texts_of(given) or ("",)
        self._on_change = on_change
        self._others: list[forms.Field] = []
        with ui.element("div").classes("stack"):
            self.first = forms.area(_REFERENCE, first)
            self._rows = ui.element("div").classes("stack pieces")
            for text in others:
                self._add(text)
            with ui.element("div").classes("actions"):
                button("Another right answer", lambda: self._add("").run_method("focus"), kind="quiet", icon="add")

    def read(self) -> str | list[str] | None:
        """The text, a list of several, or None."""
        texts = [text for field in (self.first, *self._others) if (text := str(field.value or "")).strip()]
        return texts if len(texts) > 1 else next(iter(texts), None)

    def _add(self, text: str) -> forms.Field:
        with self._rows, ui.element("div").classes("piece card") as row:
            field = forms.area(_OTHER_REFERENCE, text)
            field.on_value_change(lambda _: self._on_change())
            with ui.element("div").classes("actions"):
                button("Remove", partial(self._remove, row, field), kind="quiet", icon="close")
        self._others.append(field)
        return field

    def _remove(self, row: ui.element, field: forms.Field) -> None:
        self._others.remove(field)
        row.delete()
        self._on_change()
