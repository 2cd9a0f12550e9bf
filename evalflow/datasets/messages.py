"""Read conversations, in the formats logged by chat APIs and frameworks, as messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from evalflow.records import ApiKeys, Message, SentCall
from evalflow.values.cells import NoLiteral, literal
from evalflow.values.jsonvalues import as_list, as_map, is_list, is_object, kind, written

_TEXT = ("text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text")
_THOUGHTS = ("thinking", "reasoning", "thought")
_CALLS = ("tool_use", "tool_call", "tool-call", "function_call")
_RESULTS = ("tool_result", "tool-result", "tool_call_response", "function_response")
_CALL_KEYS, _RESULT_KEYS = ("functionCall", "toolUse"), ("functionResponse", "toolResult")
"""Keys of parts without a type, from Gemini and Bedrock."""
_IDS = ("tool_use_id", "call_id", "id", "tool_call_id", "toolCallId", "toolUseId")


@dataclass(slots=True)
class ToolOutput:
    """What a tool returned for the call with this id, or else of this name."""

    content: Content
    call_id: str | None = None
    name: str | None = None
    is_error: bool = False


@dataclass(slots=True)
class Content:
    """The content of a message by kinds. `parts` are all that belong to its words, in order; `calls` those of tools."""

    parts: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    calls: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    results: list[ToolOutput] = field(default_factory=list[ToolOutput])
    thoughts: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        return "\n".join(str(part["text"]) for part in self.parts if part["type"] == "text")

    @property
    def others(self) -> list[Mapping[str, object]]:
        """The parts that are not text."""
        return [part for part in self.parts if part["type"] != "text"]


def read_content(value: object) -> Content:
    """Read a text, one part or a list of parts; ValueError for anything else."""
    content = Content()
    if isinstance(value, str):
        content.parts.append(_text(value))
        return content
    if is_object(value):
        value = as_list(value.get("parts")) or [value]  # ChatGPT exports {content_type, parts}
    if not is_list(value):
        raise ValueError(f"expected text or a list of parts, got {kind(value)}")
    for number, part in enumerate(value):
        try:
            _add(content, part)
        except ValueError as error:
            raise ValueError(f"part {number}: {error}") from None
    return content


def tool_call(declared: Mapping[str, object], call_id: str) -> SentCall:
    """A call in the form of chat completions; `call_id` if it has no id. ValueError if it names no tool."""
    inner = as_map(declared.get("function")) or _within(declared, _CALL_KEYS)
    name = inner.get("name", inner.get("toolName"))
    if not isinstance(name, str) or not name.strip():
        raise ValueError("the tool call has no name")
    values = (inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None)
    value = next(values, None)
    own = next((level[key] for level in (declared, inner) for key in _IDS if level.get(key)), call_id)
    arguments = value if isinstance(value, str) else json.dumps({} if value is None else value, ensure_ascii=False)
    return {"id": str(own), "type": "function", "function": {"name": name, "arguments": arguments}}


def _add(content: Content, declared: object) -> None:
    if isinstance(declared, str):
        content.parts.append(_text(declared))
        return
    if not is_object(declared):
        raise ValueError(f"expected text or an object, got {kind(declared)}")
    part = declared
    type_of = part.get("type")
    text = _text_in(part)
    if type_of in _THOUGHTS or part.get("thought") is True:
        content.thoughts += [text] if text else []
    elif text is not None and (type_of is None or type_of in _TEXT):
        content.parts.append(_text(text))
    elif type_of in _CALLS or any(part.get(key) for key in _CALL_KEYS):
        content.calls.append(part)
    elif type_of in _RESULTS or any(part.get(key) for key in _RESULT_KEYS):
        content.results.append(_result(part))
    elif type_of in _TEXT:
        raise ValueError(f"text: expected text, got {kind(part.get('text')) if 'text' in part else 'nothing'}")
    elif type_of == "redacted_thinking":
        content.thoughts.append("[redacted]")
    else:
        values = {key: value for key, value in part.items() if value is not None}
        content.parts.append(
            _picture(values) or {"type": str(values.get("type") or next(iter(values), "part")), **values}
        )


def _text(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _text_in(part: Mapping[str, object]) -> str | None:
    for key in ("text", "refusal", "thinking", "reasoning", "summary"):
        value = as_map(part.get(key)).get("value", part.get(key))  # the Assistants API has {value, annotations}
        if isinstance(value, str):
            return value
    return None


def _result(part: Mapping[str, object]) -> ToolOutput:
    inner = _within(part, _RESULT_KEYS)
    keys = ("content", "response", "output", "result")
    returned = next((inner[key] for key in keys if inner.get(key) is not None), "")
    own = next((str(level[key]) for level in (part, inner) for key in _IDS if level.get(key)), None)
    name = inner.get("name", inner.get("toolName"))
    failed = part.get("is_error") is True or inner.get("status") == "error"
    return ToolOutput(result_content(returned), own, name if isinstance(name, str) else None, failed)


def _within(part: Mapping[str, object], keys: Sequence[str]) -> Mapping[str, object]:
    """The object under the first of these keys; the part itself if it has none."""
    return next((inner for key in keys if (inner := as_map(part.get(key)))), part)


def result_content(value: object) -> Content:
    """What a tool returned: a text or parts, else a JSON value, which a conversation has as its text."""
    if value is None:
        return Content(parts=[_text("")])
    if {"type", "value"} == set(as_map(value)):
        value = as_map(value)["value"]
    items = as_list(value)
    if isinstance(value, str) or (items and all("type" in part or [*part] == ["text"] for part in map(as_map, items))):
        return read_content(value)
    if len(items) == 1 and [*(only := as_map(items[0]))] == ["json"]:  # as Bedrock wraps it
        value = only["json"]
    return Content(parts=[_text(written(value))])


def _picture(part: Mapping[str, object]) -> dict[str, object] | None:
    """An image in the form of chat completions; None if the part has none, or in a form that only its API knows."""
    declared = part.get("image_url")
    if isinstance(declared, str):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": declared, **detail}}
    source = as_map(part.get("source")) if part.get("type") == "image" else as_map(part.get("inlineData"))
    media = str(source.get("media_type", source.get("mimeType", "")))
    if source.get("url"):
        return {"type": "image_url", "image_url": {"url": source["url"]}}
    if source.get("data") and media.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": f"data:{media};base64,{source['data']}"}}
    return None


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
_BARE = {"role", "content"}
_WHO = ("type", "from", "sender", "speaker", "author")
_WORDS = ("content", "contents", "value", "parts", "text", "message")
_KNOWN = {"role", *_WHO, *_WORDS, "metadata", "tool_calls", "tool_call_id", "name", "function_call", "refusal"}
_QUESTION_KEYS = ("question", "query", "user", "human", "chat_input", "user_input", "input", "prompt", "message")
_ANSWER_KEYS = ("answer", "response", "assistant", "ai", "bot", "chat_output", "output", "reply", "generation")
_CONTEXT_KEYS = ("contexts", "context", "retrieved_contexts", "retrieval_context", "documents")
_EARLIER = ("chat_history", "history")  # the earlier turns that each turn repeats
_CALL_ITEMS = ("function_call", "custom_tool_call")
_RESULT_ITEMS = ("function_call_output", "custom_tool_call_output")


def read_message(value: object, default_role: str) -> Message:
    """A single message, such as an example answer; ValueError says what is wrong with it."""
    item: object = {"role": default_role, **value} if is_object(value) else value
    turns = _Turns()
    turns.add(item)
    if len(turns.messages) != 1:
        raise ValueError("expected one message, got the results of several tools")
    return turns.messages[0]


def read_messages(value: object) -> tuple[Message, ...]:
    """The messages of a list of turns, of an object that has it under `messages`, or of JSON text with either.

    ValueError says which item cannot be read.
    """
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            value = literal(value.strip())
        except NoLiteral as error:
            raise ValueError(f"the text is not JSON: {error}") from None
    listed = as_map(value).get("messages", value)
    if not is_list(listed):
        raise ValueError(f"expected a list of {{role, content}}, got {kind(listed)}; known forms: {FORMS}")
    turns = _Turns()
    pairs = [pair for item in listed if len(pair := as_list(item)) == 2 and str(pair[0]).lower() in _ROLES]
    if listed and len(pairs) == len(listed):
        listed = [{"role": role, "content": content} for role, content in pairs]
    for number, item in enumerate(listed):
        if _is_bare(item) and not turns.thoughts:
            turns.messages.append(Message(item["role"], item["content"]))
            continue
        try:
            for turn in _exchange(item) or (item,):
                turns.add(turn)
        except ValueError as error:
            raise ValueError(f"item {number}: {error}") from None
    return tuple(turns.messages)


def _is_bare(item: object) -> TypeGuard[dict[str, str]]:
    """Whether a turn is one text of user, assistant or system and no more, as most are: no other form is tried."""
    if not is_object(item) or item.keys() != _BARE:
        return False
    return item["role"] in ("user", "assistant", "system") and isinstance(item["content"], str)


class _Turns:
    """Collects messages; calls of tools and their results get the ids that pair them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._calls = 0
        self._open: list[tuple[str, str]] = []  # the id and tool of calls without a result
        self.thoughts: list[str] = []  # of the next message

    def add(self, item: object) -> None:
        if not is_object(item):
            raise ValueError(f"expected {{role, content}}, got {kind(item)}")
        turn = _unpacked(item)
        kind_of = turn.get("type") if "role" not in turn else None
        if kind_of in _CALL_ITEMS:
            self._add_calls([turn])
        elif kind_of in _RESULT_ITEMS:
            self._add_result(ToolOutput(result_content(turn.get("output")), _call_id(turn, "call_id")))
        elif kind_of == "reasoning":
            content = read_content([*as_list(turn.get("summary")), *as_list(turn.get("content"))])
            self.thoughts += [*content.thoughts, *([content.text] if content.text else [])]
        else:
            self._add_message(turn)

    def _add_message(self, item: Mapping[str, object]) -> None:
        role, content = _role(item), _content(item)
        metadata = _metadata(item)
        if thoughts := [*self.thoughts, *content.thoughts]:
            metadata, self.thoughts = {"thoughts": "\n".join(thoughts), **(metadata or {})}, []
        if role == "tool" and not content.results:
            name = item.get("name")
            result = ToolOutput(content, _call_id(item, "tool_call_id"), name if isinstance(name, str) else None)
            self._add_result(result, metadata)
            return
        for result in content.results:
            self._add_result(result)
        declared = [*as_list(item.get("tool_calls")), *content.calls]
        declared += [item["function_call"]] if item.get("function_call") else []
        if content.results and not content.parts and not declared:
            return
        more: ApiKeys = {"name": name} if isinstance(name := item.get("name"), str) else {}
        if content.others:
            more["parts"] = content.parts
        self.messages.append(Message(role, content.text, metadata, more or None))
        self._add_calls(declared)

    def _add_calls(self, declared: Sequence[object]) -> None:
        """Add calls to the last message of the assistant, or to one without words."""
        calls: list[SentCall] = []
        for item in declared:
            self._calls += 1
            call = tool_call(as_map(item), f"call_{self._calls}")
            calls.append(call)
            self._open.append((call["id"], call["function"]["name"]))
        if not calls:
            return
        if not self.messages or self.messages[-1].role != "assistant":
            about = {"thoughts": "\n".join(self.thoughts)} if self.thoughts else None
            self.messages.append(Message("assistant", "", about))
            self.thoughts = []
        last = self.messages[-1]
        self.messages[-1] = replace(last, api={**(last.api or {}), "tool_calls": [*last.tool_calls, *calls]})

    def _add_result(self, result: ToolOutput, metadata: Mapping[str, object] | None = None) -> None:
        call_id = result.call_id
        if call_id is None:
            call_id = next((own for own, name in self._open if result.name in (None, name)), None)
        self._open = [call for call in self._open if call[0] != call_id]
        more: ApiKeys = {} if call_id is None else {"tool_call_id": call_id}
        if result.name:
            more["name"] = result.name
        if result.content.others:
            more["parts"] = result.content.parts
        about = {"is_error": True, **(metadata or {})} if result.is_error else metadata
        self.messages.append(Message("tool", result.content.text, about, more or None))


