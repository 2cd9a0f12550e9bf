"""A review for editors: people's progress, their disagreements, and the judge's agreement with their labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.review_setup import guidelines_section, people_section
from evalflow.addons.studio.web.pages.reviews import desk_address
from evalflow.addons.studio.web.pages.teaching import teaching_address
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import (
    carry_out,
    delete_button,
    edited,
    open_once,
    question,
    work_button,
)
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.grading import Grade, grades_of, key_of, named
from evalflow.addons.studio.web.ui.parts import (
    address,
    badge,
    button,
    capitalised,
    cell,
    copyable,
    empty,
    fold,
    later,
    link_button,
    message,
    section,
    table,
    table_row,
    tell,
    text,
)
from evalflow.addons.studio.web.ui.reading import AnswerShown, Reading, show_reading
from evalflow.addons.studio.web.ui.verdict import CAUSES
from evalflow.addons.studio.web.ui.visitor import title_of, visitor
from evalflow.addons.studio.work import pair_reviews, review_calibration, review_results, reviews
from evalflow.addons.studio.work.review_calibration import IssuedCertificate, JudgedCase, ReviewResult, SavedCalibration
from evalflow.addons.studio.work.review_results import Disagreement, HumanAgreement, ReviewProgress
from evalflow.addons.studio.work.reviews import Review, ReviewMetric
from evalflow.addons.studio.work.runs import get_run
from evalflow.addons.studio.work.scores import questions_at
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.addons.studio.work.titles import case_title
from evalflow.errors import command
from evalflow.metrics.kinds.pairwise import VERDICTS
from evalflow.report.calibration import Calibration, CorrectedRow
from evalflow.report.comparison_sentences import SIDES, preference_in_words
from evalflow.report.wording import counted, joined, number
from evalflow.summary.preferences import PeoplePreference

_REASON = forms.About("Why", "For those who read it later.", "The fee is on the page that it quotes.")
_DISAGREEMENTS = "disagreements"
"""The anchor of the section."""
_DECIDED = 'sessionStorage.setItem("evalflow-decided", ""); location.reload()'
_NEXT = """if (sessionStorage.getItem("evalflow-decided") !== null) {
    sessionStorage.removeItem("evalflow-decided");
    const next = getHtmlElement(NEXT);
    next.scrollIntoView({block: "center"});
    next.querySelector("button[data-key], button.primary")?.focus({preventScroll: true});
}"""
"""After a decision the next disagreement, or the offer to close the review, is scrolled into view and has the focus."""
_AGREES = (
    (0.8, "People agree well"),
    (0.667, "People agree enough for tentative conclusions"),
    (-9.0, "People disagree"),
)
"""Krippendorff's bounds of alpha: below 0.667, labels are not reliable."""


@guarded_page("/reviews/{review}", "edit")
async def _one_page(workspace: Workspace, review: str) -> None:
    details = await to_thread.run_sync(reviews.get_review, workspace, review)
    progress = await to_thread.run_sync(review_results.progress, workspace, review)
    may_label = await to_thread.run_sync(reviews.labellers, workspace)
    about = joined(", ".join(one.title for one in details.metrics), details.run_title or details.run_id)
    with frame(details.name, place="Reviews", about=about, trail=[("Reviews", "/reviews")]) as actions:
        with actions:
            _actions(workspace, details, progress)
        _progress(details, progress)
        people_section(workspace, details, progress, may_label)
        if details.against:
            read = lambda: pair_reviews.preference_in(workspace, review)  # noqa: E731
            titles = await to_thread.run_sync(_titles_of, workspace, (details.against, details.run_id))
            _later(read, partial(_show_preference, details, titles=titles), "Result")
        else:
            build = partial(show_result, workspace, details)
            _later(partial(_read_result, workspace, details), build, "Result")
        about = "Choose the right grade and say why. It replaces the labels of the answer, not how far people agree."
        differing = partial(_disagreements, workspace, details)
        with ui.element("div") as place:
            place.props["id"] = _DISAGREEMENTS
            _later(lambda: review_results.disagreements(workspace, review), differing, "Disagreements", about)
        guidelines_section(workspace, details, progress)


