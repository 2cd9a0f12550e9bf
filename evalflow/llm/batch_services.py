"""The batches of OpenAI, which Azure and others took over, and those of Anthropic and Gemini."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast
from urllib.parse import quote, urlsplit

from evalflow.calls.batch_record import BatchReply, RecordedBatch
from evalflow.calls.batches import BatchState
from evalflow.calls.client import Gateway, MalformedReply
from evalflow.calls.http import JSON, HttpRequest, Response
from evalflow.config.judges import BatchFormat, EndpointConfig
from evalflow.errors import CallError, EvalflowError, InfrastructureError
from evalflow.jsonvalues import as_list, as_map
from evalflow.llm import anthropic, gemini
from evalflow.records import Usage

_MEGABYTE = 1_000_000
_LONGEST = 1024**3  # bytes of a file with replies
_FILE_S = 1800.0  # seconds to send or to fetch a file
_TRIES, _PAUSE_S = 3, 2.0  # to create a batch, and the seconds after a failed try
_PAGES = 50  # of a list of batches
_MARKS = frozenset({"id", "name", "data", "operations"})  # Gemini's empty list is an empty object
_CLOCKS = timedelta(minutes=10)  # by which our clock may differ from an endpoint's
_ENDED = frozenset({"completed", "succeeded", "failed", "expired", "cancelled"})


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A response of the endpoint that costs nothing."""

    value: Any
    usage: Usage | None = None


class _Batches:
    """What the services have in common; `single` sends once, what must not happen twice."""

    def __init__(self, name: str, config: EndpointConfig, gateway: Gateway, single: Gateway) -> None:
        self.name = name
        self._config = config
        self._api = _Api(gateway, single)

    async def close(self) -> None:
        await self._api.close()


class OpenAIBatches(_Batches):
    """Batches as files, by the API of OpenAI and Azure. A batch carries our name, by which it is found again."""

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
        file = await self._api.post("/files", *_form(name, b"".join(lines)))
        batch = {
            "input_file_id": file["id"],
            "endpoint": self._path,
            "completion_window": "24h",
            "metadata": {"evalflow_batch": name},
        }
        return await self._api.create("/batches", json.dumps(batch).encode(), lambda: self._named(name))

    async def find(self, batch: RecordedBatch, known: Collection[str]) -> str | None:
        return await self._named(batch.name)

    async def _named(self, name: str) -> str | None:
        async for one in self._api.listed("/batches", "after"):
            metadata: Mapping[str, Any] = one.get("metadata") or {}
            if metadata.get("evalflow_batch") == name:
                return one["id"]
        return None

    async def look(self, batch_id: str) -> BatchState:
        found = await self._api.get(f"/batches/{batch_id}")
        status: str = found["status"]
        counts: Mapping[str, int] = found.get("request_counts") or {}
        fault = ""
        if status == "failed":
            errors: Mapping[str, Any] = found.get("errors") or {}
            listed: Sequence[Mapping[str, Any]] = errors.get("data") or [{}]
            fault = str(listed[0].get("message") or "it does not say why")
        done = (counts.get("completed") or 0) + (counts.get("failed") or 0)
        return BatchState(status, status in _ENDED, done, fault)

    async def replies(self, batch_id: str) -> Sequence[BatchReply]:
        found = await self._api.get(f"/batches/{batch_id}")
        files = [found[key] for key in ("output_file_id", "error_file_id") if found.get(key)]
        rows = [row for file in files for row in await self._api.rows(f"/files/{file}/content")]
        return [self._reply(row) for row in rows]

    def _reply(self, row: Mapping[str, Any]) -> BatchReply:
        line_id, response, error = str(row["custom_id"]), row.get("response"), row.get("error")
        if response:
            return BatchReply(line_id, int(response["status_code"]), _json(response["body"]))
        details = cast("dict[str, Any]", error) if isinstance(error, dict) else {}
        return BatchReply(line_id, None, problem=str(details.get("message") or details.get("code") or "no reply"))


