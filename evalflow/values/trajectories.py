"""The steps of an agent: tool calls and messages, in the forms found in data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from evalflow.records import ToolCall
from evalflow.values.cells import NoLiteral, literal
from evalflow.values.jsonvalues import as_list, is_list, is_object, is_sequence, kind, parsed, written

_FORM = "a name is wanted, or {name, arguments}"
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class TrajectoryStep:
    """A message, or a call of a plain list: its role, the tools it calls, and the call that it is the result of."""

    role: str
    calls: tuple[ToolCall, ...] = ()
    result_of: str | None = None
    text: str = ""


@dataclass(frozen=True)
class Trajectory:
    """Steps in their order. With `roles` they are messages; else each is one call of a plain list."""

    steps: tuple[TrajectoryStep, ...]
    roles: bool = False

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        return tuple([call for step in self.steps for call in step.calls])

    def flaws(self) -> Iterator[str]:
        """Faults of its ids, in words: two calls with one id, and results of no call."""
        ids = Counter(call.id for call in self.calls if call.id is not None)
        twice = [name for name, count in ids.items() if count > 1]
        lost = [step.result_of for step in self.steps if step.result_of is not None and step.result_of not in ids]
        if twice:
            yield f"{len(twice)} ids of calls are used more than once ({shortened(twice[0])})"
        if lost:
            yield f"{len(lost)} results belong to no call ({shortened(lost[0])})"


def trajectory(value: object) -> Trajectory:
    """Read a list of calls or of messages, also from its text in JSON or Python; ValueError for anything else.

    A call is a name, {name, arguments}, or in the form of chat completions, LangChain or Anthropic.
    """
    try:
        items = literal(value.strip()) if isinstance(value, str) else value
    except NoLiteral as error:
        raise ValueError(f"{shortened(written(value))!r} is not a list of tool calls: not JSON: {error}") from None
    if not is_sequence(items):
        raise ValueError(f"{shortened(written(value))} is not a list of tool calls")
    if any(isinstance(item, dict) and "role" in item for item in items):
        return Trajectory(tuple([_message(item, i) for i, item in enumerate(items)]), roles=True)
    return Trajectory(tuple([TrajectoryStep("assistant", (tool_call(item),)) for item in items]))


def tool_call(value: object) -> ToolCall:
    """Read one call. Arguments that are not a JSON object stay as text, since an agent under test may send them."""
    if isinstance(value, str) and value.strip():
        return ToolCall(value)
    if is_object(value):
        outer = value
        inner = outer.get("function")
        entry = inner if is_object(inner) else outer
        name = entry.get("name", inner)
        if isinstance(name, str) and name.strip():
            given = entry.get("arguments", entry.get("args", entry.get("input")))
            own = outer.get("id", outer.get("call_id"))
            return ToolCall(name, _arguments(given), None if own is None else str(own))
    raise ValueError(f"{shortened(written(value))} is not a tool call: {_FORM}")


def _arguments(given: object) -> Mapping[str, object] | str | None:
    if given is None or is_object(given):
        return given
    if not isinstance(given, str):
        return written(given)
    try:
        known: object = parsed(given.encode()) if given.strip() else {}
    except ValueError:
        return given
    return {} if known is None else known if is_object(known) else given


def _message(value: object, index: int) -> TrajectoryStep:
    message = value if is_object(value) else {}
    role = message.get("role")
    if not isinstance(role, str):
        raise ValueError(f"message {index} has no role: {shortened(written(value))}")
    made = message.get("tool_calls")
    content = message.get("content")
    if made is None and is_list(content):
        parts = [part for part in content if is_object(part)]
        made = [part for part in parts if part.get("type") in ("tool_use", "tool_call")]
    if made is not None and not isinstance(made, list):
        raise ValueError(f"message {index}: tool_calls is {kind(made)}, and a list is wanted")
    result_of = message.get("tool_call_id")
    calls = tuple([tool_call(one) for one in as_list(made)])
    return TrajectoryStep(role, calls, None if result_of is None else str(result_of), _text(content))


def _text(content: object) -> str:
    if not is_list(content):
        return "" if content is None else written(content)
    parts = [part.get("text") for part in content if is_object(part)]
    return "\n".join(part for part in parts if isinstance(part, str))


def call_text(call: ToolCall, most: int = _SHOWN) -> str:
    """A call as name(arguments), shortened in the middle."""
    return call.name if call.arguments is None else f"{call.name}({shortened(written(call.arguments), most)})"


def shortened(text: str, most: int = _SHOWN) -> str:
    """A text whose middle is left out where it has more characters than `most`, with how many were."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end]} […{len(text) - most} characters…] {text[-end:]}"


