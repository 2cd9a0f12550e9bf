"""What people's labels say of the judge: the corrected mean, its certificate, and where judge and people differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from nicegui import ui

from evalflow.app.studio import review_calibration
from evalflow.app.studio.review_calibration import IssuedCertificate, JudgedCase, ReviewResult
from evalflow.app.studio.reviews import Review, ReviewMetric
from evalflow.app.studio.space import Workspace
from evalflow.errors import command
from evalflow.report.calibration import Calibration, CorrectedRow
from evalflow.report.wording import number
from evalflow.web.ui import forms
from evalflow.web.ui.parts import (
    address,
    badge,
    button,
    capitalised,
    cell,
    copyable,
    counted,
    message,
    table,
    tell,
    text,
)
from evalflow.web.ui.verdict import CAUSES
from evalflow.web.ui.visitor import title_of

_CLOSING = "Closing it gives out no more answers; what people have begun they may still submit."
_SAVING = (
    "Gates and reports of the run then count people's labels, and later runs with the same judge, metric and prompts "
    "show how far the judge can be trusted."
)
_MOST = 20
"""The most cases that are shown of those where judge and people differ."""


def show_result(workspace: Workspace, review: Review, found: ReviewResult) -> None:
    """The content of the section."""
    titles = {metric.name: metric.title for metric in review.metrics}
    rows = _corrected(found.calibration, titles) if found.calibration else ()
    if not rows:
        message("There are too few labels to say anything of the judge.", "Go on labelling.", "")
    elif found.is_provisional:
        message("Provisional: people are still labelling.", _CLOSING, "")
    for row in rows:
        with ui.element("article").classes("card stack"):
            text(row.sentence, "p", "text").props("dir=auto")
            for warning in row.warnings:
                text(warning, "p", "small muted text")
    for note in found.calibration.notes if found.calibration else ():
        text(f"{capitalised(note)}.", "p", "small muted text")
    if rows:
        _saving(workspace, review, found, titles)
    for metric in review.metrics:
        _against(review, metric, [one for one in found.cases if one.metric == metric.name])


def _corrected(found: Calibration, titles: Mapping[str, str]) -> Sequence[CorrectedRow]:
    """What people's labels make of each mean, in words with the titles of the metrics."""
    return replace(
        found, rows=[replace(row, metric=titles.get(row.metric, row.metric)) for row in found.rows]
    ).corrected_means


def _saving(workspace: Workspace, review: Review, found: ReviewResult, titles: Mapping[str, str]) -> None:
    with ui.element("section").classes("card stack").props('aria-label="Calibration of the run"'):
        with ui.element("div").classes("actions"):
            text("Calibration of the run", "h3")
            badge("saved", "pass") if found.is_saved else badge("not saved")
        for one in found.certificates:
            _certificate(one, titles.get(one.metric, one.metric))
        if found.is_saved:
            run = f"/runs/{quote(review.run_id, safe='')}"
            text("The run's gates and reports count these labels.", "p", "small muted")
            ui.link("To the run", run).classes("small")
        elif review.state == "open":
            text("Close the review to save its calibration: until then it is provisional.", "p", "muted")
        else:
            text(_SAVING, "p", "muted")
            with ui.element("div").classes("actions"):
                saving = button("Save the calibration", lambda: _save(workspace, review, saving), kind="primary")
        text("The same on the command line, with the labels downloaded as labels.csv:", "p", "small muted")
        copyable(command("calibrate", workspace.runs / review.run_id, "--labels", "labels.csv"))


def _certificate(one: IssuedCertificate, metric: str) -> None:
    judge = title_of("judge", one.judge)
    if one.issued_at:
        text(f"Certificate of {judge}, {one.issued_at[:10]}: {one.agreement}.", "p", "text")
    elif one.why_not:
        text(f"No certificate of {judge} for {metric}: {one.why_not}.", "p", "text")
    else:
        text(f"Saving issues a certificate of {judge} for {metric}.", "p", "text")


async def _save(workspace: Workspace, review: Review, saving: ui.button) -> None:
    work = lambda: review_calibration.save_calibration(workspace, review.name)  # noqa: E731
    saved = await forms.attempt(work, by=saving)
    if saved is None:
        return
    for change in saved.changes:
        tell(capitalised(change))
    ui.navigate.reload()


def _against(review: Review, metric: ReviewMetric, found: Sequence[JudgedCase]) -> None:
    text(f"{metric.title}: judge against people", "h3", "against")
    if not found:
        text("No answer has both a score and a label yet.", "p", "muted")
        return
    apart = [one for one in found if one.difference]
    same = f"{len(found) - len(apart):,} of {counted(len(found), 'answer')}"
    text(f"Judge and people say the same of {same}.", "p", "muted")
    if not apart:
        return
    heads = ("Answer", "Judge", "People", "Judge's reason", "Who is wrong?")
    with table(heads, "table stacked"):
        for one in apart[:_MOST]:
            with ui.element("tr"):
                with ui.element("th").props("scope=row"):
                    if one.position is None:
                        text(one.case_id, "span", "name")
                    else:
                        ui.link(one.case_id, f"/runs/{review.run_id}/cases/{one.position}").classes("name")
                cell("Judge", number(one.score, 2))
                cell("People", number(one.human, 2))
                with cell("Judge's reason", classes=""):
                    text(one.reason or "–", "span", "small text").props("dir=auto")
                with cell("Who is wrong?", classes=""), ui.element("div").classes("actions"):
                    for cause, word in CAUSES.items():
                        place = {"cause": cause, "run": review.run_id, "position": one.position, "metric": metric.name}
                        ui.link(word, address("/tasks/new", place)).classes("small")
    if len(apart) > _MOST:
        text(f"The first {_MOST} of {len(apart):,}.", "p", "small muted")