class AnthropicBatches(_Batches):
    """Anthropic's Message Batches, of requests and replies that are translated from and to those of OpenAI.

    They carry no name. One whose creation was not recorded is found by its time, size and the ids in its results.
    """

    most_requests = 100_000
    most_bytes = 250 * _MEGABYTE

    def line(self, line_id: str, body: bytes) -> bytes:
        return _json({"custom_id": line_id, "params": anthropic.as_message(json.loads(body))})

    async def submit(self, name: str, lines: Sequence[bytes]) -> str:
        async def unheard() -> str | None:
            what = f"{self.name}: a batch was sent, and its receipt was not confirmed"
            raise InfrastructureError(what, "resume: it is looked for among the batches there, and not sent twice")

        return await self._api.create("/messages/batches", b'{"requests":[%b]}' % b",".join(lines), unheard)

    async def find(self, batch: RecordedBatch, known: Collection[str]) -> str | None:
        earliest = datetime.fromisoformat(batch.begun_at) - _CLOCKS
        async for one in self._api.listed("/messages/batches", "after_id"):
            if datetime.fromisoformat(one["created_at"]) < earliest:
                return None
            if one["id"] in known or sum(one["request_counts"].values()) != len(batch.ids):
                continue
            if one["processing_status"] != "ended":
                what = f"{self.name}: the batch {one['id']} may be that of {batch.name}, of which no receipt was heard"
                raise InfrastructureError(what, "resume when it has ended: only its results tell")
            if any(reply.id in batch.ids for reply in await self.replies(one["id"])):
                return one["id"]
        return None

    async def look(self, batch_id: str) -> BatchState:
        found = await self._api.get(f"/messages/batches/{batch_id}")
        counts: Mapping[str, int] = found["request_counts"]
        ended = found["processing_status"] == "ended"
        done = sum(number for name, number in counts.items() if name != "processing")
        cancelled = ended and counts.get("canceled", 0) > 0
        return BatchState("cancelled" if cancelled else str(found["processing_status"]), ended, done)

    async def replies(self, batch_id: str) -> Sequence[BatchReply]:
        rows = await self._api.rows(f"/messages/batches/{batch_id}/results")
        return [self._reply(row) for row in rows if row["result"]["type"] != "canceled"]

    def _reply(self, row: Mapping[str, Any]) -> BatchReply:
        line_id, result = str(row["custom_id"]), row["result"]
        if result["type"] == "succeeded":
            return BatchReply(line_id, 200, _json(anthropic.as_completion(result["message"])))
        if result["type"] == "errored":
            return BatchReply(line_id, anthropic.status_of(result["error"]), _json(result["error"]))
        return BatchReply(line_id, None, problem=f"the request has {result['type']}")


