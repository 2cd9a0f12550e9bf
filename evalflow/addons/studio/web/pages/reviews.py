"""The reviews, and a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.runs import name_of, own_first, run_option, when
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import Latest, address, after_paint, badge, button, empty, link_button, text
from evalflow.addons.studio.web.ui.visitor import may
from evalflow.addons.studio.work import review_desk, reviews
from evalflow.addons.studio.work.datasets import sample_datasets
from evalflow.addons.studio.work.projects import Person
from evalflow.addons.studio.work.review_desk import OwnProgress
from evalflow.addons.studio.work.review_rows import Shown
from evalflow.addons.studio.work.reviews import PREFERRED, Candidates, Review, ReviewEntry, ReviewRequest
from evalflow.addons.studio.work.runs import Run, get_run, list_runs
from evalflow.addons.studio.work.space import Workspace
from evalflow.report.wording import counted, joined

_ABOUT = "People judge answers without seeing scores. What they say shows how far a judge can be trusted."
_NAME = forms.About(
    "Name", "People who label see it; it should not tell what to expect.", "Fees, week 47", required=True
)
_SIZE = forms.About("Answers to judge", required=True)
_OVERLAP = forms.About(
    "Judged by two people (%)", "Shows how far people agree; at least 30 answers, unless 0.", required=True
)
_PEOPLE = forms.About("People", "Members of the project who may label.", required=True)
_METRICS = forms.About("What to judge", "Metrics of the run.", required=True)
_RUN = forms.About("Run", "Its answers are judged.", required=True)
_METHODS = (
    forms.FormOption("random", "At random", "Every answer has the same chance. Right in most cases.", "shuffle"),
    forms.FormOption("tag", "Every tag", "Each tag gets its share; good to compare topics.", "sell"),
    forms.FormOption(
        "score", "By score", "High and low scores both get their share; good if failures are rare.", "bar_chart"
    ),
    forms.FormOption(
        "groups", "Whole groups", "Related cases stay together; good if people must read them together.", "workspaces"
    ),
)
_SIZE_AT_FIRST = 60
_OF_TWO = "People see two answers in random order and say which is better"


@guarded_page("/reviews", "label")
async def _overview_page(workspace: Workspace) -> None:
    entries = await to_thread.run_sync(_listed, workspace)
    with frame("Reviews", place="Reviews", about=_ABOUT if may("edit") else "Answers for you to judge.") as actions:
        if may("edit"):
            with actions:
                link_button("New review", "/reviews/new", primary=True)
        if not entries:
            _none()
        first = next((entry for entry, own in entries if own is not None and own.left), None)
        with ui.element("div").classes("cards"):
            for entry, own in entries:
                _card(entry, own, has_key=entry is first)


@guarded_page("/reviews/new", "edit")
async def _new_page(workspace: Workspace, run: str = "", against: str = "") -> None:
    if run and against:
        before, after = [await to_thread.run_sync(get_run, workspace, one) for one in (against, run)]
        people = await to_thread.run_sync(reviews.labellers, workspace)
        trail = [("Compare", address("/compare", {"a": against, "b": run}))]
        with frame("Which answer is better?", place="Reviews", about=_PAIR_ABOUT, trail=trail):
            _PairReviewForm(workspace, before, after, people)
        return
    runs = [one for one in (await to_thread.run_sync(list_runs, workspace)).items if one.facts]
    trail = [("Reviews", "/reviews")]
    with frame("New review", place="Reviews", about=_ABOUT, trail=trail):
        if not runs and not run:
            about = "A review judges the answers of a run."
            empty("play_circle", "No run has ended yet", about, ("To the runs", "/runs"))
            return
        samples = await to_thread.run_sync(sample_datasets, workspace)
        names = {one.run_id: run_option(one, samples) for one in own_first(runs, samples)}
        chosen = run or next(iter(names))
        names.setdefault(chosen, chosen)
        candidates = await to_thread.run_sync(reviews.candidates, workspace, chosen)
        _ReviewForm(workspace, chosen, names, candidates)


def _listed(space: Workspace) -> list[tuple[ReviewEntry, OwnProgress | None]]:
    """The reviews, each with the visitor's progress if they take part."""
    entries = reviews.list_reviews(space)
    return [(one, review_desk.own_progress(space, one.name) if one.is_mine else None) for one in entries]


def _none() -> None:
    if may("edit"):
        about = "Let two people or more judge some answers of a run, and see whether its judge agrees with them."
        empty("rate_review", "No reviews yet", about, ("New review", "/reviews/new"))
    else:
        empty("inbox", "Nothing to label", "When somebody needs your judgement, it appears here.")


