"""The result of a run in one sentence, with its uncertainty, and its gates in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from nicegui import ui

from evalflow.addons.studio.web.ui.parts import Tone, text
from evalflow.addons.studio.web.ui.visitor import title_of, with_titles
from evalflow.addons.studio.work.bot_home import Headline
from evalflow.addons.studio.work.runs import Run
from evalflow.app.core.rederive import MetricInRun
from evalflow.records import CASES
from evalflow.report.gate_sentences import OUTCOMES, of_gates
from evalflow.report.sentences import RunSentence, of_row
from evalflow.report.wording import counted, joined, plain_statistic, without_means_of_figures
from evalflow.summary.rows import GateOutcome

_JUDGES = 2
"""The number of judges named in a headline."""
_TONES: Mapping[bool | None, Tone] = {True: "pass", False: "fail", None: "warn"}


def run_sentence(headline: Headline) -> RunSentence:
    """The run's headline, with the titles of its metrics."""
    rows = without_means_of_figures(headline.run.summary)
    return of_row(headline.row, rows, partial(metric_title, headline.run))


def sentence(headline: Headline) -> str:
    """The headline in words, such as `30 % of 300 cases pass everything (25 to 36 %)`."""
    return run_sentence(headline).first


def about_what(headline: Headline) -> tuple[str, str]:
    """The titles of metric and dataset; for cases that pass everything, each metric with its pass rate."""
    dataset = title_of("dataset", headline.dataset)
    if headline.metric == CASES:
        return run_sentence(headline).more, dataset
    return metric_title(headline.run, headline.metric), dataset


def heading(headline: Headline, tag: str = "h2") -> None:
    """The sentence as an element; its interval and source are less prominent."""
    sentence = run_sentence(headline)
    with ui.element(tag):
        rest = sentence.first.removeprefix(sentence.result)
        text(f"{sentence.result} " if rest.startswith(" ") else sentence.result, "span")  # a line may end there
        if rest:
            text(rest.lstrip(), "span", "ends-of")


def basis(headline: Headline, moment: str = "") -> None:
    """What the sentence is based on: metric, dataset, the run's time, and how many answers are scored."""
    scored = f"{headline.n_scored:,} of {counted(headline.n, 'answer')} scored"
    if headline.metric == CASES:
        scored = f"{headline.n_scored:,} of {counted(headline.n)} decided"
    why = f"{scored}; shown because {headline.why}" if headline.why else scored
    text(joined(*about_what(headline), headline.run.taken.in_words, moment, why), "p", "muted small")
    if headline.judged:
        lines = [judge_line(metric) for metric in headline.judged[:_JUDGES]]
        more = len(headline.judged) - len(lines)
        text("; ".join([*lines, *([f"{more} more"] if more else [])]), "p", "muted small")


def judge_line(metric: MetricInRun) -> str:
    """A metric's judge with its title, and its agreement with people; see `MetricInRun`."""
    return with_titles(metric.judged)


def metric_title(run: Run, metric: str) -> str:
    """The current title of a run's metric, or if there is none, the title stored in the run.

    The run of a taught judge belongs to no bot, so only the run itself has the title.
    """
    title, own = title_of("metric", metric, run.bot), run.metrics.get(metric)
    return own.title if own is not None and title == metric else title


def gate_name(gate: GateOutcome, run: Run) -> str:
    """A gate of a run, such as "Faithfulness pass rate >= 0.8", with the title of its metric."""
    metric, at, tag = gate["metric"].partition("@")
    rest = gate["name"].removeprefix(f"{gate['metric']} {gate['statistic']}")
    return f"{metric_title(run, metric)}{at}{tag} {plain_statistic(gate['statistic'])}{rest}"


def outcome_badge(passed: bool | None) -> tuple[str, Tone]:
    """A gate's outcome and its tone."""
    return OUTCOMES[passed], _TONES[passed]


def gate_badge(passed: bool | None) -> tuple[str, Tone]:
    """The outcome of a run's gates, naming them, such as "gate undecided"."""
    outcome, tone = outcome_badge(passed)
    return f"gate {outcome}", tone


def gates_in_words(gates: Sequence[GateOutcome], run: Run) -> str:
    """Which gates of a run failed or are undecided, or that all passed; empty without gates."""
    return of_gates(gates, partial(gate_name, run=run))