def _titles_of(workspace: Workspace, run_ids: Sequence[str]) -> Sequence[str]:
    """The titles of runs; empty for one without a title, and for one that is deleted."""

    def title(run_id: str) -> str:
        try:
            return get_run(workspace, run_id).title
        except NotFoundError:
            return ""

    return [title(run_id) for run_id in run_ids]


def _later(read: Callable[[], object], build: Callable[..., object], title: str, about: str = "") -> None:
    with section(title, about):
        later(ui.element("div").classes("stack"), "Reading …", read, build, f"{title}: not there yet.")


def _actions(workspace: Workspace, review: Review, progress: ReviewProgress) -> None:
    me = visitor().actor
    if review.state == "open" and me is not None and me.name in review.people:
        link_button("Label", desk_address(review.name), primary=True)

    async def change() -> None:
        if review.state == "open" and progress.ties:
            open_once(_deciding_first(workspace, review, progress.ties))
            return
        work = review_results.close_review if review.state == "open" else reviews.reopen_review
        await carry_out(partial(work, workspace, review.name, review.version), _reload, by=changing)

    changing = button("Close the review" if review.state == "open" else "Reopen the review", change)
    changing.props["title"] = (
        "No more answers are given out; who has begun one may still submit it"
        if review.state == "open"
        else "People can continue"
    )
    get = reviews.get_review
    seen = edited(get, workspace, lambda now: {"state": now.state, "people": list(now.people)}, review)
    about = "Its labels are deleted too. Download them first if you need them."
    delete = partial(reviews.delete_review, workspace, review.name)
    delete_button(seen, review.name, about, delete, "/reviews")


def _reload(_: Review) -> None:
    ui.navigate.reload()


def _deciding_first(workspace: Workspace, review: Review, ties: int) -> ui.dialog:
    are = "is" if ties == 1 else "are"
    title = f"{counted(ties, 'tie')} between people {are} to be decided"
    about = "No value has more labels than another there. Undecided, a tie counts as the mean of its labels."
    close = partial(review_results.close_review, workspace, review.name, review.version, allow_ties=True)
    closing = partial(carry_out, close, _reload, None)
    with question(title, about, "Close anyway", closing, kind="danger") as asked:
        ui.link("Decide them", f"#{_DISAGREEMENTS}").on("click", asked.close)
    return asked


def _progress(review: Review, progress: ReviewProgress) -> None:
    with ui.element("section").classes("card headline").props('aria-label="Progress"'):
        with ui.element("h2"):
            text(f"{review.items_done:,} of {review.items:,} answers judged", "span")
        text(joined(f"{progress.labels:,} of {progress.wanted:,} labels", _sampling(review)), "p", "muted")
        if review.state == "closed":
            badge("closed")
        if progress.ties:
            ui.link(f"{counted(progress.ties, 'tie')} between people to decide", f"#{_DISAGREEMENTS}").classes("small")
        for one in progress.agreement:
            text(_agreement(review, one), "p", "text")
        labels = f"/api/v1/reviews/{quote(review.name, safe='')}/labels"
        with ui.element("div").classes("actions"):
            for form, word in (("csv", "Labels (CSV)"), ("jsonl", "Labels (JSON lines)")):
                made = ui.link(word, address(labels, {"format": form})).classes("small")
                made.props["download"] = f"labels.{form}"


def _sampling(review: Review) -> str:
    how = {"random": "at random", "groups": "as whole groups", "strata": f"by {review.by}"}[review.method]
    return f"{review.size:,} of {review.population:,} answers, drawn {how}; {review.doubled:,} for two people"


