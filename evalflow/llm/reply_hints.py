"""Explain why a model's reply could not be used, and suggest an override of the command line that helps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import from_json, to_json

from evalflow.llm.contract import ReplyMode
from evalflow.values.jsonvalues import as_list, as_map

if TYPE_CHECKING:
    from evalflow.llm.chat import Completion

_MORE_TOKENS = 4096
_FEW = 10  # more items than this in a list may be a loop
_REFUSED: Mapping[ReplyMode, re.Pattern[str]] = MappingProxyType(
    {
        "json_schema": re.compile(r"response[_ ]?format|json[_ ]?schema|structured|guided|grammar", re.IGNORECASE),
        "json": re.compile(r"response[_ ]?format|json[_ ]?(object|mode)|structured", re.IGNORECASE),
        "tools": re.compile(r"\btools?\b|tool_choice|function.?call", re.IGNORECASE),
    }
)
"""Error texts of endpoints that refuse how a request asks for a typed reply."""


class Hint(NamedTuple):
    """A remedy: an override of the command line, and what it does."""

    remedy: str
    effect: str

    def __str__(self) -> str:
        return f"{self.remedy} {self.effect}"


def refused(mode: ReplyMode, role: str, message: str) -> Hint | None:
    """Return the mode to use with an endpoint that refuses this one; None if its message is about something else."""
    pattern = _REFUSED.get(mode)
    if pattern is None or not pattern.search(message):
        return None
    if mode == "json" and "json_schema" in message:  # LM Studio accepts no other format
        return Hint(f"{role}.mode=json_schema", "asks for the format that the endpoint names")
    return Hint(f"{role}.mode=md_json", "asks without it")


def other_mode(mode: ReplyMode, role: str, completion: Completion) -> Hint:
    """Return the mode to try if a model's replies stay invalid."""
    if mode == "json_schema":
        return Hint(f"{role}.mode=md_json", "shows the schema to the model, if the endpoint does not enforce it")
    if mode == "json" and "{" not in (completion.text or ""):
        return Hint(f"{role}.mode=md_json", "asks without the endpoint's JSON mode")
    if mode == "tools" and not completion.tool_calls:
        return Hint(f"{role}.mode=json_schema", "asks without a tool")
    return Hint(f"{role}.mode=json_schema", "has the endpoint enforce the schema, if it can")


def circumstances(completion: Completion) -> str:
    """Return what the endpoint says about an empty or cut off reply."""
    return ", ".join(_circumstances(completion))


def _circumstances(completion: Completion) -> Iterator[str]:
    yield f"finish_reason {completion.finish_reason}" if completion.finish_reason else "no finish_reason"
    if completion.usage is not None:
        thought = (
            "" if completion.reasoning_tokens is None else f", {completion.reasoning_tokens:,} of them for reasoning"
        )
        yield f"{completion.usage.output_tokens:,} output tokens{thought}"
    if completion.reasoning:
        yield f"{len(completion.reasoning):,} characters in its reasoning field"


def listed_so_far(role: str, raw: str) -> tuple[str, str]:
    """Return how many list items a cut off reply has, and what to do if it repeats itself; empty without a list."""
    try:
        parsed = as_map(from_json(raw[max(raw.find("{"), 0) :], allow_partial=True))
    except ValueError:
        return "", ""
    name = next((name for name, value in parsed.items() if isinstance(value, list)), "")
    items = as_list(parsed.get(name))
    if not items:
        return "", ""
    different = len({to_json(item) for item in items})
    noun = name.replace("_", " ")
    if len(items) < _FEW or 2 * different > len(items):
        return f" after {len(items):,} {noun}", ""
    advice = f"it repeats itself, so ask another model, or raise {role}.temperature"
    return f" after {len(items):,} {noun}, {different:,} of them different,", advice


def more_tokens(role: str, completion: Completion, limit: int | None) -> str:
    """Return the override that allows longer replies; `limit` is the current limit."""
    used = completion.usage.output_tokens if completion.usage else 0
    return f"{role}.max_tokens={max(_MORE_TOKENS, 4 * (limit or used))}"
