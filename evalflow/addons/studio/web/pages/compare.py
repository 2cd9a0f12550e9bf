"""Two runs compared: their choice, and either why they cannot be compared, or the verdict and the changed cases."""

from __future__ import annotations

import math
import re
import tempfile
import uuid
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from anyio import to_thread
from nicegui import ui

from evalflow.addons.studio.web.pages.compare_cases import ChangeQuery, changed_cases
from evalflow.addons.studio.web.pages.runs import ACTIVE, name_of, own_first, run_option, when
from evalflow.addons.studio.web.ui import forms
from evalflow.addons.studio.web.ui.dialogs import work_button
from evalflow.addons.studio.web.ui.frame import frame, guarded_page
from evalflow.addons.studio.web.ui.parts import (
    ProgressBar,
    Tone,
    across,
    address,
    badge,
    button,
    capitalised,
    cell,
    empty,
    fold,
    later,
    link_button,
    message,
    picture,
    polled,
    section,
    shape,
    table,
    table_row,
    text,
)
from evalflow.addons.studio.web.ui.visitor import know_titles, may, title_of, visitor, with_titles
from evalflow.addons.studio.work import comparing
from evalflow.addons.studio.work.bots import Bot
from evalflow.addons.studio.work.comparing import passing_metrics
from evalflow.addons.studio.work.datasets import sample_datasets
from evalflow.addons.studio.work.reruns import bot_with_prompt, run_with_prompt
from evalflow.addons.studio.work.runs import Run, get_run
from evalflow.addons.studio.work.scores import note_view
from evalflow.addons.studio.work.space import Workspace
from evalflow.app.core.changed import KINDS, Kind, Obstacle
from evalflow.app.core.comparison import ComparisonOptions
from evalflow.errors import UserError
from evalflow.report.comparison import (
    Comparison,
    judge_change_lines,
)
from evalflow.report.comparison_page import changed_values, write_comparison
from evalflow.report.comparison_sentences import CLEAR, not_worse_in_words, verdict_in_words
from evalflow.report.word_changes import Stretch
from evalflow.report.wording import counted, joined, method, number, p_value, signed

if TYPE_CHECKING:
    from evalflow.summary.compare import ComparisonRow


_ABOUT = "What changed between two runs, case by case, and whether it could be chance."
_BEFORE = forms.About("Run A", "The earlier run; comparable runs come first.", required=True)
_AFTER = forms.About("Run B", "The run to judge, e.g. the latest.", required=True)
_MARGIN = forms.About(
    "Acceptable loss", "Also tests that B is not worse than A by more than this. Empty: no test.", "0.02"
)
_PROMPT = forms.About("System prompt", "It comes before every conversation. Earlier runs keep the prompt they used.")
POLL_S = 1.0
"""Seconds between polls of a run in progress."""


@dataclass(frozen=True, slots=True)
class _Pair:
    a: str
    b: str
    allow: tuple[Kind, ...] = ()
    margin: float | None = None

    def path(self, query: ChangeQuery | None = None) -> str:
        margin = "" if self.margin is None else f"{self.margin:g}"
        own = {"a": self.a, "b": self.b, "allow": ",".join(self.allow), "margin": margin}
        return address("/compare", {**own, **asdict(query or ChangeQuery())})


@guarded_page("/compare")
async def _compare_page(workspace: Workspace, a: str = "", b: str = "", allow: str = "", margin: str = "") -> None:
    runs = await to_thread.run_sync(comparing.scored_runs, workspace)
    if not runs or (len(runs) < 2 and not b):
        title = "One run so far" if runs else "No run has ended yet"
        about = "Run the same test cases and metrics twice with a change in between; then compare here."
        with frame("Compare", place="Compare", about=_ABOUT):
            empty("compare_arrows", title, about, ("To the runs", "/runs"))
        return
    samples = await to_thread.run_sync(sample_datasets, workspace)
    runs = own_first(runs, samples)
    after = await to_thread.run_sync(get_run, workspace, b) if b else runs[0]
    before = await to_thread.run_sync(get_run, workspace, a) if a else None
    is_scored = bool(after.facts.get("metrics"))
    others = await to_thread.run_sync(comparing.candidates, workspace, after.run_id) if is_scored else []
    bot = await to_thread.run_sync(bot_with_prompt, workspace, after) if is_scored and may("edit") else None
    for run in (before, after):
        if run is not None:
            know_titles(run)
    with frame("Compare", place="Compare", about="" if before else _ABOUT):
        accepted = _margin(margin)
        if before is not None:
            allowed: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in allow.split(","))
            _show(workspace, (before, after), _Pair(before.run_id, after.run_id, allowed, accepted))
        if bot is not None:
            _prompt_form(workspace, after, bot)
        if is_scored:
            with fold("Compare other runs", is_open=before is None).classes("card other-runs"):
                _picks(runs, after, before, others, accepted, samples)


