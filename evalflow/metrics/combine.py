"""Combines the scores of several judges: a panel's vote or a cascade's verdict."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from evalflow.config.judges import PanelConfig
from evalflow.records import NOTHING, Direction, Outcome, Path, longest

_DIGITS = 9  # scores closer than this are the same vote


def vote(parts: Mapping[str, Outcome], weights: Sequence[float], config: PanelConfig, direction: Direction) -> Outcome:
    """A panel's outcome.

    It is scored if a quorum of the members scored. Otherwise it is in state error if any member is, skipped if all
    members skipped the answer, else undefined. Members without a score are left out of the vote. `weights` are the
    members', in order, for `vote: weighted`; a tied majority takes the worse score.
    """
    scores = {name: part.score for name, part in parts.items() if part.score is not None}
    quorum = config.quorum or len(parts)
    if len(scores) < quorum:
        return _with_members(_without_quorum(parts, len(scores), quorum), parts, concurrent=True)
    shares = {name: weight for name, weight in zip(parts, weights, strict=True) if name in scores}
    score, tie = _poll(scores, shares, config, direction)
    spread = max(scores.values()) - min(scores.values())
    how = f"{config.vote} of {len(scores)} judges, {spread:.3g} apart"
    outcome = Outcome(
        status="scored",
        score=score,
        value=_value({name: parts[name] for name in scores}, score, shares, config, direction),
        reason="; ".join([how, *([tie] if tie else []), *_member_lines(parts)]),
        path=_path(parts.values()),
        steps=_steps(parts, {"vote": config.vote, "range": spread}),
    )
    return _with_members(outcome, parts, concurrent=True)


def settle(parts: Mapping[str, Outcome], confidences: Mapping[str, float | None]) -> Outcome:
    """A cascade's outcome: that of the last member asked. `confidences` has no entry for the cascade's last member."""
    *unsure, decided = parts
    last = parts[decided]
    doubts = [f"{name} was not confident enough ({_confidence(confidences[name])})" for name in unsure]
    sure = f", confident enough ({_confidence(confidences[decided])})" if decided in confidences else ""
    reason = "; ".join([*doubts, f"{decided} decides{sure}" + (f": {last.reason}" if last.reason else "")])
    steps = _steps(parts, {"decided": decided, "escalated": bool(unsure)}, confidences)
    outcome = replace(last, reason=last.reason if last.status == "skipped" else reason, steps=steps)
    return _with_members(outcome, parts, concurrent=False)


def _poll(
    scores: Mapping[str, float], weights: Mapping[str, float], config: PanelConfig, direction: Direction
) -> tuple[float, str | None]:
    """The score, and a remark if there was a tie."""
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
    tie = f"a tie of {len(tied)} scores; the worse one counts" if len(tied) > 1 else None
    return next(score for score in scores.values() if round(score, _DIGITS) == winner), tie


def _value(
    parts: Mapping[str, Outcome], score: float, shares: Mapping[str, float], config: PanelConfig, direction: Direction
) -> object:
    """The value on the metric's scale: the vote over numeric values, else the value of a member with this score."""
    values = {name: part.value for name, part in parts.items()}
    numbers = {name: value for name, value in values.items() if isinstance(value, float) or type(value) is int}
    if config.vote != "majority" and len(numbers) == len(values):
        return _poll(numbers, shares, config, direction)[0]
    return next((part.value for part in parts.values() if part.score == score), None)


def _without_quorum(parts: Mapping[str, Outcome], scored: int, quorum: int) -> Outcome:
    states = [part.status for part in parts.values()]
    steps = _steps(parts, {"scored": scored, "quorum": quorum})
    if all(state == "skipped" for state in states):
        return Outcome(status="skipped", reason=next(iter(parts.values())).reason, steps=steps)
    missing = {name: part for name, part in parts.items() if part.score is None}
    quorum_text = f"{scored} of {len(parts)} judges scored; the quorum is {quorum}"
    failed = next((part for part in parts.values() if part.status == "error"), None)
    text = "; ".join([quorum_text, *_member_lines(missing)])
    if failed is None:
        return Outcome(status="undefined", reason=text, steps=steps)
    return Outcome(status="error", error_type=failed.error_type, error=text, remedy=failed.remedy, steps=steps)


def _member_lines(parts: Mapping[str, Outcome]) -> list[str]:
    return [
        f"{name} {part.status if part.score is None else f'{part.score:.3g}'}"
        + (f" ({part.error or part.reason})" if part.error or part.reason else "")
        for name, part in parts.items()
    ]


def _steps(
    parts: Mapping[str, Outcome], how: Mapping[str, object], confidences: Mapping[str, float | None] | None = None
) -> tuple[Mapping[str, object], ...]:
    """How the members were combined, with their outcomes. The members' own rows have their steps."""
    members: list[dict[str, object]] = []
    for name, part in parts.items():
        reply = {"reason": part.error or part.reason, "status": part.status, "score": part.score, "value": part.value}
        if confidences and name in confidences:
            reply["confidence"] = confidences[name]
        members.append(reply)
    plain: dict[str, object] = {"task": None, "probabilities": None, "reasks": 0}
    return (
        {"id": "together", "items": None, "reply": dict(how), **plain},
        {"id": "members", "items": list(parts), "reply": members, **plain},
    )


def _with_members(outcome: Outcome, parts: Mapping[str, Outcome], *, concurrent: bool) -> Outcome:
    # A batch has no latency, and an endpoint may give no usage or have no price.
    asked = [part for part in parts.values() if (part.latency_s, part.usage, part.cost_usd) != (None, None, None)]
    if not asked:
        return replace(outcome, parts=tuple(parts.values()))
    total = sum([part.spend for part in asked], NOTHING)
    return total.fill(
        outcome,
        parts=tuple(parts.values()),
        latency_s=longest([part.latency_s for part in asked]) if concurrent else total.latency_s,
        cached=all(part.cached for part in asked),
    )


def _path(parts: Iterable[Outcome]) -> Path | None:
    paths: set[Path | None] = {part.path for part in parts if part.score is not None}
    return paths.pop() if len(paths) == 1 else None


def _confidence(sure: float | None) -> str:
    return "no probability" if sure is None else f"p {sure:.2f}"
