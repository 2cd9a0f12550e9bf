"""Requests to an endpoint and its replies. For faults see `faults`."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from evalflow.records import NUMBER, numbered_results
from evalflow.values.jsonvalues import is_list, is_object

if TYPE_CHECKING:
    import asyncio

    from aiohttp import web

    from evalflow.testing.replies import Request


Mode = Literal["tools", "json_schema", "json_object", "text"]


@dataclass(frozen=True, slots=True)
class Request:
    """A received request."""

    number: int  # 0 for the first request of any kind, then 1, 2, ..
    method: str  # GET or POST
    path: str  # path below the base URL: `/chat/completions`, `/embeddings`, `/models`
    headers: Mapping[str, str]  # by lower-case name
    body: Mapping[str, Any]  # the parsed JSON; empty without one

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def text(self) -> str:
        """The text of all messages, separated by blank lines."""
        return "\n\n".join(_texts(self.body.get("messages", [])))

    @property
    def user(self) -> str:
        messages = [m for m in self.body.get("messages", []) if m.get("role") == "user"]
        return "\n\n".join(_texts(messages[-1:]))

    @property
    def inputs(self) -> list[str]:
        given: str | list[str] = self.body.get("input", [])
        return [given] if isinstance(given, str) else list(given)

    @property
    def mode(self) -> Mode:
        if self.body.get("tools"):
            return "tools"
        wanted: dict[str, Any] = self.body.get("response_format") or {"type": "text"}
        return wanted["type"]

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of the requested reply: the tool's, the response format's, else one found in a prompt."""
        if self.mode == "tools":
            return self.body["tools"][0]["function"]["parameters"]
        if self.mode == "json_schema":
            return self.body["response_format"]["json_schema"]["schema"]
        return next((found for text in _texts(self.body.get("messages", [])) for found in _schemas(text)), None)

    @property
    def schema_name(self) -> str | None:
        """The name of the tool or of the response format, else the title of the schema."""
        if self.mode == "tools":
            return self.body["tools"][0]["function"]["name"]
        if self.mode == "json_schema":
            return self.body["response_format"]["json_schema"]["name"]
        return (self.schema or {}).get("title")


