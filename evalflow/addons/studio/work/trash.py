"""Undo of deletions: what was deleted or removed is kept for 30 days, and can be brought back under its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from evalflow.addons.studio.store import definitions, trash
from evalflow.addons.studio.store.cases import known_keys
from evalflow.addons.studio.store.definitions import Kind
from evalflow.addons.studio.store.rows import Row
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.addons.studio.work.titles import same_title
from evalflow.errors import Problem, Subject
from evalflow.metrics.case_checks import PARAMS

if TYPE_CHECKING:
    from sqlalchemy import Connection

_SUBJECTS: Mapping[str, str] = MappingProxyType({"cases": "dataset", "use": "check"})
"""What is said to be restored, by the kind in the trash."""


@requires("edit")
def keep_definition(space: Workspace, connection: Connection, kind: Kind, row: Row) -> int:
    """Keep a definition that is about to be deleted; returns its id in the trash, 0 if its kind cannot be restored."""
    if kind not in trash.RESTORABLE:
        return 0
    content = trash.content_of(connection, kind, row)
    return trash.keep(connection, space.project_id, kind, row["name"], content, space.identify().name)


@requires("edit")
def keep_cases(space: Workspace, connection: Connection, dataset: str, row: int, cases: Sequence[int]) -> int:
    """Keep cases that are about to be deleted from the dataset of this row id; returns their id in the trash."""
    content = {"cases": trash.content_of_cases(connection, row, cases)}
    return trash.keep(connection, space.project_id, "cases", dataset, content, space.identify().name)


@requires("edit")
def keep_removed_checks(space: Workspace, connection: Connection, name: str, removed: Mapping[str, Any]) -> int:
    """Keep a check that is removed from cases, with its places by dataset and case; returns its id in the trash."""
    return trash.keep(connection, space.project_id, "use", name, {"removed": removed}, space.identify().name)


@requires("edit")
def restore(space: Workspace, deleted: int) -> Subject:
    """Bring back what was deleted, and say what it is.

    Raises TakenError if its name was taken meanwhile, or its bot, dataset, check or cases are gone.
    """
    entry = space.read(trash.kept, space.project_id, deleted)
    if entry is None or not entry.content:
        hint = "it was brought back already, or deleted more than 30 days ago"
        raise NotFoundError(Problem("this can no longer be brought back", hint=hint))
    name, content = entry.name, entry.content
    subject = _SUBJECTS.get(entry.kind, entry.kind)
    with space.changing("restore", subject, name) as connection:
        trash.empty(connection, deleted)
        if entry.kind == "cases":
            _restore_cases(space, connection, name, content["cases"])
            return Subject("cases", name, name)
        if entry.kind == "use":
            _restore_uses(space, connection, name, content["removed"])
            return Subject("check", name)
        kind = entry.kind
        owner = _owner(space, connection, kind, content)
        if definitions.id_of(connection, kind, name, owner):
            what = f"there is another {kind} {name!r} by now"
            raise TakenError(Problem(what, f"{kind}.name", "rename or delete that one, and undo again"))
        _expect_free_title(connection, kind, content["row"]["title"], owner)
        trash.bring_back(connection, kind, content, owner)
    return Subject(kind, name, content.get("bot", ""))


def _owner(space: Workspace, connection: Connection, kind: Kind, content: Mapping[str, Any]) -> int:
    if kind != "metric":
        return space.project_id
    bot = definitions.id_of(connection, "bot", content["bot"], space.project_id)
    if bot is None:
        raise TakenError(Problem(f"its bot {content['bot']!r} was deleted", hint="bring back the bot first"))
    return bot


def _expect_free_title(connection: Connection, kind: Kind, title: str, owner: int) -> None:
    others = definitions.names(connection, kind, owner) if kind in definitions.TITLED else []
    if same_title(title) in (same_title(other.title) for other in others):
        what = f"there is another {kind} called {title!r} by now"
        raise TakenError(Problem(what, f"{kind}.title", "rename or delete that one, and undo again"))


def _restore_cases(space: Workspace, connection: Connection, dataset: str, cases: list[Row]) -> None:
    row = definitions.id_of(connection, "dataset", dataset, space.project_id)
    if row is None:
        raise TakenError(Problem(f"their dataset {dataset!r} was deleted", hint="bring back the dataset first"))
    if taken := known_keys(connection, row, [case["key"] for case in cases]):
        what = f"the dataset has other cases with these ids by now: {', '.join(sorted(taken)[:5])}"
        raise TakenError(Problem(what, "cases", "delete those, and undo again"))
    trash.bring_back_cases(connection, row, cases)


def _restore_uses(space: Workspace, connection: Connection, check: str, removed: Mapping[str, Any]) -> None:
    if check not in PARAMS and not definitions.id_of(connection, "check", check, space.project_id):
        raise TakenError(Problem(f"the check {check!r} was deleted", hint="bring back the check first"))
    rows = ((definitions.id_of(connection, "dataset", name, space.project_id), of) for name, of in removed.items())
    if not sum(trash.bring_back_checks(connection, row, of) for row, of in rows if row is not None):
        what = "the cases were deleted, or have the check again"
        raise TakenError(Problem(what, hint="enable it on cases on the check's page"))
