"""The cases of a dataset that conf/ declares: read, found and paged, never changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.declared import DeclaredPage, declared_page
from evalflow.web.pages.datasets.case_browser import CaseBrowser, Found
from evalflow.web.pages.datasets.case_rows import case_table, declared_row
from evalflow.web.pages.datasets.sought import AT_ONCE, Sought

Row = Mapping[str, Any]


class DeclaredList(CaseBrowser[Row]):
    """The list, with the page that was read for it.

    Args:
        workspace: Where.
        dataset: Which.
        sought: What was looked for.
        page: What was found.
    """

    def __init__(self, workspace: Workspace, dataset: str, sought: Sought, page: DeclaredPage) -> None:
        self._workspace = workspace
        super().__init__(dataset, page.tags, sought)
        self.show(_found(page))

    def _read(self, sought: Sought, is_wanted: Callable[[], bool]) -> Found[Row]:
        return _found(read_declared(self._workspace, self._dataset, sought, is_wanted))

    def _table(self, items: Sequence[Row]) -> None:
        with case_table(selectable=False):
            for row in items:
                declared_row(row)


def read_declared(
    workspace: Workspace, dataset: str, sought: Sought, is_wanted: Callable[[], bool] = lambda: True
) -> DeclaredPage:
    """The page that is looked for; blocks."""
    return declared_page(workspace, dataset, sought.first, AT_ONCE, **sought.wanted, is_wanted=is_wanted)


def _found(page: DeclaredPage) -> Found[Row]:
    return Found(page.rows, page.first, page.total, page.is_whole)
