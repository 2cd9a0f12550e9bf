"""An OTLP/HTTP receiver over real HTTP: it parses what is sent, and does what the test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from tests.loopback import LoopbackServer


@dataclass(frozen=True)
class Received:
    """One log record."""

    event: str
    trace: str
    span: str
    time_ns: int
    attributes: dict[str, Any]
    resource: dict[str, Any]

    @property
    def uid(self) -> str:
        return self.attributes["log.record.uid"]


@dataclass(frozen=True)
class Said:
    """What the receiver answers."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/x-protobuf"
    headers: dict[str, str] = field(default_factory=dict[str, str])


def partial(rejected: int, message: str) -> Said:
    response = ExportLogsServiceResponse()
    response.partial_success.rejected_log_records = rejected
    response.partial_success.error_message = message
    return Said(body=response.SerializeToString())


class OtlpReceiver(LoopbackServer):
    """Answers the request of each number, from 0, with what `script` says; None: with success."""

    def __init__(self, script: Callable[[int, Sequence[Received]], Said | None] | None = None) -> None:
        self.requests: list[Sequence[Received]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.accepted: list[Received] = []  # those of answered requests with success
        self._script = script or (lambda *_: None)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                found = list(_records(ExportLogsServiceRequest.FromString(body)))
                number = len(receiver.requests)
                receiver.requests.append(found)
                receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
                receiver.paths.append(self.path)
                said = receiver._script(number, found) or Said()
                if said.status == 200:
                    receiver.accepted.extend(found)
                self.send_response(said.status)
                for name, value in {"Content-Type": said.kind, **said.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(said.body)))
                self.end_headers()
                with suppress(BrokenPipeError):  # a client that did not wait
                    self.wfile.write(said.body)

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(Handler)


def _records(request: ExportLogsServiceRequest) -> Any:
    for resource in request.resource_logs:
        about = {one.key: _value(one.value) for one in resource.resource.attributes}
        for scope in resource.scope_logs:
            for one in scope.log_records:
                attributes = {pair.key: _value(pair.value) for pair in one.attributes}
                yield Received(
                    one.event_name, one.trace_id.hex(), one.span_id.hex(), one.time_unix_nano, attributes, about
                )


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
