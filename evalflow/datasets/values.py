"""Case fields out of JSON values. Every converter raises ValueError with what was expected and what was found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from evalflow.contexts import contexts
from evalflow.datasets.tags import tag_name
from evalflow.jsonvalues import kind
from evalflow.records import Message


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {kind(value)}")
    return value


def _id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise ValueError(f"expected text or a whole number, got {kind(value) if value != '' else 'empty text'}")
    return str(value)


def _group(value: Any) -> str:
    if isinstance(value, (list, dict)):
        raise ValueError(f"expected text or a number, got {kind(cast('object', value))}")
    return value if isinstance(value, str) else json.dumps(value)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {kind(value)}")
    return cast("dict[str, Any]", value)


def _list(value: Any, of: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list of {of}, got {kind(value)}")
    return cast("list[Any]", value)


def _message(value: Any, default_role: str | None, where: str = "") -> Message:
    prefix = f"{where}: " if where else ""
    if not isinstance(value, dict):
        raise ValueError(f"{prefix}expected {{role, content}}, got {kind(value)}")
    item = cast("dict[str, Any]", value)
    role, content, metadata = item.get("role", default_role), item.get("content"), item.get("metadata")
    for key, found in (("role", role), ("content", content)):
        if not isinstance(found, str):
            raise ValueError(f"{prefix}{key}: expected text, got {kind(found) if key in item else 'nothing'}")
    if metadata is not None and not isinstance(metadata, dict):
        raise ValueError(f"{prefix}metadata: expected an object, got {kind(metadata)}")
    return Message(cast("str", role), cast("str", content), cast("dict[str, Any] | None", metadata))


def _messages(value: Any) -> tuple[Message, ...]:
    items = _list(value, "{role, content}")
    return tuple(_message(item, None, f"item {i}") for i, item in enumerate(items))


def _demo_answer(value: Any) -> Message:
    return Message("assistant", value) if isinstance(value, str) else _message(value, "assistant")


def _check(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected {{identifier, enabled, params}}, got {kind(value)}")
    check = cast("dict[str, Any]", value)
    if not isinstance(check.get("identifier"), str) or not check["identifier"]:
        raise ValueError(f"{where}: the check has no identifier")
    if not isinstance(check.get("enabled", True), bool):
        raise ValueError(f"{where}.enabled: expected true or false, got {kind(check['enabled'])}")
    if not isinstance(check.get("params") or {}, dict):
        raise ValueError(f"{where}.params: expected an object, got {kind(check['params'])}")
    return check


def _checks(value: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(_check(item, f"item {i}") for i, item in enumerate(_list(value, "{identifier, enabled, params}")))


def _tags(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):  # "a; b", as people write them in a cell
        return _tag_names(value.split(";"))
    tags = _list(value, "texts")
    wrong = next((tag for tag in tags if not isinstance(tag, str)), "")
    if wrong != "":
        raise ValueError(f"expected a list of texts, got {kind(wrong)} in it")
    return _tag_names(tags)


def _tag_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Each tag once, in the one way of writing it."""
    return tuple(dict.fromkeys(name for text in texts if (name := tag_name(text))))


def _anything(value: Any) -> Any:
    return value


def _failure(value: Any) -> str | None:
    """Why the recorded answer is none: a message, or an object of status (success or error) and message."""
    if not isinstance(value, dict):
        return _text(value)
    fields = cast("dict[str, Any]", value)
    status = fields.get("status", "error")
    if status not in ("success", "error"):
        raise ValueError(f"status: expected success or error, got {status!r}")
    return None if status == "success" else _text(fields.get("message", "the data says no more than status: error"))


CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "id": _id,
    "question": _text,
    "messages": _messages,
    "answer": _text,
    "reference": _text,
    "contexts": contexts,
    "expected": _anything,
    "actual": _anything,
    "metadata": _object,
    "demo_answer": _demo_answer,
    "failure": _failure,
    "checks": _checks,
    "tags": _tags,
    "group": _group,
    "labels": _object,
    "vars": _object,
}
"""Case field to the function that makes its value."""
FIELDS = tuple(CONVERTERS)
"""The case fields that data can fill."""
