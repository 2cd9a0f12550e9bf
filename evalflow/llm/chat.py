"""Chat completions of an OpenAI-compatible endpoint, for judges and targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, NotRequired, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, core_schema, to_json
from typing_extensions import TypedDict

from evalflow.calls.batch_gateway import UNKNOWN_S
from evalflow.calls.cache_store import Entry, key_of
from evalflow.calls.client import PROBE_PATH, CallSession, MalformedReply, RetryPolicy
from evalflow.calls.http import HttpRequest, Response, Transport
from evalflow.calls.single_flight import UnreadableEntry
from evalflow.config.judges import EndpointConfig, Price, RemoteModelConfig
from evalflow.config.parameters import LIMIT
from evalflow.errors import CallError, InfrastructureError
from evalflow.llm.adapting import AdaptedRequests
from evalflow.llm.endpoint import by_batch, connect
from evalflow.llm.finish_reasons import BROKEN_OFF, finish_reason
from evalflow.llm.sdk import OPENAI_URL
from evalflow.llm.thoughts import own_thoughts, refusal_in, split_parts
from evalflow.records import CallCosts, Spend, Usage
from evalflow.redaction import without_user
from evalflow.values.jsonvalues import as_map, count_at, objects_at, parsed

# No reply takes a billion tokens.
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


@dataclass(frozen=True, slots=True)
class ChatToolCall:
    """A tool call; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True, kw_only=True)
class Completion(CallCosts):
    """One reply of a model.

    Attributes:
        text: The content, without parts that hold thoughts.
        finish_reason: The reason for which it ended, as in `finish_reasons`.
        reasoning: The model's thoughts, if the endpoint returns them separately from the content.
        reasoning_tokens: The number of output tokens used for thoughts; None if unknown.
        tokens: The content's tokens, with their log probabilities as the API gives them.
    """

    text: str | None
    tool_calls: tuple[ChatToolCall, ...] = ()
    refusal: str | None = None
    finish_reason: str | None = None
    reasoning: str | None = None
    reasoning_tokens: int | None = None
    tokens: tuple[Mapping[str, object], ...] | None = None
    body: bytes = b""
    requests: int = 1
    latency_s: float | None = 0.0


def read(response: Response, price: Price | None) -> Completion:
    """Parse a 2xx response; MalformedReply if it is not a complete chat completion."""
    return read_choices(response, price)[0]