def _margin(content: str) -> float | None:
    """The acceptable loss; None if it is missing, or not a positive number."""
    try:
        value = float(content.replace(",", "."))
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _picks(
    runs: Sequence[Run],
    after: Run,
    before: Run | None,
    others: Sequence[comparing.ComparableRun],
    accepted: float | None,
    samples: Collection[str],
) -> None:
    """The fields for the two runs; choosing another run B reloads the page with the runs comparable to it."""
    newer = {run.run_id: run_option(run, samples) for run in (*runs, after)}
    older: dict[str, str] = {}
    for one in others:
        kinds = dict.fromkeys(obstacle.kind for obstacle in one.obstacles)
        older[one.run.run_id] = run_option(one.run, samples) + (f" (other {', '.join(kinds)})" if kinds else "")
    if before is not None:
        older.setdefault(before.run_id, run_option(before, samples))
    first = before.run_id if before is not None else next(iter(older), None)

    def chosen() -> str:
        return _Pair(str(a.value), after.run_id, margin=_margin(str(margin.value or ""))).path()

    with ui.element("div").classes("stack"):
        with ui.element("div").classes("form wide"), ui.element("div").classes("pair top"):
            a = forms.pick(_BEFORE, older, first)
            b = forms.pick(_AFTER, newer, after.run_id)
            margin = forms.number_field(_MARGIN, accepted)
        if first is None:
            message("No other run has a dataset and a metric in common with run B.", "Choose another run B.")
        with ui.element("div").classes("actions"):
            if first is not None:
                button("Compare", lambda: ui.navigate.to(chosen()), kind="" if before else "primary")
            if before is not None:
                link_button("Swap A and B", _Pair(after.run_id, before.run_id, margin=accepted).path())
    b.on_value_change(lambda: ui.navigate.to(address("/compare", {"b": b.value})))


def _show(workspace: Workspace, runs: tuple[Run, Run], pair: _Pair) -> None:
    """The result; above it, the progress of a run that has not ended."""
    waiting = next((run for run in reversed(runs) if not run.facts.get("metrics")), None)
    if waiting is None:
        _result(workspace, runs, pair)
    elif waiting.state in ACTIVE:
        _wait(workspace, waiting)
    else:
        what = f"{name_of(waiting)} has no results: {waiting.state}."
        message(what, waiting.message or "Resume it, then compare.", "warn")
        link_button("To the run", f"/runs/{waiting.run_id}")


def _wait(workspace: Workspace, waiting: Run) -> None:
    with ui.element("section").classes("verdict-first waits"):
        text(f"{name_of(waiting)} is running", "h2", "verdict-in-words")
        done = text("", "p", "muted").props("aria-live=polite")
        bar = ProgressBar()
        link_button("To the run", f"/runs/{waiting.run_id}")

    def tell_progress(run: Run) -> None:
        progress = run.progress
        of = f" of {progress.expected:,}" if progress.expected else ""
        done.set_text(f"{progress.done:,}{of} scores so far. The comparison appears here when the run ends.")
        bar.show(progress.done, progress.expected)

    async def poll() -> None:
        run = await to_thread.run_sync(get_run, workspace, waiting.run_id)
        if run.state in ACTIVE:
            tell_progress(run)
        else:
            timer.deactivate()
            ui.navigate.reload()

    tell_progress(waiting)
    timer = polled(POLL_S, poll)


