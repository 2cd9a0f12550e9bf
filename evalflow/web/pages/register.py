"""Every page of the application, on NiceGUI, with what they share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

    from evalflow.app.workspace import Workspace

STYLES = ("theme", "parts", "forms", "metrics", "cases", "runs", "results", "compare", "history")
"""Files of assets/, in order."""
ICON = Path(__file__).parent.parent / "assets" / "icon.svg"


def add_pages(app: FastAPI, workspace: Workspace) -> None:
    """Mount the pages at the root of the application.

    NiceGUI keeps them for the whole process, so that there is one application in each.
    """
    from nicegui import ui

    from evalflow.web.pages import bots, compare, datasets, history, metrics, missing, runs

    for place in (bots, metrics, datasets, runs, compare, history, missing):
        place.add(workspace)
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
