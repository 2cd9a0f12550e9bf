"""The result of a run in one sentence, with its uncertainty, and its gates in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nicegui import ui

from evalflow.app.studio.bot_home import Headline
from evalflow.records import CASES
from evalflow.report.head import cases_in_words, rates_in_words
from evalflow.report.wording import counted, joined, number, percent
from evalflow.web.ui.parts import interval, text
from evalflow.web.ui.visitor import title_of


def sentence(headline: Headline) -> str:
    """The headline in words, such as `30 % of 300 cases pass everything (25 % to 36 %)`.

    If the run has several metrics, and no such figure, it names the metric: `69 % of answers pass Right fee`.
    """
    if row := _row_of_cases(headline):
        return cases_in_words(row)
    if headline.value is None:
        return "Nothing could be scored"
    if headline.statistic == "pass_rate":
        ends = "" if headline.low is None else f" ({percent(headline.low)} to {percent(headline.high)})"
        which = f" {about_what(headline)[0]}" if headline.is_one_of_several else ""
        return f"{percent(headline.value)} of answers pass{which}{ends}"
    name = "on average" if headline.statistic == "mean" else headline.statistic.replace("_", " ")
    ends = "" if headline.low is None else f" ({interval(headline.low, headline.high, 2)})"
    return f"{about_what(headline)[0]}: {number(headline.value, 2)} {name}{ends}"


def _row_of_cases(headline: Headline) -> Mapping[str, Any] | None:
    rows = headline.run.facts["summary"] if headline.metric == CASES else ()
    return next((row for row in rows if (row["metric"], row["dataset"]) == (CASES, headline.dataset)), None)


def about_what(headline: Headline) -> tuple[str, str]:
    """The titles of the metric and the dataset; for the cases that pass everything, each metric with its pass rate."""
    named = partial(title_of, "metric", bot=headline.run.bot)
    dataset = title_of("dataset", headline.dataset)
    if row := _row_of_cases(headline):
        return rates_in_words(headline.run.facts["summary"], row, named), dataset
    return named(headline.metric), dataset


def heading(headline: Headline, tag: str = "h2") -> None:
    """The sentence in an element of its own; its interval stands out less."""
    said, _, ends = sentence(headline).partition(" (")
    with ui.element(tag):
        text(said, "span")
        if ends:
            text(f" ({ends}", "span", "ends-of")


def basis(headline: Headline, moment: str = "") -> None:
    """What the sentence is about: the metric, the dataset, the run's moment, and how many answers are scored."""
    scored = f"{headline.n_scored:,} of {counted(headline.n, 'answer')} scored"
    if headline.metric == CASES:
        scored = f"{headline.n_scored:,} of {counted(headline.n)} decided"
    why = f"{scored}; shown because {headline.why}" if headline.why else scored
    text(joined(*about_what(headline), headline.run.taken.in_words, moment, why), "p", "muted small")
    if headline.judged:
        text(headline.judged, "p", "muted small")


def said_by_people(headline: Headline) -> str:
    """What people's labels make of the number, as a sentence; empty without labels."""
    found = headline.people
    if found is None:
        return ""
    if found.unusable:
        return f"People's labels of {counted(found.n_labels, 'answer')} correct nothing: {found.unusable}."
    is_rate = headline.statistic == "pass_rate"
    value = f"{percent(found.value)} pass" if is_rate else number(found.value, 2)
    ends = ""
    if found.low is not None and found.high is not None:
        span = f"{percent(found.low)} to {percent(found.high)}" if is_rate else interval(found.low, found.high, 2)
        ends = f" ({span})"
    if not found.n_unlabelled:
        return f"People, who labelled all {counted(found.n_labels, 'answer')}, say {value}{ends}."
    of = f"{found.n_labels:,} of {counted(found.n_labels + found.n_unlabelled, 'answer')}"
    return f"People would say about {value}{ends}, going by {of} that they labelled."


def gate_name(gate: Mapping[str, Any], bot: str) -> str:
    """A gate of a run, such as "Faithfulness mean >= 0.8", with the title of its metric."""
    name, metric = str(gate["name"]), str(gate.get("of_metric") or "")
    is_of_it = bool(metric) and name.startswith((f"{metric} ", f"{metric}@"))
    return f"{title_of('metric', metric, bot)}{name.removeprefix(metric)}" if is_of_it else name


def gates_in_words(gates: Sequence[Mapping[str, Any]], bot: str) -> str:
    """Which gates of a bot's run failed or are undecided, or that all passed; empty without gates."""
    if not gates:
        return ""
    is_one = len(gates) == 1
    said: list[str] = []
    for outcome, word in ((False, "failed"), (None, "undecided")):
        names = [gate_name(gate, bot) for gate in gates if gate["passed"] is outcome]
        if names:
            which = "Gate" if is_one else f"{len(names):,} of {len(gates):,} gates"
            said.append(f"{which} {word}: {', '.join(names)}.")
    return " ".join(said) or ("The gate passed." if is_one else f"All {len(gates):,} gates passed.")