def _result(workspace: Workspace, runs: tuple[Run, Run], pair: _Pair) -> None:
    query, titles = ChangeQuery.of_address(), visitor().titles

    def compare() -> Comparison | list[Obstacle]:
        if forbidden := comparing.obstacles_between(workspace, pair.a, pair.b, pair.allow):
            return forbidden
        try:
            comparison = comparing.compare_runs(
                workspace, pair.a, pair.b, ComparisonOptions(pair.allow, margin=pair.margin)
            )
        except UserError as error:
            bots = [run.bot for run in reversed(runs)]
            problems = [replace(one, what=titles.in_text(one.what, *bots)) for one in error.problems]
            raise UserError(problems) from error
        for run in (pair.a, pair.b):
            note_view(workspace, run)
        return comparison

    def show(outcome: Comparison | list[Obstacle]) -> None:
        if isinstance(outcome, list):
            _show_obstacles(outcome, pair, [run.bot for run in reversed(runs)])
        else:
            verdict(outcome, runs)
            changed_cases(workspace, runs, query, pair.path)

    later(ui.element("div"), "Comparing …", compare, show, "These runs cannot be compared")


def _show_obstacles(obstacles: Sequence[Obstacle], pair: _Pair, bots: Sequence[str]) -> None:
    kinds = (*pair.allow, *dict.fromkeys(obstacle.kind for obstacle in obstacles))
    with section("These runs cannot be compared as they are", "Their scores may not mean the same:"):
        with ui.element("ul").classes("obstacles"):
            for obstacle in obstacles:
                text(with_titles(obstacle.what, *bots), "li", "text")
        with ui.element("div").classes("actions"):
            link_button("Compare anyway", replace(pair, allow=kinds).path())
            if may("edit"):
                link_button("Run A again, as B was", address("/runs/new", {"source": pair.b}))
            link_button("Choose another run A", address("/compare", {"b": pair.b}))


def _prompt_form(workspace: Workspace, run: Run, bot: Bot) -> None:
    """Edit the prompt of the bot of run B, run the same cases again, and compare with run B."""

    def start() -> Run:
        key = f"prompt-{uuid.uuid4().hex}"
        return run_with_prompt(workspace, run.run_id, str(field.value or ""), bot.version, key)

    def leave(started: Run) -> None:
        forms.leave(_Pair(run.run_id, started.run_id).path())

    title = f"Edit the prompt of {bot.title}, run and compare"
    with fold(title).classes("card prompt-trial"), forms.unsaved(kept=True), ui.element("div").classes("form wide"):
        field = forms.area(_PROMPT, str(bot.config.get("system_prompt") or "")).props("dir=auto")
        with ui.element("div").classes("actions"):
            fields = {"system_prompt": field, "prompt": field}
            work_button("Run and compare", start, leave, fields, kind="primary", icon="play_arrow")
            about = f"Asks {bot.title} the same test cases again, and compares with {name_of(run)}."
            text(about, "span", "small muted")


_TONES: dict[str, Tone] = {"better": "pass", "worse": "fail"}
_HEADS = ("Metric", "A", "B", "B minus A, with its 95 % interval", "Verdict")
_MARGIN_TONES: dict[bool | None, Tone] = {True: "pass", False: "fail", None: "warn"}
_MIDDLE = 13
"""Distance in pixels from the top to the line of an interval."""
_LEGEND = f"{CLEAR} “Could detect” is the true difference that this many cases would find four times in five."
_SIGNS = {"better": "▲", "worse": "▼", "higher": "↑", "lower": "↓", "cannot_tell": "?"}


