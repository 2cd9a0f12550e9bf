"""A case as people read it: the question, and the answer beside the expected answer and the bot's contexts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from anyio import to_thread
from markupsafe import Markup
from nicegui import ui

from evalflow.addons.studio.web.ui.markdown import Compared, Mark, Prose, compared
from evalflow.addons.studio.web.ui.parts import after_paint, markup
from evalflow.report.wording import counted

_UNLIKE = 0.5
"""If a larger share of two texts differs, differences are only marked on request."""
_QUICK = 8_000
"""Maximum characters of texts that are compared without request."""
_NUMBERS = count()
_ROLES = {"user": "User", "assistant": "Bot", "system": "Instruction"}
NO_EXPECTED = "This case has no expected answer."
NO_ANSWER = "No answer."


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShown:
    """One answer: its text, or why there is none.

    Attributes:
        title: Its name if two answers are compared.
        error: Why there is no answer.
        flaws: Faults of the whole answer, in a word or two each.
        asides: Further texts of the bot, such as its thoughts, with their titles.
    """

    title: str = "Answer"
    text: str | None = None
    error: str = ""
    flaws: Sequence[str] = ()
    asides: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class ContextsShown:
    """The passages that a bot was given: titles and texts.

    Attributes:
        quotes: What metrics quote of them, by metric's title.
        of: Whose they are, if two answers have other passages.
    """

    passages: Sequence[tuple[str, str]]
    quotes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    of: str = ""

    @property
    def title(self) -> str:
        """The name of their tab."""
        of = f" of {self.of}" if self.of else ""
        return f"Contexts{of} {len(self.passages):,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of a case to read.

    Attributes:
        turns: Roles and texts of the conversation, up to the question.
        heading: The part of the question already in the page's heading; a longer question is shown.
        answers: One answer, or two to compare.
        contexts: The bot's contexts, or those of each of two answers; empty if unknown.
        more: Further facts about the case, with their titles.
        without: The text shown if there is no expected answer; empty if it is just not shown.
        is_unfolded: Whether the earlier turns are unfolded.
    """

    turns: Sequence[tuple[str, str]]
    answers: Sequence[AnswerShown]
    heading: str = ""
    reference: str | None = None
    contexts: Sequence[ContextsShown] = ()
    more: Sequence[tuple[str, str]] = ()
    without: str = NO_EXPECTED
    is_unfolded: bool = False


def show_reading(shown: Reading) -> None:
    """Show a case.

    case_view.js switches its tabs and marks differences. Long texts are parsed and compared in a thread first.
    """
    place = ui.element("div").classes("case-reading")

    def fill(rendered: _Drawn) -> None:
        place.classes(rendered.classes)
        place.props["innerHTML"] = str(rendered.html)

    async def fill_later() -> None:
        rendered = await to_thread.run_sync(_draw, shown)
        if not place.is_deleted:
            fill(rendered)

    texts = [
        *(one.text for one in shown.answers),
        shown.reference,
        *(text for one in shown.contexts for _, text in one.passages),
    ]
    if sum(len(one or "") for one in texts) <= _QUICK:
        fill(_draw(shown))
    else:
        after_paint(fill_later)


@dataclass(frozen=True, slots=True)
class _Drawn:
    html: Markup
    classes: str


def _draw(shown: Reading) -> _Drawn:
    answers = [Prose(one.text or "") for one in shown.answers]
    reference = Prose(shown.reference) if shown.reference else None
    other = answers[1] if len(answers) > 1 else reference
    differ = compared(answers[0], other) if other is not None and answers[0].plain and other.plain else None
    is_marked = differ is not None and differ.share <= _UNLIKE
    panes = [_answer(shown, 0, answers[0], differ.before if differ else (), _tools(differ, is_on=is_marked))]
    if len(answers) > 1:
        panes.append(_answer(shown, 1, answers[1], differ.after if differ else ()))
    panes += _compared_with(shown, reference, differ.after if differ and len(answers) == 1 else ())
    html = Markup("").join([*_asked(shown), markup("div", *panes, cls="panes")])
    return _Drawn(html, f"{'differs' if is_marked else ''} {'two' if len(answers) > 1 else ''}")


def _asked(shown: Reading) -> Iterator[Markup]:
    """The question, and the turns before it folded."""
    *earlier, (role, question) = shown.turns or [("user", "")]
    if earlier:
        title = f"Earlier in the conversation: {counted(len(earlier), 'turn')}"
        turns = (_turn(who, content) for who, content in earlier)
        opened = {"open": "open"} if shown.is_unfolded else {}
        content = markup("summary", title), markup("div", *turns, cls="case-turns")
        yield markup("details", *content, cls="earlier", **opened)
    if " ".join(question.split()) != shown.heading:
        named = _label("Question" if role == "user" else "Last turn")
        yield markup("div", _prose(Prose(question)), cls="question-in-full", tabindex="0", role="group", **named)


