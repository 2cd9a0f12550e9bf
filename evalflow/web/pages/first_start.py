"""What an empty workspace shows: three steps to a scored case on sample data."""

from __future__ import annotations

import uuid

from nicegui import ui

from evalflow.app.studio.runs import create_run
from evalflow.app.studio.snapshot import RunRequest
from evalflow.app.studio.space import Workspace
from evalflow.web.ui import forms
from evalflow.web.ui.parts import button, link_button, text

SAMPLE = RunRequest("recorded", ["rag"], ["faithfulness"], judge="embedded", title="Sample bot")
_STEPS = (
    ("Sample answers", "40 questions with a bot’s recorded answers and the passages it read. Some answers are wrong."),
    (
        "One run",
        "Each answer is compared with its passages by text overlap. No key, no cost, nothing is sent.",
    ),
    ("Scored cases", "Read the worst answers first, each with its score and the reason. Then test your own bot."),
)


def first_steps(workspace: Workspace) -> None:
    """The three steps, with one button that starts the sample run, and the way to an own bot."""
    key = f"sample-{uuid.uuid4().hex}"

    async def start() -> None:
        run = await forms.attempt(lambda: create_run(workspace, SAMPLE, key), by=starting)
        if run is not None:
            ui.navigate.to(f"/runs/{run.run_id}")

    with ui.element("section").classes("card first-steps"):
        text("See how it works on a sample bot", "h2")
        with ui.element("ol"):
            for title, about in _STEPS:
                with ui.element("li"):
                    text(title, "h3")
                    text(about, "p", "muted")
        with ui.element("div").classes("actions"):
            starting = button("Try the sample bot", start, kind="primary", icon="play_arrow")
    with ui.element("section").classes("card first-steps"):
        text("Describe your first bot", "h2")
        about = "Enter how to reach your bot and try a question; then write test cases and see how well it answers."
        text(about, "p", "muted")
        with ui.element("div").classes("actions"):
            link_button("New bot", "/bots/new")
