"""The batch APIs of OpenAI (also used by Azure and others), Anthropic and Gemini."""

from __future__ import annotations

import asyncio
import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, TypeVar
from urllib.parse import quote, urlsplit

from evalflow.calls.batch_record import BatchReply, RecordedBatch
from evalflow.calls.batches import BatchState
from evalflow.calls.client import Gateway, MalformedReply
from evalflow.calls.http import HttpRequest, Response
from evalflow.config.judges import BatchFormat, EndpointConfig
from evalflow.errors import CallError, EvalflowError, InfrastructureError
from evalflow.llm import anthropic, gemini
from evalflow.records import Usage
from evalflow.values.jsonvalues import JsonObject, as_map, count_at, is_object, object_at, objects_at, parsed, text_at

_MEGABYTE = 1_000_000
_LONGEST = 1024**3  # maximum bytes of a file with replies
_FILE_S = 1800.0  # timeout in seconds to upload or download a file
_TRIES, _PAUSE_S = 3, 2.0  # tries to create a batch, and the seconds to wait after a failed one
_PAGES = 50  # pages of a list of batches
_MARKS = frozenset({"id", "name", "data", "operations"})  # Gemini's empty list is an empty object
_CLOCKS = timedelta(minutes=10)  # maximum difference between our clock and an endpoint's
_NO_REASON = "it does not say why"
_ENDED = frozenset({"completed", "succeeded", "failed", "expired", "cancelled"})


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Parsed(Generic[T]):
    """A response that costs nothing."""

    value: T
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class _SentBatch:
    """A batch in Anthropic's list."""

    id: str
    created_at: datetime
    requests: int
    has_ended: bool


class _Batches(ABC):
    """The common part of the services; `single` sends without retries, for calls that must not happen twice."""

    def __init__(self, name: str, config: EndpointConfig, gateway: Gateway, single: Gateway) -> None:
        self.name = name
        self._config = config
        self._api = _Api(gateway, single)

    async def close(self) -> None:
        await self._api.close()

    def _replied(self, rows: Sequence[JsonObject], id_of: Callable[[JsonObject], str]) -> Sequence[BatchReply]:
        """Read the replies from a batch's rows; an unreadable row becomes a reply with that problem."""
        return [self._readable(row, id_of(row)) for row in rows]

    def _readable(self, row: JsonObject, line_id: str) -> BatchReply:
        try:
            return self._reply(row, line_id)
        except ValueError as error:
            return BatchReply(line_id, None, problem=f"the reply is malformed: {error}")

    @abstractmethod
    def _reply(self, row: JsonObject, line_id: str) -> BatchReply:
        """Read the reply from one row; ValueError if its form is unexpected."""


class OpenAIBatches(_Batches):
    """Batches as files, by the API of OpenAI and Azure. A batch has our name, so that it can be found again."""

    most_requests = 50_000
    most_bytes = 200 * _MEGABYTE

    @property
    def _path(self) -> str:
        host = urlsplit(self._config.base_url or "").hostname or ""
        return "/chat/completions" if host.endswith(".azure.com") else "/v1/chat/completions"  # of Azure's v1 API

    def line(self, line_id: str, body: bytes) -> bytes:
        head = json.dumps({"custom_id": line_id, "method": "POST", "url": self._path})
        return b'%b, "body": %b}\n' % (head[:-1].encode(), body)

    async def submit(self, name: str, lines: Sequence[bytes]) -> str:
        file_id = await self._api.upload("/files", *_form(name, b"".join(lines)))
        batch = {
            "input_file_id": file_id,
            "endpoint": self._path,
            "completion_window": "24h",
            "metadata": {"evalflow_batch": name},
        }
        return await self._api.create("/batches", json.dumps(batch).encode(), lambda: self._named(name))

    async def find(self, batch: RecordedBatch, recorded_ids: Collection[str]) -> str | None:
        return await self._named(batch.name)

    async def _named(self, name: str) -> str | None:
        async for batch_id, own_name in self._api.listed("/batches", "after", _named_batch):
            if own_name == name:
                return batch_id
        return None

    async def look(self, batch_id: str) -> BatchState:
        return await self._api.get(f"/batches/{batch_id}", _openai_state)

    async def replies(self, batch_id: str) -> Sequence[BatchReply]:
        keys = ("output_file_id", "error_file_id")
        files = await self._api.get(
            f"/batches/{batch_id}", lambda batch: [text_at(batch, key) for key in keys if batch.get(key)]
        )
        rows = [row for file in files for row in await self._api.rows(f"/files/{file}/content")]
        return self._replied(rows, _custom_id)

    def _reply(self, row: JsonObject, line_id: str) -> BatchReply:
        if row.get("response"):
            response = object_at(row, "response")
            return BatchReply(line_id, count_at(response, "status_code"), _json(response["body"]))
        details = as_map(row.get("error"))
        return BatchReply(line_id, None, problem=str(details.get("message") or details.get("code") or "no reply"))