def _agreement(review: Review, agreement: HumanAgreement) -> str:
    alpha = agreement.alpha
    name = next((metric.title for metric in review.metrics if metric.name == agreement.metric), agreement.metric)
    if alpha.value is None:
        why = (
            "no answer has two labels yet" if not agreement.doubled else alpha.method.partition(": ")[2] or alpha.method
        )
        return f"{name}: how far people agree is not known: {why}."
    value = alpha.value
    word = next(word for least, word in _AGREES if value >= least)
    ends = "" if alpha.low is None else f" ({number(alpha.low, 2)} to {number(alpha.high, 2)})"
    kappa = agreement.kappa.value if agreement.kappa else None
    also = "" if kappa is None else f", kappa {number(kappa, 2)}"
    doubled = counted(agreement.doubled, "answer")
    return f"{name}: {word}: alpha {number(alpha.value, 2)}{ends}{also}, on {doubled} with two labels."


def _disagreements(workspace: Workspace, review: Review, disagreements: Sequence[Disagreement]) -> None:
    if not disagreements:
        empty("handshake", "No disagreement", "Nobody has judged an answer differently from somebody else.")
    metrics = {metric.name: metric for metric in review.metrics}
    waiting = [one for one in disagreements if not one.is_resolved]
    if disagreements:
        ties = sum(one.is_tied for one in waiting)
        first = f", {ties:,} of them ties" if ties else ""
        text(f"{len(waiting):,} of {len(disagreements):,} are to be decided{first}.", "p", "muted")
    if not waiting and review.state == "open" and review.items_done == review.items:
        _come_next(_offer_closing(workspace, review))
    first = next(iter(waiting), None)
    for one in disagreements:
        card = _disagreement(workspace, review, metrics[one.metric], one, has_keys=one is first)
        if one is first:
            _come_next(card)


def _come_next(place: ui.element) -> None:
    ui.run_javascript(_NEXT.replace("NEXT", str(place.id)))


def _offer_closing(workspace: Workspace, review: Review) -> ui.element:
    """Offer to close the review, since everything is labelled and decided."""
    with ui.element("div").classes("offer") as offer:
        text("Every answer is labelled, and nothing is left to decide.", "span")
        close = partial(review_results.close_review, workspace, review.name, review.version)
        work_button("Close it", close, _reload, kind="primary")
    return offer


def _disagreement(
    workspace: Workspace, review: Review, metric: ReviewMetric, one: Disagreement, *, has_keys: bool
) -> ui.element:
    with ui.element("article").classes("card stack") as card:
        with ui.element("div").classes("actions"):
            text(f"{metric.title}, {'answer' if one.content.other is None else 'pair'} {one.item + 1}", "h3")
            if one.is_resolved:
                badge("decided", "pass")
            else:
                badge("tie, to be decided" if one.is_tied else "to be decided", "warn")
        turns = [(turn["role"], turn["content"]) for turn in one.content.messages]
        first, other = one.content.answer, one.content.other
        answers = [AnswerShown(text=first)]
        if other is not None:
            answers = [AnswerShown(title="First", text=first), AnswerShown(title="Second", text=other)]
        show_reading(Reading(turns=turns, answers=answers, without=""))
        with ui.element("ul"):
            for label in one.labels:
                summary = joined(
                    _in_words(metric, one, label.value), label.comment, "flagged" if label.is_flagged else ""
                )
                text(summary, "li")
        if one.is_resolved:
            text(" ".join((f"Decided: {_in_words(metric, one, one.resolved)}.", one.reason)), "p", "text")
            with fold("Decide again"), ui.element("div").classes("form"):
                _deciding(workspace, review, metric, one)
        else:
            _deciding(workspace, review, metric, one, has_keys=has_keys)
    return card


_IS_BETTER = {"first": "the first is better", "second": "the second is better", "tie": "both are equally good"}
_OF_FIRST = {verdict: _IS_BETTER[place] for place, verdict in VERDICTS[0].items()}
"""What a label of the first of two answers says in words."""