def listed(texts: Iterable[str], count: int, most: int = 5) -> str:
    """Texts joined by commas; of many the first few, and how many more of `count` there are."""
    return ", ".join(islice(texts, most)) + (f" and {count - most} more" if count > most else "")


_RESULT, _ARGUMENTS, _WORDS = 1500, 500, 1500
"""Maximum characters of a result, of a call's arguments and of a step's text shown to a judge."""
_STEPS, _JUDGED = 60, 100


def call_lines(value: object) -> tuple[str, ...]:
    """Each call in a line that names its step, with what came back, shortened; for a judge. ValueError for too many."""
    agent_run = trajectory(value)
    if len(agent_run.calls) > _JUDGED:
        raise ValueError(f"{len(agent_run.calls)} calls are too many to be judged one by one; the most is {_JUDGED}")
    results = {number: agent_run.steps[at - 1].text for at, number in _answered(agent_run).items()}
    placed = [(at, call) for at, step in enumerate(agent_run.steps, 1) for call in step.calls]
    return tuple(
        f"step {at}, call {number}: {_call_line(call)}"
        + (f" -> {_line(results[number], _RESULT)}" if number in results else "")
        for number, (at, call) in enumerate(placed, 1)
    )


def trajectory_text(value: object) -> str:
    """Show an agent's steps to a judge, one per line.

    The middle of long texts and of many steps is left out, with a note.
    """
    agent_run = trajectory(value)
    if not agent_run.steps:
        return "(The agent called no tool.)"
    numbers = {id(call): number for number, call in enumerate(agent_run.calls, 1)}
    answered = _answered(agent_run)
    lines = [f"step {at}, {_step_text(step, numbers, answered.get(at))}" for at, step in enumerate(agent_run.steps, 1)]
    if len(lines) > _STEPS:
        head, left = _STEPS // 2, len(lines) - _STEPS
        lines = [*lines[:head], f"[…{left} steps are left out here…]", *lines[head + left :]]
    return "\n".join(lines)


def _step_text(step: TrajectoryStep, numbers: Mapping[int, int], answered: int | None) -> str:
    if step.role == "tool":
        return f"result of {f'call {answered}' if answered else 'no call'}: {_line(step.text, _RESULT)}"
    texts = [_line(step.text, _WORDS)] if step.text.strip() else []
    calls = [f"call {numbers[id(call)]}: {_call_line(call)}" for call in step.calls]
    return f"{_line(step.role, _SHOWN)}: {'; '.join([*texts, *calls])}"


def _call_line(call: ToolCall) -> str:
    return _line(call_text(call, _ARGUMENTS), 2 * _ARGUMENTS)


def _answered(agent_run: Trajectory) -> Mapping[int, int]:
    """By the number of a step with a result, that of its call: of calls with the same id, the last one before it."""
    latest: dict[str | None, int] = {}
    answered: dict[int, int] = {}
    number = 0
    for at, step in enumerate(agent_run.steps, 1):
        for call in step.calls:
            number += 1
            latest[call.id] = number
        if step.result_of is not None and step.result_of in latest:
            answered[at] = latest[step.result_of]
    return answered


def _line(text: str, most: int) -> str:
    """Return a text on one line, so that it cannot imitate a separate step."""
    return shortened(" ".join(text.split()), most)