def _call_id(item: Mapping[str, object], key: str) -> str | None:
    """The id of a call that a result names; None without one."""
    value = item.get(key)
    return None if value is None else str(value)


def _unpacked(item: dict[str, object]) -> dict[str, object]:
    """A message without the wrapping of LangChain: {type, data}, or {type: constructor, id, kwargs}."""
    inner = item.get("kwargs") if "lc" in item else item.get("data") if "content" not in item else None
    if not is_object(inner):
        return item
    named = as_list(item.get("id"))[-1:] if "lc" in item else [item.get("type")]
    own = str(next(iter(named), "")).removesuffix("Chunk").removesuffix("Message").lower()
    return {"type": own, **inner}


def _role(item: Mapping[str, object]) -> str:
    declared = item.get("role")
    if declared is None:
        kind_of = next((item[key] for key in _WHO if item.get(key) is not None), None)
        if not isinstance(kind_of, str):
            raise ValueError(f"role: expected text, got {kind(declared) if 'role' in item else 'nothing'}")
        if kind_of.lower() not in _ROLES:
            raise ValueError(f"the type {kind_of!r} is not a turn of a conversation; known formats: {FORMS}")
        declared = kind_of
    if not isinstance(declared, str):
        raise ValueError(f"role: expected text, got {kind(declared)}")
    return _ROLES.get(declared.lower(), declared)


