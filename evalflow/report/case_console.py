"""One case on a terminal: the conversation, the answer, and every score with its reason and steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from evalflow.records import ScoreRecord
from evalflow.report.terminal import literal, plain, plain_line
from evalflow.report.wording import number

_CONTEXT = 600


def print_case(console: Console, case: Mapping[str, Any]) -> None:
    """Print one case.

    Args:
        console: Where to print.
        case: dataset, id, tags, messages, answer, reference, contexts, and scores with their steps.
    """
    whose = f" · {case['target']}" + (f" #{case['target_repeat']}" if case["target_repeat"] else "")
    console.rule(literal(f"{case['dataset']} · {case['id']}{whose}", style="bold"), align="left")
    if case["tags"]:
        console.print(literal(" ".join(f"[{tag}]" for tag in case["tags"]), style="dim"))
    for message in case["messages"]:
        _block(console, message["role"], message["content"])
    _block(console, "answer", case["answer"])
    if case["actual"] is not None:
        _block(console, "actual", str(case["actual"]))
    _block(console, "no answer", case["error"])
    _block(console, "reference", case["reference"])
    if case["expected"] is not None:
        _block(console, "expected", str(case["expected"]))
    for position, context in enumerate(case["contexts"], 1):
        text = context["text"]
        _block(console, f"context {position}", text if len(text) <= _CONTEXT else f"{text[:_CONTEXT]} …")
    for score in case["scores"]:
        _score(console, score)
    console.print()


def print_score(console: Console, record: ScoreRecord) -> None:
    """Print one score as it finishes, with the steps that led to it."""
    console.print(Text.assemble((plain_line(f"{record.dataset} · {record.case_id}"), "bold"), "  "), end="")
    _score(console, {**asdict(record), "passed": None, "threshold": None})


def print_eval_steps(console: Console, metric: str, entry: Mapping[str, Any], run: str) -> None:
    """Print steps that a judge wrote, as YAML to paste.

    Args:
        console: Where to print.
        metric: Whose steps they are.
        entry: Their entry in prepared.json.
        run: The run's folder.
    """
    lines = [f"  - {json.dumps(step, ensure_ascii=False)}" for step in entry["steps"]]
    head = f"{metric}: its steps, written by {entry['judge']} and kept in {run}/prepared.json. For the same steps in"
    console.print(literal(f"{head} later runs paste this into its YAML, or say metric.{metric}.steps_from={run}"))
    console.print(literal("\n".join(["steps:", *lines]), style="cyan"), soft_wrap=True)


def _block(console: Console, label: str, text: str | None) -> None:
    if text:
        console.print(literal(label, style="bold cyan"))
        console.print(Padding(literal(text), (0, 0, 0, 2)))


def _score(console: Console, score: Mapping[str, Any]) -> None:
    verdict = {True: "passed", False: "failed", None: ""}[score["passed"]]
    shown = number(score["score"]) if score["status"] == "scored" else score["status"]
    who = f" by {score['judge']}" if score["judge"] else ""
    who += f", of {score['member_of']}" if score.get("member_of") else ""
    threshold = f" (threshold {number(score['threshold'], 2)})" if score["threshold"] is not None else ""
    rest = plain(f"{who}: {shown} {verdict}{threshold}".rstrip())
    path = f", {score['path']}" if score.get("path") else ""
    head = Text.assemble((plain(score["metric"]), "bold magenta"), rest, (path, "dim"))
    console.print(head)
    for text in (score["reason"], score["error"]):
        if text:
            console.print(Padding(literal(text), (0, 0, 0, 2)))
    for step in score["steps"]:
        _step(console, step)


def _step(console: Console, step: Mapping[str, Any]) -> None:
    console.print(Padding(literal(f"step {step['id']}", style="dim"), (0, 0, 0, 2)))
    reply: Any = step["reply"] if "reply" in step else {k: v for k, v in step.items() if k != "id"}
    items: Sequence[Any] = step.get("items") or []
    replies = cast("list[Any]", reply) if isinstance(reply, list) else [reply]
    lines = [_plain(one) for one in replies]
    for position, line in enumerate(lines):
        head = f"{_plain(items[position])}\n  → " if position < len(items) else ""
        console.print(Padding(literal(f"{head}{line}", style="dim"), (0, 0, 0, 4)))
    if step.get("probabilities") and not items:
        console.print(Padding(literal(_chances(step), style="dim"), (0, 0, 0, 4)))
    if step.get("raw"):
        console.print(Padding(literal(f"replied: {step['raw']}", style="red"), (0, 0, 0, 4)))


def _chance(item: tuple[Any, float]) -> float:
    """The most likely first."""
    return -item[1]


def _chances(step: Mapping[str, Any]) -> str:
    """How likely each value was, and what that rests on."""
    parts: list[str] = []
    for name, chances in step["probabilities"][0].items():
        values = ", ".join(f"{value} {chance:.2f}" for value, chance in sorted(chances.items(), key=_chance))
        basis = f", {step['samples']} samples" if "samples" in step else ""
        if "mass" in step:
            basis = f", {step['mass'][name]:.1%} of the tokens' probability"
        parts.append(f"{name}: {values}{basis}")
    return "probabilities of " + "; ".join(parts)


def _plain(value: Any) -> str:
    """A reply as people read it: fields side by side, lists in lines."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_plain(one)}" for key, one in cast("Mapping[str, Any]", value).items())
    if isinstance(value, list):
        return "\n".join(f"- {_plain(one)}" for one in cast("list[Any]", value))
    return "no reply" if value is None else str(value)
