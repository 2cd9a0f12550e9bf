"""One score: its number, reason, cost and time, and the judge's prompts and replies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.ui.markdown import Prose, first_sentence
from evalflow.addons.studio.web.ui.metric_words import lacking_in_words
from evalflow.addons.studio.web.ui.parts import Tone, badge, capitalised, copyable, fill, fold, lazy_fold, markup, text
from evalflow.addons.studio.web.ui.visitor import title_of
from evalflow.addons.studio.work.run_cases import JudgeCall, score_prompts
from evalflow.addons.studio.work.scores import Score
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import cost, number
from evalflow.values.jsonvalues import is_list, is_mapping

_RENDERED = (
    "The run stores the judge's replies, not the prompts. These prompts are rendered again from the templates, the "
    "case and the answer that the run stored. Nothing was sent for this."
)


_SIGNS = {True: ("✓", "passed", "pass"), False: ("✗", "failed", "fail"), None: ("•", "scored", "")}


def score_summary(score: Score, title: str = "") -> list[Markup]:
    """A score in one line as HTML: whether it passed, its metric, number, and the first sentence of its reason."""
    title = title or title_of("metric", score.metric, score.target)
    sign, *number_and_word = _reading(score)
    return [
        sign,
        markup("h4", title, dir="auto", title=title),
        *number_and_word,
        markup("span", first_sentence(why(score)), cls="first-sentence", dir="auto"),
    ]


def pair_summary(a: Score | None, b: Score | None) -> list[Markup]:
    """A metric's scores of two answers in one line as HTML; None means that an answer has no score."""
    title = next((title_of("metric", one.metric, one.target) for one in (b, a) if one is not None), "")
    sides = [
        markup("span", markup("span", name, cls="small muted"), *(_reading(one) if one else ("–",)), cls="side-of-pair")
        for name, one in (("A", a), ("B", b))
    ]
    return [markup("h4", title, dir="auto", title=title), *sides]


def _reading(score: Score) -> list[Markup]:
    """A score's sign and number, and its verdict as a word for screen readers."""
    if score.status == "scored":
        sign, word, tone = _SIGNS[score.passed]
        shown = number(score.score, 2)
    else:
        sign, word, tone, shown = "!" if score.status == "error" else "–", "", _tone(score.status), score.status
    return [
        markup("span", sign, cls=f"sign {tone}", **{"aria-hidden": "true"}),
        markup("span", shown, cls=f"number {tone}"),
        markup("span", word, cls="unseen"),
    ]


def score_details(score: Score) -> list[Markup]:
    """The details of a score as HTML: the whole reason; folded: facts and the judge's steps."""
    shown: list[Markup] = []
    if reason := why(score):
        shown.append(markup("div", Prose(reason).marked(), cls="prose"))
    entries = [markup("div", markup("dt", name), markup("dd", value, dir="auto")) for name, value in _facts(score)]
    inside = [markup("dl", *entries, cls="facts")] if entries else []
    inside += [_step(step) for step in score.steps or ()]
    if inside:
        shown.append(markup("details", markup("summary", "How it was scored"), *inside))
    return shown


