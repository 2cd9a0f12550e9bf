"""Buttons and dialogs that do work, ask, confirm, save, delete and undo, aware of changes by others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, Protocol, TypeVar

from nicegui import ui

from evalflow.addons.studio.web.ui.faults import has_faults, path_of, reveal
from evalflow.addons.studio.web.ui.forms import About, Field, attempt, leave, line, required, saved
from evalflow.addons.studio.web.ui.parts import Kind, address, button, capitalised, clipped, message, table, text
from evalflow.addons.studio.work.space import StaleError, Workspace
from evalflow.addons.studio.work.trash import restore
from evalflow.report.word_changes import Stretch, word_changes
from evalflow.values.plain_lines import in_lines

Content = Mapping[str, Any]
T = TypeVar("T")
LONGEST_SHOWN = 2_000
"""Maximum number of characters shown of a value."""
UNDO_SHOWN_S = 20.0
UNDO = "undo"
"""The query parameter with the id of a deleted object, for the page opened after the deletion."""
_FORGET = """const here = new URL(location); here.searchParams.delete("undo"); history.replaceState(null, "", here)"""


@contextmanager
def dialog(title: str, about: str = "") -> Generator[ui.dialog]:
    """A context manager for a dialog: build the content below the heading inside."""
    with ui.dialog() as made, ui.element("div").classes("card stack").props("role=document"):
        text(title, "h2")
        if about:
            text(about, "p", "muted")
        yield made
    made.props["aria-label"] = title


@contextmanager
def question(
    title: str,
    about: str,
    action: str,
    do: Callable[[ui.button], Awaitable[object]],
    *,
    kind: Kind = "primary",
    keep: str = "Cancel",
) -> Generator[ui.dialog]:
    """A context manager for a dialog with fields: build them inside. `do` gets the pressed button."""
    with dialog(title, about) as asked:
        yield asked
        with ui.element("div").classes("actions"):
            doing = button(action, lambda: do(doing), kind=kind)
            button(keep, asked.close)


def open_once(asked: ui.dialog) -> None:
    """Open a dialog that is deleted when it is closed."""
    asked.on("hide", asked.delete)
    asked.open()


async def carry_out(
    work: Callable[[], T],
    done: Callable[[T], Awaitable[object] | object],
    fields: Mapping[str, Field] | None = None,
    by: ui.button | None = None,
) -> None:
    """Do work as in `attempt`, and hand its result to `done`, unless it failed."""
    result = await attempt(lambda: (work(),), fields, by)
    if result is not None and isawaitable(then := done(*result)):
        await then


def work_button(
    label: str,
    work: Callable[[], T],
    done: Callable[[T], Awaitable[object] | object],
    fields: Mapping[str, Field] | None = None,
    *,
    kind: Kind = "",
    icon: str | None = None,
) -> ui.button:
    """A button that carries out work, which may block or fail; see `carry_out`."""
    made = button(label, lambda: carry_out(work, done, fields, made), kind=kind, icon=icon)
    return made


def load_again(_: object) -> None:
    """Load the page again without a warning, since its forms are saved."""
    saved()
    ui.navigate.reload()


def confirmation(
    title: str, about: str, action: str, do: Callable[[], Awaitable[None]], keep: str = "Keep it"
) -> ui.dialog:
    """A dialog that asks before something that cannot be undone."""

    async def confirmed(doing: ui.button) -> None:
        doing.props("loading")
        try:
            await do()
        finally:
            doing.props(remove="loading")
        if not has_faults(asked):
            asked.close()

    with question(title, about, action, confirmed, kind="danger", keep=keep) as asked:
        pass
    return asked


def folder_dialog(
    title: str, about: str, folder: About, action: str, take: Callable[[str, Field, ui.button], Awaitable[None]]
) -> ui.dialog:
    """A dialog that asks for a folder. `take` gets the path, the field (to show errors at) and the pressed button."""

    async def confirmed(doing: ui.button) -> None:
        path = required(field)
        if path is not None:
            await take(path, field, doing)

    with question(title, about, action, confirmed) as asked:
        field = line(folder)
    return asked


def differing(one: tuple[str, Content], other: tuple[str, Content]) -> None:
    """Show a table of the differences between two states, each with a title and its values by name, word by word."""
    (left, before), (right, after) = one, other
    names = [name for name in dict.fromkeys([*before, *after]) if _shown(before.get(name)) != _shown(after.get(name))]
    if not names:
        text("No differences.", "p", "muted")
        return
    place = ui.element("div").classes("differing").props('tabindex=0 role=region aria-label="Differences"')
    with place, table(("Field", left, right)):
        for name in names:
            with ui.element("tr"):
                text(capitalised(name.replace("_", " ")), "th").props("scope=row")
                sides = word_changes(_shown(before.get(name)), _shown(after.get(name)))
                for tag, stretches in zip(("del", "ins"), sides, strict=True):
                    with ui.element("td").classes("marked").props("dir=auto"):
                        for stretch in stretches or [Stretch("–", is_changed=False)]:
                            text(stretch.content, tag if stretch.is_changed else "span")


def _shown(value: Any) -> str:
    if value is None or value is False or value in ("", [], {}):
        return ""
    return clipped(in_lines(value), LONGEST_SHOWN)


class _HasVersion(Protocol):
    @property
    def version(self) -> int: ...


V = TypeVar("V", bound=_HasVersion)


@dataclass(frozen=True, slots=True)
class Edited(Generic[V]):
    """An object that a page edits and that others may change meanwhile.

    Attributes:
        read: Reads the stored object; may block.
        content: Returns the values shown in a comparison.
        seen: The object as the page shows it; None for a new one.
    """

    read: Callable[[], V]
    content: Callable[[V], Content]
    seen: V | None

    @property
    def version(self) -> int:
        """The version that the page shows; 0 for a new one."""
        return self.seen.version if self.seen else 0


class _Named(_HasVersion, Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def edited(
    get: Callable[[Workspace, str], N], workspace: Workspace, content: Callable[[N], Content], seen: N | None
) -> Edited[N]:
    """A thing with a name, which `get` reads by it."""
    return Edited(partial(get, workspace, seen.name if seen else ""), content, seen)


class Deleting(Generic[V]):
    """A dialog that asks before the thing with this title is deleted, and again if someone else changed it.

    `work` deletes the given version and may block. Then the page `back` is opened, which offers to undo if `work`
    returned an id in the trash.
    """

    def __init__(self, edited: Edited[V], title: str, about: str, work: Callable[[int], int | None], back: str) -> None:
        self._edited, self._work, self._back, self._version = edited, work, back, edited.version
        with dialog(f"Delete {title}?", about) as self._asked:
            self._change = ui.element("div").classes("stack stale").props("aria-live=polite")
            with ui.element("div").classes("actions"):
                self._doing = button("Delete", self._delete, kind="danger")
                button("Keep it", self._asked.close)
        self.open = self._asked.open

    async def _delete(self) -> None:
        result = await attempt(lambda: _unless_stale(lambda: self._work(self._version) or 0), by=self._doing)
        if isinstance(result, StaleError):
            await self._ask_again(result)
        elif result is not None:
            leave(address(self._back, {UNDO: result or None}))

    async def _ask_again(self, error: StaleError) -> None:
        """Show what changed; the next press deletes the new version."""
        now = await attempt(self._edited.read)
        if now is None or self._edited.seen is None:
            return
        self._version = now.version
        self._change.clear()
        with self._change:
            message(capitalised(error.problems[0].what), "It has not been deleted. Press again to delete it.", "warn")
            before, after = self._edited.content(self._edited.seen), self._edited.content(now)
            differing(("When you opened it", before), ("Now", after))
        self._doing.set_text("Delete anyway")


def delete_button(edited: Edited[V], title: str, about: str, work: Callable[[int], int | None], back: str) -> None:
    """A button that asks before something is deleted; see `Deleting`."""
    button("Delete", Deleting(edited, title, about, work, back).open, kind="danger")


class Saving(Generic[V]):
    """Saves a form, and shows conflicts with changes by others. `path` is the page of the form."""

    def __init__(self, edited: Edited[V], path: str) -> None:
        self._edited, self._version, self._path = edited, edited.version, path
        self._place = ui.element("div").classes("section stack stale").props("aria-live=polite tabindex=-1")

    def renew(self, version: int, path: str = "") -> None:
        """Continue from a version that was just saved; `path` is the page of what was new until then."""
        self._version, self._path = version, path or self._path

    async def save(
        self,
        work: Callable[[int], V],
        mine: Content,
        fields: Mapping[str, Field],
        by: ui.button,
        done: Callable[[V], Awaitable[None] | None],
    ) -> None:
        """Overwrite the given version by `work`, which may block; `mine` is the form's content, for comparison."""
        self._place.clear()
        result = await attempt(lambda: _unless_stale(lambda: work(self._version)), fields, by)
        if not isinstance(result, StaleError):
            if result is not None and (then := done(result)) is not None:
                await then
            return
        now = await attempt(self._edited.read)
        if now is None:  # somebody else deleted it, which is shown
            return

        async def overwrite() -> None:
            self._version = now.version
            with self._place:  # the pressed button is deleted together with the question
                await self.save(work, mine, fields, by, done)

        with self._place:
            hint = "Your changes are still in the form above; nothing has been overwritten."
            message(capitalised(result.problems[0].what), hint, "warn")
            differing(("Now", self._edited.content(now)), ("Yours", mine))
            with ui.element("div").classes("actions"):
                button("Overwrite with mine", overwrite, kind="danger")
                button("Discard mine", lambda: leave(self._path))
        reveal(self._place, focus=True)