class AnthropicBatches(_Batches):
    """Anthropic's Message Batches; requests and replies are translated from and to OpenAI's format.

    They store no name. A batch whose creation was not recorded is found by its time, size and the ids in its results.
    """

    most_requests = 100_000
    most_bytes = 250 * _MEGABYTE

    def line(self, line_id: str, body: bytes) -> bytes:
        return _json({"custom_id": line_id, "params": anthropic.as_message(json.loads(body))})

    async def submit(self, name: str, lines: Sequence[bytes]) -> str:
        async def unheard() -> str | None:
            what = f"{self.name}: a batch was sent, but its receipt was not confirmed"
            raise InfrastructureError(what, "resume the run: it looks for the batch there, and does not send it twice")

        return await self._api.create("/messages/batches", b'{"requests":[%b]}' % b",".join(lines), unheard)

    async def find(self, batch: RecordedBatch, recorded_ids: Collection[str]) -> str | None:
        earliest = datetime.fromisoformat(batch.begun_at) - _CLOCKS
        async for sent in self._api.listed("/messages/batches", "after_id", _sent_batch):
            if sent.created_at < earliest:
                return None
            if sent.id in recorded_ids or sent.requests != len(batch.ids):
                continue
            if not sent.has_ended:
                what = f"{self.name}: the batch {sent.id} may be that of {batch.name}, whose receipt was not confirmed"
                raise InfrastructureError(what, "resume when it has ended: only its results tell")
            if any(reply.id in batch.ids for reply in await self.replies(sent.id)):
                return sent.id
        return None

    async def look(self, batch_id: str) -> BatchState:
        return await self._api.get(f"/messages/batches/{batch_id}", _anthropic_state)

    async def replies(self, batch_id: str) -> Sequence[BatchReply]:
        rows = await self._api.rows(f"/messages/batches/{batch_id}/results")
        sent = [row for row in rows if as_map(row.get("result")).get("type") != "canceled"]
        return self._replied(sent, _custom_id)

    def _reply(self, row: JsonObject, line_id: str) -> BatchReply:
        result = object_at(row, "result")
        if result.get("type") == "succeeded":
            return BatchReply(line_id, 200, _json(anthropic.as_completion(object_at(result, "message"))))
        if result.get("type") == "errored":
            error = object_at(result, "error")
            return BatchReply(line_id, anthropic.status_of(error), _json(error))
        return BatchReply(line_id, None, problem=f"the request has {text_at(result, 'type')}")


