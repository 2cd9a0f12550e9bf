"""The pages of runs: chosen, started, watched and read."""

from __future__ import annotations

from evalflow.app.workspace import Workspace
from evalflow.web.pages.runs import case, index, new, run


def add(workspace: Workspace) -> None:
    """Register the pages, those first whose addresses another would catch."""
    for page in (index, new, case, run):
        page.add(workspace)