def _unless_stale(work: Callable[[], T]) -> T | StaleError:
    """Return a conflict as a result, because `attempt` would show it as an error."""
    try:
        return work()
    except StaleError as error:
        return error


def offer_undo(
    workspace: Workspace, deleted: int, what: str = "Deleted.", then: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Offer to restore a deleted object.

    The id is removed from the address, so that a reload does not offer it again. `then` shows the restored object;
    without it, the object's page is opened.
    """

    async def undo(by: ui.button) -> bool:
        restored = await attempt(lambda: restore(workspace, deleted), by=by)
        if restored is not None and then is not None:
            await then()
        elif restored is not None:
            leave(path_of(restored))
        return restored is not None

    undo_bar(what, undo)
    ui.run_javascript(_FORGET)


def undo_bar(what: str, undo: Callable[[ui.button], Awaitable[bool]]) -> None:
    """Show what was done for some seconds, with an undo button.

    `undo` gets the button and returns whether it succeeded.
    """

    async def undone() -> None:
        if await undo(pressed) and not bar.is_deleted:
            bar.delete()

    with ui.context.client.layout, ui.element("div").classes("undo").props("role=status") as bar:
        text(what, "span")
        pressed = button("Undo", undone, icon="undo")
        ui.timer(UNDO_SHOWN_S, bar.delete, once=True)