class GeminiBatches(_Batches):
    """Gemini's batches with inline requests, which are translated from and to OpenAI's format.

    A batch carries our name, by which it is found again.
    """

    most_requests = 100_000  # no limit is documented
    most_bytes = 19 * _MEGABYTE  # 20 with what is around them

    def line(self, line_id: str, body: bytes) -> bytes:
        return _json({"request": gemini.as_content(json.loads(body)), "metadata": {"key": line_id}})

    async def submit(self, name: str, lines: Sequence[bytes]) -> str:
        form = b'{"batch":{"displayName":%b,"inputConfig":{"requests":{"requests":[%b]}}}}'
        path = f"/models/{self._config.model.removeprefix('models/')}:batchGenerateContent"
        return await self._api.create(path, form % (_json(name), b",".join(lines)), lambda: self._named(name))

    async def find(self, batch: RecordedBatch, recorded_ids: Collection[str]) -> str | None:
        return await self._named(batch.name)

    async def _named(self, name: str) -> str | None:
        token = ""
        for _ in range(_PAGES):
            names, token = await self._api.get(f"/batches?pageSize=100&pageToken={quote(token, safe='')}", _operations)
            if name in names:
                return names[name]
            if not token:
                break
        return None

    async def look(self, batch_id: str) -> BatchState:
        return await self._api.get(f"/{batch_id}", _gemini_state)

    async def replies(self, batch_id: str) -> Sequence[BatchReply]:
        return self._replied(await self._api.get(f"/{batch_id}", _inlined), _key)

    def _reply(self, row: JsonObject, line_id: str) -> BatchReply:
        if row.get("error"):
            error = object_at(row, "error")
            return BatchReply(line_id, gemini.status_of(error), _json({"error": error}))
        return BatchReply(line_id, 200, _json(gemini.as_completion(object_at(row, "response"))))


def _custom_id(row: JsonObject) -> str:
    return text_at(row, "custom_id")


def _key(row: JsonObject) -> str:
    return str(as_map(row.get("metadata")).get("key"))


def _named_batch(batch: JsonObject) -> tuple[str, object]:
    """Return the id of an OpenAI batch, and our name for it."""
    return text_at(batch, "id"), as_map(batch.get("metadata")).get("evalflow_batch")


def _openai_state(batch: JsonObject) -> BatchState:
    status, counts = text_at(batch, "status"), as_map(batch.get("request_counts"))
    fault = ""
    if status == "failed":
        errors = objects_at(as_map(batch.get("errors")), "data", optional=True)
        fault = str(as_map(next(iter(errors), None)).get("message") or _NO_REASON)
    done = count_at(counts, "completed") + count_at(counts, "failed")
    return BatchState(status, status in _ENDED, done, fault)


def _sent_batch(batch: JsonObject) -> _SentBatch:
    counts = object_at(batch, "request_counts")
    return _SentBatch(
        id=text_at(batch, "id"),
        created_at=datetime.fromisoformat(text_at(batch, "created_at")),
        requests=sum(count_at(counts, name) for name in counts),
        has_ended=batch.get("processing_status") == "ended",
    )


def _anthropic_state(batch: JsonObject) -> BatchState:
    counts, status = object_at(batch, "request_counts"), text_at(batch, "processing_status")
    ended = status == "ended"
    done = sum(count_at(counts, name) for name in counts if name != "processing")
    return BatchState("cancelled" if ended and count_at(counts, "canceled") else status, ended, done)


def _operations(page: JsonObject) -> tuple[Mapping[object, str], str]:
    """Return the ids of Gemini's batches by our names for them, and the token of the next page, if any."""
    operations = objects_at(page, "operations", optional=True)
    ids = {object_at(batch, "metadata").get("displayName"): text_at(batch, "name") for batch in reversed(operations)}
    return ids, text_at(page, "nextPageToken") if page.get("nextPageToken") else ""


def _gemini_state(operation: JsonObject) -> BatchState:
    facts = object_at(operation, "metadata")
    status, counts = text_at(facts, "state").rpartition("STATE_")[2].lower(), as_map(facts.get("batchStats"))
    done = sum(int(str(counts.get(f"{kind}RequestCount") or 0)) for kind in ("successful", "failed"))
    fault = str(as_map(operation.get("error")).get("message") or _NO_REASON) if status == "failed" else ""
    return BatchState(status, bool(operation.get("done")) or status in _ENDED, done, fault)


def _inlined(operation: JsonObject) -> list[dict[str, object]]:
    """Return the inline replies of a Gemini batch."""
    output = as_map(operation.get("response") or object_at(operation, "metadata").get("output"))
    return objects_at(as_map(output.get("inlinedResponses")), "inlinedResponses", optional=True)


SERVICES: Mapping[BatchFormat, type[OpenAIBatches | AnthropicBatches | GeminiBatches]] = {
    "openai": OpenAIBatches,
    "anthropic": AnthropicBatches,
    "gemini": GeminiBatches,
}


