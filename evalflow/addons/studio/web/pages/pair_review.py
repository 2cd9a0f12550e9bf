"""The form of a review in which people say which of two runs' answers is better."""

from __future__ import annotations

from functools import partial
from typing import cast

from nicegui import ui

from evalflow.addons.studio.web.pages.runs import name_of, when
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.parts import address, button, link_button, text
from evalflow.addons.studio.work import reviews
from evalflow.addons.studio.work.review_rows import Shown
from evalflow.addons.studio.work.reviews import PREFERRED, Labeller, ReviewRequest
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import joined

PAIR_ABOUT = "People see two answers to the same question, without knowing whose they are, and say which is better."
_NAME = forms.About("Name", "People who label see it; it should not tell what to expect.", required=True)
_SIZE = forms.About("Cases to compare", "Drawn at random from those with different answers.", required=True)
_OVERLAP = forms.About("Compared by two people (%)", "Shows how far people agree; at least 30 cases, unless 0.")
_PEOPLE = forms.About("People", "Members of the project who may label.", required=True)
_GUIDELINE = forms.About("What makes an answer better", "People read this beside each pair.")
_SIZE_AT_FIRST = 40


class PairReviewForm:
    """Asks for the review's name, its size, and who compares; all of it is filled in but the people."""

    def __init__(self, workspace: Workspace, before: Run, after: Run, people: list[Labeller]) -> None:
        self._workspace, self._before, self._after = workspace, before, after
        names = {one.name: joined(one.name, one.full_name) for one in people}
        with forms.form(kept=True):
            with forms.fieldset("What is compared"):
                for side, run in (("A", before), ("B", after)):
                    text(f"{side}: {joined(name_of(run), when(run.created_at))}", "p")
                self._name = forms.line(_NAME, f"Which is better, {after.created_at[:10]}")
            with forms.fieldset("How many, and who"):
                with forms.pair():
                    self._size = forms.number_field(_SIZE, _SIZE_AT_FIRST)
                    self._overlap = forms.number_field(_OVERLAP, 0 if len(names) == 1 else 20)
                self._people = forms.several(_PEOPLE, names, list(names) if len(names) == 1 else [], searched=True)
            with forms.fieldset("What people read"):
                self._reference = forms.tick(forms.About("Show the expected answer"), True)
                self._guideline = forms.area(_GUIDELINE, PREFERRED.description)
            with ui.element("div").classes("actions"):
                self._create = button("Create the review", self._save, kind="primary")
                compare = address("/compare", {"a": before.run_id, "b": after.run_id})
                link_button("Back to the comparison", compare)

    async def _save(self) -> None:
        fields: dict[str, forms.Field] = {
            "name": self._name,
            "size": self._size,
            "overlap": self._overlap,
            "people": self._people,
            "guidelines": self._guideline,
        }
        request = ReviewRequest(
            name=forms.written(self._name) or "",
            run_id=self._after.run_id,
            metrics=[],
            size=cast("int", forms.number_of(self._size) or 0),
            people=cast("list[str]", self._people.value or []),
            overlap=(self._overlap.value or 0) / 100,
            guidelines={PREFERRED.name: str(self._guideline.value or "")},
            shown=Shown(contexts=False, reference=bool(self._reference.value)),
            against=self._before.run_id,
        )
        made = await forms.attempt(partial(reviews.create_review, self._workspace, request), fields, self._create)
        if made is not None:
            forms.leave("/reviews")