def _in_words(metric: ReviewMetric, one: Disagreement, value: Grade | None) -> str:
    of_pair = None if one.content.other is None else _OF_FIRST.get(str(value))
    return capitalised(of_pair or named(metric.scale, value))


def _deciding(
    workspace: Workspace, review: Review, metric: ReviewMetric, one: Disagreement, *, has_keys: bool = False
) -> None:
    """A button for each grade, which decides at once, or a field for a number; `has_keys`: the buttons have keys."""
    reason = forms.line(_REASON)

    async def decide(value: object, by: ui.button, field: forms.Field | None = None) -> None:
        why = forms.written(reason) or ""
        work = partial(review_results.resolve, workspace, review.name, one.item, metric.name, value, why)
        if await forms.succeeds(work, {"reason": reason, **({"value": field} if field else {})}, by):
            ui.run_javascript(_DECIDED)

    with ui.element("div").classes("actions").props("role=group") as choices:
        choices.props["aria-label"] = f"{metric.title} is"
        for place, (value, _) in enumerate(grades_of(metric.scale), 1):
            made = button(_in_words(metric, one, value))
            made.on_click(partial(decide, value, made))
            if has_keys and (key := key_of(metric.scale, value, place)):
                made.props(f'data-key={key} data-key-seen aria-keyshortcuts={key} title="Key {key}"')
                with made:
                    text(key, "kbd").props("aria-hidden=true")
    if not grades_of(metric.scale):
        field = forms.number_field(forms.About(f"{metric.title} is", metric.guidelines, required=True), None)

        async def decide_number() -> None:
            if forms.required(field) is not None:
                await decide(field.value, deciding, field)

        with ui.element("div").classes("actions"):
            deciding = button("Decide", decide_number, kind="primary")


_CLOSING = "Closing it gives out no more answers; what people have begun they may still submit."
_SAVING = (
    "Gates and reports of the run then count people's labels, and later runs with the same judge, metric and prompts "
    "show how far the judge can be trusted."
)
_MOST = 20
"""Maximum cases to show in which judge and people differ."""


def _read_result(workspace: Workspace, review: Review) -> tuple[ReviewResult, dict[int, str]]:
    """The result, and the questions of its cases by their positions."""
    result = review_calibration.review_result(workspace, review.name)
    positions = [one.position for one in result.cases if one.agreed < 1 and one.position is not None]
    return result, questions_at(workspace, review.run_id, list(dict.fromkeys(positions))[:500])


def show_result(workspace: Workspace, review: Review, read: tuple[ReviewResult, Mapping[int, str]]) -> None:
    """The content of the section."""
    result, questions = read
    titles = {metric.name: metric.title for metric in review.metrics}
    rows = _corrected(result.calibration, titles) if result.calibration else ()
    if not rows:
        message("There are too few labels to say anything about the judge.", "Go on labelling.", "")
    elif result.is_provisional:
        message("Provisional: people are still labelling.", _CLOSING, "")
    for row in rows:
        with ui.element("article").classes("card stack"):
            text(row.sentence, "p", "text")
            for warning in row.warnings:
                text(warning, "p", "small muted text")
    for note in result.calibration.notes if result.calibration else ():
        text(f"{capitalised(note)}.", "p", "small muted text")
    if rows:
        _saving(workspace, review, result, titles)
        with ui.element("div").classes("actions"):
            link_button("Teach the judge", teaching_address(review.name))
    for metric in review.metrics:
        _against(review, metric, [one for one in result.cases if one.metric == metric.name], questions)


def _show_preference(review: Review, preference: PeoplePreference, titles: Sequence[str]) -> None:
    with ui.element("article").classes("card stack"):
        a, b = (title or run for run, title in zip(preference.pair, titles, strict=True))
        text(preference_in_words(preference, (a, b) if a != b else SIDES), "p", "text")
        if preference.n and preference.is_provisional:
            text(_CLOSING, "p", "small muted")
        if a == b:
            text(f"A is {preference.pair[0]}, B is {preference.pair[1]}.", "p", "small muted")
        with ui.element("div").classes("actions"):
            link_button("To the comparison", address("/compare", {"a": review.against, "b": review.run_id}))