def native_access(kind: BatchFormat, base_url: str, key: str | None) -> tuple[str, Mapping[str, str]] | None:
    """Return the address and headers of a provider's own batch API; None for OpenAI's, which is at base_url."""
    match kind:
        case "anthropic":
            return base_url, {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}
        case "gemini":
            return base_url.rstrip("/").removesuffix("/openai"), {"x-goog-api-key": key} if key else {}
        case "openai":
            return None


class _Api:
    """Requests for batches and files; `single` sends without retries, for calls that must not happen twice."""

    def __init__(self, gateway: Gateway, single: Gateway) -> None:
        self._gateway = gateway
        self._single = single

    async def get(self, path: str, read: Callable[[JsonObject], T]) -> T:
        """Get an object and parse it with `read`, whose ValueError makes the response malformed."""
        request = HttpRequest("GET", path, None, _FILE_S, longest=_LONGEST)
        return (await self._gateway.send(request, partial(_read, read))).value

    async def rows(self, path: str) -> Sequence[JsonObject]:
        request = HttpRequest("GET", path, None, _FILE_S, longest=_LONGEST)
        return (await self._gateway.send(request, _rows)).value

    async def upload(self, path: str, body: bytes, content_type: str) -> str:
        """Upload a file and return its id."""
        request = HttpRequest("POST", path, body, _FILE_S, content_type=content_type)
        return (await self._gateway.send(request, partial(_read, _id))).value

    async def create(self, path: str, body: bytes, look_up: Callable[[], Awaitable[str | None]]) -> str:
        """Create an object once and return its id: after an ambiguous failure, `look_up` tells whether it exists."""
        for number in range(1, _TRIES + 1):
            try:
                request = HttpRequest("POST", path, body, _FILE_S)
                return (await self._single.send(request, partial(_read, _id))).value
            except EvalflowError as error:
                if isinstance(error, CallError) and error.error_type in {"bad_request", "refused", "context_length"}:
                    raise
                await asyncio.sleep(_PAUSE_S)
                created = await look_up()
                if created is not None:
                    return created
                if number == _TRIES or not isinstance(error, CallError):
                    raise
        raise AssertionError("unreachable")

    async def listed(self, path: str, cursor: str, read: Callable[[JsonObject], T]) -> AsyncIterator[T]:
        """List an endpoint's objects, newest first."""

        def page_of(page: JsonObject) -> tuple[list[T], str | None]:
            batches = objects_at(page, "data")
            return [read(batch) for batch in batches], _id(batches[-1]) if page.get("has_more") and batches else None

        query = "?limit=100"
        for _ in range(_PAGES):
            batches, last = await self.get(path + query, page_of)
            for batch in batches:
                yield batch
            if last is None:
                return
            query = f"?limit=100&{cursor}={last}"

    async def close(self) -> None:
        await self._single.close()
        await self._gateway.close()


def _id(created: JsonObject) -> str:
    """Return the id of a batch or a file; for Gemini this is its name."""
    return text_at(created, "id" if created.get("id") else "name")


def _read(read: Callable[[JsonObject], T], response: Response) -> _Parsed[T]:
    try:
        content = parsed(response.body)
    except ValueError:
        raise MalformedReply("not JSON") from None
    if not is_object(content) or (content and not _MARKS & content.keys()):
        raise MalformedReply("not a batch, a file, or a list of them")
    try:
        return _Parsed(read(content))
    except ValueError as error:
        raise MalformedReply(str(error)) from None


def _rows(response: Response) -> _Parsed[Sequence[JsonObject]]:
    with suppress(ValueError):
        lines = [parsed(line) for line in response.body.splitlines() if line.strip()]
        rows = [row for row in lines if is_object(row) and isinstance(row.get("custom_id"), str)]
        if len(rows) == len(lines):
            return _Parsed(rows)
    raise MalformedReply("no results of a batch, one JSON object in each line")


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _form(name: str, data: bytes) -> tuple[bytes, str]:
    """Return a file as a form, with its content type."""
    boundary = secrets.token_hex(16)
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return b"%b%b\r\n--%b--\r\n" % (head.encode(), data, boundary.encode()), f"multipart/form-data; boundary={boundary}"