def _card(entry: ReviewEntry, own: OwnProgress | None, *, has_key: bool) -> None:
    with ui.element("article").classes("card review stack"):
        with ui.element("div").classes("named"):
            if entry.review is None:
                text(entry.name, "h2")
            else:
                with ui.element("h2"):
                    ui.link(entry.name, f"/reviews/{quote(entry.name, safe='')}")
            if entry.state == "closed":
                badge("closed")
        if entry.review is not None:
            _about_review(entry.review)
        elif own is not None:
            declined = f"{own.declined:,} declined" if own.declined else ""
            if own.done + own.left:
                _bar(own.done, own.done + own.left, joined(f"{own.done:,} of {own.done + own.left:,} done", declined))
            else:
                text(declined, "p", "small")
        with ui.element("div").classes("foot"):
            if own is not None and own.left:
                word = "Finish" if entry.state == "closed" else "Continue" if own.done else "Begin"
                link = link_button(word, desk_address(entry.name), primary=entry.review is None)
                link.props["aria-label"] = f"{word} {entry.name}"
                if has_key:
                    link.props('data-key=l aria-keyshortcuts=l title="Label (L)"')
                    with link:
                        text("L", "kbd").props("aria-hidden=true")
            elif own is not None and entry.review is None:
                thanks = " Thank you." if own.done else ""
                text(f"Nothing left for you.{thanks}", "span", "small muted")


def _about_review(review: Review) -> None:
    named = ", ".join(metric.title for metric in review.metrics)
    text(joined(named, review.run_title or review.run_id), "p", "small muted clamp")
    _bar(review.items_done, review.items, f"{review.items_done:,} of {review.items:,} answers judged")
    text(counted(len(review.people), "person").replace("persons", "people"), "span", "small muted")


def _bar(done: int, whole: int, caption: str) -> None:
    with ui.element("div"):
        bar = ui.element("progress").classes("wide").props(f'value={done} max={max(whole, 1)} aria-label="Progress"')
        bar.props["aria-valuetext"] = caption
        text(caption, classes="small")


def desk_address(review: str) -> str:
    """The page where somebody labels."""
    return f"/reviews/{quote(review, safe='')}/label"


class _NewReview:
    """The fields of every form of a new review: its name, its size, and who labels."""

    _workspace: Workspace
    _name: forms.Field
    _size: ui.number
    _overlap: ui.number
    _create: ui.button

    def _pick_people(self, people: Sequence[Person]) -> None:
        names = {one.name: joined(one.name, one.full_name) for one in people}
        self._people = forms.several(_PEOPLE, names, list(names) if len(names) == 1 else [], searched=True)

    async def _create_review(self, fields: Mapping[str, forms.Field], **own: Any) -> None:
        """Create the review with its `own` keys of a request, whose further fields are `fields`."""
        mine = {"name": self._name, "size": self._size, "overlap": self._overlap, "people": self._people}
        request = ReviewRequest(
            name=forms.written(self._name) or "",
            size=cast("int", forms.number_of(self._size) or 0),
            people=cast("Sequence[str]", self._people.value or []),
            overlap=(self._overlap.value or 0) / 100,
            **own,
        )
        work = partial(reviews.create_review, self._workspace, request)
        if await forms.attempt(work, {**mine, **fields}, self._create) is not None:
            forms.leave("/reviews")