class GeminiBatches(_Batches):
    """Gemini's batches of requests within the request that creates them, which are translated from and to OpenAI's.

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

    async def find(self, batch: RecordedBatch, known: Collection[str]) -> str | None:
        return await self._named(batch.name)

    async def _named(self, name: str) -> str | None:
        token = ""
        for _ in range(_PAGES):
            page = await self._api.get(f"/batches?pageSize=100&pageToken={quote(token, safe='')}")
            for one in page.get("operations", ()):
                if one["metadata"].get("displayName") == name:
                    return one["name"]
            token = page.get("nextPageToken", "")
            if not token:
                break
        return None

    async def look(self, batch_id: str) -> BatchState:
        found = await self._api.get(f"/{batch_id}")
        facts: Mapping[str, Any] = found["metadata"]
        status = str(facts["state"]).rpartition("STATE_")[2].lower()
        counts: Mapping[str, str] = facts.get("batchStats") or {}
        done = sum(int(counts.get(f"{kind}RequestCount") or 0) for kind in ("successful", "failed"))
        fault = ""
        if status == "failed":
            fault = str(as_map(found.get("error")).get("message") or "it does not say why")
        return BatchState(status, bool(found.get("done")) or status in _ENDED, done, fault)

    async def replies(self, batch_id: str) -> Sequence[BatchReply]:
        found = await self._api.get(f"/{batch_id}")
        output = as_map(found.get("response") or found["metadata"].get("output"))
        return [self._reply(row) for row in as_list(as_map(output.get("inlinedResponses")).get("inlinedResponses"))]

    def _reply(self, row: Mapping[str, Any]) -> BatchReply:
        line_id, error = str(as_map(row.get("metadata")).get("key")), row.get("error")
        if error:
            return BatchReply(line_id, gemini.status_of(error), _json({"error": error}))
        return BatchReply(line_id, 200, _json(gemini.as_completion(row["response"])))


SERVICES: Mapping[BatchFormat, type[OpenAIBatches | AnthropicBatches | GeminiBatches]] = {
    "openai": OpenAIBatches,
    "anthropic": AnthropicBatches,
    "gemini": GeminiBatches,
}


def native_access(kind: BatchFormat, base_url: str, key: str | None) -> tuple[str, Mapping[str, str]] | None:
    """Where a provider's own batches are, and the headers that they take; None for OpenAI's, which are at base_url."""
    match kind:
        case "anthropic":
            return base_url, {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}
        case "gemini":
            return base_url.rstrip("/").removesuffix("/openai"), {"x-goog-api-key": key} if key else {}
        case "openai":
            return None


class _Api:
    """Requests for batches and files; `single` sends once, what must not happen twice."""

    def __init__(self, gateway: Gateway, single: Gateway) -> None:
        self._gateway = gateway
        self._single = single

    async def get(self, path: str) -> Any:
        return (await self._gateway.send(HttpRequest("GET", path, None, _FILE_S, longest=_LONGEST), _object)).value

    async def rows(self, path: str) -> Sequence[Mapping[str, Any]]:
        request = HttpRequest("GET", path, None, _FILE_S, longest=_LONGEST)
        return (await self._gateway.send(request, _rows)).value

    async def post(self, path: str, body: bytes, content_type: str = JSON) -> Any:
        request = HttpRequest("POST", path, body, _FILE_S, content_type=content_type)
        return (await self._gateway.send(request, _object)).value

    async def create(self, path: str, body: bytes, found: Callable[[], Awaitable[str | None]]) -> str:
        """The id of what is created, once: after a failure that leaves it open, `found` tells whether it exists."""
        for number in range(1, _TRIES + 1):
            try:
                made = (await self._single.send(HttpRequest("POST", path, body, _FILE_S), _object)).value
                return made.get("id") or made["name"]
            except EvalflowError as error:
                if isinstance(error, CallError) and error.error_type in {"bad_request", "refused", "context_length"}:
                    raise
                await asyncio.sleep(_PAUSE_S)
                known = await found()
                if known is not None:
                    return known
                if number == _TRIES or not isinstance(error, CallError):
                    raise
        raise AssertionError("unreachable")

    async def listed(self, path: str, cursor: str) -> AsyncIterator[Mapping[str, Any]]:
        """What an endpoint lists, newest first."""
        query = "?limit=100"
        for _ in range(_PAGES):
            page = await self.get(path + query)
            for one in page["data"]:
                yield one
            if not page.get("has_more") or not page["data"]:
                return
            query = f"?limit=100&{cursor}={page['data'][-1]['id']}"

    async def close(self) -> None:
        await self._single.close()
        await self._gateway.close()


def _object(response: Response) -> _Parsed:
    try:
        found: Any = json.loads(response.body)
    except ValueError:
        raise MalformedReply("no JSON") from None
    if not isinstance(found, dict) or (found and not _MARKS & found.keys()):
        raise MalformedReply("neither a batch, nor a file, nor a list of them")
    return _Parsed(found)


def _rows(response: Response) -> _Parsed:
    try:
        rows = [json.loads(line) for line in response.body.splitlines() if line.strip()]
        if all(isinstance(row["custom_id"], str) for row in rows):
            return _Parsed(rows)
    except (ValueError, LookupError, TypeError):
        pass
    raise MalformedReply("no results of a batch, one JSON object in each line")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _form(name: str, data: bytes) -> tuple[bytes, str]:
    """A file as a form, and its content type."""
    boundary = secrets.token_hex(16)
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    return b"%b%b\r\n--%b--\r\n" % (head.encode(), data, boundary.encode()), f"multipart/form-data; boundary={boundary}"