def read_choices(response: Response, price: Price | None) -> list[Completion]:
    """Like `read`, for a response with one or more choices; each gets the usage and cost of all of them.

    Their order is that of `index`, which nothing promises to be that of the list; without one, it is that of the list.
    """
    try:
        envelope = _envelope().validate_json(response.body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise MalformedReply(f"not a chat completion ({place}: {first['msg']})" if place else "not JSON") from None
    choices = sorted(envelope["choices"], key=lambda choice: choice.get("index") or 0)
    return [_read_choice(choice, envelope.get("usage"), response, price) for choice in choices]


def _read_choice(choice: _Choice, counts: _Tokens | None, response: Response, price: Price | None) -> Completion:
    message, ended = choice["message"], finish_reason(choice.get("finish_reason"))
    if choice.get("error") or ended in BROKEN_OFF:
        raise MalformedReply(f"the endpoint broke the reply off (finish_reason: {ended})")
    usage = _usage(counts, price) if counts else None
    calls, content = message.get("tool_calls"), message.get("content")
    thoughts, refusal = own_thoughts(message), message.get("refusal")
    if isinstance(content, list):
        refusal = refusal or refusal_in(content)
        inner, content = split_parts(content)
        thoughts = thoughts or inner
    elif isinstance(content, dict):  # some endpoints return the object itself
        content = json.dumps(content, ensure_ascii=False)
    details = counts.get("completion_tokens_details") if counts else None
    logprobs = choice.get("logprobs")
    tokens = logprobs.get("content") if logprobs else None
    return Completion(
        text=content,
        tool_calls=tuple([_tool_call(call, index) for index, call in enumerate(calls)]) if calls else (),
        refusal=refusal or None,
        finish_reason=ended,
        reasoning=thoughts,
        reasoning_tokens=details.get("reasoning_tokens") if details else None,
        tokens=tuple(tokens) if tokens else None,
        usage=usage,
        cost_usd=cost(usage, price),
        latency_s=known_s(response.elapsed_s),
        body=response.body,
    )


def _usage(counts: _Tokens, price: Price | None) -> Usage:
    details = counts.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if details else None
    if cached is None:
        cached = counts.get("prompt_cache_hit_tokens")
    saved = None if cached is None or price is None else price.saved(cached)
    return Usage(counts["prompt_tokens"], counts["completion_tokens"], cached, saved)


def known_s(latency_s: float) -> float | None:
    """Return the latency of a response or a cached entry; negative if unknown."""
    return None if latency_s < 0 else round(latency_s, 6)


def entry_of(completion: Completion, spent: Spend) -> Entry:
    """Return the cache entry of a completion, with the usage of all requests for it."""
    latency_s = UNKNOWN_S if spent.latency_s is None else spent.latency_s
    return Entry(body=completion.body, requests=spent.requests, usage=spent.usage, latency_s=latency_s)


def _or_unknown(source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    return core_schema.with_default_schema(handler(source), default=None, on_error="default")


# Fields beside the reply count as unknown if they have the wrong type; the reply is still valid.
_Word = Annotated[str | None, GetPydanticSchema(_or_unknown)]


# Typed dictionaries instead of models, since they are read once and discarded. What some servers omit is optional.
class _Function(TypedDict):
    name: NotRequired[_Word]
    arguments: NotRequired[str | dict[str, object] | list[object] | None]


class _Call(TypedDict):
    id: NotRequired[_Word]
    function: _Function


class _Message(TypedDict):
    content: NotRequired[str | list[object] | dict[str, object] | None]
    refusal: NotRequired[_Word]
    tool_calls: NotRequired[list[_Call] | None]
    reasoning_content: NotRequired[object]  # DeepSeek, vLLM, SGLang, LM Studio, LiteLLM
    reasoning: NotRequired[object]  # OpenRouter, Ollama, Groq, newer vLLM
    thinking: NotRequired[object]
    thinking_blocks: NotRequired[object]  # LiteLLM


class _Logprobs(TypedDict):
    content: NotRequired[list[dict[str, object]] | None]


class _Choice(TypedDict):
    index: NotRequired[Annotated[_Count | None, GetPydanticSchema(_or_unknown)]]
    message: _Message
    finish_reason: NotRequired[object]
    logprobs: NotRequired[Annotated[_Logprobs | None, GetPydanticSchema(_or_unknown)]]
    error: NotRequired[object]  # OpenRouter: the error of the model's provider


class _Details(TypedDict):
    reasoning_tokens: NotRequired[_Count | None]


class _PromptDetails(TypedDict):
    cached_tokens: NotRequired[_Count | None]  # OpenAI, Azure, vLLM, Gemini, OpenRouter


class _Tokens(TypedDict):
    prompt_tokens: _Count
    completion_tokens: _Count
    prompt_tokens_details: NotRequired[Annotated[_PromptDetails | None, GetPydanticSchema(_or_unknown)]]
    prompt_cache_hit_tokens: NotRequired[Annotated[int | None, GetPydanticSchema(_or_unknown)]]  # DeepSeek
    completion_tokens_details: NotRequired[Annotated[_Details | None, GetPydanticSchema(_or_unknown)]]


class _Envelope(TypedDict):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: NotRequired[Annotated[_Tokens | None, GetPydanticSchema(_or_unknown)]]


@cache
def _envelope() -> TypeAdapter[_Envelope]:
    return TypeAdapter(_Envelope)


def _tool_call(call: _Call, index: int) -> ChatToolCall:
    function = call["function"]
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ChatToolCall(call.get("id") or f"call_{index}", function.get("name") or "", text)


def cost(usage: Usage | None, price: Price | None) -> float | None:
    """Return US dollars, or None if the usage or the price is unknown."""
    if usage is None or price is None:
        return None
    return price.cost(usage.input_tokens, usage.output_tokens) - (usage.provider_saved_usd or 0.0)


T = TypeVar("T")
PATH = "/chat/completions"
BYTES_A_TOKEN = 4.0
REPLY_TOKENS = 256  # estimated tokens of a reply before the first one arrives
REPLIES = 16  # number of replies in the moving average of their length


class ChatClient:
    """Sends chat requests to one endpoint, under its limiter and the run's budget."""

    def __init__(
        self,
        config: EndpointConfig,
        role: str,
        session: CallSession | None = None,
        *,
        transport: Transport | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        session = session or CallSession()
        self._gateway, self._place = connect(
            config, role, session, reply_tokens=config.longest_reply, transport=transport, policy=policy
        )
        self.single_flight = session.single_flight
        self._batches = session.batches if config.batch else None
        self._by_batch = by_batch(config, role, session)
        self._direct_price, self._batch_price = config.price, config.charged
        self._timeout_s = config.timeout_s
        self._reply_tokens = float(min(REPLY_TOKENS, config.longest_reply or REPLY_TOKENS))
        self._fixed = _fixed(config)
        self._settings = AdaptedRequests(config, role, session)

    @property
    def gives_logprobs(self) -> bool:
        """Whether token probabilities may be requested: the endpoint has not refused them yet."""
        return self._settings.gives_logprobs

    @property
    def gives_several(self) -> bool:
        """Whether several replies may be requested at once (`n`): the endpoint has always returned them so far."""
        return self._settings.gives_several

    def gives_one(self) -> None:
        """Remember that the endpoint ignores `n` and returns one reply per request."""
        self._settings.gives_one()

    def request(self, body: Mapping[str, object], kind: str = "") -> HttpRequest:
        """Build a request. Calls of one kind, such as a metric's step, should take about the same time."""
        data = canonical({**self._fixed, **body})
        replies = count_at(body, "n") or 1
        tokens = len(data) / BYTES_A_TOKEN + self._reply_tokens * replies
        return HttpRequest("POST", PATH, data, self._timeout_s, kind, tokens, replies)

    async def complete(self, request: HttpRequest, key: bytes, turn: int = 0) -> Completion:
        """Send a request, by batch if the run collects them. `key` and `turn` are as in `BatchGateway.send`.

        A setting that the endpoint refuses is left out of this and all later requests if that is safe. The cache key
        remains that of the declared request.
        """
        by_batch = self._batches is not None and self._batches.collecting
        while True:
            sent = self._settings.applied(request)
            try:
                if by_batch and self._by_batch is not None:
                    return await self._by_batch.send(sent, self._decode, key, turn)
                return await self._gateway.send(sent, self._decode)
            except (CallError, InfrastructureError) as error:
                # Another batch would take as long again.
                if by_batch or not self._settings.adapts(sent, error):
                    raise self._settings.named(sent, error) from None

    @property
    def _price(self) -> Price | None:
        by_batch = self._batches is not None and self._batches.collecting
        return self._batch_price if by_batch else self._direct_price

    def _decode(self, response: Response) -> Completion:
        completion = read(response, self._price)
        if completion.usage is not None:
            self._reply_tokens += (completion.usage.output_tokens - self._reply_tokens) / REPLIES
        return completion

    def key(self, request: HttpRequest, *repeats: int) -> bytes:
        """Return the cache key of a value: the first request, and numbers that distinguish several values for it."""
        return key_of(self._place, request.path, request.body or b"", *repeats)

    def choices(self, entry: Entry) -> list[Completion]:
        """Like `recall`, for an entry of a request for several replies."""
        try:
            return read_choices(Response(200, {}, entry.body, entry.latency_s), self._price)
        except MalformedReply as error:
            raise UnreadableEntry(str(error)) from None

    def recall(self, entry: Entry) -> Completion:
        """Return the completion in a cached entry, with the cost of re-asks; UnreadableEntry if it is invalid."""
        try:
            return read(Response(200, {}, entry.body, entry.latency_s), self._price)
        except MalformedReply as error:
            raise UnreadableEntry(str(error)) from None

    async def close(self) -> None:
        await self._gateway.close()

    def cost(self, entry: Entry) -> float | None:
        """Return the US dollars that a cached entry's requests cost at the current price; None if unknown."""
        return cost(entry.usage, self._price)


@dataclass(frozen=True, slots=True)
class ListedModels:
    """The reply to a request for model names, which costs nothing."""

    names: tuple[str, ...]
    usage: Usage | None = None


async def listed_models(config: RemoteModelConfig, role: str, session: CallSession) -> list[str]:
    """Return the sorted names of an endpoint's models; errors as for any call."""
    gateway, _ = connect(config, role, session, reply_tokens=None)
    try:
        listed = await gateway.send(HttpRequest("GET", PROBE_PATH, None, config.timeout_s), _model_names)
    finally:
        await gateway.close()
    return sorted(set(listed.names))


def _model_names(response: Response) -> ListedModels:
    try:
        names = [model["id"] for model in objects_at(as_map(parsed(response.body)), "data")]
    except (ValueError, LookupError):
        raise MalformedReply("it lists no models") from None
    return ListedModels(tuple(name for name in names if isinstance(name, str) and 0 < len(name) <= 200))


def canonical(body: object) -> bytes:
    """Return the bytes of a request: equal bodies give equal bytes.

    Keys keep their order: a model writes a reply's fields in the order of the schema, so sorting would put the reason
    after the verdict. Unpaired surrogates, which cannot be encoded, become question marks.
    """
    try:
        return to_json(body)
    except PydanticSerializationError:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")


def identity(kind: str, config: BaseModel, fields: tuple[str, ...], extra: object = None) -> str:
    """Return a digest of the settings that determine replies, without user and password in an address."""
    decisive = config.model_dump(mode="json", include=set(fields))
    if decisive.get("parameters") is None:
        decisive.pop("parameters", None)
    if decisive.get("base_url"):
        decisive["base_url"] = without_user(decisive["base_url"])
    values = [kind, decisive, extra]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def _fixed(config: EndpointConfig) -> dict[str, object]:
    """Return the parameters of every request.

    OpenAI and Azure renamed max_tokens; others know only the old name. The new name in `parameters` always replaces it.
    """
    host = urlsplit(config.base_url or OPENAI_URL).hostname or ""
    renamed = host == "api.openai.com" or host.endswith(".azure.com")
    limit = LIMIT if renamed else "max_tokens"
    more = config.parameters or {}
    values: dict[str, object] = {"model": config.model, "temperature": config.temperature, limit: config.max_tokens}
    if LIMIT in more:
        del values[limit]
    return {name: value for name, value in values.items() if value is not None} | more
