"""Messages in the forms of other tools (OpenAI, Anthropic, LangChain, Inspect, deepeval) as those of a chat API.

Text, tool calls and results of tools are kept as they are. What is no text, such as an image, is listed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from evalflow.datasets import irregular
from evalflow.importers.columns import is_missing, parsed
from evalflow.importers.ledger import Ledger, Untranslatable
from evalflow.jsonvalues import as_list, as_map
from evalflow.records.answers import Message

_ROLES: Mapping[str, str] = {
    "human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant", "developer": "system",
    "function": "tool", "HumanMessage": "user", "AIMessage": "assistant", "SystemMessage": "system",
    "ToolMessage": "tool", "AIMessageChunk": "assistant",
}  # fmt: skip
_KNOWN_ROLES = frozenset({"system", "user", "assistant", "tool"})
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_THOUGHTS = frozenset({"reasoning", "thinking", "redacted_thinking"})
_SPOKEN = ("content", "parts", "contents")
_CALLS = ("tool_calls", "tools_called", "toolsCalled")
_OWN = frozenset({"role", "type", "content", "tool_calls", "tool_call_id", "name", "metadata"})
_NO_PICTURE = "evalflow sends and judges text alone"


@dataclass(slots=True)
class Turn:
    """One message, with the kinds of the parts that are no text."""

    role: str
    texts: list[str] = field(default_factory=list[str])
    calls: list[Any] = field(default_factory=list[Any])
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    call_id: str = ""
    name: str = ""
    others: list[str] = field(default_factory=list[str])
    is_list: bool = False

    @property
    def text(self) -> str | None:
        return "\n".join(self.texts) if self.texts else None

    @property
    def says(self) -> bool:
        """Whether it has a text or a call, or is the result of a tool."""
        return bool(self.calls) or any(text.strip() for text in self.texts) or self.role == "tool"

    def message(self) -> dict[str, Any]:
        """The message as a chat API takes it; further keys of the source are its metadata."""
        parts = [{"type": "text", "text": text} for text in self.texts]
        content = parts if self.is_list and len(parts) > 1 else self.text
        if content is None and not self.calls:
            content = ""
        found: dict[str, Any] = {"role": self.role, "content": content}
        found |= {"tool_calls": self.calls} if self.calls else {}
        found |= {"tool_call_id": self.call_id} if self.call_id else {}
        found |= {"name": self.name} if self.name else {}
        return found | ({"metadata": self.about} if self.about else {})


def are_messages(value: Any) -> bool:
    """Whether it is a list of messages with roles."""
    items = as_list(value)
    return bool(items) and all(map(_is_message, items))


def turns_of(items: Sequence[Any]) -> list[Turn]:
    """The messages of a list; results of tools within a message of Anthropic's become messages of their own."""
    return [turn for item in items for turn in _turns(as_map(item))]


def taken_messages(
    turns: Sequence[Turn], ledger: Ledger, where: str, *, asked: bool, ordered: bool = False
) -> list[dict[str, Any]]:
    """The messages of a conversation; those that say nothing are listed, and so are images.

    Untranslatable if it would be `asked` anew without an image that belongs to it; or, if `ordered`, if it is no
    conversation that a target can be asked.
    """
    silent = [number for number, turn in enumerate(turns, 1) if turn.others]
    if asked and silent:
        raise Untranslatable(f"message {silent[0]} has an {turns[silent[0] - 1].others[0]}, and {_NO_PICTURE}")
    taken = [turn.message() for turn in turns if turn.says]
    for number, fault in irregular(as_records(taken)) if ordered else ():
        raise Untranslatable(f"its messages cannot be asked as they are: message {number + 1} {fault}")
    for turn in turns:
        for kind in turn.others:
            ledger.leave("images", kind, where, f"{_NO_PICTURE}; the rest of the message is taken")
        if not turn.says:
            ledger.leave("messages", f"message ({turn.role})", where, "it has neither a text nor a call of a tool")
    ledger.take("messages", len(taken))
    return taken