def quotes_of(score: Score) -> list[str]:
    """All texts in the judge's steps: the items it was given, and its replies."""
    return list(_texts([dict(step) for step in score.steps or ()]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        inner = cast("Mapping[str, Any]", value).values() if isinstance(value, Mapping) else cast("list[Any]", value)
        for one in inner:
            yield from _texts(one)


def _tone(status: str) -> Tone:
    return "fail" if status == "error" else ""


def status_badge(status: str) -> None:
    """The state of a score."""
    badge(status, _tone(status))


def why(score: Score) -> str:
    """The judge's reason, or why there is no score."""
    error = f"{score.error_type}: {score.error}" if score.error_type and score.error else score.error
    reason = score.reason or error or score.answer_error or ""
    return lacking_in_words(reason) if score.status == "skipped" else reason


def _facts(score: Score) -> list[tuple[str, str]]:
    entries = [
        ("Judge", title_of("judge", score.judge) if score.judge else ""),
        ("On the metric's scale", "" if score.value in (None, score.score) else readable(_of_parts(score))),
        ("Threshold", "" if score.threshold is None else number(score.threshold, 2)),
        ("Scored from", score_source(score)),
        ("Time", f"{score.latency_s:.2f} s" if score.latency_s else ""),
        ("Cost", "" if score.cost_usd is None else cost(score.cost_usd)),
        ("Repeat of the judge", f"{score.repeat + 1}" if score.repeat else ""),
    ]
    return [(name, value) for name, value in entries if value]


def _of_parts(score: Score) -> Any:
    """The value of a score; one of several parts has the titles of those that are metrics, and words for the others."""
    if not is_mapping(score.value):
        return score.value
    titles = {name: title_of("metric", str(name), score.target) for name in score.value}
    return {
        str(name).replace("_", " ") if title == name else title: score.value[name] for name, title in titles.items()
    }


def score_source(score: Score) -> str:
    """How the score was computed; empty if it is simply the grade of the first reply."""
    if score.path != "weighted":
        return "a second request" if score.path == "reasked" else ""
    weighted = [step for step in score.steps or () if step.get("probabilities")]
    if any("mass" in step for step in weighted):
        return "token probabilities"
    samples = next((step["samples"] for step in weighted if "samples" in step), None)
    return f"the mean of {samples} sampled replies" if samples else "probabilities of the judge"


def _step(step: Mapping[str, Any]) -> Markup:
    reply: Any = step["reply"] if "reply" in step else {key: value for key, value in step.items() if key != "id"}
    replies = reply if is_list(reply) else [reply]
    items: Sequence[Any] = step.get("items") or []
    shown = [markup("h5", _step_name(step))]
    for place, one in enumerate(replies):
        if place < len(items):
            shown.append(_text(readable(items[place]), "text item"))
        shown.append(_text(readable(one), "text reply"))
    probabilities: Sequence[Any] = step.get("probabilities") or []
    if probabilities and not items:
        shown.append(_text(f"Probabilities of {_chances(probabilities[0])}", "muted small"))
    if step.get("raw"):
        mended = f" (mended: {', '.join(step['mended'])})" if step.get("mended") else ""
        shown.append(_text(f"Reply{mended}: {step['raw']}", "text small muted"))
    return markup("div", *shown, cls="step")


def _step_name(step: Mapping[str, Any]) -> str:
    """The title of a step, which a part of a composite has; without one, its id in words."""
    return str(step.get("title") or capitalised(str(step.get("id", "step")).replace("_", " ")))


def _text(content: str, classes: str = "text") -> Markup:
    return markup("div", content, cls=classes, dir="auto")


def _chances(probabilities: Mapping[str, Mapping[str, float]]) -> str:
    parts: list[str] = []
    for name, of_values in probabilities.items():
        likeliest_first = sorted(of_values.items(), key=lambda pair: -pair[1])
        parts.append(f"{name}: {', '.join(f'{value} {chance:.2f}' for value, chance in likeliest_first)}")
    return "; ".join(parts)


def readable(value: Any) -> str:
    """A JSON value as readable text: one line for each field or item."""
    if value is None:
        return "no reply"
    if is_mapping(value):
        return "\n".join(f"{key}: {readable(field)}" for key, field in value.items())
    if is_list(value):
        return "\n".join(f"- {readable(item)}" for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def prompts_fold(workspace: Workspace, run: str, score: Score) -> None:
    """A fold with the judge's prompts and raw replies, which are rendered when it is opened."""

    async def read() -> Sequence[JudgeCall]:
        return await workspace.render(lambda: score_prompts(workspace, run, score.id))

    async def show(place: ui.element) -> None:
        await fill(place, "Rendering …", read, _calls, "The prompts cannot be shown.")

    with lazy_fold("prompts", show):
        text("Prompts and raw replies", "span")


def _calls(calls: Sequence[JudgeCall]) -> None:
    text(_RENDERED if calls else "No judge was asked for this score.", "p", "muted small")
    for call in calls:
        with ui.element("div").classes("step"):
            _call(call)


def _call(call: JudgeCall) -> None:
    prompt = call.prompt
    text(prompt.step if prompt.times == 1 else f"{prompt.step}, sampled {prompt.times} times", "h4")
    if prompt.request is None:
        text("This judge does not read prompts. Its input:", "p", "muted small")
    for role, content in prompt.messages:
        with fold(f"Prompt ({role})", is_open=True):
            copyable(content, "pre")
    if prompt.request is None:
        return
    with fold("The rest of the request"):
        copyable(json.dumps(prompt.request, indent=2, ensure_ascii=False), "pre")
    if not call.replies:
        text("The raw reply is no longer in the cache; its content is in the steps.", "p", "muted small")
    for place, reply in enumerate(call.replies, 1):
        with fold("Raw reply" if len(call.replies) == 1 else f"Raw reply {place}", is_open=place == 1):
            copyable(reply, "pre")
