"""The scores of an answer, one line per metric: verdict, title, number and reason. Failed scores are unfolded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.ui.parts import filled, lazy_fold, text
from evalflow.addons.studio.web.ui.score import pair_summary, score_details, score_summary
from evalflow.addons.studio.work.scores import Score
from evalflow.report.wording import counted, number

_NO_TITLES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ScoreLine:
    """The places of a line: `tools` at its end, and `below` it people's judgements."""

    tools: ui.element
    below: ui.element


def show_scores(
    scores: Sequence[Score],
    judged: Callable[[Score, ScoreLine], None] | None = None,
    prompts: Callable[[Score], None] | None = None,
    *,
    titles: Mapping[str, str] = _NO_TITLES,
    is_open: bool = False,
) -> None:
    """Show scores, failed ones first.

    Repeats of a judge are folded below the metric's first score. `judged` adds people's judgements to a score,
    `prompts` the judge's prompts. `is_open` unfolds all. `titles` are for metrics that are not saved.
    """
    text("Scores", "h3", "unseen")
    with ui.element("ul").classes("score-lines"):
        for score, *repeats in sorted(_by_metric(scores).values(), key=lambda those: _urgency(those[0])):
            is_bad = score.passed is False or score.status == "error"
            with ui.element("li").classes("score-line"):
                summary = score_summary(score, titles.get(score.metric, ""))
                _fold(summary, partial(_details, score, repeats, prompts), is_open=is_open or is_bad)
                if judged is not None:
                    line = ScoreLine(ui.element("div").classes("line-tools"), ui.element("div").classes("line-below"))
                    judged(score, line)


def show_both(a: Sequence[Score], b: Sequence[Score]) -> None:
    """Show the scores of two answers, one line per metric; changed ones come first and are unfolded."""
    sides = _by_metric(a), _by_metric(b)
    pairs = [(sides[0].get(metric, []), sides[1].get(metric, [])) for metric in {**sides[0], **sides[1]}]
    text("Scores", "h3", "unseen")
    with ui.element("ul").classes("score-lines"):
        for pair in sorted(pairs, key=_is_same):
            summary = pair_summary(*(those[0] if those else None for those in pair))
            with ui.element("li").classes("score-line both"):
                _fold(summary, partial(_halves, pair), is_open=not _is_same(pair))


def _by_metric(scores: Sequence[Score]) -> dict[str, list[Score]]:
    groups: dict[str, list[Score]] = {}
    for score in scores:
        groups.setdefault(score.metric, []).append(score)
    return groups


def _urgency(score: Score) -> int:
    return (score.passed is not False) + (score.passed is not False and score.status != "error")


def _is_same(pair: tuple[Sequence[Score], Sequence[Score]]) -> bool:
    a, b = ([(score.status, score.score) for score in those] for those in pair)
    return a == b


def _halves(pair: tuple[Sequence[Score], Sequence[Score]]) -> None:
    for name, scores in zip("AB", pair, strict=True):
        with ui.element("div").classes("half"):
            text(name, "span", "badge accent")
            for score in scores:
                with ui.element("div").classes("repeat"):
                    filled("div", *score_summary(score), classes="repeat-line")
                    _details(score, (), None)


def _fold(summary: Sequence[Markup], build: Callable[[], None], *, is_open: bool) -> None:
    """A line whose content is built when it is first opened."""
    with ui.element("details").props("open" if is_open else "") as fold:
        filled("summary", *summary)
        body = ui.element("div").classes("line-body")

    def opened() -> None:
        if not body.default_slot.children:
            with body:
                build()

    if is_open:
        opened()
    else:
        fold.on("toggle", opened, args=[])


def _details(score: Score, repeats: Sequence[Score], prompts: Callable[[Score], None] | None) -> None:
    filled("div", *score_details(score), classes="told")
    if score.judge and prompts is not None:
        prompts(score)
    if repeats:
        _repeats(repeats, prompts)


def _repeats(repeats: Sequence[Score], prompts: Callable[[Score], None] | None) -> None:
    """Repeated scores of a metric. People judge the answer only once, at the first score."""

    async def show(place: ui.element) -> None:
        with place:
            for score in repeats:
                with ui.element("div").classes("repeat"):
                    filled("div", *score_summary(score), classes="repeat-line")
                    _details(score, (), prompts)

    scored = [score.score for score in repeats if score.score is not None]
    between = f": {number(min(scored), 2)} to {number(max(scored), 2)}" if scored else ""
    with lazy_fold("repeats", show):
        text(f"{counted(len(repeats), 'more repeat')} of the judge{between}", "span")
