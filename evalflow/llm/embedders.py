"""Embedders: an OpenAI-compatible endpoint, or the all-MiniLM-L6-v2 model on this machine."""

from __future__ import annotations

import asyncio
import math
import struct
from array import array
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast

from pydantic_core import from_json

from evalflow.calls.cache_store import Entry, key_of
from evalflow.calls.client import CallSession, MalformedReply, RetryPolicy
from evalflow.calls.http import HttpRequest, Response, Transport
from evalflow.calls.single_flight import UnreadableEntry
from evalflow.config.judges import OpenAIEmbedderConfig
from evalflow.errors import CallError, first_of
from evalflow.llm.chat import canonical, cost, identity
from evalflow.llm.endpoint import connect
from evalflow.records import NOTHING, Embedded, JudgeInfo, Spend, Usage
from evalflow.values.jsonvalues import as_map, is_list

GATHER_S = 0.005  # seconds for which the first text of a batch waits for more
REFUSED = frozenset({"bad_request", "context_length", "refused"})
"""Faults that a single text may cause for its whole batch."""

T = TypeVar("T")
Vector: TypeAlias = "array[float]"
"""32-bit floats, also before caching, so that a vector is the same whether or not it comes from the cache."""
PATH = "/embeddings"
BYTES_A_TOKEN = 4.0
DECISIVE = ("base_url", "model", "dimensions")