def verdict(comparison: Comparison, runs: tuple[Run, Run]) -> None:
    """The verdict in a sentence, the two runs, and a line for each metric."""
    rows = [replace(one, metric=title_of("metric", one.metric, runs[1].bot)) for one in comparison.rows]
    passing, bots = passing_metrics(runs[1]), [run.bot for run in reversed(runs)]
    [flips], [sentence] = comparison.flips, comparison.sentences.values()
    with ui.element("section").classes("verdict-first"):
        text(str(sentence), "h2", f"verdict-in-words {sentence.verdict}")
        if sentence.beside:
            text(sentence.beside, "p", "muted")
        if passing:
            better, worse = flips.improved, flips.worsened
            statement = f"{counted(better, 'case')} flipped to pass, {worse:,} to fail."
            text(statement if better or worse else "No case flipped between pass and fail.", "p", "flips-in-words")
        with ui.element("div").classes("sides"):
            for side, run in zip("AB", runs, strict=True):
                _side(side, run)
        for statement in comparison.preferred:
            text(statement, "p", "preferred")
        if comparison.notes:
            with ui.element("ul").classes("notes small muted").props('aria-label="Notes"'):
                for note in comparison.notes:
                    text(with_titles(note, *bots), "li")
        with ui.element("div").classes("actions"):
            button("Download as one page", lambda: _download(comparison), icon="download")
            if may("edit"):
                _asking(comparison, runs)
    if agreement := list(judge_change_lines(comparison)):
        with section("Agreement with labels, before and after"), ui.element("ul").classes("card"):
            for line in agreement:
                text(with_titles(line, *bots), "li", "text")
    _what_changed(comparison, bots)
    with section("Metric by metric", "B minus A, over the cases scored in both runs."):
        _table(rows)
        if comparison.margin is not None:
            _against(rows, comparison.margin)
        with fold("How this was tested").classes("tested"):
            _statistics(replace(comparison, rows=rows))


def _asking(comparison: Comparison, runs: tuple[Run, Run]) -> None:
    """Link what asks people which answers are better: a new review, and those in which people may still label."""
    a, b = (run.run_id for run in runs)
    asked = address("/reviews/new", {"run": b, "against": a})
    if comparison.preferences or not comparison.changed[0].same_answers:
        link_button("Ask more people" if comparison.preferences else "Ask people which is better", asked)
    for name in (name for one in comparison.preferences for name in one.unfinished):
        ui.link(f"To the review {name}", f"/reviews/{quote(name, safe='')}").classes("small")


