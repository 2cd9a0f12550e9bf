"""Who a page is built for: what it shows them, and where its links lead. What they do is checked when they do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from anyio import to_thread
from nicegui import ui
from starlette.requests import HTTPConnection

from evalflow.addons.studio.work.access import Actor, Right
from evalflow.addons.studio.work.projects import Project, list_projects
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import NO_TITLES, Titles, titles_of


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person who opened a page, as they were then.

    Attributes:
        actor: None if nobody is known, as while the database is away.
        rights: In the page's project.
        project: Its name.
        projects: Those that they may see.
        titles: What people call the definitions of the project.
    """

    actor: Actor | None = None
    rights: frozenset[Right] = frozenset({"read"})
    project: str = ""
    projects: Sequence[Project] = ()
    titles: Titles = NO_TITLES

    @property
    def has_account(self) -> bool:
        """Whether the server is public, so that people sign in and out."""
        return self.actor is not None and self.actor.user is not None


async def meet(request: HTTPConnection) -> None:
    """Read who has sent a request, for the page that is built for it."""
    workspace = workspace_of(request)
    request.state.visitor = await to_thread.run_sync(_read, workspace)


def _read(workspace: Workspace) -> Visitor:
    actor = workspace.identify()
    rights = actor.rights(workspace.project_id)
    return Visitor(actor, rights, workspace.project, list_projects(workspace), titles_of(workspace))


def workspace_of(request: HTTPConnection) -> Workspace:
    """The workspace of a request: its project, and the person who sent it."""
    return request.state.workspace


def visitor() -> Visitor:
    """Whom the page is built for."""
    return getattr(ui.context.client.request.state, "visitor", Visitor())


def name_here() -> str:
    """The name under which the visitor writes."""
    actor = visitor().actor
    return actor.name if actor else ""


def title_of(kind: str, name: str, bot: str = "") -> str:
    """What people call the bot, metric, dataset, judge or project of a name; `bot`: whose metric it is.

    What has no titles is called by its name.
    """
    return visitor().titles.of(kind, name, bot)


def may(right: Right) -> bool:
    """Whether the visitor has a right in the project of the page, which shows only what they can do."""
    return right in visitor().rights


def zone() -> tzinfo:
    """The time zone of the visitor's browser, which theme.js names in a cookie; UTC until it has."""
    try:
        return ZoneInfo(ui.context.client.request.cookies["evalflow-zone"])
    except (KeyError, ValueError, OSError, ZoneInfoNotFoundError):
        return UTC


def local_time(moment: str, seconds: str = "") -> str:
    """A time of the database to the minute in the visitor's zone, which is named only if it is UTC.

    `seconds` is appended to the format, such as `:%S`.
    """
    found = datetime.fromisoformat(moment).astimezone(zone())
    return f"{found:%-d %b %Y, %H:%M{seconds}}{' UTC' if found.tzinfo is UTC else ''}"


def root_path() -> str:
    """The prefix of the project's addresses. Links of NiceGUI add it by themselves, others must name it."""
    return ui.context.client.request.scope.get("root_path", "")
