"""The scale of a metric: what a grade may be, and what single grades or ranges of them mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from nicegui import ui

from evalflow.errors import Problem, UserError
from evalflow.web.pages.forms import About, Field, area, number, pick, written

TYPES = {
    "boolean": "Yes or no",
    "likert": "Whole grades",
    "percentage": "0 to 100",
    "label": "Words, each with a score",
}
_MEANING = re.compile(r"(-?\d+)(?:\s*(?:-|–|to)\s*(-?\d+))?\s*:\s*(.+)\Z")
MEANINGS, LABELS = "scale.anchors", "scale.values"
_OF_GRADES = ("scale", "scale.min", "scale.max", MEANINGS, "rubric")


class ScaleFields:
    """The fields of a scale.

    Args:
        definition: The metric's, as it stands.
        fields: Where they are entered by key.
        weighted: Whether the score is an expectation over grades (G-Eval), and so the scale whole grades.
    """

    def __init__(self, definition: Mapping[str, Any], fields: dict[str, Field], *, weighted: bool) -> None:
        self._scale = _whole(definition.get("scale"), 10 if weighted else 5)
        self._bands: list[Mapping[str, Any]] = definition.get("rubric") or []
        self._weighted = weighted
        self._fields = fields
        self._type: str = "likert" if weighted else self._scale["type"]
        if not weighted:
            made = pick(
                About("Scale", "What the judge may answer, such as yes or no, or grades from 1 to 5.", required=True),
                TYPES,
                self._type,
            )
            made.on_value_change(lambda event: self._choose(cast("str", event.value)))
            fields["scale.type"] = made
        self._place = ui.element("div").classes("form")
        self._fill()

    def read(self) -> dict[str, Any]:
        """The keys of a definition that the fields say: `scale`, and for whole grades of G-Eval `rubric`.

        Raises:
            UserError: A line is not of its form.
        """
        scale: dict[str, Any] = {"type": self._type}
        if self._type == "label":
            return {"scale": {**scale, "values": _scores(written(self._fields[LABELS]) or "")}}
        if self._type != "likert":
            return {"scale": scale}
        for key in ("min", "max"):
            value = self._fields[f"scale.{key}"].value
            scale[key] = int(value) if value is not None and value == int(value) else value
        meanings = _meanings(written(self._fields[MEANINGS]) or "")
        ranges = any(low != high for low, high, _ in meanings)
        if not self._weighted and ranges:
            what = "only G-Eval knows ranges of grades"
            raise UserError(Problem(what, hint="describe single grades, such as 5: names every fee", key=MEANINGS))
        if meanings and not ranges:
            scale["anchors"] = {str(low): said for low, _, said in meanings}
        bands = [{"score_range": [low, high], "expected_outcome": said} for low, high, said in meanings]
        return {"scale": scale, "rubric": bands if ranges else None} if self._weighted else {"scale": scale}

    def _choose(self, chosen: str) -> None:
        self._type = chosen
        self._fill()

    def _fill(self) -> None:
        for key in [key for key in self._fields if key in (*_OF_GRADES, LABELS)]:
            del self._fields[key]
        self._place.clear()
        with self._place:
            if self._type == "likert":
                self._grades()
            elif self._type == "label":
                values = cast("Mapping[str, float]", self._scale.get("values") or {})
                help = "One in each line with its score from 0 to 1, the worst first."
                about = About("Words", help, "refuses: 0\nhedges: 0.5\nanswers: 1", required=True, code=True)
                self._fields[LABELS] = area(about, "\n".join(f"{word}: {score:g}" for word, score in values.items()))

    def _grades(self) -> None:
        low, high = self._scale.get("min", 1), self._scale.get("max", 10 if self._weighted else 5)
        with ui.element("div").classes("pair"):
            about = About("Lowest grade", "Such as 1; becomes the score 0.", "1", required=True)
            self._fields["scale.min"] = number(about, low)
            about = About("Highest grade", "Such as 10; becomes the score 1.", "10", required=True)
            self._fields["scale.max"] = self._fields["scale"] = number(about, high)
        ranges = "Grades or ranges of them" if self._weighted else "Grades"
        help = f"{ranges} and what such an answer is like, one in each line. The grades between lie between."
        example = "1-2: wrong in what matters\n9-10: right and complete" if self._weighted else "1: off\n5: complete"
        about = About("What grades mean", help, example, code=True)
        self._fields[MEANINGS] = self._fields["rubric"] = area(about, "\n".join(self._said()))

    def _said(self) -> list[str]:
        bands = [(*band["score_range"], band["expected_outcome"]) for band in self._bands]
        lines = [f"{low}-{high}: {said}" if low != high else f"{low}: {said}" for low, high, said in bands]
        anchors = cast("Mapping[Any, str]", self._scale.get("anchors") or {})
        return lines + [f"{grade}: {said}" for grade, said in anchors.items()]


def _whole(scale: Any, highest: int) -> dict[str, Any]:
    if isinstance(scale, str):
        return {"type": scale}
    return dict(cast("Mapping[str, Any]", scale)) if scale else {"type": "likert", "min": 1, "max": highest}


def _meanings(said: str) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for line in _lines(said):
        read = _MEANING.match(line)
        if read is None:
            raise UserError(Problem(f"{line!r} names no grade", hint="such as 9-10: right and complete", key=MEANINGS))
        found.append((int(read[1]), int(read[2] or read[1]), read[3].strip()))
    return found


def _scores(said: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in _lines(said):
        word, _, score = line.rpartition(":")
        try:
            found[word.strip()] = float(score)
        except ValueError:
            raise UserError(Problem(f"{line!r} has no score", hint="such as hedges: 0.5", key=LABELS)) from None
    return found


def _lines(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines() if line.strip()]
