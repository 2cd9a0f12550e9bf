"""Findings of a run in sentences: noise of repeats, panels of judges, and pairs of answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from evalflow.records.manifest import Manifest
from evalflow.report.wording import (
    PARTS,
    bracketed,
    case_name,
    cost,
    counted,
    interval,
    joined,
    literal,
    number,
    p_value,
    percent,
    print_indented,
    print_lines,
    series_name,
    varying,
)
from evalflow.summary.rows import Detail, DetailSeries
from evalflow.summary.verdicts import is_significant
from evalflow.values.jsonvalues import as_map, objects_at

Details = Sequence[Detail]  # `details` of summary.json
Questions = Mapping[tuple[str, str], str]
"""The questions of listed cases, by dataset and id: a case without an id of its own is called by its question."""
_NONE: Questions = {}
_SLICE = ("metric", *PARTS)
_FLAKY_SHOWN = 3
_TAGS_SHOWN = 8
_DIFFERING_SHOWN = 5
_RELIABLE, _TENTATIVE = 0.8, 0.667  # Krippendorff (2004): conclusions from 0.8 on, tentative ones from 0.667 on


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings on one subject, one per line."""

    title: str
    lines: Sequence[str]


def print_details(console: Console, details: Details, manifest: Manifest, questions: Questions) -> None:
    """Print all findings of a run: excluded results, and findings of pairs, of repeats, and of panels."""
    print_lines(console, exclusion_findings(details), "yellow")
    print_lines(console, preference_findings(details), "dim")
    sections = {
        "repeats (noise as standard deviations)": noise_findings(details, questions),
        "panels and cascades (each member alone)": panel_findings(details, manifest, questions),
    }
    for heading, findings in sections.items():
        if not findings:
            continue
        console.print(literal(heading, style="bold"))
        for one in findings:
            console.print(literal(f"  {one.title}"))
            for line in one.lines:
                print_indented(console, line, by=4)
        console.print()


def exclusion_findings(details: Details) -> list[str]:
    """For each figure over all cases with excluded results: who excluded them, why, and the figure without them."""
    excluded = [detail for detail in details if "excluded" in detail and detail["tag"] is None]
    parts, with_figures = (
        varying(map(DetailSeries.of, excluded)),
        {one["metric"] for one in excluded if one["statistic"] != "mean"},
    )
    lines: list[str] = []
    for detail in excluded:
        if detail["statistic"] == "mean" and detail["metric"] in with_figures:
            continue
        statistic = "" if detail["statistic"] == "mean" else detail["statistic"]
        name = joined(detail["metric"], statistic, series_name(DetailSeries.of(detail), parts))
        why = "; ".join(detail["excluded"]["reasons"])
        lines.append(f"{name}: {excluded_words(detail['excluded'])} ({why})")
    return lines


def excluded_by(excluded: Detail) -> str:
    """How many results were excluded, and who did it: `2 results excluded by anna`."""
    return f"{counted(excluded['n'], 'result')} excluded by {', '.join(excluded['by'])}"


def excluded_words(excluded: Detail, *, passing: bool = False) -> str:
    """The exclusion, and the figure without it (with `passing` the pass rate), with interval and count."""
    names = ("pass_rate", "pass_rate_low", "pass_rate_high") if passing else ("value", "ci_low", "ci_high")
    value, low, high = (excluded[name] for name in names)
    if value is None:
        return f"{excluded_by(excluded)}: no score is left without them"
    figure = f"{number(value)}{bracketed(low, high)} without them"
    return f"{excluded_by(excluded)}: {figure}, on {counted(excluded['n_scored'], 'score')}"


def cases_in(details: Details) -> Iterator[tuple[str, str]]:
    """The cases that findings name, by dataset and id."""
    for detail in details:
        for one in _differing(detail):
            yield detail["dataset"], one["case_id"]


def _differing(detail: Detail) -> list[Detail]:
    """The cases that are listed of a detail: flaky ones, and those on which a panel's members differ most."""
    stability = as_map(as_map(detail.get("noise")).get("stability"))
    flaky = objects_at(stability, "flaky_cases", optional=True)
    return [*flaky[:_FLAKY_SHOWN], *objects_at(as_map(detail.get("panel")), "widest", optional=True)]


def _names_in(detail: Detail, questions: Questions) -> Callable[[str], str]:
    """The names of the cases of a detail, by their ids."""
    return lambda case_id: case_name(case_id, questions.get((detail["dataset"], case_id)))


