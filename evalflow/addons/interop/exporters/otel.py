"""Send scores to an OTLP/HTTP receiver: in batches, with retries, each score once."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalflow.addons.interop.exporters.otel_events import Event, encoded
from evalflow.calls import faults
from evalflow.calls.client import RetryPolicy
from evalflow.calls.faults import CallFault
from evalflow.calls.http import HttpRequest, HttpTransport, Response, TransportError
from evalflow.calls.networks import Networks
from evalflow.calls.waits import retry_after_s
from evalflow.engine.journal import lock
from evalflow.extras import packages_of
from evalflow.paths import private_file

PATH = "/v1/logs"
ATTEMPTS = 4
BATCH = 512  # maximum events in a request
BATCH_TEXT = 1 << 20  # characters of texts in a request, about
_RETRIED = frozenset({429, 502, 503, 504})
_ABOUT_ONE = frozenset({400, 413, 422})  # statuses that refuse one request but do not concern the next
_POLICY = RetryPolicy()
_REQUEST_S = 10.0


@dataclass(frozen=True, slots=True)
class Receiver:
    """An OTLP/HTTP receiver. With `networks` its address must be in one of them, and only `api_key` is sent."""

    endpoint: str
    api_key: str | None = None
    networks: Networks | None = None

    @property
    def address(self) -> str:
        """Where log records are posted."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(PATH) else base + PATH

    def transport(self) -> HttpTransport:
        """A new transport. Without networks, its headers are those of OTEL_EXPORTER_OTLP_HEADERS."""
        headers = {} if self.networks else _own_headers()
        headers |= {"Content-Type": "application/x-protobuf", "Accept": "application/x-protobuf"}
        return HttpTransport(self.address, self.api_key, 1, headers=headers, networks=self.networks)


def _own_headers() -> dict[str, str]:
    from opentelemetry.util.re import parse_env_headers

    text = os.environ.get("OTEL_EXPORTER_OTLP_LOGS_HEADERS") or os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    return dict(parse_env_headers(text, liberal=True))


def expect_installed(where: str) -> None:
    """UserError without the packages of the extra `otel`."""
    with packages_of("otel", where):
        encoded(())


