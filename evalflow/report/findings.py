"""Findings in sentences: noise, panels, and pairs of answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.report.wording import (
    PARTS,
    Told,
    cost,
    literal,
    number,
    p_value,
    percent,
    print_told,
    series_name,
    varying,
)

if TYPE_CHECKING:
    from rich.console import Console


_FLAKY_SHOWN = 3
_TAGS = 8
_SLICE = ("metric", *PARTS)


def noise_texts(details: Sequence[Mapping[str, Any]]) -> list[Told]:
    """One text for each metric whose cases were repeated, with a line for each tag; none where nothing was.

    Args:
        details: As under `details` in summary.json.
    """
    repeated = [detail for detail in details if "noise" in detail]
    parts = varying(repeated)
    found: list[Told] = []
    for detail in (detail for detail in repeated if detail["tag"] is None):
        tags = [one for one in repeated if one["tag"] is not None and all(one[key] == detail[key] for key in _SLICE)]
        name = " · ".join(text for text in (detail["metric"], series_name(detail, parts)) if text)
        found.append(Told(f"{name}: {_repeats(detail)}", [*_lines(detail["noise"]), *_by_tag(tags)]))
    return found


def print_noise(console: Console, details: Sequence[Mapping[str, Any]]) -> None:
    """The same on a terminal."""
    print_told(console, "repeats (noise as standard deviations)", noise_texts(details))


def _repeats(detail: Mapping[str, Any]) -> str:
    noise, n = detail["noise"], detail["n"]
    answers, judgements = (f"{noise[name]:.3g}" for name in ("answers_per_case", "judgements_per_answer"))
    cases = f"{n:,} case{'' if n == 1 else 's'}"
    return f"{cases}, {answers} answer{_s(answers)} each, {judgements} judgement{_s(judgements)} of each answer"


def _lines(noise: Mapping[str, Any]) -> Iterator[str]:
    if noise["std_error"] is None:
        yield "one case, or one group of cases: its noise cannot be told from that of others"
    else:
        yield _sources(noise)
        yield f"standard error {number(noise['std_error'], 4)}; {', '.join(_gains(noise))}"
        if noise["lowest_std_error"]:
            yield f"with these cases, no number of repeats takes it below {number(noise['lowest_std_error'], 4)}"
    if noise["stability"]:
        yield _stability(noise["stability"])
    for draw in noise["draws"] or ():
        if draw["k"] > 1:
            yield _draw(draw)


def _by_tag(details: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each tag with most cases; the rest is in summary.json."""
    for detail in sorted(details, key=lambda one: -one["n"])[:_TAGS]:
        noise, n = detail["noise"], detail["n"]
        told = "too few to tell" if noise["std_error"] is None else _sources(noise)
        flaky = f"; {noise['stability']['flaky']} flaky" if noise["stability"] else ""
        yield f"{detail['tag']}, {n:,} case{'' if n == 1 else 's'}: {told}{flaky}"
    if len(details) > _TAGS:
        yield f"{len(details) - _TAGS} more tags in summary.json"


def _sources(noise: Mapping[str, Any]) -> str:
    seen = noise["case_spread"] > 0
    parts = [
        f"cases differ by {_deviation(noise['case_spread'])}" if seen else "cases differ by no more than noise would"
    ]
    if noise["generator_noise"] is not None:
        parts.append(f"answers to one case by {_deviation(noise['generator_noise'])}")
    if noise["judge_noise"] is not None:
        parts.append(f"judgements of one answer by {_deviation(noise['judge_noise'])}")
    return ", ".join(parts)


def _gains(noise: Mapping[str, Any]) -> Iterator[str]:
    """The standard error after one more answer, judgement or case."""
    more = noise["one_more"]
    for what in ("answer", "judgement"):
        if more[what] is not None:
            same = more[what]["as_more_cases"]
            worth = "" if same is None else f" (as {same:,.1f} more cases would)"
            yield f"one more {what} {number(more[what]['std_error'], 4)}{worth}"
    yield f"one more case {number(more['case']['std_error'], 4)}"


def _stability(found: Mapping[str, Any]) -> str:
    text = f"{found['stable_pass']} stable pass, {found['flaky']} flaky, {found['stable_fail']} stable fail"
    if found["judged_once"]:
        text += f", {found['judged_once']} judged once"
    names = [
        f"{case['case_id']} ({case['passes']} of {case['verdicts']})" for case in found["flaky_cases"][:_FLAKY_SHOWN]
    ]
    return f"{text}: {', '.join(names)}{', ...' if found['flaky'] > len(names) else ''}" if names else text


def _draw(draw: Mapping[str, Any]) -> str:
    one, every = (_share(draw[name]) for name in ("pass_at_k", "pass_all_k"))
    return f"of {draw['k']} answers one passes in {one} (pass@{draw['k']}), all pass in {every} (pass^{draw['k']})"


def _share(mean: Mapping[str, Any]) -> str:
    if mean["ci_low"] is None:
        return percent(mean["value"])
    return f"{percent(mean['value'])} [{percent(mean['ci_low'])}, {percent(mean['ci_high'])}]"


def _deviation(variance: float) -> str:
    return number(math.sqrt(variance))


def _s(count: str) -> str:
    return "" if count == "1" else "s"


_DIFFERING_SHOWN = 5
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
        yield "most apart on: " + "; ".join(_apart(one) for one in [*cases.values()][:_DIFFERING_SHOWN])


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


_LEVEL = 0.05


def preference_texts(details: Sequence[Mapping[str, Any]]) -> list[str]:
    """A few sentences for each metric that compares pairs (and dataset, target, judge); none where none does.

    Args:
        details: As under `details` in summary.json.
    """
    whole = [detail for detail in details if detail.get("tag") is None]
    counted = [detail for detail in whole if detail["statistic"] == "win_rate" and "decided_by_order" in detail]
    tests = {
        tuple(detail[key] for key in _SLICE): detail for detail in whole if detail["statistic"] == "first_preferred"
    }
    parts = varying(counted)
    return [
        f"{' · '.join(text for text in (detail['metric'], series_name(detail, parts)) if text)}: "
        + " ".join(_sentences(detail, tests[tuple(detail[key] for key in _SLICE)]))
        for detail in counted
    ]


def print_preferences(console: Console, details: Sequence[Mapping[str, Any]]) -> None:
    """The same on a terminal."""
    for text in preference_texts(details):
        console.print(literal(text, style="dim"), soft_wrap=True)


def _sentences(counts: Mapping[str, Any], test: Mapping[str, Any]) -> Iterator[str]:
    wins, losses, ties, flips = (counts[name] for name in ("wins", "losses", "ties", "decided_by_order"))
    pairs = wins + losses + ties + flips
    yield (
        f"of {pairs:,} pair{'' if pairs == 1 else 's'} {wins:,} won, {losses:,} lost, {ties:,} tied, and {flips:,} "
        "decided by the order in which they were read."
    )
    first, second, p = test["first"], test["second"], test["p_value"]
    if p is None:
        return
    place = "first" if first > second else "second"
    found = f"the judge prefers what it reads {place}" if p < _LEVEL else "no sign that the judge prefers a place"
    yield (
        f"Where the verdict changes with the order, each case or group counted once, {first:,} lean to what is read "
        f"first and {second:,} to what is read second (sign test, p = {p_value(p)}): {found}."
    )
