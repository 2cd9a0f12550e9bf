"""Conversations and calls of tools in other tools' rows, for the columns `messages`, `answer` and `actual` of data/."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from evalflow.addons.interop.importers.columns import is_missing, joined, leaves
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import parsed
from evalflow.datasets import irregular
from evalflow.datasets.messages import read_messages
from evalflow.records.answers import Message
from evalflow.values.jsonvalues import as_list, as_map, present

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "human", "ai", "model", "bot", "function"})
_NAMES = ("name", "function", "tool_name")
_ARGUMENTS = ("args", "arguments", "input_parameters", "inputParameters", "input", "parameters")
_ROLE_KEYS = frozenset({"role", "type", "from", "metadata"})
_CALL_TYPES = frozenset({"function", "function_call", "tool_call", "tool_use"})


HISTORY = ("chat_history", "history", "conversation_history")
"""Column names of the turns before a question."""


def are_messages(value: object) -> bool:
    """Whether it is a list of messages, each with a role."""
    items = as_list(value)
    return bool(items) and all(map(_is_message, items))


def _is_message(value: object) -> bool:
    message = as_map(value)
    if "role" in message:
        return isinstance(message["role"], str)
    inner = as_map(message.get("kwargs", message.get("data")))
    role = message.get("type", message.get("from"))
    is_turn = isinstance(role, str) and role.lower() in _ROLES and "text" not in message
    return is_turn or "content" in inner


def read_turns(items: Iterable[object], ledger: Ledger, where: str, *, ordered: bool = False) -> list[Message]:
    """The messages of a conversation.

    Unreadable ones, such as empty messages, are listed. With `ordered`, Untranslatable if no target can be asked with
    them.
    """
    taken: list[object] = []
    broken: list[tuple[object, str]] = []
    for item in items:
        try:
            alone = read_messages([item])
        except ValueError as error:
            broken.append((item, str(error).removeprefix("item 0: ")))
        else:
            taken.append(_with_rest(item, alone))
    messages = list(read_messages(taken))
    for number, fault in irregular(messages) if ordered else ():
        raise Untranslatable(f"its messages cannot be sent unchanged: message {number + 1} {fault}")
    for item, reason in broken:
        role = as_map(item).get("role", as_map(item).get("type", "other"))
        ledger.leave("messages", f"message ({role})", where, reason)
    ledger.take("messages", len(taken))
    if others := sum(part.get("type") != "text" for message in messages for part in message.parts):
        ledger.take("images and other parts", others)
    return messages


def _with_rest(item: object, messages: Sequence[Message]) -> object:
    """The item, with its further keys, such as the source of a text, moved to the metadata."""
    outer = as_map(item)
    wrapped = next((key for key in ("kwargs", "data") if isinstance(outer.get(key), Mapping)), "")
    message = as_map(outer[wrapped]) if wrapped else outer
    kept = "\n".join(str(entry) for _, entry in leaves(message_rows(messages)))
    rest = {name: value for name, value in message.items() if name not in _ROLE_KEYS and not _is_in(value, kept)}
    noted = message.get("metadata")
    if not rest or not (noted is None or isinstance(noted, Mapping)):
        return item
    more = {**message, "metadata": joined(as_map(noted), rest)}
    return {**outer, wrapped: more} if wrapped else more


def _is_in(value: object, kept: str) -> bool:
    return all(key == "type" or str(item) in kept for key, item in leaves(value))


def history_in(row: Mapping[str, object], ledger: Ledger, where: str) -> tuple[str, list[dict[str, object]]]:
    """The key of the turns before a question, and the turns (chat or prompt flow format); empty without any."""
    name = next((name for name in HISTORY if as_list(parsed(row.get(name)))), "")
    turns = as_list(parsed(row.get(name)))
    try:
        read_messages(turns)
    except ValueError:
        return "", []
    return name, message_rows(read_turns(turns, ledger, where))


def _split_answer(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """The messages up to the user's last, and the messages after it, which answer it."""
    last = max((number for number, message in enumerate(messages) if message.role == "user"), default=-1)
    return messages[: last + 1], messages[last + 1 :]