def _corrected(calibration: Calibration, titles: Mapping[str, str]) -> Sequence[CorrectedRow]:
    """Each mean corrected by people's labels, in words, with the titles of the metrics."""
    return replace(
        calibration, rows=[replace(row, metric=titles.get(row.metric, row.metric)) for row in calibration.rows]
    ).corrected_means


def _saving(workspace: Workspace, review: Review, result: ReviewResult, titles: Mapping[str, str]) -> None:
    with ui.element("section").classes("card stack").props('aria-label="Calibration of the run"'):
        with ui.element("div").classes("actions"):
            text("Calibration of the run", "h3")
            badge("saved", "pass") if result.is_saved else badge("not saved")
        for one in result.certificates:
            _certificate(one, titles)
        if result.is_saved:
            run = f"/runs/{quote(review.run_id, safe='')}"
            text("The run's gates and reports count these labels.", "p", "small muted")
            ui.link("To the run", run).classes("small")
        elif review.state == "open":
            text("Close the review to save its calibration: until then it is provisional.", "p", "muted")
        else:
            text(_SAVING, "p", "muted")
            with ui.element("div").classes("actions"):
                save = partial(review_calibration.save_calibration, workspace, review.name)
                work_button("Save the calibration", save, _tell_saved, kind="primary")
        text("The same on the command line, with the labels downloaded as labels.csv:", "p", "small muted")
        copyable(command("calibrate", workspace.runs / review.run_id, "--labels", "labels.csv"))


def _certificate(one: IssuedCertificate, titles: Mapping[str, str]) -> None:
    known = visitor().titles.with_run([""], titles)
    metric, judge = titles.get(one.metric, one.metric), title_of("judge", one.judge)
    if one.issued_at:
        text(f"Certificate of {judge}, {one.issued_at[:10]}: {known.in_text(one.agreement)}.", "p", "text")
    elif one.why_not:
        text(f"No certificate of {judge} for {metric}: {known.in_text(one.why_not)}.", "p", "text")
    else:
        text(f"Saving issues a certificate of {judge} for {metric}.", "p", "text")


def _tell_saved(saved: SavedCalibration) -> None:
    for change in saved.changes:
        tell(capitalised(change))
    ui.navigate.reload()


def _against(review: Review, metric: ReviewMetric, cases: Sequence[JudgedCase], questions: Mapping[int, str]) -> None:
    text(f"{metric.title}: judge against people", "h3", "against")
    if not cases:
        text("No answer has both a score and a label yet.", "p", "muted")
        return
    apart = [one for one in cases if one.agreed < 1]
    same = f"{sum(one.agreed for one in cases):,.10g} of {counted(len(cases), 'answer')}"
    half = "; where people are tied, an answer counts half" if any(0 < one.agreed < 1 for one in apart) else ""
    text(f"Judge and people say the same of {same}{half}.", "p", "muted")
    if not apart:
        return

    with table(("Question", "Judge", "People", "Judge's reason", "Who is wrong?"), "table stacked"):
        for one in apart[:_MOST]:
            path = "" if one.position is None else f"/runs/{review.run_id}/cases/{one.position}"
            asked = questions.get(-1 if one.position is None else one.position)
            with table_row(case_title(asked, one.case_id), path=path):
                cell("Judge", number(one.score, 2))
                cell("People", number(one.human, 2))
                with cell("Judge's reason", classes=""):
                    text(one.reason or "–", "span", "small text")
                with cell("Who is wrong?", classes=""), ui.element("div").classes("actions"):
                    for cause, word in CAUSES.items():
                        about = {"cause": cause, "run": review.run_id, "position": one.position, "metric": metric.name}
                        ui.link(word, address("/tasks/new", about)).classes("small")
    if len(apart) > _MOST:
        text(f"The first {_MOST} of {len(apart):,}.", "p", "small muted")
