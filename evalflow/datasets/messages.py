"""Conversations in the forms in which chat APIs and frameworks log them, read as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from evalflow.cells import NoLiteral, literal
from evalflow.datasets.parts import Content, ToolOutput, read_content, result_content, tool_call
from evalflow.jsonvalues import as_list, as_map, kind
from evalflow.records import Message

FORMS = (
    "{role, content}, {type: human, content}, {from: human, value}, [user, assistant], {inputs, outputs} "
    "or {question, answer}"
)
"""The forms of a conversation's turns, for messages."""
_ROLES: Mapping[str, str] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatbot": "assistant",
    "gpt": "assistant",
    "agent": "assistant",
    "customer": "user",
    "client": "user",
    "function": "tool",
}
_WHO = ("type", "from", "sender", "speaker", "author")
_WORDS = ("content", "contents", "value", "parts", "text", "message")
_KNOWN = {"role", *_WHO, *_WORDS, "metadata", "tool_calls", "tool_call_id", "name", "function_call", "refusal"}
_ASKED = ("question", "query", "user", "human", "chat_input", "user_input", "input", "prompt", "message")
_SAID = ("answer", "response", "assistant", "ai", "bot", "chat_output", "output", "reply", "generation")
_FOUND = ("contexts", "context", "retrieved_contexts", "retrieval_context", "documents")
_EARLIER = ("chat_history", "history")  # what each turn repeats of the turns before it
_CALL_ITEMS = ("function_call", "custom_tool_call")
_RESULT_ITEMS = ("function_call_output", "custom_tool_call_output")


def read_message(value: Any, default_role: str) -> Message:
    """A single message, such as an example answer; ValueError says what is wrong with it."""
    item: Any = {"role": default_role, **cast("dict[str, Any]", value)} if isinstance(value, dict) else value
    turns = _Turns()
    turns.add(item)
    if len(turns.messages) != 1:
        raise ValueError("expected one message, got the results of several tools")
    return turns.messages[0]


def read_messages(value: Any) -> tuple[Message, ...]:
    """The messages of a list of turns, of an object that has it under `messages`, or of JSON text with either.

    ValueError says which item cannot be read.
    """
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = literal(value.strip())
        except NoLiteral as error:
            raise ValueError(f"the text is no JSON: {error}") from None
    listed = as_map(value).get("messages", value)
    if not isinstance(listed, list):
        raise ValueError(f"expected a list of {{role, content}}, got {kind(listed)}; known forms: {FORMS}")
    turns = _Turns()
    items = as_list(cast("object", listed))
    named = all(len(pair) == 2 and str(pair[0]).lower() in _ROLES for pair in map(as_list, items))
    for number, item in enumerate(items):
        try:
            for one in [{"role": item[0], "content": item[1]}] if named else _exchange(item) or (item,):
                turns.add(one)
        except ValueError as error:
            raise ValueError(f"item {number}: {error}") from None
    return tuple(turns.messages)


