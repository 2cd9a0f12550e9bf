"""Where one goes on from a run: its report, the run before it, its bot and its test cases."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from anyio import to_thread
from nicegui import ui

from evalflow.app.workspace import Workspace
from evalflow.app.workspace.related import Related, related
from evalflow.app.workspace.run_types import Run
from evalflow.web.pages.runs.files import REPORT, file_path
from evalflow.web.pages.runs.words import name_of, when


class Onward:
    """Links below the heading of a run that has results; what takes a look elsewhere comes after the first paint."""

    def __init__(self, workspace: Workspace, run: Run) -> None:
        self._workspace, self._run = workspace, run
        self._place = ui.element("nav").classes("onward").props('aria-label="From here"')
        with self._place:
            if (run.folder / REPORT).is_file():
                _link("description", "Report", file_path(run.run_id, REPORT), new_tab=True)
        ui.timer(0, self._fill, once=True)

    async def _fill(self) -> None:
        found = await to_thread.run_sync(related, self._workspace, self._run.run_id)
        with self._place:
            self._show(found)

    def _show(self, found: Related) -> None:
        run = self._run.run_id
        if found.before is not None:
            before = found.before.run
            unlike = ", which measured otherwise" if found.before.obstacles else ""
            path = f"/compare?{urlencode({'a': before.run_id, 'b': run})}"
            about = f"{name_of(before)}, {when(before.created_at)}{unlike}"
            _link("compare_arrows", "Compare with the run before", path, about)
        _link("compare_arrows", "Compare with another run", f"/compare?{urlencode({'b': run})}")
        if found.bot:
            _link("smart_toy", found.bot, f"/bots/{quote(found.bot, safe='')}", "The bot")
        for dataset in found.datasets:
            _link("checklist", dataset, f"/datasets/{quote(dataset, safe='')}", "Its test cases")


def _link(icon: str, label: str, path: str, about: str = "", *, new_tab: bool = False) -> None:
    with ui.link(target=path, new_tab=new_tab) as link:
        ui.icon(icon).props("aria-hidden=true")
        ui.label(label)
    if about:
        link.props["title"] = about