class Batcher(Generic[T]):
    """Sends texts in batches and returns each caller its own result."""

    def __init__(self, send: Callable[[Sequence[str]], Awaitable[Sequence[T]]], size: int) -> None:
        self._send = send
        self._size = size
        self._waiting: list[tuple[str, asyncio.Future[T]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def put(self, text: str) -> T:
        """Return the result of one text, sent together with others that arrive soon after it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((text, future))
        if len(self._waiting) >= self._size:
            self._flush()
        elif self._timer is None:
            self._timer = loop.call_later(GATHER_S, self._flush)
        return await future

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._under_way:
            task.cancel()

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting, []
        # A caller that was cancelled while waiting needs no result.
        wanted = [(text, future) for text, future in batch if not future.done()]
        if wanted:
            task = asyncio.get_running_loop().create_task(self._deliver(wanted))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _deliver(self, batch: Sequence[tuple[str, asyncio.Future[T]]]) -> None:
        """Send a batch. If it is refused, send its halves, so that one text does not make the others fail."""
        try:
            results = await self._send([text for text, _ in batch])
        except CallError as error:
            if error.error_type in REFUSED and len(batch) > 1:
                middle = len(batch) // 2
                await self._deliver(batch[:middle])
                await self._deliver(batch[middle:])
                return
            _fail(batch, error)
        except BaseException as error:
            _fail(batch, error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)


def _fail(batch: Sequence[tuple[str, asyncio.Future[T]]], error: BaseException) -> None:
    for _, future in batch:
        if isinstance(error, asyncio.CancelledError):
            future.cancel()
        elif not future.done():
            future.set_exception(error)


@dataclass(frozen=True, slots=True)
class Batch:
    """A request's vectors in the order of its texts, its tokens (if reported) and its duration in seconds."""

    vectors: Sequence[Vector]
    usage: Usage | None
    latency_s: float = 0.0


def read(response: Response, count: int) -> Batch:
    """Parse the vectors in a 2xx response; MalformedReply unless there are `count` valid ones."""
    try:
        body = as_map(from_json(response.body, allow_inf_nan=False))
    except ValueError:
        raise MalformedReply("not JSON") from None
    data = body.get("data")
    if not is_list(data) or len(data) != count:
        raise MalformedReply(f"no list of {count} embeddings under `data`")
    placed = sorted(enumerate(data), key=lambda pair: _index(pair[1], pair[0]))
    return Batch([_vector(item) for _, item in placed], _usage(body.get("usage")), response.elapsed_s)


def shared(texts: Sequence[str], batch: Batch) -> Iterator[tuple[Vector, int, Usage | None]]:
    """Return each vector with its share of the cost: the request counts for the first text, tokens by text length."""
    tokens = batch.usage.input_tokens if batch.usage else 0
    length = sum(len(text) for text in texts) or 1
    so_far = counted = 0
    for number, (text, vector) in enumerate(zip(texts, batch.vectors, strict=True)):
        so_far += len(text)
        upto = tokens * so_far // length
        yield vector, int(number == 0), Usage(upto - counted, 0) if batch.usage else None
        counted = upto


def _index(item: object, otherwise: int) -> int:
    index = as_map(item).get("index")
    return index if isinstance(index, int) else otherwise


def _vector(item: object) -> Vector:
    numbers: object = as_map(item).get("embedding")
    if is_list(numbers) and len(numbers) == 1 and is_list(numbers[0]):
        numbers = numbers[0]
    try:
        if isinstance(numbers, str):  # little-endian 32-bit floats, which some gateways return unasked
            vector = array("f", (number for (number,) in struct.iter_unpack("<f", b64decode(numbers, validate=True))))
        else:
            vector = array("f", cast("list[float]", numbers) if is_list(numbers) else ())
    except (TypeError, ValueError, OverflowError, struct.error):
        raise MalformedReply("an embedding contains a value that is not a number") from None
    if not vector or not math.isfinite(sum(vector)) or not any(vector):
        raise MalformedReply("an embedding is empty, zero or not finite")
    return vector


def _usage(counts: object) -> Usage | None:
    tokens = as_map(counts).get("prompt_tokens")
    return Usage(tokens, 0) if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None


class _Had(NamedTuple):
    vector: Vector
    known: bool
    entry: Entry


class OpenAIEmbedder:
    """Embeds uncached texts; those that arrive together share a request."""

    def __init__(
        self,
        config: OpenAIEmbedderConfig,
        name: str,
        session: CallSession | None = None,
        *,
        transport: Transport | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        session = session or CallSession()
        self._gateway, self._place = connect(
            config, "embedder", session, reply_tokens=0, transport=transport, policy=policy
        )
        self._config = config
        self.info = JudgeInfo(
            name=name,
            nature=f"embeddings of {config.model}",
            identity=identity("openai-embeddings", config, DECISIVE),
            calibrated=config.calibrated,
        )
        self._single_flight = session.single_flight
        fixed = {"model": config.model, "dimensions": config.dimensions}
        self._fixed = {key: value for key, value in fixed.items() if value is not None}
        self._batcher = Batcher(self._send, config.batch)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._attempt(text)) for text in texts]
        except ExceptionGroup as failures:
            raise first_of(failures) from None
        ended = [task.result() for task in tasks]
        had = [embedded for embedded in ended if isinstance(embedded, _Had)]
        paid = [self._spend(embedded.entry) for embedded in had if not embedded.known]
        total = sum(paid, NOTHING)
        failed = next((embedded for embedded in ended if isinstance(embedded, CallError)), None)
        if failed is None and len({len(embedded.vector) for embedded in had}) > 1:
            failed = CallError("malformed", "the embedder gave vectors of different lengths")
        if failed is not None:
            failed.spend = replace(total, latency_s=failed.spend.latency_s if failed.spend else 0.0)
            raise failed
        return Embedded(
            vectors=[embedded.vector for embedded in had],
            requests=total.requests,
            usage=total.usage,
            cost_usd=total.cost_usd,
            saved_usd=sum([self._spend(embedded.entry) for embedded in had if embedded.known], NOTHING).cost_usd,
            latency_s=max((embedded.entry.latency_s for embedded in had), default=0.0),
            cached=bool(had) and not paid,
        )

    async def close(self) -> None:
        await self._batcher.close()
        await self._gateway.close()

    async def _attempt(self, text: str) -> _Had | CallError:
        """Return a failure: raising it would make the task group cancel the other texts, which have been paid for."""
        try:
            return await self._one(text)
        except CallError as error:
            return error

    async def _one(self, text: str) -> _Had:
        key = key_of(self._place, PATH, canonical({**self._fixed, "input": text}))
        return await self._single_flight(key, partial(self._paid, text), _remembered)

    async def _paid(self, text: str) -> tuple[_Had, Entry]:
        vector, entry = await self._batcher.put(text)
        return _Had(vector, known=False, entry=entry), entry

    async def _send(self, texts: Sequence[str]) -> Sequence[tuple[Vector, Entry]]:
        data = canonical({**self._fixed, "input": list(texts)})
        tokens = len(data) / BYTES_A_TOKEN
        request = HttpRequest("POST", PATH, data, self._config.timeout_s, "embed", tokens)
        batch = await self._gateway.send(request, partial(read, count=len(texts)))
        return [
            (vector, Entry(body=vector.tobytes(), requests=requests, usage=usage, latency_s=round(batch.latency_s, 6)))
            for vector, requests, usage in shared(texts, batch)
        ]

    def _spend(self, entry: Entry) -> Spend:
        return Spend(requests=entry.requests, usage=entry.usage, cost_usd=cost(entry.usage, self._config.price))


def _remembered(entry: Entry, free: bool) -> _Had:
    vector: Vector = array("f")
    try:
        vector.frombytes(entry.body)
    except ValueError as error:
        raise UnreadableEntry(str(error)) from None
    if not vector:
        raise UnreadableEntry("an empty vector")
    return _Had(vector, known=free, entry=entry)
