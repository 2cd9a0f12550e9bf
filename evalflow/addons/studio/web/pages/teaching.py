"""Teaching the judge with a review's labels: the requirements, and whether it helps on held-out labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.runs import ACTIVE
from evalflow.addons.studio.web.ui.dialogs import work_button
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import (
    address,
    badge,
    copyable,
    facts,
    fold,
    later,
    link_button,
    message,
    polled,
    tell,
    text,
)
from evalflow.addons.studio.web.ui.parts import sentence as sentence_of
from evalflow.addons.studio.work import reviews, teaching
from evalflow.addons.studio.work.reruns import ChangeableMetric, changeable_metrics
from evalflow.addons.studio.work.reviews import Review
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.teaching import JudgeTeaching
from evalflow.errors import command
from evalflow.report.alignment import details, sentence, to_decide
from evalflow.report.wording import cost, counted, joined

_ABOUT = (
    "The judge is shown answers with the grades that people gave. Whether that helps is measured on other labels, and "
    "only then is it saved."
)
_POLL_S = 1.0


def teaching_address(review: str) -> str:
    """The page of a review's judges."""
    return f"/reviews/{quote(review, safe='')}/teach"


@guarded_page("/reviews/{review}/teach", "edit")
async def _teach_page(workspace: Workspace, review: str) -> None:
    shown_review = await to_thread.run_sync(reviews.get_review, workspace, review)
    trail = [("Reviews", "/reviews"), (review, f"/reviews/{quote(review, safe='')}")]
    with frame("Teach the judge", place="Reviews", about=_ABOUT, trail=trail):
        build = partial(_cards, workspace, shown_review)

        def read() -> tuple[Sequence[JudgeTeaching], Mapping[str, ChangeableMetric]]:
            return teaching.teachings(workspace, review), changeable_metrics(workspace, shown_review.run_id)

        later(ui.element("div").classes("stack"), "Reading the labels …", read, build, "The labels: not there yet.")


def _cards(
    workspace: Workspace, review: Review, read: tuple[Sequence[JudgeTeaching], Mapping[str, ChangeableMetric]]
) -> None:
    teachings, changeable = read
    titles = {metric.name: metric.title or metric.name for metric in review.metrics}
    for one in teachings:
        with ui.element("section").classes("card stack").props(f'aria-label="{titles[one.metric]}"'):
            text(titles[one.metric], "h2")
            if one.why_not:
                explanation = " ".join(sentence_of(part) for part in (one.why_not, one.next_step) if part)
                message("This judge cannot be taught yet.", explanation)
                continue
            _plan(one)
            if one.alignment is not None:
                _result(workspace, review, one, changeable.get(one.metric))
            elif one.run is not None:
                _measuring(workspace, one)
            else:
                _offer(workspace, review, one)


def _plan(one: JudgeTeaching) -> None:
    facts([("To learn from", counted(one.learning, "label")), ("Held out", counted(one.held_out, "label"))])
    with fold(f"What the judge is shown: {counted(len(one.examples), 'answer')}"):
        for example in one.examples:
            with ui.element("article").classes("stack"):
                text(f"People: {example.people}. The judge: {example.judge}.", "h3")
                _texts(example.texts)


def _texts(texts: Mapping[str, str]) -> None:
    for name, content in texts.items():
        text(f"{name}: {content}", "p", "text small muted")


def _offer(workspace: Workspace, review: Review, one: JudgeTeaching) -> None:
    price = "" if one.cost_usd is None else f"at most {cost(one.cost_usd)}"
    text(f"It takes {joined(counted(one.calls, 'call'), price)}. No new answers are generated.", "p", "text")
    if one.questions:
        text("The first call asks the judge for the reasons that people did not give.", "p", "small muted")

    measure = partial(teaching.teach, workspace, review.name, one.metric)
    with ui.element("div").classes("actions"):
        work_button("Measure whether it helps", measure, lambda _: ui.navigate.reload(), kind="primary")


def _measuring(workspace: Workspace, one: JudgeTeaching) -> None:
    run = one.run
    assert run is not None
    if run.state not in ACTIVE:
        message(
            run.message or f"The measurement was {run.state}.", "Resume its run, or delete it to begin again.", "warn"
        )
        ui.link("To its run", f"/runs/{quote(run.run_id, safe='')}")
        return
    with ui.element("p").props("role=status"):
        text("The judge grades the held-out answers again. ", "span")
        ui.link("See its run", f"/runs/{quote(run.run_id, safe='')}")

    async def look() -> None:
        now = await to_thread.run_sync(get_run, workspace, run.run_id)
        if now.state not in ACTIVE:
            timer.deactivate()
            ui.navigate.reload()

    timer = polled(_POLL_S, look)


def _result(workspace: Workspace, review: Review, one: JudgeTeaching, changeable: ChangeableMetric | None) -> None:
    alignment, run = one.alignment, one.run
    assert alignment is not None
    assert run is not None
    text(sentence(alignment), "p", "text strong")
    for line in details(alignment):
        text(line, "p", "text small muted")
    ui.link("To the run that measured it", f"/runs/{quote(run.run_id, safe='')}").classes("small")
    if not alignment.helps:
        text(f"Nothing is saved: the metric stays as it is.{to_decide(alignment)}", "p", "text")
    elif one.is_saved:
        badge(f"version {one.version} is saved", "pass")
        if changeable is not None:
            metric = f"/bots/{quote(changeable.bot, safe='')}/metrics/{quote(one.metric, safe='')}"
            with ui.element("div").classes("actions"):
                link_button("Grade the run again with it", address(metric, {"run": review.run_id}), primary=True)
    elif one.not_saved:
        message("It cannot be saved here.", one.not_saved, "warn")
        text("On the command line, with the labels of the review downloaded as labels.csv:", "p", "small muted")
        copyable(command("align", one.metric, workspace.runs / review.run_id, "--labels", "labels.csv"))
    else:
        _saving(workspace, review, one)


def _saving(workspace: Workspace, review: Review, one: JudgeTeaching) -> None:
    about = "The examples are texts of your cases, and are sent with every question to the judge."
    text(about, "p", "small muted")

    def tell_saved(_: object) -> None:
        tell(f"Saved version {one.version}")
        ui.navigate.reload()

    save = partial(teaching.save_taught, workspace, review.name, one.metric)
    with ui.element("div").classes("actions"):
        work_button(f"Save version {one.version} of the metric", save, tell_saved, kind="primary")
