"""The kind `trajectory`: compares an agent's tool calls with expected calls and limits."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from evalflow.config.schema import MANY, Strict, Word
from evalflow.lazy import np
from evalflow.limited import in_thread
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, read_field, scored
from evalflow.metrics.call_matching import MOST, ArgumentRule, Pairs, fitting, json_key, matched, matched_in_order
from evalflow.records import Outcome, ToolCall
from evalflow.values.jsonvalues import as_number
from evalflow.values.trajectories import Trajectory, call_text, listed, shortened, trajectory

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MANY = 200 * 200  # maximum pairs of calls compared in the event loop; more would delay other cases
Match = Literal["strict", "unordered", "subset", "superset", "in_order"]


class CallLimits(Strict):
    """Limits on the calls.

    Attributes:
        least: Minimum number of calls.
        most: Maximum number of calls.
        forbidden: Tools that may not be called.
        repeats: How often the same call (tool and arguments) may be made; more is a loop.
    """

    least: int | None = Field(default=None, ge=1, le=MANY)
    most: int | None = Field(default=None, ge=0, le=MANY)
    forbidden: list[Word] | None = Field(default=None, min_length=1)
    repeats: int | None = Field(default=None, ge=1, le=MANY)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"least is {self.least} and most is {self.most}: no number of calls satisfies both")
        return self

    @property
    def has_limits(self) -> bool:
        return (self.least, self.most, self.forbidden, self.repeats) != (None, None, None, None)

    def broken(self, calls: Sequence[ToolCall]) -> Iterator[str]:
        """Each broken limit, as a sentence."""
        if self.most is not None and len(calls) > self.most:
            yield f"{len(calls)} calls were made, and at most {self.most} are allowed"
        if self.least is not None and len(calls) < self.least:
            yield f"{len(calls)} calls were made, and at least {self.least} are wanted"
        barred = [f"{one.name} as call {at}" for at, one in enumerate(calls, 1) if one.name in (self.forbidden or ())]
        if barred:
            yield f"forbidden tools were called: {listed(barred, len(barred))}"
        if self.repeats is not None:
            same: dict[Hashable, list[ToolCall]] = {}
            for call in calls:
                same.setdefault((call.name, json_key(call.arguments or {})), []).append(call)
            loops = [
                f"{call_text(group[0])} {len(group)} times" for group in same.values() if len(group) > self.repeats
            ]
            if loops:
                yield f"the same call more than {self.repeats} times: {listed(loops, len(loops))}"


class TrajectoryMetricConfig(UnitMetricConfig, ArgumentRule, CallLimits):
    """Calls, or whole lists of messages, each in a case field or at a dotted path into metadata or vars.

    Attributes:
        expected: The expected calls; an empty list: no tool may be called. null: only limits count.
        actual: The calls that were made.
        score: match: 1 if they match and no limit is broken, else 0; precision, recall or f1 of the calls (if no call
            is expected: 1 if none is made, else 0); limits: 1 if no limit is broken, else 0.
        match: unordered: the same calls, in any order; strict: message by message, with the same roles (of a plain
            list: call by call); superset: every expected call was made; subset: no other call was made; in_order: every
            expected call was made, in this order.
        tools: The same for single tools, by name: {search: {arguments: ignore}}.
    """

    kind: Literal["trajectory"]  # pyright: ignore[reportIncompatibleVariableOverride]
    expected: Word | None = "expected"
    actual: Word = "actual"
    score: Literal["match", "precision", "recall", "f1", "limits"] = "match"
    match: Match = "unordered"
    tools: dict[Word, ArgumentRule] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _limits_that_count(self) -> Self:
        if self.score == "limits" and not self.has_limits:
            raise ValueError("score: limits needs a limit: least, most, forbidden or repeats")
        if self.score not in ("match", "limits") and self.has_limits:
            raise ValueError(f"score: {self.score} does not use limits; put them into a metric with score: limits")
        if (self.expected is None) != (self.score == "limits"):
            raise ValueError("score: limits needs expected: null")
        return self


class TrajectoryMetric(FieldMetric[TrajectoryMetricConfig]):
    """Compares calls one to one. The value always has match, precision, recall and f1."""

    Config = TrajectoryMetricConfig
    names_fields = ("expected", "actual")

    async def compare(self, fields: dict[str, object]) -> Outcome:
        config = self.config
        actual = read_field(config.actual, fields, trajectory)
        broken = list(config.broken(actual.calls))
        flaws = "".join(f"; {flaw}" for flaw in actual.flaws())
        if config.expected is None:
            reason = "; ".join(broken) or f"{len(actual.calls)} calls made, within the limits"
            return scored(float(not broken), {"called": len(actual.calls), "broken": broken}, reason + flaws)
        expected = read_field(config.expected, fields, trajectory)
        self._expect_comparable(expected, actual)
        if len(expected.calls) * len(actual.calls) > _MANY:
            comparison = await in_thread(lambda: TrajectoryComparison(config, expected, actual))
        else:
            comparison = TrajectoryComparison(config, expected, actual)
        value = comparison.value | ({"broken": broken} if config.has_limits else {})
        if config.score == "match":
            reason = "; ".join([*broken, comparison.reason])
            return scored(float(comparison.match and not broken), value, reason + flaws, comparison.steps())
        score = as_number(comparison.value[config.score])
        if score is None:
            return Outcome(
                status="undefined", reason="no tool was called, so there is nothing to divide by", value=value
            )
        return scored(score, value, comparison.reason + flaws, comparison.steps())

    def _expect_comparable(self, expected: Trajectory, actual: Trajectory) -> None:
        for at, side in ((self.config.expected, expected), (self.config.actual, actual)):
            if len(side.calls) > MOST:
                raise ValueError(f"{at}: {len(side.calls)} calls are too many to match; the maximum is {MOST}")
        faulty = next((call for call in expected.calls if isinstance(call.arguments, str)), None)
        if faulty:
            raise ValueError(f"{self.config.expected}: the arguments of {call_text(faulty)} are not a JSON object")


class TrajectoryComparison:
    """Two trajectories, the matched pairs of calls, and the scores that follow from them."""

    def __init__(self, config: TrajectoryMetricConfig, expected: Trajectory, actual: Trajectory) -> None:
        self._config = config
        self._expected, self._actual = expected.calls, actual.calls
        self.pairs = self._matched(expected, actual)
        self._met = dict(self.pairs)
        self._lost = [i for i in range(len(self._expected)) if i not in self._met]
        taken = set(self._met.values())
        self._extra = [j for j in range(len(self._actual)) if j not in taken]
        self._namesakes = {self._actual[j].name: j for j in reversed(self._extra)}
        self._roles = [[step.role for step in side.steps] for side in (expected, actual)]
        self._as_messages = expected.roles and actual.roles

    @property
    def _other_roles(self) -> bool:
        return self._config.match == "strict" and self._as_messages and self._roles[0] != self._roles[1]

    @property
    def match(self) -> bool:
        every_expected = len(self.pairs) == len(self._expected)
        every_actual = len(self.pairs) == len(self._actual)
        if not self._expected:
            return every_actual and not self._other_roles
        match self._config.match:
            case "superset" | "in_order":
                return every_expected
            case "subset":
                return every_actual
            case _:
                return every_expected and every_actual and not self._other_roles

    @property
    def value(self) -> dict[str, object]:
        expected, called, met = len(self._expected), len(self._actual), len(self.pairs)
        abstained = None if expected else float(not called)
        return {
            "expected": expected,
            "called": called,
            "matched": met,
            "match": self.match,
            "precision": met / called if called else abstained,
            "recall": met / expected if expected else abstained,
            "f1": 2 * met / (expected + called) if expected else abstained,
        }

    @property
    def reason(self) -> str:
        rule = {"in_order": " in this order", "strict": " in their places"}.get(self._config.match, "")
        parts = [f"{len(self.pairs)} of {len(self._expected)} expected calls made{rule}"]
        if not self._expected:
            parts = ["no call is expected" + ("" if self._actual else ", and none was made")]
        if self._other_roles:
            wanted, came = (shortened(", ".join(roles)) or "none" for roles in self._roles)
            parts.append(f"the messages differ: expected {wanted}; got {came}")
        for name, count, texts in (
            ("met", len(self.pairs), (f"{self._expected[i].name} as call {j + 1}" for i, j in self.pairs)),
            ("missing", len(self._lost), (call_text(self._expected[i]) + self._nearest(i) for i in self._lost)),
            ("not expected", len(self._extra), (f"{call_text(self._actual[j])} as call {j + 1}" for j in self._extra)),
        ):
            if count:
                parts.append(f"{name}: {listed(texts, count)}")
        return "; ".join(parts)

    def steps(self) -> Sequence[Mapping[str, object]]:
        """One step for each expected call, and one for each unexpected actual call."""
        return [
            *(self._step("call", self._expected[i], f"made as call {j + 1}", passed=True) for i, j in self.pairs),
            *(self._step("call", self._expected[i], "not made" + self._nearest(i)) for i in self._lost),
            *(
                self._step("extra", self._actual[j], f"call {j + 1}, which is not expected{_fault(self._actual[j])}")
                for j in (self._extra if self._extra_counts else ())
            ),
        ]

    @staticmethod
    def _step(kind: str, call: ToolCall, reason: str, *, passed: bool = False) -> Mapping[str, object]:
        return {"id": kind, "check": {"call": call_text(call)}, "passed": passed, "reason": reason}

    @property
    def _extra_counts(self) -> bool:
        if self._config.score == "match":
            return not self._expected or self._config.match in ("strict", "unordered", "subset")
        return self._config.score != "recall" or not self._expected

    def _nearest(self, lost: int) -> str:
        """An actual call of the same tool that does not fit, and why if its JSON is invalid."""
        namesake = self._namesakes.get(self._expected[lost].name)
        return "" if namesake is None else f" (call {namesake + 1} does not fit{_fault(self._actual[namesake])})"

    def _matched(self, expected: Trajectory, actual: Trajectory) -> Pairs:
        config = self._config
        fits = fitting(expected.calls, actual.calls, lambda name: (config.tools or {}).get(name, config))
        if config.match == "in_order":
            return matched_in_order(fits)
        if config.match == "strict":
            as_messages = expected.roles and actual.roles
            rows, columns = (_places(side, as_messages) for side in (expected, actual))
            fits &= rows[:, None] == columns[None, :]
        return matched(fits)


def _places(side: Trajectory, as_messages: bool) -> NDArray[np.int_]:
    """The position of each call's message, or its own if one side is a plain list."""
    places = [at for at, step in enumerate(side.steps) for _ in step.calls]
    return np.array(places if as_messages else range(len(places)), dtype=int)


def _fault(call: ToolCall) -> str:
    return ": its arguments are not a JSON object" if isinstance(call.arguments, str) else ""
