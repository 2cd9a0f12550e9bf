"""What the members of panels and cascades tell, in words: for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.report.told import Told, print_told
from evalflow.report.wording import cost, number, percent

if TYPE_CHECKING:
    from rich.console import Console

_NAMED = 5
_AGREED, _HARDLY = 0.8, 0.667
"""Krippendorff (2004): conclusions from 0.8 on, tentative ones from 0.667 on."""


def panel_texts(details: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> list[Told]:
    """One text for each metric (and dataset and target) whose judge has members.

    Args:
        details: As under `details` in summary.json.
        manifest: run.json, whose judges say which of them are cascades.
    """
    judges: Mapping[str, Mapping[str, Any]] = manifest.get("judges") or {}
    found: list[Told] = []
    for detail in (detail for detail in details if "panel" in detail):
        about = judges.get(detail["judge"], {})
        cascade = about.get("kind") == "cascade"
        members = _in_order(detail["panel"]["members"], about.get("members") or ())
        lines = _cascade(members) if cascade else _panel(detail)
        title = f"{detail['metric']} on {detail['dataset']} · {detail['target']} · {detail['judge']}"
        found.append(Told(title, [*(_member(one) for one in members), *lines]))
    return found


def print_panels(console: Console, details: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> None:
    """The same on a terminal."""
    print_told(console, "panels and cascades (their members alone)", panel_texts(details, manifest))


def _in_order(members: Sequence[Mapping[str, Any]], order: Sequence[str]) -> list[Mapping[str, Any]]:
    """The members in the order in which they are asked; what is not listed follows."""
    places = {name: place for place, name in enumerate(order)}
    return sorted(members, key=lambda one: places.get(one["judge"], len(places)))


def _member(one: Mapping[str, Any]) -> str:
    between = f" ({number(one['ci_low'])} … {number(one['ci_high'])})" if one["ci_low"] is not None else ""
    others = [f"{one[f'n_{state}']} {state}" for state in ("undefined", "error", "skipped") if one[f"n_{state}"]]
    states = ", ".join([f"{one['n_scored']:,} of {one['n']:,} scored", *others])
    return f"{one['judge']}: mean {number(one['value'])}{between}, {states}"


def _panel(detail: Mapping[str, Any]) -> Iterator[str]:
    about, n = detail["panel"], detail["n"]
    if not n:
        yield "nothing was scored by two of them, so how far they agree is not known"
        return
    yield f"{_agreement(about['alpha'])}; on average they are {number(about['mean_range'])} apart, in {n:,} judgements"
    if about["widest"]:
        cases: dict[str, Mapping[str, Any]] = {}
        for one in about["widest"]:
            cases.setdefault(one["case_id"], one)  # of a case's repeats the widest
        yield "most apart on: " + "; ".join(_apart(one) for one in [*cases.values()][:_NAMED])


def _agreement(alpha: Mapping[str, Any]) -> str:
    value = alpha["value"]
    if value is None:
        return f"how far they agree cannot be told ({alpha['method'].removeprefix('none: ')})"
    how = "well" if value >= _AGREED else "somewhat" if value >= _HARDLY else "poorly"
    between = "" if alpha["ci_low"] is None else f", {number(alpha['ci_low'])} … {number(alpha['ci_high'])}"
    return f"they agree {how} (Krippendorff's alpha {number(value)}{between})"


def _apart(one: Mapping[str, Any]) -> str:
    scores = ", ".join(f"{name} {number(score)}" for name, score in one["scores"].items() if score is not None)
    return f"{one['case_id']} ({scores})"


def _cascade(members: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How much went on to the next one, and what was saved by what did not."""
    first, *others = members
    if not others:
        yield f"nothing was escalated: {first['judge']} was sure enough of all {first['n']:,}"
        return
    for before, one in zip(members, others, strict=False):
        share = percent(one["n"] / before["n"])
        yield f"escalated from {before['judge']} to {one['judge']}: {one['n']:,} of {before['n']:,} ({share})"
    last, spared = members[-1], first["n"] - members[-1]["n"]
    each = last["cost_per_score"]
    yield f"{spared:,} scores were made without {last['judge']}" + (
        f", which saved about {cost(spared * each)}" if each is not None and spared else ""
    )
