"""The kind `composite`: combines the scores of other metrics of the same run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from evalflow.config.schema import Word
from evalflow.errors import did_you_mean
from evalflow.metrics.base import BaseMetric, UnitMetricConfig, blocked_by
from evalflow.metrics.reasons import REMARK, one_line
from evalflow.protocols import Judge
from evalflow.records import Answer, Case, Outcome, Status

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
BY_PASSING = ("share_passed", "all", "any")  # rules over pass or fail; every part needs a threshold
_WEIGHTED = ("mean", "share_passed")
_BLOCKING: tuple[Status, ...] = ("skipped", "error", "undefined")
"""States that prevent a composite score, most final first: a missing field outranks an error, which a retry may fix."""


class CompositeMetricConfig(UnitMetricConfig):
    """The parts and the rule that combines them.

    Attributes:
        of: Metrics of the same run, by name, each with its weight: {faithfulness: 2, coherence: 1}. The weights
            need not add up to 1. Without weights, a list of the names.
        op: mean (weighted), min, max, product; or, of the parts that pass, share_passed (weighted), all, any.
        may_lack: Parts that may be undefined or skipped; the score is then made of the others. An error of a part
            stays an error.
    """

    kind: Literal["composite"]  # pyright: ignore[reportIncompatibleVariableOverride]
    of: dict[Word, Weight] | list[Word] = Field(min_length=1)
    op: Literal["mean", "min", "max", "product", "share_passed", "all", "any"] = "mean"
    may_lack: tuple[Word, ...] = ()

    @property
    def weights(self) -> Mapping[str, float]:
        return self.of if isinstance(self.of, dict) else dict.fromkeys(self.of, 1.0)

    @field_validator("of")
    @classmethod
    def _once(cls, of: dict[str, float] | list[str]) -> dict[str, float] | list[str]:
        twice = next((name for name in of if isinstance(of, list) and of.count(name) > 1), None)
        if twice:
            raise ValueError(f"{twice!r} is listed twice; give it a weight: {{{twice}: 2, ...}}")
        return of

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        unknown = next((name for name in self.may_lack if name not in self.weights), None)
        if unknown:
            raise ValueError(f"may_lack names {unknown!r}, which is not a part; {did_you_mean(unknown, self.weights)}")
        if self.op not in _WEIGHTED and len({*self.weights.values()}) > 1:
            raise ValueError(f"{self.op} does not use weights; name the parts in a list: [{', '.join(self.weights)}]")
        if self.needs or self.judge:
            what = "needs" if self.needs else "judge"
            raise ValueError(f"a composite reads only scores and asks nobody; set `{what}` on its parts")
        return self


class CompositeMetric(BaseMetric[CompositeMetricConfig]):
    """Computed when results are derived, so new weights need no new calls; see `combine`."""

    Config = CompositeMetricConfig

    def __init__(self, name: str, config: CompositeMetricConfig) -> None:
        super().__init__(name, config)
        self.parts = tuple(config.weights)

    def bind(self, case: Case) -> tuple[()]:
        return ()

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        raise ValueError(f"metric {self.name} combines other scores, and cannot score an answer alone")


@dataclass(slots=True)
class Part(Outcome):
    """A part's score.

    `passed` is None without a threshold; an `inverted` score enters as 1 minus the score; `title` names it in reasons.
    """

    passed: bool | None = None
    inverted: bool = False
    title: str = ""

    @property
    def entry(self) -> float:
        """The score as used by the rule."""
        assert self.score is not None
        return 1.0 - self.score if self.inverted else self.score


def combine(config: CompositeMetricConfig, parts: Mapping[str, Part]) -> Outcome:
    """Combine the parts' outcomes; if a required part has no score, return its state and reason."""
    blocked = _blocked(config, parts)
    if blocked:
        return blocked
    scored = {name: part for name, part in parts.items() if part.status == "scored"}
    by_passing = config.op in BY_PASSING
    undecided = next((_called(*named) for named in scored.items() if by_passing and named[1].passed is None), None)
    if undecided:
        return Outcome(status="undefined", reason=f"{undecided} neither passes nor fails: it has no threshold")
    entries = {name: float(part.passed or 0) if by_passing else part.entry for name, part in scored.items()}
    weights = {name: config.weights[name] for name in scored}
    value = {name: bool(entry) for name, entry in entries.items()} if by_passing else entries
    return Outcome(
        status="scored",
        score=_score(config.op, entries, weights),
        value=value,
        reason="; ".join(_reasons(config, parts)),
        steps=tuple(_step(name, part, weights[name]) for name, part in scored.items()),
        path="direct",
    )


def _blocked(config: CompositeMetricConfig, parts: Mapping[str, Part]) -> Outcome | None:
    lacking = {name: part for name, part in parts.items() if part.status != "scored"}
    for state in _BLOCKING:
        for name, part in lacking.items():
            if part.status != state or (state != "error" and name in config.may_lack):
                continue
            return blocked_by(_called(name, part), part)
    if len(lacking) < len(parts):
        return None
    states = {part.status for part in lacking.values()}
    why = "; ".join(f"{_called(name, part)} is {part.status}: {part.reason}" for name, part in lacking.items())
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
    scored = {name: part for name, part in parts.items() if part.status == "scored"}
    weights = [f"{config.weights[name]:g}" for name in scored]
    described = ", ".join(_described(name, part, config) for name, part in scored.items())
    yield described + (f" (weights {', '.join(weights)})" if len({*weights}) > 1 else "")
    for name, part in parts.items():
        if name not in scored:
            yield f"without {_called(name, part)}, {part.status}: {part.reason}"
    lowest = min(scored, key=lambda name: scored[name].entry)
    if scored[lowest].reason:
        yield f"{_called(lowest, scored[lowest])}: {one_line(scored[lowest].reason or '', 2 * REMARK)}"


def _called(name: str, part: Part) -> str:
    return part.title or name


def _described(name: str, part: Part, config: CompositeMetricConfig) -> str:
    called = _called(name, part)
    if config.op in BY_PASSING:
        return f"{called} {'passes' if part.passed else 'fails'} with {part.score:.3f}"
    return f"{called} {part.score:.3f}" + (f" taken as {part.entry:.3f}" if part.inverted else "")


def _step(name: str, part: Part, weight: float) -> dict[str, object]:
    entry = {"score": part.score, "weight": weight, "passed": part.passed}
    reply = {key: value for key, value in entry.items() if value is not None}
    step = {"id": name, "title": _called(name, part), "task": None, "items": None, "reply": reply}
    return {**step, "probabilities": None, "reasks": 0}