def noise_findings(details: Details, questions: Questions = _NONE) -> list[Findings]:
    """For each metric with repeats: the sources of its noise, and a line for each tag."""
    repeated = [detail for detail in details if "noise" in detail]
    parts = varying(map(DetailSeries.of, repeated))
    findings: list[Findings] = []
    for detail in (detail for detail in repeated if detail["tag"] is None):
        noise = detail["noise"]
        name = joined(detail["metric"], series_name(DetailSeries.of(detail), parts))
        answers = _mean_count(noise["answers_per_case"], "answer")
        judgements = _mean_count(noise["judgements_per_answer"], "judgement")
        title = f"{name}: {counted(detail['n'], 'case')}, {answers} each, {judgements} of each answer"
        tags = [one for one in repeated if one["tag"] is not None and all(one[key] == detail[key] for key in _SLICE)]
        lines = [*_noise(noise, _names_in(detail, questions)), *_noise_by_tag(tags)]
        findings.append(Findings(title, lines))
    return findings


def _mean_count(mean: float, noun: str) -> str:
    text = f"{mean:.3g}"
    return f"{text} {noun}{'' if text == '1' else 's'}"


def _noise(noise: Detail, named: Callable[[str], str]) -> Iterator[str]:
    if noise["std_error"] is None:
        yield "a single case, or group of cases: the noise of cases is unknown"
    else:
        yield _sources(noise)
        yield f"standard error {number(noise['std_error'], 4)}; {', '.join(_one_more(noise['one_more']))}"
        if noise["lowest_std_error"]:
            yield f"more repeats of these cases cannot take it below {number(noise['lowest_std_error'], 4)}"
    if noise["stability"]:
        yield _stability(noise["stability"], named)
    for draw in noise["draws"] or ():
        k = draw["k"]
        if k > 1:
            one, every = (
                percent(mean["value"]) + bracketed(mean["ci_low"], mean["ci_high"], percent)
                for mean in (draw["pass_at_k"], draw["pass_all_k"])
            )
            yield f"of {k} answers at least one passes in {one} (pass@{k}), all pass in {every} (pass^{k})"
    if rates := noise["repeats"]:
        enough = rates["repeat_pass_share"]
        share = percent(enough["value"]) + bracketed(enough["ci_low"], enough["ci_high"], percent)
        yield f"{share} of cases pass at least {percent(rates['pass_share'])} of their repeats"


def _noise_by_tag(details: Details) -> Iterator[str]:
    """A line for each tag, most cases first; only some are shown, summary.json has all."""
    for detail in sorted(details, key=lambda one: -one["n"])[:_TAGS_SHOWN]:
        noise = detail["noise"]
        sources = "too few cases" if noise["std_error"] is None else _sources(noise)
        flaky = f"; {noise['stability']['flaky']} flaky" if noise["stability"] else ""
        yield f"{detail['tag']}, {counted(detail['n'], 'case')}: {sources}{flaky}"
    if len(details) > _TAGS_SHOWN:
        yield f"{len(details) - _TAGS_SHOWN} more tags in summary.json"


def _sources(noise: Detail) -> str:
    names = {"generator_noise": "answers to one case by", "judge_noise": "judgements of one answer by"}
    spread = noise["case_spread"]
    parts = [f"cases differ by {_deviation(spread)}" if spread > 0 else "cases differ by no more than noise would"]
    parts += [f"{name} {_deviation(noise[key])}" for key, name in names.items() if noise[key] is not None]
    return ", ".join(parts)


def _deviation(variance: float) -> str:
    return number(math.sqrt(variance))


def _one_more(more: Detail) -> Iterator[str]:
    for what in ("answer", "judgement"):
        if more[what] is not None:
            same = more[what]["as_more_cases"]
            worth = "" if same is None else f" (as {same:,.1f} more cases would)"
            yield f"one more {what} {number(more[what]['std_error'], 4)}{worth}"
    yield f"one more case {number(more['case']['std_error'], 4)}"


def _stability(counts: Detail, named: Callable[[str], str]) -> str:
    text = f"{counts['stable_pass']} stable pass, {counts['flaky']} flaky, {counts['stable_fail']} stable fail"
    if counts["judged_once"]:
        text += f", {counts['judged_once']} judged once"
    shown = counts["flaky_cases"][:_FLAKY_SHOWN]
    names = ", ".join(f"{named(case['case_id'])} ({case['passes']} of {case['verdicts']})" for case in shown)
    return f"{text}: {names}{', ...' if counts['flaky'] > len(shown) else ''}" if names else text