class _ReviewForm(_NewReview):
    """The form of a new review; the expected interval is updated during typing."""

    def __init__(self, workspace: Workspace, run: str, runs: Mapping[str, str], candidates: Candidates) -> None:
        self._workspace, self._run, self._candidates, self._latest = workspace, run, candidates, Latest()
        self._method = "random"
        with forms.form(kept=True):
            with forms.fieldset("What is judged"):
                picked = forms.pick(_RUN, runs, run)
                picked.on_value_change(lambda: ui.navigate.to(address("/reviews/new", {"run": picked.value})))
                known = {metric.name: metric.title for metric in candidates.metrics}
                chosen = [name for name in candidates.judged or known if name not in candidates.compared]
                chosen = chosen or list(candidates.compared[:1])
                self._metrics = forms.several(_METRICS, known, chosen)
                if candidates.compared:
                    titles = ", ".join(known[name] for name in candidates.compared)
                    text(f"{_OF_TWO}: {titles}. Choose it alone.", "p", "aside")
                self._name = forms.line(_NAME)
            with forms.fieldset("How many"):
                with forms.pair():
                    self._size = forms.number_field(_SIZE, min(_SIZE_AT_FIRST, candidates.answers))
                    self._overlap = forms.number_field(_OVERLAP, round(100 * reviews.DEFAULT_OVERLAP))
                self._expected = text("", "p", "expected").props("aria-live=polite")
                options = [one for one in _METHODS if _is_possible(one.value, candidates)]
                forms.choices("How they are drawn", options, "random", self._choose)
            with forms.fieldset("Who"):
                self._pick_people(candidates.people)
            with forms.fieldset("What people read"):
                self._contexts = forms.tick(forms.About("Show the passages that the bot was given"), True)
                self._reference = forms.tick(forms.About("Show the expected answer"), True)
                self._guidelines = ui.element("div").classes("stack")
            with ui.element("div").classes("actions"):
                self._create = button("Create the review", self._save, kind="primary")
        self._texts: dict[str, forms.Field] = {}
        self._fill_guidelines()
        self._metrics.on_value_change(self._fill_guidelines)
        for field in (self._size, self._overlap, self._metrics):
            field.on_value_change(self._estimate)
        after_paint(self._estimate)

    def _choose(self, method: str) -> None:
        self._method = method

    def _chosen(self) -> list[str]:
        return cast("list[str]", self._metrics.value or [])

    def _fill_guidelines(self) -> None:
        kept = {name: str(field.value or "") for name, field in self._texts.items()}
        self._guidelines.clear()
        self._texts = {}
        with self._guidelines:
            for metric in self._candidates.metrics:
                if metric.name in self._chosen():
                    about = forms.About(f"Guideline for {metric.title}", f"Values: {metric.scale.text}.")
                    self._texts[metric.name] = forms.area(about, kept.get(metric.name, metric.guidelines))

    async def _estimate(self) -> None:
        is_latest = self._latest.begin()
        metrics, size = self._chosen(), int(self._size.value or 0)
        if not metrics or size < 2:
            self._expected.set_text("")
            return
        given = (self._workspace, self._run, metrics[0], size, (self._overlap.value or 0) / 100)
        estimate = await to_thread.run_sync(reviews.expected_interval, *given)
        if is_latest():
            answers = counted(min(size, self._candidates.answers), "answer")
            width = f"about ± {100 * estimate.half_width:.0f} points" if estimate.half_width < 1 else "too few to tell"
            titles = {metric.name: metric.title for metric in self._candidates.metrics}
            self._expected.set_text(
                f"{answers}: {width} for {titles[metrics[0]]}, from {counted(estimate.labels, 'label')}; "
                f"{estimate.basis}."
            )

    async def _save(self) -> None:
        is_stratified = self._method in ("tag", "score")
        await self._create_review(
            {"metrics": self._metrics},
            run_id=self._run,
            metrics=self._chosen(),
            method="strata" if is_stratified else self._method,
            by=self._method if is_stratified else None,
            guidelines={name: str(field.value or "") for name, field in self._texts.items()},
            shown=Shown(bool(self._contexts.value), bool(self._reference.value)),
        )


def _is_possible(method: str, candidates: Candidates) -> bool:
    if method == "tag":
        return bool(candidates.tags)
    return method != "groups" or candidates.groups < candidates.answers


_PAIR_ABOUT = "People see two answers to the same question, without knowing whose they are, and say which is better."
_PAIR_SIZE = forms.About("Cases to compare", "Drawn at random from those with different answers.", required=True)
_PAIR_OVERLAP = forms.About("Compared by two people (%)", "Shows how far people agree; at least 30 cases, unless 0.")
_GUIDELINE = forms.About("What makes an answer better", "People read this beside each pair.")
_PAIRS_AT_FIRST = 40


class _PairReviewForm(_NewReview):
    """The form of a review in which people say which of two runs' answers is better."""

    def __init__(self, workspace: Workspace, before: Run, after: Run, people: list[Person]) -> None:
        self._workspace, self._before, self._after = workspace, before, after
        with forms.form(kept=True):
            with forms.fieldset("What is compared"):
                for side, run in (("A", before), ("B", after)):
                    text(f"{side}: {joined(name_of(run), when(run.created_at))}", "p")
                self._name = forms.line(_NAME, f"Which is better, {after.created_at[:10]}")
            with forms.fieldset("How many, and who"):
                with forms.pair():
                    self._size = forms.number_field(_PAIR_SIZE, _PAIRS_AT_FIRST)
                    self._overlap = forms.number_field(_PAIR_OVERLAP, 0 if len(people) == 1 else 20)
                self._pick_people(people)
            with forms.fieldset("What people read"):
                self._reference = forms.tick(forms.About("Show the expected answer"), True)
                self._guideline = forms.area(_GUIDELINE, PREFERRED.description)
            with ui.element("div").classes("actions"):
                self._create = button("Create the review", self._save, kind="primary")
                compare = address("/compare", {"a": before.run_id, "b": after.run_id})
                link_button("Back to the comparison", compare)

    async def _save(self) -> None:
        await self._create_review(
            {"guidelines": self._guideline},
            run_id=self._after.run_id,
            metrics=[],
            guidelines={PREFERRED.name: str(self._guideline.value or "")},
            shown=Shown(contexts=False, reference=bool(self._reference.value)),
            against=self._before.run_id,
        )
