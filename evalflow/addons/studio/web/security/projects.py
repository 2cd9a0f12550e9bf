"""Addresses of projects: `/p/NAME/...` is the page or route `/...` in project NAME; without it, in `default`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anyio import to_thread

from evalflow.addons.studio.web.security.guards import refuse
from evalflow.errors import UserError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from evalflow.addons.studio.work.space import Workspace

PREFIX = "/p/"
UNKNOWN = 0
"""The id of a project that does not exist."""


class InProject:
    """Gives every request the workspace of its project, as `request.state.workspace`.

    With `hidden`, a project that does not exist is passed on with the id `UNKNOWN`, in which nobody has a role, so that
    it looks like one that exists.
    """

    def __init__(self, app: ASGIApp, workspace: Workspace, *, hidden: bool = False) -> None:
        self.app = app
        self._workspace = workspace
        self._hidden = hidden

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; 404 if there is no such project."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        workspace, path = self._workspace, scope["path"]
        if path.startswith(PREFIX):
            name = path.removeprefix(PREFIX).partition("/")[0]
            try:
                workspace = await to_thread.run_sync(workspace.in_project, name)
            except UserError as error:
                if not self._hidden:
                    await refuse(scope, receive, send, 404, error.problems[0].what)
                    return
                workspace = replace(workspace, project=name, project_id=UNKNOWN)
            scope = {**scope, "root_path": scope.get("root_path", "") + PREFIX + name}
            if path == PREFIX + name:
                scope["path"] = path + "/"
        await self.app({**scope, "state": {**scope.get("state", {}), "workspace": workspace}}, receive, send)
