"""The widgets of all pages: text, links, buttons, badges, cards, tables, messages, pictures."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Literal, Self, TypeVar
from urllib.parse import urlencode

from anyio import to_thread
from markupsafe import Markup, escape
from nicegui import app, ui

from evalflow.addons.studio.web.nicegui_core import TextElement
from evalflow.addons.studio.web.ui.visitor import work_slot
from evalflow.errors import EvalflowError, InfrastructureError, Problem, UserError
from evalflow.report.wording import number

Tone = Literal["", "accent", "pass", "fail", "warn"]
Kind = Literal["", "primary", "quiet", "danger"]
T = TypeVar("T")


def text(content: str, tag: str = "div", classes: str = "") -> TextElement:
    """An element with text, which is always escaped."""
    return TextElement(tag=tag, text=content).classes(classes)


def run_as_typed() -> None:
    """Give every text the direction of its own script, since names and texts of people may be in any."""
    for kind in (TextElement, ui.label, ui.link, ui.input, ui.textarea, ui.button):
        kind.default_props("dir=auto")


def capitalised(sentence: str) -> str:
    """The sentence with a capital first letter; `str.capitalize` would lower the other letters."""
    return f"{sentence[:1].upper()}{sentence[1:]}"


def problems_of(error: EvalflowError) -> Sequence[Problem]:
    """The problems of an error of any kind."""
    if isinstance(error, UserError):
        return error.problems
    what, _, hint = str(error).partition("\n  hint: ")
    return [Problem(what, hint=hint)]


def in_sentences(error: EvalflowError) -> str:
    """The problems of an error with their hints, as sentences."""
    return " ".join(sentence(part) for problem in problems_of(error) for part in (problem.what, problem.hint) if part)


def sentence(content: str) -> str:
    """A text with a capital first letter and a mark at its end."""
    return f"{capitalised(content)}{'' if content[-1:] in '.?!' else '.'}"


def clipped(value: object, most: int = 300) -> str:
    """A text of at most so many characters; empty for None."""
    content = "" if value is None else str(value)
    return content if len(content) <= most else f"{content[:most]}…"


def address(path: str, query: Mapping[str, object]) -> str:
    """A URL with the values of its query that are set."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


MOST_PAGES = 1_000_000


@dataclass(frozen=True, slots=True)
class AddressQuery:
    """A page's state as texts in the query of its address; "" means unset."""

    page: str = ""

    @classmethod
    def of_address(cls) -> Self:
        """The query of the page that is being built."""
        return cls.of(ui.context.client.request.query_params)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """The query with these values; others are left out."""
        return cls(**{field.name: given.get(field.name, "") for field in fields(cls)})

    def __str__(self) -> str:
        """The query part of a URL, with its question mark; empty if nothing is set."""
        return address("", asdict(self))

    @property
    def page_number(self) -> int:
        """The page number, from 1."""
        number = int(self.page) if self.page.isdecimal() and len(self.page) < 9 else 1
        return max(1, min(number, MOST_PAGES))


def interval(low: float | None, high: float | None, digits: int = 3, none: str = "no interval") -> str:
    """The ends of an interval: `0.61 to 0.79`."""
    return none if low is None else f"{number(low, digits)} to {number(high, digits)}"


def button(
    label: str,
    on_click: Callable[..., Any] | None = None,
    *,
    kind: Kind = "",
    icon: str | None = None,
) -> ui.button:
    """A button; only one per page should be `primary`."""
    made = ui.button(label, on_click=on_click, color=None, icon=icon)
    return made.props("unelevated no-caps :ripple=false").classes(f"button {kind}")


def icon_button(icon: str, label: str, on_click: Callable[..., Any]) -> ui.button:
    """A button with only an icon; `label` is its tooltip, and is read out."""
    made = button("", on_click, kind="quiet", icon=icon)
    made.props["aria-label"] = made.props["title"] = label
    return made


def link_button(label: str, path: str, *, primary: bool = False) -> ui.link:
    """A link that looks like a button; it changes nothing."""
    return ui.link(label, path).classes("button primary" if primary else "button")


def plain_button(label: str, on_click: Callable[[], object], classes: str = "") -> ui.element:
    """A button without Quasar's style: a count, or a tag of a table."""
    with ui.element("button").props("type=button").classes(classes) as made:
        text(label, "span")
    return made.on("click", lambda: on_click(), args=[])


def badge(content: str, tone: Tone = "") -> TextElement:
    """A badge of one or two words, such as a state or kind."""
    return text(content, "span", f"badge {tone}")