def _download(comparison: Comparison) -> None:
    """The same document as compare.html of the command."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "compare.html")
        write_comparison(path, comparison)
        ui.download.content(path.read_bytes(), "compare.html", "text/html")


_OF_EXAMPLE = re.compile(r"\Aexamples\.(\d+)\.(?:reply\.)?([\w.]+)\Z")
_HASH = re.compile(r" [0-9a-f]{8}\Z")


def _what_changed(comparison: Comparison, bots: Sequence[str]) -> None:
    if not comparison.changes:
        return
    with section("What you changed"), ui.element("div").classes("card"):
        for what, own in groupby(changed_values(comparison.changed[0]), key=itemgetter(0)):
            heading = capitalised(with_titles(what, *bots))
            text(heading, "h3")
            for _, name, before, after in own:
                if name:
                    shown = _OF_EXAMPLE.sub(r"example \1, \2", _HASH.sub("", with_titles(name, *bots))).replace(
                        "_", " "
                    )
                    text(shown, "p", "small muted")
                    with ui.element("div").classes("split"):
                        _marked(before, "del", f"{heading}, {shown}: A")
                        _marked(after, "ins", f"{heading}, {shown}: B")
        if comparison.changed[0].answers:
            text(with_titles(comparison.changes[-1], *bots), "p", "small muted")


def _marked(stretches: Sequence[Stretch], tag: str, label: str) -> None:
    """A text with its changes in the element `del` or `ins`; `label` names it for screen readers."""
    with ui.element("div").classes("text marked").props("dir=auto tabindex=0 role=region") as box:
        box.props["aria-label"] = label
        for one in stretches or [Stretch("none", is_changed=False)]:
            text(one.content, tag if one.is_changed else "span")


def _side(side: str, run: Run) -> None:
    with ui.element("div").classes("side"):
        badge(side, "accent")
        ui.link(name_of(run), f"/runs/{run.run_id}")
        text(f"{title_of('bot', run.bot)} · {when(run.created_at)}", "span", "small muted")


def _table(rows: Sequence[ComparisonRow]) -> None:
    span = _span([row for row in rows if _is_small(row)])
    several = len({row.dataset for row in rows}) > 1

    with table(_HEADS, "table stacked"):
        for one in rows:
            _row(one, span if _is_small(one) else _span([one]), several)


def _row(one: ComparisonRow, span: float, several: bool) -> None:
    estimate = one.difference
    with table_row(one.metric, _about(one, several)):
        cell("A", number(estimate.value_a))
        cell("B", number(estimate.value_b))
        with cell(_HEADS[3], classes="drawn"):
            _interval(one, span)
            ends = "no interval" if estimate.low is None else f"{signed(estimate.low)} to {signed(estimate.high)}"
            with ui.element("div").classes("said"):
                text(signed(estimate.difference), "strong")
                text(ends, "span", "small muted")
        with cell("Verdict", classes=""):
            badge(f"{_SIGNS[one.verdict]} {verdict_in_words(one.verdict)}", _TONES.get(one.verdict, ""))


def _statistics(comparison: Comparison) -> None:
    with table(("Metric", comparison.p_name, "Could detect", "Cases", "Interval by"), "table stacked"):
        for row in comparison.rows:
            cases = f"{row.difference.n:,}"
            if row.difference.clusters != row.difference.n:
                cases += f" in {row.difference.clusters:,} clusters"
            with ui.element("tr"):
                text(joined(row.metric, row.called.replace("_", " "), row.tag), "th").props("scope=row")
                cell(comparison.p_name, p_value(row.p_adjusted))
                cell("Could detect", number(row.detectable))
                cell("Cases", cases)
                cell("Interval by", method(row.difference.method), "")
    with ui.element("div").classes("legend small muted"):
        for note in (*map(with_titles, comparison.judges), f"A {comparison.family}.", _LEGEND):
            text(note, "p")


def _against(rows: Sequence[ComparisonRow], margin: float) -> None:
    """Whether B is not worse by more than the margin, metric by metric."""
    with ui.element("ul").classes("card margins"):
        for row in rows:
            label, more = not_worse_in_words(row, margin)
            with ui.element("li"):
                badge(label, _MARGIN_TONES[row.not_worse(margin)])
                text(f"{row.metric}, {_about(row, several=True)}", "span")
                text(f"{more}.", "span", "small muted")


def _about(row: ComparisonRow, several: bool) -> str:
    lower = "" if row.higher_is_better else "lower is better"
    dataset, judge = title_of("dataset", row.dataset), row.judge and title_of("judge", row.judge)
    return ", ".join(
        part for part in (row.called.replace("_", " ") or "mean", dataset if several else "", judge, lower) if part
    )


def _interval(row: ComparisonRow, span: float) -> None:
    estimate = row.difference
    elements = [shape("line", "zero", x1="50%", x2="50%", y1=0, y2=2 * _MIDDLE)]
    if estimate.low is not None and estimate.high is not None:
        ends = {"x1": across(_across(estimate.low, span)), "x2": across(_across(estimate.high, span))}
        elements.append(shape("line", f"line {row.verdict}", y1=_MIDDLE, y2=_MIDDLE, **ends))
    if estimate.difference is not None:
        elements.append(
            shape("circle", f"dot {row.verdict}", cx=across(_across(estimate.difference, span)), cy=_MIDDLE, r=5)
        )
    about = f"difference {signed(estimate.difference)}, interval {signed(estimate.low)} to {signed(estimate.high)}"
    picture(about, "difference", elements)


def _across(value: float, span: float) -> float:
    return 0.5 + 0.48 * value / span


def _span(rows: Sequence[ComparisonRow]) -> float:
    ends = [
        abs(end) for row in rows for end in (row.difference.low, row.difference.high, row.difference.difference) if end
    ]
    return max(ends, default=1.0)


def _is_small(row: ComparisonRow) -> bool:
    """Whether the row fits the common scale; rows in other units get a separate scale."""
    estimate = row.difference
    return all(end is None or abs(end) <= 1 for end in (estimate.low, estimate.high, estimate.difference))
