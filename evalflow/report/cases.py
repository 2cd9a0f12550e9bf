"""Single cases: the explorer of report.html, and the command `cases`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from operator import attrgetter, itemgetter
from typing import Any, TextIO

from pydantic_core import from_json
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from evalflow.config.schema import MetricConfig
from evalflow.lazy import pl
from evalflow.records import CUT_OFF, FILTERED, Case, Context, Message, ScoreRecord, numbered, texts_of
from evalflow.report.page import ending_words
from evalflow.report.results_csv import FAULT, RESULT, AnsweredCase, CaseKey, Score
from evalflow.report.wording import literal, number, plain, plain_line
from evalflow.summary.journal import json_line
from evalflow.summary.labelled_cells import counted_pass, counted_score, with_people
from evalflow.targets.conversation import SIMULATION, ending_of
from evalflow.values.jsonvalues import is_list, is_mapping, is_object
from evalflow.values.trajectories import trajectory_text

MAX_CASES = 20_000  # more would make the page slow
LISTED = 5_000  # cases of a run that has more than that; few readers would use more

_CONTEXT = 600


def most_informative(
    scores: pl.LazyFrame, metrics: Mapping[str, MetricConfig], most: int = MAX_CASES, people: pl.DataFrame | None = None
) -> Collection[CaseKey] | None:
    """The cases to list, at most `LISTED`: failed ones, errors, the lowest scores; None for all, if at most `most`.

    Ties are in input order. Members of a panel are ignored. `people`, of `answers_of_people`, decide on the answers
    that they labelled.
    """
    if scores.select(pl.len()).collect().item() <= most:
        return None  # cheap check first: every case has at least one score
    lower = [name for name, config in metrics.items() if config.direction == "lower_is_better"]
    ranked = (
        with_people(scores.filter(pl.col("member_of").is_null()), people)
        .with_row_index("place")
        .group_by("dataset", "case_id")
        .agg(
            failed=counted_pass().not_().any(),
            error=(pl.col("status") == "error").any(),
            worst=pl.when(pl.col("metric").is_in(lower)).then(-counted_score()).otherwise(counted_score()).min(),
            place=pl.col("place").min(),
        )
        .sort("failed", "error", "worst", "place", descending=[True, True, False, False], nulls_last=True)
        .head(most + 1)
        .select("dataset", "case_id")
        .collect(engine="streaming")
    )
    return frozenset(ranked.head(min(most, LISTED)).iter_rows()) if ranked.height > most else None


BLOCK = 100  # cases in one script block of details; the page finds a case by dividing
MAX_BYTES = 200_000_000
"""Maximum size of the uncompressed details. The rest is left out with a note: browsers could not open the page."""

_STATES = {state: n for n, state in enumerate(("passed", "failed", "scored", "undefined", "error", "skipped"))}
_PREVIEW = 160
_SERIES = ("metric", "judge", "repeat", "target", "target_repeat", "member_of")
_SERIES_OF = itemgetter(*_SERIES)
_SCORE_KEYS = (*RESULT, "reason", *FAULT, "path", "cost_usd", "latency_s")
_OF_CALLS = frozenset({"role", "arguments", "function"})
_ANSWER_KEYS = ("status", "answer", "actual", "metadata", "cost_usd", "latency_s", "error_type", "error")
_ANSWER_OF = attrgetter(*_ANSWER_KEYS)


class ExplorerWriter:
    """Collects what the explorer shows, case by case, in two text files open to write and read.

    `index` gets a JSON list per case: id, dataset, preview, tags and cells, where datasets and tags are numbers, and a
    cell is three numbers: series, state, score. `details` gets a JSON object per case, up to `max_bytes` in all.
    """

    def __init__(
        self, index: TextIO, details: TextIO, wanted: Collection[CaseKey] | None = None, max_bytes: int = MAX_BYTES
    ) -> None:
        self.index = index
        self.details = details
        self.wanted = wanted
        self._room = max_bytes
        self._rows: list[AnsweredCase] = []
        # Values are numbered from 0 in the order of first use.
        self._series, self._datasets, self._tags = (defaultdict[Any, int](count().__next__) for _ in range(3))
        self.cases = 0
        self.shown = 0

    def write(self, row: AnsweredCase) -> None:
        """Add one row. The rows of a case must be adjacent."""
        if self._rows and (self._rows[0].case.dataset, self._rows[0].case.id) != (row.case.dataset, row.case.id):
            self.finish()
        self._rows.append(row)

    def finish(self) -> None:
        if not self._rows:
            return
        self.cases += 1
        case = self._rows[0].case
        if self.wanted is None or (case.dataset, case.id) in self.wanted:
            self._show()
        self._rows = []

    def _show(self) -> None:
        details = json_line(_details(self._rows, self._series)).decode()
        self._room -= len(details)
        if self._room >= 0:
            self.shown += 1
            self.details.write(f"{details}\n")
            self.index.write(f"{script_json(self._entry())}\n")

    def legend(self) -> dict[str, Any]:
        return {
            "block": BLOCK,
            "states": [*_STATES],
            "series": [dict(zip(_SERIES, key, strict=True)) for key in self._series],
            "datasets": list(self._datasets),
            "tags": list(self._tags),
        }

    def _entry(self) -> list[Any]:
        case = self._rows[0].case
        answers = (row.answer.answer for row in self._rows if row.answer and row.answer.answer)
        text = case.question or case.scenario or next(answers, "")
        preview = " ".join(text[: 2 * _PREVIEW].split())[:_PREVIEW]
        cells: list[float | None] = []
        for row in self._rows:
            for score in row.scores:
                value = None if score["score"] is None else float(f"{score['score']:.4g}")
                cells += [self._series[_SERIES_OF(score)], _STATES[_state(score)], value]
        tags = [self._tags[tag] for tag in case.tags]
        return [case.id, self._datasets[case.dataset], preview, tags, cells]


def script_json(value: Any) -> str:
    """JSON on one line, safe in a script element: `<` is escaped, so nothing in it can end the element."""
    return json_line(value).decode().replace("<", "\\u003c")


def _state(score: Score) -> str:
    if score["status"] != "scored" or score["passed"] is None:
        return score["status"]
    return "passed" if score["passed"] else "failed"


def _details(rows: Sequence[AnsweredCase], series: Mapping[Any, int]) -> dict[str, Any]:
    case = rows[0].case
    return _present(
        {
            "group": case.group,
            "messages": _turns(case.messages),
            "brief": case.brief,
            "reference": case.reference_text,
            "contexts": _contexts(case.contexts),
            "expected": case.expected,
            "vars": dict(case.vars) or None,
            "answers": [_answer(row, case, series) for row in rows if row.answer or row.scores],
        }
    )


def _answer(row: AnsweredCase, case: Case, series: Mapping[Any, int]) -> dict[str, Any]:
    scores = [_score(score, series[_SERIES_OF(score)]) for score in row.scores]
    shown: dict[str, Any] = {"target": row.target, "repeat": row.target_repeat, "scores": scores}
    answer = row.answer
    if answer is not None:
        if answer.contexts is not case.contexts and answer.contexts != case.contexts:
            shown["contexts"] = _contexts(answer.contexts)
        if len(answer.messages) > len(case.messages):  # a conversation that the run has played
            shown["messages"] = _turns(answer.messages)
        shown |= zip(_ANSWER_KEYS, _ANSWER_OF(answer), strict=True)
    return _present(shown)


def _turns(messages: Sequence[Message]) -> list[list[str]]:
    return [[message.role, message.text] for message in messages]


def _score(score: Score, number: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"series": number}
    shown |= [(key, value) for key in _SCORE_KEYS if (value := score[key]) is not None]
    if score["steps"] and (steps := from_json(score["steps"])):
        shown["steps"] = steps
    if score["value"] and (value := from_json(score["value"])) is not None:
        shown["value"] = value
    return shown


def _contexts(contexts: Sequence[Context] | None) -> list[dict[str, Any]] | None:
    return None if contexts is None else [_present(asdict(context)) for context in contexts]


def _present(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if inner is not None}


def print_case(console: Console, case: Mapping[str, Any]) -> None:
    """Print one case."""
    whose = f" · {case['target']}" + (f" #{case['target_repeat']}" if case["target_repeat"] else "")
    console.rule(literal(f"{case['dataset']} · {case['id']}{whose}", style="bold"), align="left")
    if case["tags"]:
        console.print(literal(" ".join(f"[{tag}]" for tag in case["tags"]), style="dim"))
    for message in case["messages"]:
        _block(console, message["role"], message["content"])
    case = {**case, "reference": numbered(texts_of(case["reference"]))}
    extracted = {True: ", extracted", False: ", nothing extracted", None: ""}[case["extracted"]]
    ended = {CUT_OFF: ", cut off", FILTERED: ", filtered"}.get(case["finish_reason"], "")
    shown = {
        "thoughts": "thoughts",
        "full_answer": "whole answer",
        "answer": f"answer{extracted}{ended}",
        "actual": f"actual{extracted}{ended}",
        "error": "no answer",
        "reference": "reference",
        "expected": "expected",
    }
    for key, label in shown.items():
        _block(console, label, _readable(case[key]))
    if ended := ending_of(case["metadata"]):
        reason = case["metadata"][SIMULATION].get("reason")
        _block(console, "simulated user", f"{ending_words(ended)}{f': {reason}' if reason else ''}")
    for position, context in enumerate(case["contexts"], 1):
        text = context["text"]
        _block(console, f"context {position}", text if len(text) <= _CONTEXT else f"{text[:_CONTEXT]} …")
    for score in case["scores"]:
        _print_score(console, score)
    console.print()


def print_score(console: Console, record: ScoreRecord) -> None:
    """Print one score as it finishes, with the steps that led to it."""
    console.print(Text.assemble((plain_line(f"{record.dataset} · {record.case_id}"), "bold"), "  "), end="")
    _print_score(console, {**asdict(record), "passed": None, "threshold": None})


def print_eval_steps(console: Console, metric: str, entry: Mapping[str, Any], run: str) -> None:
    """Print evaluation steps that a judge wrote, as YAML to paste."""
    lines = [f"  - {json.dumps(step, ensure_ascii=False)}" for step in entry["steps"]]
    head = f"{metric}: its steps, written by {entry['judge']} and kept in {run}/prepared.json. For the same steps in"
    console.print(literal(f"{head} later runs paste this into its YAML, or say metric.{metric}.steps_from={run}"))
    console.print(literal("\n".join(["steps:", *lines]), style="cyan"), soft_wrap=True)


def _readable(value: Any) -> str | None:
    """A trajectory as text, step by step; any other value unchanged."""
    listed = value if is_list(value) else []
    if any(is_object(one) and _OF_CALLS.intersection(one) for one in listed):
        with suppress(ValueError):
            return trajectory_text(listed)
    return None if value is None else str(value)


def _block(console: Console, label: str, text: str | None) -> None:
    if text:
        console.print(literal(label, style="bold cyan"))
        console.print(Padding(literal(text), (0, 0, 0, 2)))


def _print_score(console: Console, score: Mapping[str, Any]) -> None:
    verdict = {True: "passed", False: "failed", None: ""}[score["passed"]]
    shown = number(score["score"]) if score["status"] == "scored" else score["status"]
    who = f" by {score['judge']}" if score["judge"] else ""
    who += f", of {score['member_of']}" if score.get("member_of") else ""
    threshold = f" (threshold {number(score['threshold'], 2)})" if score["threshold"] is not None else ""
    rest = plain(f"{who}: {shown} {verdict}{threshold}".rstrip())
    path = f", {score['path']}" if score.get("path") else ""
    head = Text.assemble((plain(score["metric"]), "bold magenta"), rest, (path, "dim"))
    console.print(head)
    if score.get("human_undefined"):
        people = "label: nothing to score, so no score counts"
        console.print(Padding(literal(people, style="bold"), (0, 0, 0, 2)))
    if score.get("human") is not None:
        outcome = {True: " passes", False: " fails", None: ""}[score["human_passed"]]
        people = f"label: {number(score['human'])}{outcome}, which counts instead"
        console.print(Padding(literal(people, style="bold"), (0, 0, 0, 2)))
    for text in (score["reason"], score["error"]):
        if text:
            console.print(Padding(literal(text), (0, 0, 0, 2)))
    for step in score["steps"]:
        _step(console, step)


def _step(console: Console, step: Mapping[str, Any]) -> None:
    console.print(Padding(literal(f"step {step['id']}", style="dim"), (0, 0, 0, 2)))
    reply: Any = step["reply"] if "reply" in step else {k: v for k, v in step.items() if k != "id"}
    items: Sequence[Any] = step.get("items") or []
    replies = reply if is_list(reply) else [reply]
    lines = [_plain(one) for one in replies]
    for position, line in enumerate(lines):
        head = f"{_plain(items[position])}\n  → " if position < len(items) else ""
        console.print(Padding(literal(f"{head}{line}", style="dim"), (0, 0, 0, 4)))
    if step.get("probabilities") and not items:
        console.print(Padding(literal(_chances(step), style="dim"), (0, 0, 0, 4)))
    if step.get("mended"):
        console.print(Padding(literal(f"reply: mended ({', '.join(step['mended'])})", style="dim"), (0, 0, 0, 4)))
    if step.get("raw"):
        style = "dim" if step.get("mended") else "red"
        console.print(Padding(literal(f"replied: {step['raw']}", style=style), (0, 0, 0, 4)))


def _chances(step: Mapping[str, Any]) -> str:
    """The probability of each value, and its basis (samples or token probabilities)."""
    parts: list[str] = []
    for name, chances in step["probabilities"][0].items():
        values = ", ".join(
            f"{value} {chance:.2f}" for value, chance in sorted(chances.items(), key=itemgetter(1), reverse=True)
        )
        basis = f", {step['samples']} samples" if "samples" in step else ""
        if "mass" in step:
            basis = f", {step['mass'][name]:.1%} of the tokens' probability"
        parts.append(f"{name}: {values}{basis}")
    return "probabilities of " + "; ".join(parts)


def _plain(value: Any) -> str:
    if is_mapping(value):
        return "; ".join(f"{key}: {_plain(one)}" for key, one in value.items())
    if is_list(value):
        return "\n".join(f"- {_plain(one)}" for one in value)
    return "no reply" if value is None else str(value)
