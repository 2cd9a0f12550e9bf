"""The steps that a judge grades by: written by it, edited, frozen; or left to each run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from nicegui import ui

from evalflow.app.workspace.metric_trial import WrittenSteps
from evalflow.web.pages.forms import About, Field, area, written
from evalflow.web.pages.parts import badge, button, text

KEY = "steps"
Write = Callable[[ui.button], Awaitable[WrittenSteps | None]]
"""Has the judge write steps, asked by a button; None where that failed and is shown."""


class StepsFields:
    """The steps, one in each line, or frozen as a list.

    Args:
        steps: Those of the metric; none: each run has the judge write its own.
        fields: Where the field is entered by key.
        write: Has the judge write some.
    """

    def __init__(
        self,
        steps: Sequence[str],
        fields: dict[str, Field],
        write: Callable[[ui.button], Awaitable[WrittenSteps | None]],
    ) -> None:
        self._write = write
        help = (
            "What the judge works through, one in each line. Empty: it writes them itself by the criteria, once in "
            "each run."
        )
        example = "Compare every figure of the answer with the expected one.\nLower the score for each that differs."
        self._field = area(About("Steps", help, example), "\n".join(" ".join(step.split()) for step in steps))
        fields[KEY] = self._field
        self._list = ui.element("div")
        with ui.element("div").classes("actions"):
            self._writing = button("Have the judge write them", self._generate, icon="auto_awesome")
            self._freezing = button("Freeze", self._freeze, icon="lock")
            self._thawing = button("Edit", self._thaw, icon="edit")
        self._field.on_value_change(lambda: self._freezing.set_enabled(bool(self.read())))
        self._note = text("", classes="aside").props("aria-live=polite")
        self._set(frozen=bool(steps))

    def read(self) -> list[str] | None:
        """The steps; None leaves them to each run."""
        return [line.strip() for line in (written(self._field) or "").splitlines() if line.strip()] or None

    async def _generate(self) -> None:
        found = await self._write(self._writing)
        if found is None:
            return
        self._field.value = "\n".join(" ".join(step.split()) for step in found.steps)
        took = f" in {found.latency_s:.1f} s" if found.latency_s else ""
        cost = f" for ${found.cost_usd:.4f}" if found.cost_usd else ""
        self._set(frozen=False)
        self._note.text = f"Written by {found.judge}{took}{cost}. Read them, change what is wrong, then freeze them."

    def _freeze(self) -> None:
        self._set(frozen=True)
        # The button that was pressed is gone, and with it the cursor. A frame later the other one is there.
        ui.run_javascript(f'requestAnimationFrame(() => document.getElementById("{self._thawing.html_id}").focus())')

    def _thaw(self) -> None:
        self._set(frozen=False)
        self._field.run_method("focus")

    def _set(self, *, frozen: bool) -> None:
        steps = self.read() or []
        frozen = frozen and bool(steps)
        self._field.parent_slot.parent.set_visibility(not frozen)  # pyright: ignore - the label and help around it
        self._list.clear()
        self._list.set_visibility(frozen)
        if frozen:
            with self._list, ui.element("div").classes("card frozen"):
                with ui.element("div").classes("actions"):
                    text("Steps", "h3")
                    badge("frozen", "accent")
                with ui.element("ol"):
                    for step in steps:
                        text(step, "li")
        self._note.text = "Every run grades by exactly these." if frozen else ""
        self._writing.set_visibility(not frozen)
        self._freezing.set_visibility(not frozen)
        self._freezing.set_enabled(bool(steps))
        self._thawing.set_visibility(frozen)