def card(title: str, path: str, about: str, badges: Sequence[tuple[str, Tone]]) -> ui.link:
    """A card of a list; it links to the page of the thing."""
    with ui.link(target=path).classes("card") as made:
        text(title, "h2")
        if about:
            text(about, "p", "muted small clamp")
        with ui.element("div").classes("foot"):
            for label, tone in badges:
                badge(label, tone)
    return made


@contextmanager
def section(title: str, about: str = "") -> Generator[None]:
    """A section of a page, with a heading."""
    with ui.element("section").classes("section"):
        text(title, "h2")
        if about:
            text(about, "p", "muted")
        yield


@contextmanager
def table(heads: Sequence[str], classes: str = "") -> Generator[None]:
    """A context manager for a table: build the rows inside."""
    with ui.element("table").classes(classes):
        with ui.element("thead"), ui.element("tr"):
            for head in heads:
                with ui.element("th" if head else "td").props("scope=col" if head else ""):
                    text(head, "span")
        with ui.element("tbody"):
            yield


def cell(label: str, content: str | None = None, classes: str = "num") -> ui.element:
    """A cell of a table whose rows become cards on narrow screens, with the label before the content."""
    made = ui.element("td") if content is None else text(content, "td")
    made.props["data-label"] = label
    return made.classes(classes)


@contextmanager
def table_row(title: str, about: str = "", path: str = "") -> Generator[None]:
    """A row of a table, named by its first cell as in `named`: build the other cells inside."""
    with ui.element("tr"):
        with ui.element("th").props("scope=row"):
            named(title, about, path)
        yield


def named(title: str, about: str = "", path: str = "") -> None:
    """The name of a table row, with a link to its page if it has one, and a line about it."""
    if path:
        ui.link(title, path).classes("name")
    else:
        text(title, classes="name")
    if about:
        text(about, classes="small muted")


def facts(entries: Sequence[tuple[str, str]]) -> None:
    """Names and values side by side; an empty value is left out."""
    with ui.element("dl").classes("facts"):
        for name, value in entries:
            if value:
                with ui.element("div"):
                    text(name, "dt")
                    text(value, "dd")


def message(what: str, hint: str = "", tone: Tone = "") -> None:
    """A box with information, a warning or an error, and what to do next."""
    icon = {"fail": "error_outline", "warn": "warning_amber"}.get(tone, "info")
    with ui.element("div").classes(f"message {tone}").props("role=alert" if tone == "fail" else "role=note"):
        ui.icon(icon).props("aria-hidden=true")
        with ui.element("div"):
            text(what, classes="text")
            if hint:
                text(hint, classes="hint text")


def empty(icon: str, title: str, about: str, *links: tuple[str, str]) -> ui.element:
    """An empty state with links to next steps as (label, path), the first one primary; returns their place."""
    with ui.element("div").classes("empty"):
        ui.icon(icon).props("aria-hidden=true")
        text(title, "h2")
        text(about, "p", "muted")
        with ui.element("div").classes("actions") as steps:
            for number, (label, path) in enumerate(links):
                link_button(label, path, primary=not number)
    return steps


READY_TO_USE = "ready to use"
"""The label of objects not made in the application: samples, and those declared in the server's files."""


class Latest:
    """Tells whether a request is still the latest, so that results of earlier ones are not shown."""

    def __init__(self) -> None:
        self._count = 0

    def begin(self) -> Callable[[], bool]:
        """Begin a request; the returned function tells whether it is still the latest."""
        self._count += 1
        mine = self._count
        return lambda: mine == self._count


async def fill(
    place: ui.element, waiting: str, read: Callable[[], Awaitable[T]], build: Callable[[T], object], fault: str
) -> None:
    """Load and show content that is slow to read; if there is none, a UserError says why."""
    place.clear()
    place.props("aria-busy=true aria-live=polite")
    with place:
        text(waiting, "p", "muted waiting")
        try:
            content = await read()
        except EvalflowError as error:
            place.clear()
            message(fault, in_sentences(error), "" if isinstance(error, UserError) else "fail")
        else:
            place.clear()
            build(content)
    place.props(remove="aria-busy")


def later(place: ui.element, waiting: str, read: Callable[[], T], build: Callable[[T], object], fault: str) -> None:
    """Fill a place after the first paint; `read` may block."""
    work = partial(to_thread.run_sync, read)
    after_paint(lambda: fill(place, waiting, work, build, fault))


def after_paint(work: Callable[[], Awaitable[object]]) -> None:
    """Do work after the first paint, when it is the visitor's turn."""

    async def in_turn() -> None:
        async with work_slot():
            await work()

    ui.timer(0, in_turn, once=True)


def polled(seconds: float, work: Callable[[], Awaitable[object]], *, active: bool = True) -> ui.timer:
    """A timer for work that reads the database.

    If the database does not answer, the page says so once and keeps trying.
    """
    outage: _Outage = app.storage.client.setdefault("outage", _Outage())

    async def poll() -> None:
        try:
            async with work_slot():
                await work()
        except InfrastructureError as error:
            outage.begin(poll, error)
        else:
            outage.end(poll)

    return ui.timer(seconds, poll, active=active)


