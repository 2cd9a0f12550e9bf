"""The pages of metrics: a bot's own, the evaluation panel, and the library."""

from __future__ import annotations

from evalflow.app.workspace import Workspace
from evalflow.web.pages.metrics import edit, index, library


def add(workspace: Workspace) -> None:
    """Register the pages, those first whose addresses another would catch."""
    for page in (index, edit, library):
        page.add(workspace)
