"""A control for one metric on its own scale: buttons, or a field for a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from nicegui import ui

from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import fold, text
from evalflow.addons.studio.work.review_desk import CANNOT_TELL, NoValue
from evalflow.addons.studio.work.reviews import ReviewMetric, ReviewScale

Grade = bool | int | float | str
MOST_BUTTONS = 11
"""Scales with more grades become a number field."""
_MOST_BESIDE = 24
"""Letters of the words that fit beside each other."""
_MISSING = "Choose a value, or “Cannot tell”."


class Grading:
    """One metric: its question, guideline and grades, and “Cannot tell”.

    `on_change` is called at each change. `is_new`: the person has not yet read the guideline, so it is unfolded.
    """

    def __init__(
        self,
        metric: ReviewMetric,
        value: Grade | None,
        on_change: Callable[[], object],
        *,
        is_unsure: bool,
        is_new: bool = False,
    ) -> None:
        self.name, self.value, self.is_unsure = metric.name, value, is_unsure
        self._metric, self._on_change = metric, on_change
        self._grades: list[tuple[Grade, ui.element]] = []
        self._number: ui.number | None = None
        with ui.element("div").classes("grading") as self._whole:
            with ui.element("div").classes("grading-head"):
                title = text(metric.title, "h3")
                self._add_cannot()
            self._whole.props["role"], self._whole.props["aria-labelledby"] = "group", title.html_id
            if metric.description:
                text(metric.description, "p", "small muted")
            if metric.guidelines and metric.guidelines != metric.description:
                with fold("Guideline", is_open=is_new):
                    text(metric.guidelines, classes="text small")
            self._build()
            self._fault = text("", "p", "fault").props("role=alert")
        self._mark()

    @property
    def answer(self) -> Grade | NoValue:
        """The choice; call it only after `tell_missing` returned false."""
        assert self.is_unsure or self.value is not None
        return CANNOT_TELL if self.is_unsure or self.value is None else self.value

    def tell_missing(self) -> bool:
        """If nothing was chosen, show that at the control; returns whether this is so."""
        is_missing = self.value is None and not self.is_unsure
        self._fault.set_text(_MISSING if is_missing else "")
        return is_missing

    def focus(self) -> None:
        """Put the focus on the first grade, and scroll there."""
        first = self._number or self._grades[0][1]
        ui.run_javascript(
            f"const at = getHtmlElement({first.id}); at?.scrollIntoView({{block: 'center'}});"
            "(at?.matches('input, button') ? at : at?.querySelector('input'))?.focus()"
        )

    def _build(self) -> None:
        scale = self._metric.scale
        grades = grades_of(scale)
        if grades:
            lengths = [len(name) for _, name in grades if len(name) > 3]
            is_tall = bool(scale.anchors) or max(lengths, default=0) > 12 or sum(lengths) > _MOST_BESIDE
            with ui.element("div").classes("grades tall" if is_tall else "grades"):
                for number, (value, name) in enumerate(grades, 1):
                    self._grade(value, name, number, anchor_of(scale, value))
        else:
            self._number = forms.number_field(_about(scale), _shown(self.value))
            self._number.props["inputmode"] = "decimal"
            if scale.kind == "percentage":
                self._number.props["suffix"] = "%"
            self._number.on_value_change(self._typed)

    def _add_cannot(self) -> None:
        with ui.element("button").props("type=button data-desk-key=u").classes("grade cannot") as self._cannot:
            text("Cannot tell", "span")
        self._cannot.props["title"] = "You cannot judge this from what is shown (U)"
        self._cannot.on("click", self._toggle_unsure, args=[])

    def _grade(self, value: Grade, name: str, number: int, anchor: str) -> None:
        with ui.element("button").props("type=button").classes("grade") as made:
            text(name, "span", "grade-name")
            if anchor:
                text(anchor, "span", "anchor")
            key = key_of(self._metric.scale, value, number)
            if key:
                made.props["data-desk-key"] = key
                made.props["title"] = f"Key {key}"
                if key != name:
                    text(key, "kbd").props("aria-hidden=true")
        made.on("click", partial(self._choose, value), args=[])
        self._grades.append((value, made))

    def _choose(self, value: Grade) -> None:
        self.value, self.is_unsure = value, False
        self._mark()
        self._on_change()

    def _typed(self) -> None:
        assert self._number is not None
        value, scale = self._number.value, self._metric.scale
        low, high = scale.min, scale.max
        is_out = value is not None and ((low is not None and value < low) or (high is not None and value > high))
        self._number.error = f"Enter a number from {low:g} to {high:g}" if is_out else None
        self.value = None if is_out else value
        if value is not None:
            self.is_unsure = False
        self._mark()
        self._on_change()

    def _toggle_unsure(self) -> None:
        self.is_unsure = not self.is_unsure
        self.value = None if self.is_unsure else self.value
        if self._number is not None and self.is_unsure:
            self._number.value = None
        self._mark()
        self._on_change()

    def _mark(self) -> None:
        for value, made in self._grades:
            made.props["aria-pressed"] = "true" if value == self.value and self.value is not None else "false"
        self._cannot.props["aria-pressed"] = "true" if self.is_unsure else "false"
        if self.value is not None or self.is_unsure:
            self._fault.set_text("")


def grades_of(scale: ReviewScale) -> list[tuple[Grade, str]]:
    """The grades of a scale with their names, the worst first; empty if any number may be given."""
    if scale.kind == "boolean":
        return [(True, "Yes"), (False, "No")]
    if scale.kind == "label":
        return [(label, label) for label in scale.labels]
    if scale.kind == "likert" and scale.min is not None and scale.max is not None:
        grades = range(int(scale.min), int(scale.max) + 1)
        return [(grade, str(grade)) for grade in grades] if len(grades) <= MOST_BUTTONS else []
    return []


def key_of(scale: ReviewScale, value: Grade, place: int) -> str:
    """The keyboard key of a grade: the grade itself if all are 1 to 9, else its position; empty from the tenth on."""
    is_own = (
        scale.kind == "likert" and scale.min is not None and scale.max is not None and 1 <= scale.min <= scale.max <= 9
    )
    key = value if is_own else place
    return str(key) if key <= 9 else ""  # pyright: ignore[reportOperatorIssue] - grades of a likert scale are numbers


def _about(scale: ReviewScale) -> forms.About:
    bounds = "" if scale.min is None or scale.max is None else f"From {scale.min:g} to {scale.max:g}."
    return forms.About("Value", bounds, required=True)


def _shown(value: Grade | None) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def anchor_of(scale: ReviewScale, value: Grade) -> str:
    """The description of a grade; empty if it has none."""
    return scale.anchors.get(value, "") if isinstance(value, int) and not isinstance(value, bool) else ""


def named(scale: ReviewScale, value: Grade | None, unsure: str = "cannot tell") -> str:
    """A value in words, with the anchor of its grade."""
    if value is None:
        return unsure
    names: Mapping[Grade, str] = dict(grades_of(scale)) if not isinstance(value, float) else {}
    name = names.get(value, f"{value:g}" if isinstance(value, float) else str(value))
    anchor = anchor_of(scale, value)
    return f"{name}: {anchor}" if anchor else name
