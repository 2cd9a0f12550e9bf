"""What the repeats of a run tell, in words: for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evalflow.report.told import Told, print_told
from evalflow.report.wording import PARTS, number, percent, series_name, varying

if TYPE_CHECKING:
    from rich.console import Console

_NAMED = 3
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
    """A line for each tag, those with the most cases first; the rest stand in summary.json."""
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
    """What one more of each would make of the standard error."""
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
    names = [f"{case['case_id']} ({case['passes']} of {case['verdicts']})" for case in found["flaky_cases"][:_NAMED]]
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