def _turn(role: str, content: str) -> Markup:
    who = markup("p", _ROLES.get(role, role.capitalize()), cls="turn-by")
    return markup("div", who, _prose(Prose(content)), cls=f"case-turn {role if role in _ROLES else 'other'}")


def _prose(prose: Prose, marks: Sequence[Mark] = ()) -> Markup:
    return markup("div", prose.marked(marks), cls="prose")


def _label(name: str) -> Mapping[str, str]:
    return {"aria-label": name}


def _tools(differ: Compared | None, *, is_on: bool) -> Sequence[Markup]:
    """The switches "Differences" and "Expand"."""
    tools: list[Markup] = []
    if differ is not None and differ.share:
        pressed = {"aria-pressed": "true" if is_on else "false", "data-toggles": "differs"}
        tools.append(markup("button", "Differences", cls="switch-on", type="button", **pressed))
    pressed = {"aria-pressed": "false", "data-toggles": "tall"}
    return [*tools, markup("button", "Expand", cls="switch-on", type="button", **pressed)]


def _answer(shown: Reading, number: int, prose: Prose, marks: Sequence[Mark], tools: Sequence[Markup] = ()) -> Markup:
    answer = shown.answers[number]
    flaws = (markup("span", flaw, cls="badge warn") for flaw in answer.flaws)
    head = markup("div", markup("h3", answer.title), *flaws, markup("span", *tools, cls="tools"), cls="pane-head")
    if answer.error:
        why = markup("p", "The bot gave no answer."), markup("p", answer.error, cls="hint", dir="auto")
        content = markup("div", *why, cls="message fail")
    elif answer.text is None:
        content = markup("p", NO_ANSWER, cls="muted")
    else:
        content = _prose(prose, marks)
    asides = (_folded(title, text) for title, text in answer.asides)
    body = markup("div", content, *asides, cls="pane-body", tabindex="0", role="group", **_label(answer.title))
    return markup("div", head, body, cls="pane answered")


def _folded(title: str, content: str) -> Markup:
    return markup("details", markup("summary", title), _prose(Prose(content)))


def _compared_with(shown: Reading, reference: Prose | None, marks: Sequence[Mark]) -> list[Markup]:
    """Tabs with the expected answer, the contexts and the rest; nothing if all are empty."""
    tabs: list[tuple[str, str, Markup]] = []
    if reference or shown.without:
        expected = _prose(reference, marks) if reference else markup("p", shown.without, cls="muted")
        tabs.append(("Expected answer", "e", expected))
    tabs += [(own.title, "" if place else "x", _contexts(own)) for place, own in enumerate(shown.contexts)]
    if shown.more:
        entries = (markup("div", markup("dt", name), markup("dd", value, dir="auto")) for name, value in shown.more)
        tabs.append(("More", "", markup("dl", *entries, cls="facts")))
    if not tabs:
        return []
    start = 1 if shown.without and reference is None and any(one.passages for one in shown.contexts[:1]) else 0
    base = f"reading-{next(_NUMBERS)}"
    heads: list[Markup] = []
    bodies: list[Markup] = []
    for place, (title, key, content) in enumerate(tabs):
        is_on, tab, body = place == start, f"{base}-tab-{place}", f"{base}-{place}"
        state = {
            "aria-selected": "true" if is_on else "false",
            "aria-controls": body,
            "tabindex": "0" if is_on else "-1",
        }
        keys = {"data-key": key, "title": key and f"{title} ({key})"}
        heads.append(markup("button", title, type="button", role="tab", id=tab, **state, **keys))
        hidden = {} if is_on else {"hidden": "hidden"}
        labelled = {"aria-labelledby": tab, "tabindex": "0", **hidden}
        bodies.append(markup("div", content, cls="pane-body", role="tabpanel", id=body, **labelled))
    head = markup("div", *heads, cls="pane-head", role="tablist", **_label("What the answer is compared with"))
    return [markup("div", head, *bodies, cls="pane")]


def _contexts(shown: ContextsShown) -> Markup:
    """The contexts, with passages marked that metrics quote."""
    contexts, quotes = shown.passages, shown.quotes
    if not contexts:
        return markup("p", "The bot was given no passages.", cls="muted")
    everything = [quote for of_metric in quotes.values() for quote in of_metric]
    elements: list[Markup] = []
    is_marked = False
    for place, (title, content) in enumerate(contexts, 1):
        prose = Prose(content)
        marks = prose.quoted(everything)
        is_marked = is_marked or bool(marks)
        elements.append(markup("h4", title or f"Context {place}", dir="auto"))
        elements.append(_prose(prose, marks))
    if is_marked:
        elements.insert(0, markup("p", f"Marked: what is quoted by {', '.join(quotes)}.", cls="small muted"))
    return markup("div", *elements, cls="passages")
