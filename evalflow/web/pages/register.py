"""Every page of the application, on NiceGUI, with what they share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from evalflow.app.studio.space import Workspace


STYLES = ("theme", "parts", "forms", "metrics", "cases", "runs", "results", "compare", "history")
"""Files of assets/, in order."""
ICON = Path(__file__).parent.parent / "assets" / "icon.svg"


def add_pages(app: FastAPI, workspace: Workspace) -> None:
    """Mount the pages at the root of the application.

    NiceGUI keeps them for the whole process, so that there is one application in each.
    """
    from nicegui import ui

    from evalflow.web.pages import (
        bots,
        case,
        compare,
        dataset,
        datasets,
        history,
        import_cases,
        metric,
        metrics,
        new_run,
        run,
        run_case,
        runs,
    )
    from evalflow.web.ui import frame

    # A page with a fixed address comes before the page whose address has a name in its place.
    for add in (
        *(bots.add_bots, bots.add_bot_edit, bots.add_bot),
        *(metrics.add_metrics, metric.add_metric_edit, metrics.add_library),
        *(datasets.add_datasets, datasets.add_dataset_edit, import_cases.add),
        *(case.add_case_new, case.add_case_edit, dataset.add_dataset),
        *(runs.add, new_run.add, run_case.add, run.add, compare.add, history.add, frame.add_missing_page),
    ):
        add(workspace)
    ui.add_head_html(_head(), shared=True)
    ui.run_with(  # pyright: ignore[reportUnknownMemberType] - partly untyped in NiceGUI
        app,
        title="evalflow",
        favicon=ICON,
        dark=None,
        language="en-GB",
        tailwind=False,
        gzip_middleware_factory=None,
        show_welcome_message=False,
    )


def _head() -> str:
    """Our own scripts and styles; the scripts first, since they must be there before anything is seen."""
    scripts = "".join(f'<script src="/assets/{name}.js"></script>' for name in ("nonce", "theme", "unsaved"))
    return scripts + "".join(f'<link rel="stylesheet" href="/assets/{name}.css">' for name in STYLES)
