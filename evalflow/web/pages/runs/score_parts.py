"""A score as it is shown: its number, how it came about, and what the judge said on the way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from nicegui import ui

from evalflow.app.workspace.score_types import Score
from evalflow.report.wording import cost, number
from evalflow.web.pages.parts import Tone, badge, facts, text

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
        ("On its own scale", "" if score.value is None else _said(score.value)),
        ("Threshold", "" if score.threshold is None else number(score.threshold, 2)),
        ("Found by", found_by(score)),
        ("Took", "" if score.latency_s is None else f"{score.latency_s:.2f} s"),
        ("Cost", "" if score.cost_usd is None else cost(score.cost_usd)),
        ("Repeat of the judge", repeat),
    ])  # fmt: skip


def found_by(score: Score) -> str:
    """How the score came out of the judge's replies; empty where it is the one grade of a first reply."""
    if score.path != "weighted":
        return "a second asking" if score.path == "reasked" else ""
    weighed = [step for step in score.steps or () if step.get("probabilities")]
    if any("mass" in step for step in weighed):
        return "token probabilities"
    drawn = next((step["samples"] for step in weighed if "samples" in step), None)
    return f"the mean of {drawn} sampled replies" if drawn else "probabilities of the judge"


def steps(found: Sequence[Mapping[str, Any]]) -> None:
    """What the judge said, step by step."""
    if not found:
        text("Nothing was asked of a judge for this score.", "p", "muted small")
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
        text(f"It replied: {step['raw']}", classes="text small muted")


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
