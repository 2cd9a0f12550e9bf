"""The visitor for whom a page is built: determines what is shown and where links lead.

Actions are checked separately.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from anyio import to_thread
from nicegui import ui
from starlette.requests import HTTPConnection

from evalflow.addons.studio.web.security.scheduler import SCHEDULER, Scheduler
from evalflow.addons.studio.work.access import Actor, Right
from evalflow.addons.studio.work.projects import Project, uncounted_projects
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import NO_TITLES, Titles, titles_of


@dataclass(frozen=True, slots=True)
class Visitor:
    """The person who opened a page, with their rights at that time.

    Attributes:
        actor: None if unknown, for example while the database is unavailable.
        rights: In the page's project.
        project: Its name.
        projects: The projects that they may see, without the numbers of what they have.
        titles: The titles of the project's definitions.
    """

    actor: Actor | None = None
    rights: frozenset[Right] = frozenset({"read"})
    project: str = ""
    projects: Sequence[Project] = ()
    titles: Titles = NO_TITLES

    @property
    def has_account(self) -> bool:
        """Whether people sign in, as on a public server."""
        return self.actor is not None and self.actor.user is not None


async def meet(request: HTTPConnection) -> None:
    """Read who sent a request, before its page is built."""
    workspace = workspace_of(request)
    request.state.visitor = await to_thread.run_sync(_read, workspace)


def _read(workspace: Workspace) -> Visitor:
    actor = workspace.identify()
    rights = actor.rights(workspace.project_id)
    return Visitor(actor, rights, workspace.project, uncounted_projects(workspace), titles_of(workspace))


def workspace_of(request: HTTPConnection) -> Workspace:
    """The workspace of a request: its project, and the person who sent it."""
    return request.state.workspace


def visitor() -> Visitor:
    """The visitor of the page being built."""
    return getattr(ui.context.client.request.state, "visitor", Visitor())


def name_here() -> str:
    """The visitor's name as an author."""
    actor = visitor().actor
    return actor.name if actor else ""


def title_of(kind: str, name: str, bot: str = "") -> str:
    """The title of a bot, metric, dataset, judge or project, or its name if it has no title.

    `bot` is the owner of a metric.
    """
    return visitor().titles.of(kind, name, bot)


def with_titles(sentence: str, *bots: str) -> str:
    """A sentence with titles instead of names; see `Titles.in_text`."""
    return visitor().titles.in_text(sentence, *bots)


def know_titles(run: Run) -> None:
    """Let `title_of` find the titles that a run has for its metrics, if the project has none for them."""
    owners = {run.bot, str(run.facts.get("target", run.bot)).partition(":")[0]}
    own = {name: metric.title for name, metric in run.metrics.items()}
    known = visitor()
    ui.context.client.request.state.visitor = replace(known, titles=known.titles.with_run(owners, own))


def may(right: Right) -> bool:
    """Whether the visitor has a right in the page's project; pages only show permitted actions."""
    return right in visitor().rights


@asynccontextmanager
async def work_slot() -> AsyncGenerator[None]:
    """Hold a slot of the visitor while the page reads more, so that one person's pages do not make others wait."""
    scheduler: Scheduler | None = ui.context.client.request.scope.get("state", {}).get(SCHEDULER)
    actor = visitor().actor
    if scheduler is None or actor is None:
        yield
        return
    async with scheduler.slot(actor.queue):
        yield


def zone() -> tzinfo:
    """The time zone of the visitor's browser, from a cookie set by theme.js; UTC before that."""
    try:
        return ZoneInfo(ui.context.client.request.cookies["evalflow-zone"])
    except (KeyError, ValueError, OSError, ZoneInfoNotFoundError):
        return UTC


def local_time(moment: str, seconds: str = "") -> str:
    """A database time to the minute in the visitor's zone; the zone is named only if it is UTC.

    `seconds` is appended to the format, such as `:%S`.
    """
    local_moment = datetime.fromisoformat(moment).astimezone(zone())
    return f"{local_moment:%-d %b %Y, %H:%M{seconds}}{' UTC' if local_moment.tzinfo is UTC else ''}"


def root_path() -> str:
    """The prefix of the project's addresses. NiceGUI's links add it themselves; others must include it."""
    return ui.context.client.request.scope.get("root_path", "")