def _content(item: Mapping[str, object]) -> Content:
    """The content under the key that the form has; with tool calls or a refusal it may be missing."""
    key = next((key for key in _WORDS if item.get(key) is not None), None)
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


def _metadata(item: Mapping[str, object]) -> dict[str, object] | None:
    """The message's metadata, with its other keys; None if it has none."""
    declared = item.get("metadata")
    if declared is not None and not is_object(declared):
        raise ValueError(f"metadata: expected an object, got {kind(declared)}")
    own = {key: value for key, value in item.items() if key not in _KNOWN and value not in (None, [], {}, "", False)}
    return {**own, **as_map(declared)} if own or declared is not None else None


def _exchange(item: object) -> Iterator[dict[str, object]] | None:
    """A question with its answer as two messages; None for an item of another form."""
    if is_list(item):
        texts = [text for text in item if text is None or isinstance(text, str)]
        if len(item) != 2 or len(texts) != 2:
            raise ValueError(f"the list is not a pair of texts [user, assistant]; known formats: {FORMS}")
        return _turns_of(texts[0], {}, texts[1], {})
    pair = as_map(item)
    if {"role", *_WHO, "content", "lc", "parts"} & set(pair):
        return None
    if "inputs" in pair or "outputs" in pair:
        asked = _named(pair.get("inputs"), _QUESTION_KEYS, "inputs")
        return _turns_of(*asked, *_named(pair.get("outputs"), _ANSWER_KEYS, "outputs"))
    question = next((key for key in _QUESTION_KEYS if key in pair), None)
    answer = next((key for key in _ANSWER_KEYS if key in pair), None)
    if question is None or answer is None:
        return None
    rest = {key: value for key, value in pair.items() if key not in (question, answer)}
    return _turns_of(_expect_text(pair, question), {}, _expect_text(pair, answer), rest)