def _texts(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """The text of each message, whose content is a string, null, or a list of parts."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        texts.append("".join(str(part.get("text", "")) for part in parts))
    return texts


def _schemas(text: str) -> Iterable[Mapping[str, Any]]:
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except ValueError:
            value, end = None, start + 1
        if isinstance(value, dict) and "properties" in value:
            yield cast("dict[str, Any]", value)
        start = text.find("{", end)


Alternatives = Mapping[str, Mapping[str, float]]
"""Probabilities of the alternatives to a token: {"4": {"4": 0.6, "5": 0.3}}."""

Schema = Mapping[str, Any]
_IMPOSSIBLE = -9999.0
_TOKEN = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, the server's own object for it, and an event that is set when the endpoint shuts down."""

    request: Request
    http: web.Request
    closing: asyncio.Event


@dataclass(frozen=True, kw_only=True)
class Step(ABC):
    """One action of the endpoint, after a delay in seconds."""

    delay: float = 0.0

    @abstractmethod
    async def send(self, exchange: Exchange) -> web.StreamResponse:
        """Perform the step."""

    def after(self, seconds: float) -> Step:
        return replace(self, delay=seconds)


@dataclass(frozen=True, kw_only=True)
class Answering(Step):
    """A step that answers with a JSON body and status 200."""

    @abstractmethod
    def body(self, request: Request) -> Mapping[str, object]:
        """The body for a request."""

    async def send(self, exchange: Exchange) -> web.StreamResponse:
        from aiohttp import web

        return web.json_response(self.body(exchange.request))


@dataclass(frozen=True, kw_only=True)
class ScriptedReply(Answering):
    """A chat completion, in the place that the request asks for. Created by `reply`, which explains the fields."""

    contents: tuple[object, ...]
    usage: tuple[int, int] | Literal["counted"] | None = "counted"
    cached_tokens: int | None = None
    finish_reason: str | None = None
    alternatives: Alternatives = field(default_factory=dict[str, Mapping[str, float]])
    refusal: str | None = None  # the model's refusal; the content is then null
    calls: tuple[tuple[str, str], ...] = ()  # names of tools, and the text of their arguments
    as_text: bool = False

    def body(self, request: Request) -> Mapping[str, object]:
        contents = self.contents * (request.body.get("n") or 1) if len(self.contents) == 1 else self.contents
        choices = [self._choice(index, content, request) for index, content in enumerate(contents)]
        completion: dict[str, object] = {
            "id": f"chatcmpl-{request.number}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": request.model,
            "system_fingerprint": "scripted",
            "choices": choices,
        }
        usage = self._usage(request)
        return {**completion, "usage": usage} if usage else completion

    def _choice(self, index: int, content: object, request: Request) -> dict[str, object]:
        text = _written(content, request)
        message: dict[str, object] = {"role": "assistant", "content": text, "refusal": self.refusal}
        reason = "stop"
        if self.refusal is not None:
            message["content"] = None
        elif self.calls:
            made = [
                {
                    "id": f"call_{request.number}_{at}",
                    "type": "function",
                    "function": {"name": name, "arguments": given},
                }
                for at, (name, given) in enumerate(self.calls)
            ]
            message |= {"content": content, "tool_calls": made}
            reason = "tool_calls"
        elif request.mode == "tools" and not self.as_text:
            function = {"name": request.schema_name, "arguments": text}
            call = {"id": f"call_{request.number}_{index}", "type": "function", "function": function}
            message |= {"content": None, "tool_calls": [call]}
            # A tool call forced by the request ends with the same finish reason as text.
            reason = "stop" if isinstance(request.body.get("tool_choice"), dict) else "tool_calls"
        choice = {"index": index, "message": message, "finish_reason": self.finish_reason or reason}
        message_text = message["content"]
        return {**choice, "logprobs": self._logprobs(message_text if isinstance(message_text, str) else None, request)}

    def _logprobs(self, content: str | None, request: Request) -> dict[str, object] | None:
        if content is None or not request.body.get("logprobs"):
            return None
        top = request.body.get("top_logprobs") or 0
        tokens = [_token(token, self.alternatives, top) for token in _TOKEN.findall(content)]
        return {"content": tokens, "refusal": None}

    def _usage(self, request: Request) -> dict[str, object] | None:
        if self.usage is None:
            return None
        counted = len(request.text) // 4, sum(len(_written(content, request)) for content in self.contents) // 4
        prompt, completion = counted if self.usage == "counted" else self.usage
        usage: dict[str, object] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        details = {"prompt_tokens_details": {"cached_tokens": self.cached_tokens}}
        return usage if self.cached_tokens is None else usage | details


@dataclass(frozen=True, kw_only=True)
class Computed(Answering):
    """A JSON body computed from the request."""

    make: Callable[[Request], Mapping[str, object]]

    def body(self, request: Request) -> Mapping[str, object]:
        return self.make(request)


def reply(
    *contents: object,
    usage: tuple[int, int] | Literal["counted"] | None = "counted",
    cached_tokens: int | None = None,
    finish_reason: str | None = None,
    alternatives: Alternatives | None = None,
    as_text: bool = False,
) -> ScriptedReply:
    """A chat completion: text unchanged, anything else as JSON; each content is one choice.

    The content goes where the request asks for it: into a tool call, or into the message. If the schema is only in the
    prompt, it is fenced as in Markdown. Results of which none has the number of its item get theirs in this order; text
    is sent as it is.

    Args:
        contents: The replies.
        usage: Prompt and completion tokens; by default a quarter of the characters; None leaves them out.
        cached_tokens: Prompt tokens that the provider read from its cache; None leaves them out.
        finish_reason: `length` for a truncated reply.
        alternatives: Token probabilities if logprobs are requested: {"4": {"4": 0.6, "5": 0.3}} is for each token 4.
        as_text: Ignore the tools in the request, as weak models do.
    """
    alternatives = alternatives or {}
    return ScriptedReply(
        contents=contents,
        usage=usage,
        cached_tokens=cached_tokens,
        finish_reason=finish_reason,
        alternatives=alternatives,
        as_text=as_text,
    )


def calls(
    *made: tuple[str, object], text: str | None = None, usage: tuple[int, int] | Literal["counted"] | None = "counted"
) -> ScriptedReply:
    """Calls of tools, as names with arguments: text unchanged, anything else as JSON; perhaps with words."""
    written = tuple((name, given if isinstance(given, str) else json.dumps(given)) for name, given in made)
    return ScriptedReply(contents=(text,), calls=written, usage=usage)


def refusal(text: str = "I cannot help with that.") -> ScriptedReply:
    """A model's refusal to answer."""
    return ScriptedReply(contents=("",), refusal=text)


def no_choices() -> ScriptedReply:
    """A completion with an empty list of choices."""
    return ScriptedReply(contents=())


def auto(
    *, length: int | Mapping[str, int] = 1, values: Mapping[str, object] | None = None, text: str = "text"
) -> Step:
    """The smallest valid instance of the request's schema.

    Args:
        length: Number of items in lists; one number, or one by property name.
        values: Fixed values by property name, at any depth: {"verdict": "supported"}.
        text: The reply to a request without a schema.
    """
    instances = Instances(length=length, values=values or {})

    def completion(request: Request) -> Mapping[str, object]:
        content = text if request.schema is None else instances.make(request.schema)
        return reply(content).body(request)

    return Computed(make=completion)


def embeddings(vectors: Sequence[Sequence[float]] | None = None) -> Computed:
    """A reply to an embeddings request, in the encoding that it asks for; by default with those of `vector`."""

    def body(request: Request) -> Mapping[str, object]:
        def encoded(numbers: Sequence[float]) -> str | list[float]:
            if request.body.get("encoding_format") != "base64":
                return list(numbers)
            return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()

        tokens = sum(len(text) for text in request.inputs) // 4
        return {
            "object": "list",
            "model": request.model,
            "data": [
                {"object": "embedding", "index": index, "embedding": encoded(numbers)}
                for index, numbers in enumerate(vectors or map(vector, request.inputs))
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    return Computed(make=body)


def vector(text: str, dimensions: int = 16) -> list[float]:
    """A unit vector, of up to 32 dimensions, that depends on every character of a text."""
    numbers = [byte / 127.5 - 1 for byte in hashlib.sha256(text.encode()).digest()[:dimensions]]
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def _written(content: object, request: Request) -> str:
    if isinstance(content, str):
        return content
    text = json.dumps(_numbered(content, request.schema), ensure_ascii=False)
    asked_in_prose = request.mode == "text" and request.schema is not None
    return f"```json\n{text}\n```" if asked_in_prose else text


def _numbered(content: object, schema: Schema | None) -> object:
    """The content with the numbers of its results, if the schema asks for them and no result has one."""
    listed = (schema or {}).get("properties", {}).get("results", {}).get("items")
    results = content.get("results") if is_object(content) else None
    if schema is None or listed is None or not _are_numbered(listed, schema) or not is_list(results):
        return content
    items = [item for item in results if is_object(item)]
    if len(items) < len(results) or any(NUMBER in item for item in items):
        return content
    return numbered_results(items)


def as_step(value: object) -> Step:
    """A script's return value as a step: itself, `auto()` for None, else `reply(value)`."""
    if value is None:
        return auto()
    return value if isinstance(value, Step) else reply(value)


def _token(token: str, alternatives: Alternatives, top: int) -> dict[str, object]:
    word = token.lstrip()
    space = token[: len(token) - len(word)]
    likely = alternatives.get(word, {word: 1.0})
    ranked = sorted(likely.items(), key=lambda item: -item[1])[:top]
    chosen = _entry(token, likely.get(word, 0.0))
    return {**chosen, "top_logprobs": [_entry(space + other, probability) for other, probability in ranked]}


def _entry(token: str, probability: float) -> dict[str, object]:
    logprob = math.log(probability) if probability > 0 else _IMPOSSIBLE
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


@dataclass(frozen=True, slots=True)
class Instances:
    """Generates instances of schemas.

    Args:
        length: Number of items in lists, unless `minItems` is higher; one number, or one by property name.
        values: Fixed values by property name, at any depth.
    """

    length: int | Mapping[str, int] = 1
    values: Mapping[str, object] = field(default_factory=dict[str, object])

    def make(self, schema: Schema) -> object:
        """An instance of a schema; ValueError for an unknown type or a dangling reference."""
        return self._make(schema, schema, "")

    def _make(self, schema: Schema, root: Schema, name: str) -> object:
        if name in self.values:
            return self.values[name]
        if "$ref" in schema:
            return self._make(_referred(schema["$ref"], root), root, name)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return schema["enum"][0]
        for choice in ("anyOf", "oneOf"):
            if choice in schema:
                return self._make(schema[choice][0], root, name)
        if "allOf" in schema:
            return self._make(_merged(schema["allOf"], root), root, name)
        return self._of_type(schema, root, name)

    def _of_type(self, schema: Schema, root: Schema, name: str) -> object:
        kinds: str | list[str] = schema.get("type", "object" if "properties" in schema else "string")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        match kind:
            case "object":
                return {key: self._make(part, root, key) for key, part in schema.get("properties", {}).items()}
            case "array":
                item = schema.get("items", {"type": "string"})
                made: list[Any] = [self._make(item, root, "") for _ in range(self._length(schema, name))]
                return (
                    made
                    if not _are_numbered(item, root)
                    else [{**one, NUMBER: number} for number, one in enumerate(made, 1)]
                )
            case "string":
                return (name or "text").ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
            case "integer" | "number":
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                raise ValueError(f"no JSON type is called {kind!r}")

    def _length(self, schema: Schema, name: str) -> int:
        wanted = self.length if isinstance(self.length, int) else self.length.get(name, 1)
        return min(max(wanted, schema.get("minItems", 0)), schema.get("maxItems", wanted))


def _number(schema: Schema, *, whole: bool) -> int | float:
    """The least allowed number; the greatest if there is only a negative upper bound; else zero."""
    step = 1 if whole else 0.5
    if "minimum" in schema:
        return schema["minimum"]
    if "exclusiveMinimum" in schema:
        return schema["exclusiveMinimum"] + step
    upper = min(schema.get("maximum", 0), schema.get("exclusiveMaximum", step) - step)
    return min(upper, 0)


def _referred(pointer: str, root: Schema) -> Schema:
    node: Any = root
    for step in pointer.removeprefix("#/").split("/"):
        if step not in node:
            raise ValueError(f"the schema refers to {pointer}, which it does not hold")
        node = node[step]
    return node


def _are_numbered(item: Schema, root: Schema) -> bool:
    """Whether the items are results that begin with the number of what they are about."""
    fields = (_referred(item["$ref"], root) if "$ref" in item else item).get("properties", {})
    return next(iter(fields), None) == NUMBER


def _merged(parts: list[Schema], root: Schema) -> Schema:
    merged: dict[str, Any] = {}
    for part in parts:
        whole = _referred(part["$ref"], root) if "$ref" in part else part
        properties = {**merged.get("properties", {}), **whole.get("properties", {})}
        merged |= {**whole, "properties": properties} if properties else dict(whole)
    return merged
