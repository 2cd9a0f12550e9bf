"""The pages of bots: what is evaluated."""

from __future__ import annotations

from evalflow.app.workspace import Workspace
from evalflow.web.pages.bots import bot, edit, index


def add(workspace: Workspace) -> None:
    """Register the pages, those first whose addresses another would catch."""
    for page in (index, edit, bot):
        page.add(workspace)