def _turns_of(
    question: str | None, about_question: Mapping[str, object], answer: str | None, about_answer: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    contexts = next((key for key in _CONTEXT_KEYS if about_answer.get(key) is not None), "contexts")
    about_answer = {"contexts" if key == contexts else key: value for key, value in about_answer.items()}
    for role, text, about in (("user", question, about_question), ("assistant", answer, about_answer)):
        if text is not None:
            kept = {key: value for key, value in about.items() if value is not None and key not in _EARLIER}
            yield {"role": role, "content": text, "metadata": kept or None}


def _named(values: object, names: Sequence[str], where: str) -> tuple[str | None, Mapping[str, object]]:
    """Return the text under the first of these names, or else the only text, and the other values.

    ValueError if it is not clear which text is meant.
    """
    fields = as_map(values)
    texts = [key for key, value in fields.items() if isinstance(value, str)]
    name = next((name for name in names if fields.get(name) is not None), None)
    if name is None and len(texts) > 1:
        raise ValueError(f"{where}: which of {', '.join(texts)} is the turn? call it {names[0]}")
    name = name or next(iter(texts), None)
    if name is None:
        return None, {}
    return _expect_text(fields, name, f"{where}."), {key: value for key, value in fields.items() if key != name}


def _expect_text(values: Mapping[str, object], name: str, where: str = "") -> str | None:
    value = values[name]
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{where}{name}: expected text, got {kind(value)}")
    return value
