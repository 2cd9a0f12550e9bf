"""One score from several: a panel's vote, a cascade's verdict, a composite's rule."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from evalflow.config.panels import PanelConfig
from evalflow.config.schema import Word
from evalflow.errors import did_you_mean
from evalflow.frozen import record
from evalflow.metrics.base import UnitMetricConfig
from evalflow.metrics.reasons import REMARK, one_line
from evalflow.records import NOTHING, Direction, Outcome, Status

_DIGITS = 9
"""Scores that differ by less are one and the same vote."""


def vote(parts: Mapping[str, Outcome], weights: Sequence[float], config: PanelConfig, direction: Direction) -> Outcome:
    """A panel's outcome.

    It is scored where a quorum of the members scored. Otherwise it is in state error where one of them is; else skipped
    where all of them skipped the answer; else undefined. Members without a score never count as any score.

    Args:
        parts: The members' outcomes, by name.
        weights: Of each member, in the same order; only `vote: weighted` reads them.
        config: How they vote.
        direction: Which end of the scale is the worse one, which a tied majority falls to.
    """
    scores = {name: part.score for name, part in parts.items() if part.score is not None}
    quorum = config.quorum or len(parts)
    if len(scores) < quorum:
        return _with_members(_without_quorum(parts, len(scores), quorum), parts, concurrent=True)
    shares = {name: weight for name, weight in zip(parts, weights, strict=True) if name in scores}
    score, tie = _poll(scores, shares, config, direction)
    spread = max(scores.values()) - min(scores.values())
    said = f"{config.vote} of {len(scores)} judges, {spread:.3g} apart"
    outcome = Outcome(
        status="scored",
        score=score,
        value=_value({name: parts[name] for name in scores}, score, shares, config, direction),
        reason="; ".join([said, *([tie] if tie else []), *_member_lines(parts)]),
        path=_path(parts.values()),
        steps=_steps(parts, {"vote": config.vote, "range": spread}),
    )
    return _with_members(outcome, parts, concurrent=True)


def settle(parts: Mapping[str, Outcome], confidences: Mapping[str, float | None]) -> Outcome:
    """A cascade's outcome: that of the last member that was asked.

    Args:
        parts: The outcomes of those that were asked, by name, in order.
        confidences: Of those that another could have followed; None where it is not known.
    """
    *unsure, decided = parts
    last = parts[decided]
    doubts = [f"{name} was not sure enough ({_confidence(confidences[name])})" for name in unsure]
    sure = f", sure enough ({_confidence(confidences[decided])})" if decided in confidences else ""
    reason = "; ".join([*doubts, f"{decided} decides{sure}" + (f": {last.reason}" if last.reason else "")])
    steps = _steps(parts, {"decided": decided, "escalated": bool(unsure)}, confidences)
    outcome = replace(last, reason=last.reason if last.status == "skipped" else reason, steps=steps)
    return _with_members(outcome, parts, concurrent=False)


def _poll(
    scores: Mapping[str, float], weights: Mapping[str, float], config: PanelConfig, direction: Direction
) -> tuple[float, str | None]:
    """The score, and a remark where a tie decided it."""
    if config.vote == "mean":
        return statistics.fmean(scores.values()), None
    if config.vote == "weighted":
        return statistics.fmean(scores.values(), weights=[weights[name] for name in scores]), None
    if config.vote == "median":
        return statistics.median(scores.values()), None
    votes = Counter(round(score, _DIGITS) for score in scores.values())
    most = max(votes.values())
    tied = [score for score, count in votes.items() if count == most]
    winner = min(tied) if direction == "higher_is_better" else max(tied)
    tie = f"a tie of {len(tied)} scores, of which the worse one counts" if len(tied) > 1 else None
    return next(score for score in scores.values() if round(score, _DIGITS) == winner), tie


def _value(
    parts: Mapping[str, Outcome], score: float, shares: Mapping[str, float], config: PanelConfig, direction: Direction
) -> Any:
    """The value on the metric's own scale: the vote over numbers, else that of a member who gave this very score."""
    values = {name: part.value for name, part in parts.items()}
    if config.vote != "majority" and all(_is_number(value) for value in values.values()):
        return _poll(values, shares, config, direction)[0]
    return next((part.value for part in parts.values() if part.score == score), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _without_quorum(parts: Mapping[str, Outcome], scored: int, quorum: int) -> Outcome:
    states = [part.status for part in parts.values()]
    steps = _steps(parts, {"scored": scored, "quorum": quorum})
    if all(state == "skipped" for state in states):
        return Outcome(status="skipped", reason=next(iter(parts.values())).reason, steps=steps)
    missing = {name: part for name, part in parts.items() if part.score is None}
    few = f"{scored} of {len(parts)} judges scored, and {quorum} must"
    failed = next((part for part in parts.values() if part.status == "error"), None)
    text = "; ".join([few, *_member_lines(missing)])
    if failed is None:
        return Outcome(status="undefined", reason=text, steps=steps)
    return Outcome(status="error", error_type=failed.error_type, error=text, steps=steps)


def _member_lines(parts: Mapping[str, Outcome]) -> list[str]:
    return [
        f"{name} {part.status if part.score is None else f'{part.score:.3g}'}"
        + (f" ({part.error or part.reason})" if part.error or part.reason else "")
        for name, part in parts.items()
    ]


def _steps(
    parts: Mapping[str, Outcome], how: Mapping[str, Any], confidences: Mapping[str, float | None] | None = None
) -> tuple[Mapping[str, Any], ...]:
    """How the members were combined, and the outcome of each; their own steps are in their own rows."""
    told: list[dict[str, Any]] = []
    for name, part in parts.items():
        sure = {"confidence": confidences[name]} if confidences and name in confidences else {}
        why = part.error or part.reason
        told.append({"reason": why, "status": part.status, "score": part.score, "value": part.value, **sure})
    plain: dict[str, Any] = {"task": None, "probabilities": None, "reasks": 0}
    return (
        {"id": "together", "items": None, "reply": dict(how), **plain},
        {"id": "members", "items": list(parts), "reply": told, **plain},
    )


def _with_members(outcome: Outcome, parts: Mapping[str, Outcome], *, concurrent: bool) -> Outcome:
    asked = [part for part in parts.values() if part.latency_s is not None]
    if not asked:
        return replace(outcome, parts=tuple(parts.values()))
    total = sum([part.spend for part in asked], NOTHING)
    return total.fill(
        outcome,
        parts=tuple(parts.values()),
        latency_s=max(part.latency_s or 0.0 for part in asked) if concurrent else total.latency_s,
        cached=all(part.cached for part in asked),
    )


def _path(parts: Iterable[Outcome]) -> Any:
    """The members' common path, if it is one."""
    paths = {part.path for part in parts if part.score is not None}
    return paths.pop() if len(paths) == 1 else None


def _confidence(sure: float | None) -> str:
    return "no probability" if sure is None else f"p {sure:.2f}"


Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
BY_PASSING = ("share_passed", "all", "any")
"""Rules over whether the parts pass, for which each needs a threshold that holds."""
_WEIGHTED = ("mean", "share_passed")
_BLOCKING: tuple[Status, ...] = ("skipped", "error", "undefined")
"""What keeps a composite from a score, the most final first: what a case lacks no further call can mend."""


class CompositeMetricConfig(UnitMetricConfig):
    """Which scores it is made of, and by what rule.

    Attributes:
        of: The metrics of the same run, by name, each with its weight: {faithfulness: 2, coherence: 1}. The weights
            need not add up to anything. Without weights a list of the names.
        op: mean (weighted), min, max, product; or, of the parts that pass, share_passed (weighted), all, any.
        may_lack: Parts that may be undefined or skipped: the others make the score then. An error is an error.
    """

    kind: Literal["composite"]  # pyright: ignore[reportIncompatibleVariableOverride]
    of: dict[Word, Weight] | list[Word] = Field(min_length=1)
    op: Literal["mean", "min", "max", "product", "share_passed", "all", "any"] = "mean"
    may_lack: tuple[Word, ...] = ()

    @property
    def weights(self) -> Mapping[str, float]:
        """The parts with their weights, 1 by default."""
        return self.of if isinstance(self.of, dict) else dict.fromkeys(self.of, 1.0)

    @field_validator("of")
    @classmethod
    def _once(cls, of: dict[str, float] | list[str]) -> dict[str, float] | list[str]:
        twice = next((name for name in of if isinstance(of, list) and of.count(name) > 1), None)
        if twice:
            raise ValueError(f"{twice!r} stands there twice; give it a weight: {{{twice}: 2, ...}}")
        return of

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        unknown = next((name for name in self.may_lack if name not in self.weights), None)
        if unknown:
            raise ValueError(f"may_lack names {unknown!r}, which is no part; {did_you_mean(unknown, self.weights)}")
        if self.op not in _WEIGHTED and len({*self.weights.values()}) > 1:
            raise ValueError(f"{self.op} knows no weights; name the parts in a list: [{', '.join(self.weights)}]")
        if self.needs or self.judge:
            what = "needs" if self.needs else "judge"
            raise ValueError(f"a composite asks nobody and reads scores alone, so that `{what}` belongs to its parts")
        return self


@record()
class Part:
    """A score that a composite is made of.

    Attributes:
        status, score, reason, error_type, error: As in its own record.
        passed: Whether it passes; None without a threshold that holds.
        inverted: Whether the good end of its scale is the bad end of the composite's: 1 less the score enters.
    """

    status: Status
    score: float | None = None
    reason: str | None = None
    error_type: str | None = None
    error: str | None = None
    passed: bool | None = None
    inverted: bool = False

    @property
    def entry(self) -> float:
        """What enters a rule over scores."""
        assert self.score is not None
        return 1.0 - self.score if self.inverted else self.score


def combine(config: CompositeMetricConfig, parts: Mapping[str, Part]) -> Outcome:
    """One score from the outcomes of all parts; where a required part has none, none, with its state and reason."""
    blocked = _blocked(config, parts)
    if blocked:
        return blocked
    kept = {name: part for name, part in parts.items() if part.status == "scored"}
    by_passing = config.op in BY_PASSING
    undecided = next((name for name, part in kept.items() if by_passing and part.passed is None), None)
    if undecided:
        return Outcome(status="undefined", reason=f"{undecided} neither passes nor fails: no threshold holds for it")
    entries = {name: float(part.passed or 0) if by_passing else part.entry for name, part in kept.items()}
    weights = {name: config.weights[name] for name in kept}
    value = {name: bool(entry) for name, entry in entries.items()} if by_passing else entries
    return Outcome(
        status="scored",
        score=_score(config.op, entries, weights),
        value=value,
        reason="; ".join(_reasons(config, parts)),
        steps=tuple(_step(name, part, weights[name]) for name, part in kept.items()),
        path="direct",
    )


def _blocked(config: CompositeMetricConfig, parts: Mapping[str, Part]) -> Outcome | None:
    lacking = {name: part for name, part in parts.items() if part.status != "scored"}
    for state in _BLOCKING:
        for name, part in lacking.items():
            if part.status != state or (state != "error" and name in config.may_lack):
                continue
            if state == "error":
                return Outcome(status="error", error_type=part.error_type, error=f"{name}: {part.error}")
            return Outcome(status=state, reason=f"{name} is {state}: {part.reason}")
    if len(lacking) < len(parts):
        return None
    states = {part.status for part in lacking.values()}
    why = "; ".join(f"{name} is {part.status}: {part.reason}" for name, part in lacking.items())
    return Outcome(status="skipped" if states == {"skipped"} else "undefined", reason=why)


def _score(op: str, entries: Mapping[str, float], weights: Mapping[str, float]) -> float:
    match op:
        case "min" | "all":
            return min(entries.values())
        case "max" | "any":
            return max(entries.values())
        case "product":
            return math.prod(entries.values())
        case _:
            total = sum(weights.values())
            share = sum(weights[name] * entry for name, entry in entries.items()) / total
            return min(1.0, max(0.0, share))  # in 0..1 despite the last bit of a float


def _reasons(config: CompositeMetricConfig, parts: Mapping[str, Part]) -> Iterator[str]:
    """What entered, what did not, and the reason of the lowest part."""
    kept = {name: part for name, part in parts.items() if part.status == "scored"}
    told = [_part_in_words(name, part, config) for name, part in kept.items()]
    weights = [f"{config.weights[name]:g}" for name in kept]
    yield ", ".join(told) + (f" (weights {', '.join(weights)})" if len({*weights}) > 1 else "")
    yield from (f"without {name}, {part.status}: {part.reason}" for name, part in parts.items() if name not in kept)
    lowest = min(kept, key=lambda name: kept[name].entry)
    if kept[lowest].reason:
        yield f"{lowest}: {one_line(kept[lowest].reason or '', 2 * REMARK)}"


def _part_in_words(name: str, part: Part, config: CompositeMetricConfig) -> str:
    if config.op in BY_PASSING:
        return f"{name} {'passes' if part.passed else 'fails'} with {part.score:.3f}"
    return f"{name} {part.score:.3f}" + (f" taken as {part.entry:.3f}" if part.inverted else "")


def _step(name: str, part: Part, weight: float) -> dict[str, Any]:
    said = {"score": part.score, "weight": weight, "passed": part.passed}
    reply = {key: value for key, value in said.items() if value is not None}
    return {"id": name, "task": None, "items": None, "reply": reply, "probabilities": None, "reasks": 0}