class _Turns:
    """Collects messages; calls of tools and their results get the ids that pair them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._calls = 0
        self._open: list[tuple[str, str]] = []  # the id and tool of calls without a result
        self._thoughts: list[str] = []  # of the next message

    def add(self, item: Any) -> None:
        if not isinstance(item, dict):
            raise ValueError(f"expected {{role, content}}, got {kind(item)}")
        known = _unpacked(cast("dict[str, Any]", item))
        kind_of = known.get("type") if "role" not in known else None
        if kind_of in _CALL_ITEMS:
            self._add_calls([known])
        elif kind_of in _RESULT_ITEMS:
            self._add_result(ToolOutput(result_content(known.get("output")), call_id=known.get("call_id")))
        elif kind_of == "reasoning":
            content = read_content([*as_list(known.get("summary")), *as_list(known.get("content"))])
            self._thoughts += [*content.thoughts, *(part["text"] for part in content.parts)]
        else:
            self._add_message(known)

    def _add_message(self, item: Mapping[str, Any]) -> None:
        role, content = _role(item), _content(item)
        metadata = _metadata(item)
        if thoughts := [*self._thoughts, *content.thoughts]:
            metadata, self._thoughts = {"thoughts": "\n".join(thoughts), **(metadata or {})}, []
        if role == "tool" and not content.results:
            name = item.get("name")
            result = ToolOutput(content, item.get("tool_call_id"), name if isinstance(name, str) else None)
            self._add_result(result, metadata)
            return
        for result in content.results:
            self._add_result(result)
        declared = [*as_list(item.get("tool_calls")), *content.calls]
        declared += [item["function_call"]] if item.get("function_call") else []
        if content.results and not content.parts and not declared:
            return
        more: dict[str, Any] = {"name": item["name"]} if isinstance(item.get("name"), str) else {}
        if content.others:
            more["parts"] = content.parts
        self.messages.append(Message(role, content.text, metadata, more or None))
        self._add_calls(declared)

    def _add_calls(self, declared: Sequence[Any]) -> None:
        """Add calls to the last message of the assistant, or to one without words."""
        calls: list[dict[str, Any]] = []
        for one in declared:
            self._calls += 1
            call = tool_call(as_map(one), f"call_{self._calls}")
            calls.append(call)
            self._open.append((call["id"], call["function"]["name"]))
        if not calls:
            return
        if not self.messages or self.messages[-1].role != "assistant":
            about = {"thoughts": "\n".join(self._thoughts)} if self._thoughts else None
            self.messages.append(Message("assistant", "", about))
            self._thoughts = []
        last = self.messages[-1]
        self.messages[-1] = replace(last, api={**(last.api or {}), "tool_calls": [*last.tool_calls, *calls]})

    def _add_result(self, result: ToolOutput, metadata: Mapping[str, Any] | None = None) -> None:
        call_id = result.call_id
        if call_id is None:
            named = [one for one, name in self._open if result.name in (None, name)]
            call_id = next(iter(named), None)
        self._open = [one for one in self._open if one[0] != call_id]
        more: dict[str, Any] = {} if call_id is None else {"tool_call_id": str(call_id)}
        more |= {"name": result.name} if result.name else {}
        more |= {"parts": result.content.parts} if result.content.others else {}
        about = {"is_error": True, **(metadata or {})} if result.is_error else metadata
        self.messages.append(Message("tool", result.content.text, about, more or None))


def _unpacked(item: dict[str, Any]) -> dict[str, Any]:
    """A message without the wrapping of LangChain: {type, data}, or {type: constructor, id, kwargs}."""
    inner = item.get("kwargs") if "lc" in item else item.get("data") if "content" not in item else None
    if not isinstance(inner, dict):
        return item
    named = as_list(item.get("id"))[-1:] if "lc" in item else [item.get("type")]
    own = str(next(iter(named), "")).removesuffix("Chunk").removesuffix("Message").lower()
    return {"type": own, **cast("dict[str, Any]", inner)}


def _role(item: Mapping[str, Any]) -> str:
    declared = item.get("role")
    if declared is None:
        kind_of = next((item[key] for key in _WHO if item.get(key) is not None), None)
        if not isinstance(kind_of, str):
            raise ValueError(f"role: expected text, got {kind(declared) if 'role' in item else 'nothing'}")
        if kind_of.lower() not in _ROLES:
            raise ValueError(f"the type {kind_of!r} is not a turn of a conversation; known forms: {FORMS}")
        declared = kind_of
    if not isinstance(declared, str):
        raise ValueError(f"role: expected text, got {kind(declared)}")
    return _ROLES.get(declared.lower(), declared)


def _content(item: Mapping[str, Any]) -> Content:
    """The content under the key that the form has; with tool calls or a refusal it may be missing."""
    key = next((one for one in _WORDS if item.get(one) is not None), None)
    if key is None:
        if item.get("refusal"):
            return read_content(item["refusal"])
        if item.get("tool_calls") or item.get("function_call"):
            return Content()
        raise ValueError(f"content: expected text, got {'null' if 'content' in item else 'nothing'}")
    try:
        content = result_content(item[key]) if _role(item) == "tool" else read_content(item[key])
        if key == "content" and item.get("parts"):
            content = _whole(content, read_content(item["parts"]))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
    return content


def _whole(content: Content, whole: Content) -> Content:
    """All parts of a message as evalflow writes it: its text in `content`, and everything in `parts`.

    Someone may have changed the text since.
    """
    if content.text == whole.text:
        return whole
    return replace(whole, parts=[*content.parts, *whole.others])


def _metadata(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The message's metadata, with its other keys; None if it has none."""
    declared = item.get("metadata")
    if declared is not None and not isinstance(declared, dict):
        raise ValueError(f"metadata: expected an object, got {kind(declared)}")
    own = {key: value for key, value in item.items() if key not in _KNOWN and value not in (None, [], {}, "", False)}
    return {**own, **cast("dict[str, Any]", declared or {})} if own or declared is not None else None


def _exchange(item: Any) -> Iterator[dict[str, Any]] | None:
    """A question with its answer as two messages; None for an item of another form."""
    if isinstance(item, list):
        pair = cast("list[Any]", item)
        if len(pair) != 2 or not all(one is None or isinstance(one, str) for one in pair):
            raise ValueError(f"the list is not a pair of texts [user, assistant]; known forms: {FORMS}")
        return _turns_of(pair[0], {}, pair[1], {})
    known = as_map(item)
    if {"role", *_WHO, "content", "lc", "parts"} & set(known):
        return None
    if "inputs" in known or "outputs" in known:
        asked, said = _named(known.get("inputs"), _ASKED, "inputs"), _named(known.get("outputs"), _SAID, "outputs")
        return _turns_of(*asked, *said)
    question = next((key for key in _ASKED if key in known), None)
    answer = next((key for key in _SAID if key in known), None)
    if question is None or answer is None:
        return None
    rest = {key: value for key, value in known.items() if key not in (question, answer)}
    return _turns_of(_expect_text(known, question), {}, _expect_text(known, answer), rest)


def _turns_of(
    asked: str | None, about_asked: Mapping[str, Any], said: str | None, about_said: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    found = next((key for key in _FOUND if about_said.get(key) is not None), "contexts")
    about_said = {"contexts" if key == found else key: value for key, value in about_said.items()}
    for role, text, about in (("user", asked, about_asked), ("assistant", said, about_said)):
        if text is not None:
            kept = {key: value for key, value in about.items() if value is not None and key not in _EARLIER}
            yield {"role": role, "content": text, "metadata": kept or None}


def _named(values: Any, names: Sequence[str], where: str) -> tuple[str | None, Mapping[str, Any]]:
    """The text under the first of these names, else the only text, and what else is there.

    ValueError if it is not clear which text is meant.
    """
    known = as_map(values)
    texts = [key for key, value in known.items() if isinstance(value, str)]
    name = next((name for name in names if known.get(name) is not None), None)
    if name is None and len(texts) > 1:
        raise ValueError(f"{where}: which of {', '.join(texts)} is the turn? call it {names[0]}")
    name = name or next(iter(texts), None)
    if name is None:
        return None, {}
    return _expect_text(known, name, f"{where}."), {key: value for key, value in known.items() if key != name}


def _expect_text(values: Mapping[str, Any], name: str, where: str = "") -> str | None:
    value = values[name]
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{where}{name}: expected text, got {kind(value)}")
    return value