def panel_findings(details: Details, manifest: Manifest, questions: Questions = _NONE) -> list[Findings]:
    """For each metric (and dataset and target) whose judge has members: each member alone, and their agreement."""
    findings: list[Findings] = []
    for detail in (detail for detail in details if "panel" in detail):
        about = manifest.judges.get(detail["judge"])
        places = {name: place for place, name in enumerate(about.members if about else ())}
        members = sorted(detail["panel"]["members"], key=lambda one: places.get(one["judge"], len(places)))
        lines = _cascade(members) if about and about.kind == "cascade" else _panel(detail, _names_in(detail, questions))
        title = f"{detail['metric']} on {joined(detail['dataset'], detail['target'], detail['judge'])}"
        findings.append(Findings(title, [*map(_member, members), *lines]))
    return findings


def _member(one: Detail) -> str:
    others = [f"{one[f'n_{state}']} {state}" for state in ("undefined", "error", "skipped") if one[f"n_{state}"]]
    states = ", ".join([f"{one['n_scored']:,} of {one['n']:,} scored", *others])
    return f"{one['judge']}: mean {number(one['value'])}{bracketed(one['ci_low'], one['ci_high'])}, {states}"


def _panel(detail: Detail, named: Callable[[str], str]) -> Iterator[str]:
    panel, n = detail["panel"], detail["n"]
    if not n:
        yield "agreement unknown: no judgement has scores by two of them"
        return
    yield f"{_agreement(panel['alpha'])}; mean difference {number(panel['mean_range'])}, in {n:,} judgements"
    if panel["widest"]:
        cases: dict[str, Detail] = {}
        for one in panel["widest"]:
            cases.setdefault(one["case_id"], one)  # the repeat with the widest range
        yield "largest differences: " + "; ".join(
            _scores_of(one, named) for one in [*cases.values()][:_DIFFERING_SHOWN]
        )


def _agreement(alpha: Detail) -> str:
    value = alpha["value"]
    if value is None:
        return f"agreement unknown ({alpha['method'].removeprefix('none: ')})"
    how = "well" if value >= _RELIABLE else "somewhat" if value >= _TENTATIVE else "poorly"
    ends = "" if alpha["ci_low"] is None else f", {interval(alpha['ci_low'], alpha['ci_high'])}"
    return f"they agree {how} (Krippendorff's alpha {number(value)}{ends})"


def _scores_of(one: Detail, named: Callable[[str], str]) -> str:
    scores = ", ".join(f"{name} {number(score)}" for name, score in one["scores"].items() if score is not None)
    return f"{named(one['case_id'])} ({scores})"


def _cascade(members: Details) -> Iterator[str]:
    """How many scores were escalated to the next member, and what not escalating the others saved."""
    first, *others = members
    if not others:
        yield f"nothing was escalated: {first['judge']} was sure enough of all {first['n']:,}"
        return
    for before, one in zip(members, others, strict=False):
        share = percent(one["n"] / before["n"])
        yield f"escalated from {before['judge']} to {one['judge']}: {one['n']:,} of {before['n']:,} ({share})"
    last = members[-1]
    spared, each = first["n"] - last["n"], last["cost_per_score"]
    saved = f", which saved about {cost(spared * each)}" if each is not None and spared else ""
    yield f"{spared:,} scores were made without {last['judge']}{saved}"


def preference_findings(details: Details) -> list[str]:
    """A few sentences for each metric that compares pairs (and dataset, target, judge)."""
    whole = [detail for detail in details if detail.get("tag") is None]
    counts = [detail for detail in whole if detail["statistic"] == "win_rate" and "decided_by_order" in detail]
    tests = {_key(detail): detail for detail in whole if detail["statistic"] == "first_preferred"}
    parts = varying(map(DetailSeries.of, counts))
    names = [joined(one["metric"], series_name(DetailSeries.of(one), parts)) for one in counts]
    return [f"{name}: {_pairs(one)}{_position_bias(tests[_key(one)])}" for name, one in zip(names, counts, strict=True)]


def _key(detail: Detail) -> tuple[Any, ...]:
    return tuple(detail[name] for name in _SLICE)


def _pairs(counts: Detail) -> str:
    wins, losses, ties, flips = (counts[name] for name in ("wins", "losses", "ties", "decided_by_order"))
    return (
        f"of {counted(wins + losses + ties + flips, 'pair')} {wins:,} won, {losses:,} lost, {ties:,} tied, and "
        f"{flips:,} decided by the order in which they were read."
    )


def _position_bias(test: Detail) -> str:
    first, second, p = test["first"], test["second"], test["p_value"]
    if p is None:
        return ""
    place = "first" if first > second else "second"
    verdict = f"the judge prefers the answer read {place}" if is_significant(p) else "no sign of position bias"
    return (
        f" Where the verdict changes with the order, each case or group counted once, {first:,} lean to the answer "
        f"read first and {second:,} to the answer read second (sign test, p = {p_value(p)}): {verdict}."
    )