def split_answer(messages: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages up to the last of the user, and those behind it, which answer it."""
    last = max((number for number, one in enumerate(messages) if one["role"] == "user"), default=-1)
    return list(messages[: last + 1]), list(messages[last + 1 :])


def as_records(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The messages of system, user and assistant with their texts alone; calls of tools and their results apart."""
    kept = [one for one in messages if one["role"] != "tool" and not (one.get("tool_calls") and not one["content"])]
    return [Message(one["role"], text_in(one["content"]) or "") for one in kept]


def text_in(content: Any) -> str | None:
    """The text of a message's content; None if it has none."""
    if isinstance(content, str):
        return content
    texts = [text for part in as_list(content) if isinstance(text := as_map(part).get("text"), str)]
    return "\n".join(texts) if texts else None


def call_of(value: Any) -> dict[str, Any] | None:
    """A call of a tool as a chat API has it; None if it has no name.

    Other keys than those of a call, such as its output, stand beside them.
    """
    known = as_map(value)
    if isinstance(as_map(known.get("function")).get("name"), str):
        return dict(known)
    names = [known.get(key) for key in ("name", "function", "tool_name")]
    name = next((one for one in names if isinstance(one, str) and one), "")
    if not name:
        return None
    keys = ("args", "arguments", "input_parameters", "inputParameters", "input", "parameters")
    at = next((key for key in keys if known.get(key) is not None), "")
    given = parsed(known.get(at)) if at else None
    arguments = given if isinstance(given, str) else json.dumps({} if given is None else given, ensure_ascii=False)
    number = known.get("id", known.get("tool_call_id"))
    used = {"name", "function", "tool_name", "type", "id", "tool_call_id", at}
    rest = {key: one for key, one in known.items() if key not in used and not is_missing(one)}
    own = {} if is_missing(number) else {"id": str(number)}
    return {**own, "type": "function", "function": {"name": name, "arguments": arguments}, **rest}


def plain_call(value: Any) -> Any:
    """A call as evalflow's own `{name, arguments}`; other keys of it are kept; a text is the name of a tool."""
    if isinstance(value, str):
        return {"name": value}
    call = call_of(value)
    if call is None:
        return None
    function = as_map(call.pop("function"))
    arguments = parsed(function.get("arguments"))
    call.pop("type", None)
    is_given = arguments not in (None, {}, "") or "arguments" in as_map(as_map(value).get("function"))
    return {"name": function["name"], **({"arguments": arguments} if is_given else {}), **call}


def _is_message(value: Any) -> bool:
    known = as_map(value)
    inner, role = _unwrapped(known), _role(known)
    has_role = role in _KNOWN_ROLES or bool(role and "role" in inner)
    return has_role and any(key in inner for key in (*_SPOKEN, *_CALLS))


def _unwrapped(known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a message that LangChain wrapped."""
    for key in ("kwargs", "data"):
        if isinstance(known.get(key), Mapping):
            return cast("Mapping[str, Any]", known[key])
    return known


def _role(known: Mapping[str, Any]) -> str:
    inner = _unwrapped(known)
    kinds = as_list(known.get("id"))
    found = inner.get("role") or (kinds[-1] if inner is not known and kinds else "") or inner.get("type")
    found = found or known.get("type")
    return _ROLES.get(found, found) if isinstance(found, str) else ""


def _turns(known: Mapping[str, Any]) -> Iterator[Turn]:
    inner, turn = _unwrapped(known), Turn(_role(known))
    results: list[Turn] = []
    spoken = next((key for key in _SPOKEN if not is_missing(inner.get(key))), "content")
    content = inner.get(spoken)
    if isinstance(content, str):
        turn.texts = [content]
    elif isinstance(content, list):
        turn.is_list = True
        for part in as_list(content):
            _add_part(turn, results, part)
    elif not is_missing(content):
        _add_part(turn, results, content)
    calls = next((key for key in _CALLS if as_list(inner.get(key))), "")
    made = [call_of(call) for call in as_list(inner.get(calls))]
    turn.calls += [call for call in made if call is not None]
    turn.call_id = _text(inner.get("tool_call_id"))
    turn.name = _text(inner.get("name"))
    about = inner.get("metadata")
    turn.about |= dict(as_map(about)) if isinstance(about, Mapping) else {"metadata": about} if about else {}
    used = {*_OWN, spoken, calls}
    if None in made:  # a call without a name is kept as it is
        used.remove(calls)
    turn.about |= {key: one for key, one in inner.items() if key not in used and one not in (None, "", [], {})}
    yield from results
    if turn.says or turn.others or not results:
        yield turn


def _add_part(turn: Turn, results: list[Turn], part: Any) -> None:
    if isinstance(part, str):
        turn.texts.append(part)
        return
    known = as_map(part)
    kind, text = str(known.get("type") or ("text" if "text" in known else "part")), known.get("text")
    if kind in _TEXT_PARTS and isinstance(text, str):
        turn.texts.append(text)
    elif kind == "refusal" and isinstance(known.get("refusal"), str):
        turn.texts.append(known["refusal"])
    elif kind in _THOUGHTS:
        turn.about.setdefault("thoughts", []).append(known.get("thinking", known.get("reasoning", dict(known))))
    elif kind in ("tool_use", "tool_call") and (call := call_of(known)) is not None:
        turn.calls.append(call)
    elif kind in ("tool_result", "tool_call_response"):
        [result] = _turns({"role": "tool", "content": known.get("content", known.get("response"))})
        result.call_id = _text(known.get("tool_use_id", known.get("id")))
        results.append(result)
    else:
        turn.others.append("image" if "image" in kind else kind if kind in ("audio", "file", "video") else "part")


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
