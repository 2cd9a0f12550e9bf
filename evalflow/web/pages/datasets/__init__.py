"""The pages of datasets and their cases: what bots are asked."""

from __future__ import annotations

from evalflow.app.workspace import Workspace
from evalflow.web.pages.datasets import case_add, case_edit, case_new, dataset, edit, index


def add(workspace: Workspace) -> None:
    """Register the pages, those first whose addresses another would catch."""
    for page in (index, edit, case_add, case_new, case_edit, dataset):
        page.add(workspace)
