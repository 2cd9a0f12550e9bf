"""The people and guidelines of a review, which can be changed while it continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from urllib.parse import quote

from nicegui import ui

from evalflow.addons.studio.web.pages.runs import seconds_in_words
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import Saving, carry_out, confirmation, edited, load_again
from evalflow.addons.studio.web.ui.inviting import InviteForm
from evalflow.addons.studio.web.ui.parts import (
    badge,
    button,
    cell,
    fold,
    section,
    table,
    text,
)
from evalflow.addons.studio.web.ui.visitor import may, visitor
from evalflow.addons.studio.work import review_guidelines, reviews
from evalflow.addons.studio.work.projects import Person
from evalflow.addons.studio.work.review_results import PersonProgress, ReviewProgress
from evalflow.addons.studio.work.reviews import Review, ReviewMetric
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import counted, joined

_ADDED = forms.About("Add people", "Members of the project who may label.", required=True)
_NOBODY = "Everybody who may label in this project is among them. An admin of the project makes others annotators."
_AGAIN = (
    "Anyone who labelled them is asked first, without what they said before. Their earlier labels stay in the export."
)
_LEAVING = "What they have labelled stays and counts. An answer that they have begun goes to somebody else at once."


def people_section(workspace: Workspace, review: Review, progress: ReviewProgress, may_label: Sequence[Person]) -> None:
    """Who labels, how far each of them is, and adding and removing people."""
    others = {one.name: joined(one.name, one.full_name) for one in may_label if one.name not in review.people}
    is_alone = len(review.people) == 1 and not others

    heads = ("Person", "Done", "Median time", "Declined", "Flagged", *(() if is_alone else ("",)))
    with section("People"):
        with table(heads, "table stacked"):
            for person in progress.people:
                with ui.element("tr"):
                    _person(person)
                    if not is_alone:
                        with cell("", classes=""):
                            if person.is_invited and len(review.people) > 1:
                                _removing(workspace, review, person.name)
        if others:
            with fold("Add people"), ui.element("div").classes("form"):
                _adding(workspace, review, others)
        elif not is_alone:
            text(_NOBODY, "p", "small muted")
        if visitor().has_account and may("admin"):
            with fold("Invite somebody"):
                InviteForm(workspace, "annotator", _stay, review.name)


async def _stay() -> None:
    """Keep the page so that the link stays visible; the reloaded page shows the person."""


def _person(person: PersonProgress) -> None:
    seconds = person.median_seconds
    with ui.element("th").props("scope=row"):
        text(person.name, "span", "name")
        if not person.is_invited:
            badge("removed")
    cell("Done", f"{person.done:,}")
    cell("Median time", "–" if seconds is None else seconds_in_words(seconds))
    cell("Declined", f"{person.declined:,}")
    cell("Flagged", f"{person.flagged:,}")


def _removing(workspace: Workspace, review: Review, name: str) -> None:
    async def remove() -> None:
        await _change(workspace, review, lambda people: [one for one in people if one != name])

    def ask() -> None:
        with place:
            confirmation(f"Remove {name} from the review?", _LEAVING, "Remove", remove).open()

    place = ui.element("div")
    button("Remove", ask, kind="quiet").props["aria-label"] = f"Remove {name}"


def _adding(workspace: Workspace, review: Review, others: Mapping[str, str]) -> None:
    chosen = forms.several(_ADDED, others, [], searched=True)

    async def add() -> None:
        names: list[str] = list(chosen.value or [])
        if not names:
            chosen.error = "Choose one person or more."
            return
        await _change(workspace, review, lambda people: [*people, *names], {"people": chosen}, adding)

    with ui.element("div").classes("actions"):
        adding = button("Add", add, kind="primary")


async def _change(
    workspace: Workspace,
    review: Review,
    people: Callable[[Sequence[str]], Sequence[str]],
    fields: Mapping[str, forms.Field] | None = None,
    by: ui.button | None = None,
) -> None:
    """Change the current people, even if somebody else changed them since the page was opened."""

    def work() -> Review:
        now = reviews.get_review(workspace, review.name)
        return reviews.change_people(workspace, review.name, now.version, people(now.people))

    await carry_out(work, load_again, fields, by)


def guidelines_section(workspace: Workspace, review: Review, progress: ReviewProgress) -> None:
    """The guidelines of each metric, with earlier versions and the number of labels by each."""
    with section("Guidelines", "What people read beside each metric."):
        if progress.outdated:
            _giving_again(workspace, review, progress.outdated)
        for metric in review.metrics:
            with ui.element("article").classes("card stack"):
                _guidelines(workspace, review, metric, progress.rubrics.get(metric.name, {}))


def _giving_again(workspace: Workspace, review: Review, outdated: int) -> None:
    def ask() -> None:
        again = partial(carry_out, give, load_again, None, giving)
        with place:
            confirmation(f"Give {answers} out again?", about, "Give out again", again, "Cancel").open()

    give = partial(review_guidelines.give_out_again, workspace, review.name, review.version)
    answers = counted(outdated, "answer")
    about = f"{_AGAIN} The review is opened again." if review.state == "closed" else _AGAIN
    with ui.element("div").classes("card actions"):
        text(f"{answers} {'is' if outdated == 1 else 'are'} labelled by older guidelines only.", "p")
        giving = button("Give out again", ask)
    place = ui.element("div")


def _guidelines(workspace: Workspace, review: Review, metric: ReviewMetric, given: Mapping[int, int]) -> None:
    older = sum(number for version, number in given.items() if version != metric.rubric)
    with ui.element("div").classes("actions"):
        text(metric.title, "h3")
        badge(f"version {metric.rubric}")
    text(metric.guidelines or "None.", "p", "text")
    current = counted(given.get(metric.rubric, 0), "label")
    left_out = f"{counted(older, 'label')} by older versions left out of agreement, corrected mean and certificate"
    text(joined(f"{current} by this version", left_out if older else ""), "p", "small muted")
    with fold("Change the guidelines"):
        _editing(workspace, review, metric, given.get(metric.rubric, 0))
    if metric.older:
        with fold("Earlier versions"), ui.element("div").classes("stack"):
            for version, content in reversed(list(enumerate(metric.older, 1))):
                text(f"Version {version}, {counted(given.get(version, 0), 'label')}", "h4")
                text(content or "None.", "p", "text")


def _editing(workspace: Workspace, review: Review, metric: ReviewMetric, given: int) -> None:
    def content(now: Review) -> dict[str, str]:
        return {"guidelines": next(one.guidelines for one in now.metrics if one.name == metric.name)}

    async def save() -> None:
        new = str(field.value or "")
        if new.strip() == metric.guidelines:
            field.error = "Nothing has changed."
            return

        def work(version: int) -> Review:
            return review_guidelines.revise_guidelines(workspace, review.name, version, {metric.name: new})

        await saving.save(work, {"guidelines": new}, {"guidelines": field}, saving_button, load_again)

    with forms.form(kept=True):
        field = forms.area(
            forms.About(f"Guideline for {metric.title}", f"Values: {metric.scale.text}."), metric.guidelines
        )
        text(_consequence(metric, given), "p", "small text")
        with ui.element("div").classes("actions"):
            saving_button = button(f"Save as version {metric.rubric + 1}", save, kind="primary")
    seen = edited(reviews.get_review, workspace, content, review)
    saving = Saving(seen, f"/reviews/{quote(review.name, safe='')}")


def _consequence(metric: ReviewMetric, given: int) -> str:
    if not given:
        return "Nobody has labelled by the current version yet, so no label is left out."
    return (
        f"{counted(given, 'label')} by version {metric.rubric} will be left out of agreement, corrected mean and "
        "certificate; their export keeps them. You can give these answers out again afterwards."
    )