def conversation_case(messages: Sequence[Message], hint: str = "") -> tuple[dict[str, object], dict[str, object]]:
    """The case of a conversation, and the metadata of its answer: the messages after the user's last.

    Untranslatable without a message of a user.
    """
    asked, replies = _split_answer(messages)
    if not asked:
        raise Untranslatable("it has no turn of a user", hint)
    answer = answer_in(replies)
    case: dict[str, object] = {"messages": message_rows(asked), **({} if answer is None else {"answer": answer})}
    return case, about_answer(replies)


def answer_in(messages: Sequence[Message]) -> str | None:
    """The assistant's text in messages that answer a user; None without messages of the assistant."""
    texts = [message.content for message in messages if message.role == "assistant"]
    return "\n".join(text for text in texts if text) if texts else None


def about_answer(messages: Sequence[Message]) -> dict[str, object]:
    """Further keys of the messages that answer a user, as the answer's metadata."""
    parts = ({"parts": list(message.parts)} if message.parts else {} for message in messages)
    return joined(*chain.from_iterable(zip((message.metadata or {} for message in messages), parts, strict=True)))


def calls_in(messages: Iterable[Message]) -> list[dict[str, object]]:
    """All tool calls of a conversation, as evalflow's {name, arguments}."""
    made = (call for message in messages for call in message.tool_calls)
    return [{"name": call["function"]["name"], "arguments": parsed(call["function"]["arguments"])} for call in made]


def steps_in(messages: Sequence[Message]) -> list[dict[str, object]]:
    """The tool calls of a conversation; if tools replied after the user's last turn, all messages instead."""
    _, replies = _split_answer(messages)
    return message_rows(messages) if any(item.role == "tool" for item in replies) else calls_in(messages)


def message_rows(messages: Iterable[Message]) -> list[dict[str, object]]:
    """The messages in the format of data/."""
    rows = [
        {"role": message.role, "content": message.content, **(message.api or {}), "metadata": message.metadata}
        for message in messages
    ]
    return [{name: part for name, part in row.items() if part is not None} for row in rows]


def passage(value: object, texts: Sequence[str], paths: Sequence[str]) -> object:
    """A passage as a text, or as an object with its text and its path; None for anything else.

    `texts` and `paths` are the keys of an object that may have them.
    """
    if isinstance(value, str):
        return value
    parts = as_map(value)
    at = next((name for name in texts if isinstance(parts.get(name), str)), None)
    path = next((own for name in paths if isinstance(own := parts.get(name), str) and own), None)
    rest = {name: part for name, part in parts.items() if name != at}
    return None if at is None else {**rest, "text": parts[at], **present(path=path)}


def plain_calls(value: object) -> list[dict[str, object]] | None:
    """A list of calls in any tool's format as {name, arguments} and further keys; None if a call has no name."""
    listed = parsed(value)
    if not isinstance(listed, list):
        return None
    items = as_list(listed)
    calls = [call for item in items if (call := _plain_call(item)) is not None]
    return calls if len(calls) == len(items) else None


def _plain_call(value: object) -> dict[str, object] | None:
    if isinstance(value, str) and value.strip():
        return {"name": value}
    outer = as_map(value)
    inner = as_map(outer.get("function"))
    call = {**inner, **{key: part for key, part in outer.items() if key != "function"}} if inner else outer
    name = next((text for key in _NAMES if isinstance(text := call.get(key), str) and text.strip()), None)
    if name is None:
        return None
    at = next((key for key in _ARGUMENTS if call.get(key) is not None), "")
    plain_type = str(call.get("type")).lower() in _CALL_TYPES
    used = {*_NAMES, at, *(["type"] if plain_type else [])}
    rest = {key: part for key, part in call.items() if key not in used and not is_missing(part)}
    return {"name": name, **({"arguments": parsed(call[at])} if at else {}), **rest}