class _Outage:
    """A page's notification while polled work does not answer; only one, even if several timers fail."""

    def __init__(self) -> None:
        self._waiting: set[object] = set()
        self._notice: ui.notification | None = None

    def begin(self, poll: object, error: InfrastructureError) -> None:
        self._waiting.add(poll)
        if self._notice is None:
            about = f"{error}. This page tries again."
            self._notice = ui.notification(about, icon="error_outline", multi_line=True, timeout=None)

    def end(self, poll: object) -> None:
        self._waiting.discard(poll)
        if self._notice is not None and not self._waiting:
            self._notice.dismiss()
            self._notice = None


@contextmanager
def lazy_fold(classes: str, open_fold: Callable[[ui.element], Awaitable[None]]) -> Generator[None]:
    """A context manager for a fold: build its summary inside. `open_fold` fills it when it is first opened."""
    is_filled = False

    async def opened() -> None:
        nonlocal is_filled
        if not is_filled:
            is_filled = True
            await open_fold(place)

    with ui.element("details").classes(classes).on("toggle", opened, args=[]):
        with ui.element("summary"):
            yield
        place = ui.element("div").classes("stack")


def fold(title: str, *, is_open: bool = False) -> ui.element:
    """A collapsible section; use the element as a context to build its content."""
    with ui.element("details").props("open" if is_open else "") as made:
        text(title, "summary")
    return made


def shape(tag: str, classes: str = "", *content: Markup, **attributes: float | str) -> Markup:
    """A part of a picture in SVG; `_` in attribute names becomes `-`."""
    return markup(
        tag, *content, cls=classes, **{name.replace("_", "-"): str(value) for name, value in attributes.items()}
    )


def caption(content: str, classes: str = "", **attributes: float | str) -> Markup:
    """A text within a picture."""
    return shape("text", classes, escape(content), **attributes, dir="auto")


def picture(about: str, classes: str, shapes: Iterable[Markup], **attributes: float | str) -> ui.element:
    """A picture of shapes, as one element; screen readers read `about`."""
    made = filled("svg", *shapes, classes=classes)
    made.props.update({"role": "img", "aria-label": about, **attributes})
    return made


def across(share: float) -> str:
    """A share of 0 (left) to 1 (right) as a CSS percentage."""
    return f"{100 * share:.3f}%"


class ProgressBar:
    """A bar with the finished share of a run's scores."""

    def __init__(self) -> None:
        self._bar = ui.element("div").classes("progress")
        self._bar.props("role=progressbar aria-valuemin=0 aria-valuemax=100 aria-label='Finished scores'")
        with self._bar:
            self._filled = ui.element("i")

    def show(self, done: int, expected: int | None) -> None:
        """Show how many of the expected scores are finished; `expected` is None while unknown."""
        share = min(1.0, done / expected) if expected else 0.0
        self._filled.style(f"width: {100 * share:.1f}%")
        self._bar.props["aria-valuenow"] = round(100 * share)


def tell(what: str) -> None:
    """A notification that disappears after a few seconds."""
    ui.notify(what, position="bottom-right", timeout=3500)


def copyable(content: str, tag: str = "code") -> None:
    """A command line, or with the tag `pre` a longer text, with a button that copies it."""

    async def copy() -> None:
        # Browsers refuse it without HTTPS or permission; only the browser knows.
        write = f"navigator.clipboard?.writeText({json.dumps(content)}).then(() => true, () => false) ?? false"
        if await ui.run_javascript(write, timeout=10):
            tell("Copied.")
        else:
            tell("Your browser does not allow copying here. Select the text, and copy it yourself.")

    with ui.element("div").classes("command"):
        text(content, tag).props("tabindex=0")
        button("Copy", copy, icon="content_copy")


def markup(tag: str, *content: str, cls: str = "", **attributes: str) -> Markup:
    """An HTML element. Texts are escaped, Markup is not. Attributes without a value are left out."""
    named = {"class": cls.strip(), **attributes}
    shown = "".join(f' {name}="{escape(value)}"' for name, value in named.items() if value)
    inside = "" if tag == "input" else f"{''.join(map(escape, content))}</{tag}>"
    return Markup(f"<{tag}{shown}>{inside}")  # noqa: S704 - all parts are escaped


def filled(tag: str, *content: Markup, classes: str = "") -> ui.element:
    """An element with HTML as its content, which cannot have other elements inside."""
    made = ui.element(tag).classes(classes)
    made.props["innerHTML"] = "".join(content)
    return made