class DeliveryLog:
    """A file in the run's folder of the scores that a receiver has taken, so that none is sent twice.

    Only one process can hold the file; UserError for another. A process that is killed after a request and before its
    line sends those scores once more, with the same uids.
    """

    def __init__(self, folder: Path, file: Path, endpoint: str, *, again: bool = False) -> None:
        self._endpoint = endpoint
        opened = private_file(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        lock(opened, folder)
        self._file = os.fdopen(opened, "ab", buffering=0)
        self.uids: set[str] = set()
        self.rejected = 0
        self.why: str | None = None  # some were rejected
        if again:
            self._write({"endpoint": endpoint, "again": True})
        with file.open("rb") as lines:
            for line in lines:
                self._read(line)

    def _read(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            if entry["endpoint"] == self._endpoint and entry.get("again"):
                self.uids, self.rejected, self.why = set(), 0, None
            elif entry["endpoint"] == self._endpoint:
                self.uids.update(entry["uids"])
                self.rejected += entry["rejected"]
                self.why = entry.get("why") or self.why
        except (ValueError, LookupError, TypeError):
            return  # a line that a killed process did not finish

    def note(self, events: Sequence[Event], rejected: int, why: str | None = None) -> None:
        """Record which events were taken, and why some were rejected.

        A response after the log was closed is lost: its events are sent again.
        """
        if self._file.closed:
            return
        uids = [event.uid for event in events]
        self.uids.update(uids)
        self.rejected += rejected
        self.why = why or self.why
        self._write({"endpoint": self._endpoint, "uids": uids, "rejected": rejected, "why": why})

    def _write(self, line: Mapping[str, object]) -> None:
        # The leading newline ends a line that a killed process did not finish.
        self._file.write(b"\n" + json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        self._file.close()


def batches(events: Iterable[Event]) -> Iterator[Sequence[Event]]:
    """Split the events into requests of limited size."""
    batch, size = list[Event](), 0
    for event in events:
        own = event.size
        if batch and (len(batch) == BATCH or size + own > BATCH_TEXT):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += own
    if batch:
        yield batch


def deliver(
    portions: Iterable[Sequence[Event]],
    receiver: Receiver,
    log: DeliveryLog,
    ends_at: float = float("inf"),
    attempts: int = ATTEMPTS,
) -> str | None:
    """Send batches, and note what the receiver takes; returns why some were not sent or were rejected, or None.

    It stops at the first failure that would repeat for other requests, and at `ends_at` (of `time.monotonic`).
    """
    why: str | None = None
    transport = receiver.transport()
    with asyncio.Runner() as runner:
        try:
            for batch in portions:
                try:
                    rejected, why_rejected = runner.run(_send(transport, encoded(batch), ends_at, attempts))
                    log.note(batch, min(rejected, len(batch)), why_rejected or None)
                    why = why_rejected or why
                except UnsentError as error:
                    why = str(error)
                    if not error.is_about_one:
                        break
        finally:
            runner.run(transport.close())
    return why


class UnsentError(Exception):
    """A request could not be delivered. `is_about_one`: the next request may still succeed."""

    def __init__(self, why: str, *, is_about_one: bool = False) -> None:
        self.is_about_one = is_about_one
        super().__init__(why)


async def _send(transport: HttpTransport, body: bytes, ends_at: float, attempts: int) -> tuple[int, str]:
    """Send a request until it is delivered; returns how many records the receiver rejected, and why."""
    for attempt in range(1, attempts + 1):
        left = ends_at - time.monotonic()
        if left <= 0:
            raise UnsentError("the time limit was reached")
        try:
            response = await transport.send(HttpRequest("POST", "", body, min(left, _REQUEST_S)))
        except TransportError as error:
            fault = faults.of_transport(error)
        else:
            if 200 <= response.status < 300:
                return _rejected(response)
            fault = _fault(response)
        wait = _POLICY.delay(attempt, fault)
        if fault.decision != "retry" or attempt == attempts or time.monotonic() + wait > ends_at:
            raise UnsentError(fault.message, is_about_one=fault.decision == "give_up")
        await asyncio.sleep(wait)
    raise AssertionError("unreachable")


def _fault(response: Response) -> CallFault:
    text = faults.excerpt(response.body) if response.body.isascii() else ""
    message = f"HTTP {response.status}: {text}" if text else f"HTTP {response.status}"
    if response.status in _RETRIED:
        return CallFault("retry", "server", message, retry_after_s=retry_after_s(response.headers))
    return CallFault("give_up" if response.status in _ABOUT_ONE else "stop", "refused", message)


def _rejected(response: Response) -> tuple[int, str]:
    """How many records a 2xx response rejects, and why; UnsentError if the response is not from an OTLP receiver."""
    from google.protobuf.json_format import Parse
    from google.protobuf.message import Error
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    kind, reply = response.headers.get("Content-Type", "").partition(";")[0].strip(), ExportLogsServiceResponse()
    try:
        if kind == "application/json":
            Parse(response.body or b"{}", reply, ignore_unknown_fields=True)
        elif response.body and kind != "application/x-protobuf":
            raise ValueError
        else:
            reply.ParseFromString(response.body)
    except (Error, ValueError):
        what = f"{kind or 'a body of no type'}, which no OTLP receiver does: {faults.excerpt(response.body)}"
        raise UnsentError(f"it answers HTTP {response.status} with {what}") from None
    partial = reply.partial_success
    rejected = max(0, partial.rejected_log_records)
    return rejected, f"rejected: {partial.error_message or 'no explanation'}" if rejected else ""
