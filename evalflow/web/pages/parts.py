"""What pages are made of: text, links, buttons, badges, facts, messages and empty states."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

Tone = Literal["", "accent", "pass", "fail", "warn"]


def text(content: str, tag: str = "div", classes: str = "") -> TextElement:
    """An element with text in it, which is escaped wherever it came from."""
    return TextElement(tag=tag, text=content).classes(classes)


def button(
    label: str,
    on_click: Callable[..., Any] | None = None,
    *,
    kind: Literal["", "primary", "quiet", "danger"] = "",
    icon: str | None = None,
) -> ui.button:
    """A button; one of a page is `primary`."""
    made = ui.button(label, on_click=on_click, color=None, icon=icon)
    return made.props("unelevated no-caps :ripple=false").classes(f"button {kind}")


def link_button(label: str, path: str, *, primary: bool = False) -> ui.link:
    """A link that looks like a button: it leads somewhere and changes nothing."""
    return ui.link(label, path).classes("button primary" if primary else "button")


def badge(content: str, tone: Tone = "") -> TextElement:
    """A word or two on what something is."""
    return text(content, "span", f"badge {tone}")


@contextmanager
def section(title: str, about: str = "") -> Generator[None]:
    """A part of a page with a heading of its own."""
    with ui.element("section").classes("section"):
        text(title, "h2")
        if about:
            text(about, "p", "muted")
        yield


def facts(entries: Sequence[tuple[str, str]]) -> None:
    """Names and values side by side; an empty value is left out."""
    with ui.element("dl").classes("facts"):
        for name, value in entries:
            if value:
                with ui.element("div"):
                    text(name, "dt")
                    text(value, "dd")


def message(what: str, hint: str = "", tone: Tone = "") -> None:
    """Something to know before going on."""
    icon = {"fail": "error_outline", "warn": "warning_amber"}.get(tone, "info")
    with ui.element("div").classes(f"message {tone}").props("role=alert" if tone == "fail" else "role=note"):
        ui.icon(icon).props("aria-hidden=true")
        with ui.element("div"):
            text(what, classes="text")
            if hint:
                text(hint, classes="hint text")


@contextmanager
def empty(icon: str, title: str, about: str) -> Generator[None]:
    """Nothing is here yet: says what would be, and within it stands the next step."""
    with ui.element("div").classes("empty"):
        ui.icon(icon).props("aria-hidden=true")
        text(title, "h2")
        text(about, "p", "muted")
        with ui.element("div").classes("actions"):
            yield
