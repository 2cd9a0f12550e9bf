"""The kind `tool_calls`: the share of the expected tool calls that were made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from evalflow.config.schema import Word
from evalflow.frozen import record
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, read_field, scored
from evalflow.metrics.json_schema import NoJson, json_equal, json_of
from evalflow.records import Outcome


class ToolCallsMetricConfig(UnitMetricConfig):
    """Two lists of calls, each in a case field or at a dotted path into metadata or vars.

    Attributes:
        expected: The expected calls.
        called: The calls that were made.
        order: Whether the calls must come in the expected order.
        arguments: Whether the arguments must match too; an expected call without arguments matches any.
    """

    kind: Literal["tool_calls"]  # pyright: ignore[reportIncompatibleVariableOverride]
    expected: Word = "expected"
    called: Word = "actual"
    order: bool = False
    arguments: bool = False


class ToolCallsMetric(FieldMetric[ToolCallsMetricConfig]):
    """Compares two lists of calls. The value counts expected, called and matched."""

    Config = ToolCallsMetricConfig
    names_fields = ("expected", "called")

    async def compare(self, fields: dict[str, Any]) -> Outcome:
        expected, called = (read_field(at, fields, calls_in) for at in (self.config.expected, self.config.called))
        if not expected:
            return Outcome(status="undefined", reason="nothing to divide by: no tool call is expected")
        found = made(expected, called, order=self.config.order, arguments=self.config.arguments)
        missed = [str(call) for call, was in zip(expected, found, strict=True) if not was]
        steps: list[dict[str, Any]] = [
            {"id": "call", "check": {"call": str(call)}, "passed": was, "reason": "made" if was else "not made"}
            for call, was in zip(expected, found, strict=True)
        ]
        reason = f"{sum(found)} of {len(found)} expected calls made"
        if missed:
            rule = " in this order" if self.config.order else ""
            listed = ", ".join(map(str, called)) or "none"
            reason = f"{len(missed)} of {len(found)} expected calls not made{rule}: {', '.join(missed)}; made: {listed}"
        value = {"expected": len(expected), "called": len(called), "matched": sum(found)}
        return scored(sum(found) / len(found), value, reason, steps)


@record()
class ToolCall:
    """A call of a tool. Without arguments (None) it matches any."""

    name: str
    arguments: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return self.name if self.arguments is None else f"{self.name}({json.dumps(self.arguments, ensure_ascii=False)})"


def calls_in(value: Any) -> tuple[ToolCall, ...]:
    """Parse a list of calls, or a JSON text with one: names, {name, arguments}, or the form of chat completions."""
    listed = json_of(value)
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise ValueError(f"{value!r} is no list of tool calls")
    return tuple(_call(one) for one in cast("Sequence[Any]", listed))


def made(expected: Sequence[ToolCall], called: Sequence[ToolCall], *, order: bool, arguments: bool) -> list[bool]:
    """Tell which expected calls were made, each matched to another call; with `order` in the order of the calls."""
    fits = [[_fits(wanted, call, arguments=arguments) for call in called] for wanted in expected]
    return _in_order(fits) if order else _in_any_order(expected, fits)


def _call(value: Any) -> ToolCall:
    if isinstance(value, str) and value.strip():
        return ToolCall(value)
    if isinstance(value, Mapping):
        entry = cast("Mapping[str, Any]", value)
        entry = cast("Mapping[str, Any]", entry["function"]) if isinstance(entry.get("function"), Mapping) else entry
        name, given = entry.get("name"), entry.get("arguments")
        try:
            given = json_of(given)
        except NoJson as error:
            raise ValueError(f"the arguments of {name!r} are {error}") from None
        if isinstance(name, str) and name.strip() and isinstance(given, Mapping | None):
            return ToolCall(name, cast("Mapping[str, Any] | None", given))
    raise ValueError(f"{value!r} is no tool call: a name is wanted, or {{name, arguments}}")


def _fits(wanted: ToolCall, call: ToolCall, *, arguments: bool) -> bool:
    if wanted.name != call.name:
        return False
    return not arguments or wanted.arguments is None or json_equal(wanted.arguments, call.arguments or {})


def _in_any_order(expected: Sequence[ToolCall], fits: Sequence[Sequence[bool]]) -> list[bool]:
    """Match exact calls first, so that calls that accept any arguments do not take their matches."""
    found, taken = [False] * len(expected), set[int]()
    for i in sorted(range(len(expected)), key=lambda i: expected[i].arguments is None):
        match = next((j for j, fit in enumerate(fits[i]) if fit and j not in taken), None)
        if match is not None:
            found[i] = True
            taken.add(match)
    return found


def _in_order(fits: Sequence[Sequence[bool]]) -> list[bool]:
    """Match a longest common subsequence, the earliest if there are several."""
    rows, columns = len(fits), len(fits[0]) if fits else 0
    length = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in reversed(range(rows)):
        for j in reversed(range(columns)):
            skipped = max(length[i + 1][j], length[i][j + 1])
            length[i][j] = max(skipped, length[i + 1][j + 1] + 1) if fits[i][j] else skipped
    found, i, j = [False] * rows, 0, 0
    while i < rows and j < columns:
        if fits[i][j] and length[i][j] == length[i + 1][j + 1] + 1:
            found[i] = True
            i, j = i + 1, j + 1
        elif length[i][j + 1] == length[i][j]:
            j += 1
        else:
            i += 1
    return found
