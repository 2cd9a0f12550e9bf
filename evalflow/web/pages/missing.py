"""Where an address leads nowhere, or a page raised what nobody expected: our own pages instead of NiceGUI's."""

from __future__ import annotations

import sys
import traceback

from nicegui import Client, app
from nicegui.page import page
from starlette.requests import Request
from starlette.responses import Response

from evalflow.app.workspace import Workspace
from evalflow.web.pages.address import instead


def add(_: Workspace) -> None:
    """Have NiceGUI show these."""

    async def missing(request: Request, _: Exception) -> Response:
        with Client(page(""), request=request) as client:
            instead("There is no such page", f"No page has the address {request.url.path}.")
        return client.build_response(request, 404)

    app.add_exception_handler(404, missing)
    app.on_page_exception(_failed)  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI


def _failed(error: Exception) -> None:
    sys.stderr.write("".join(traceback.format_exception(error)))
    instead("An error", "This is a bug in evalflow, not your mistake; the server's output has the details.")
