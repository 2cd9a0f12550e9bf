"""Scores as OpenTelemetry log records: one event `gen_ai.evaluation.result` for each cell.

The names are those of OpenTelemetry's semantic conventions for generative AI as of November 2026, whose status is
Development and which have no release yet: https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/
gen-ai-events.md. They have no names for the state of a cell, its error, its judge or its threshold: those are
`evalflow.*`. Without a release they have no schema URL either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

from evalflow.config.surroundings import TextToSend
from evalflow.records import Answer
from evalflow.report.results_csv import COLUMNS, Score
from evalflow.version import __version__

SCORE_COLUMNS = (*COLUMNS, "finished_at")
"""The columns of `scores` used for an event."""
IDENTITY = ("dataset", "case_id", "target", "target_repeat", "metric", "judge", "repeat", "finished_at")
LONGEST = 16_384
"""The most characters of a text; receivers refuse requests of more than a few megabytes."""


class SpanLink(NamedTuple):
    """The span of an answer, and the id of the model's response; 0 and None if unknown."""

    trace: int = 0
    span: int = 0
    response: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A score to send; the same score always has the same uid."""

    uid: str
    time_ns: int
    link: SpanLink
    attributes: Mapping[str, object]

    @property
    def size(self) -> int:
        """The characters of its texts."""
        return sum(len(value) for value in self.attributes.values() if isinstance(value, str))


def uid_of(run_id: str, score: Mapping[str, object]) -> str:
    """The UUID of a score; a cell that is scored again gets another one."""
    text = "\0".join([run_id, *(str(score[name]) for name in IDENTITY)])
    return str(UUID(bytes=blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()))


def event_of(run_id: str, score: Score, answer: Answer | None, text: TextToSend) -> Event:
    """The event of a score in any state; only a scored cell has a value. Texts are included if `text` is set."""
    link, uid = _link(answer), uid_of(run_id, score)
    passed = score["passed"]
    attributes: dict[str, object] = {
        "gen_ai.evaluation.name": score["metric"],
        "gen_ai.evaluation.score.value": score["score"] if score["status"] == "scored" else None,
        "gen_ai.evaluation.score.label": None if passed is None else "pass" if passed else "fail",
        "gen_ai.response.id": link.response,
        "error.type": (score["error_type"] or "_OTHER") if score["status"] == "error" else None,
        "log.record.uid": uid,
        "evalflow.score.state": score["status"],
        "evalflow.score.threshold": score["threshold"],
        "evalflow.engine.id": run_id,
        "evalflow.dataset": score["dataset"],
        "evalflow.case.id": score["case_id"],
        "evalflow.target": score["target"],
        "evalflow.target_repeat": score["target_repeat"],
        "evalflow.judge": score["judge"],
        "evalflow.judge_repeat": score["repeat"],
    }
    if text != "none":
        attributes |= {"gen_ai.evaluation.explanation": score["reason"], "evalflow.score.error": score["error"]}
    if text == "all" and answer is not None:
        asked = [message.content for message in answer.messages if message.role == "user"]
        attributes |= {"evalflow.question": asked[-1] if asked else None, "evalflow.answer": answer.answer}
    return Event(uid, _nanoseconds(score["finished_at"]), link, dict(_sendable(attributes)))


def _sendable(attributes: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in attributes.items():
        if isinstance(value, str):
            yield name, shortened(value).encode("utf-8", "replace").decode()
        elif value is not None:
            yield name, value


def shortened(text: str) -> str:
    """The beginning of a long text, and how long it is."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"


def _link(answer: Answer | None) -> SpanLink:
    """The link in the answer's metadata, as `import traces` writes it or a target returns it."""
    metadata = (answer.metadata if answer else None) or {}
    trace, span = (_id(metadata.get(name), size) for name, size in (("trace_id", 32), ("span_id", 16)))
    response = metadata.get("response_id")
    parented = (trace, span) if trace and span else (0, 0)
    return SpanLink(*parented, response if isinstance(response, str) and response else None)


def _id(value: object, size: int) -> int:
    if not isinstance(value, str) or len(value) != size:
        return 0
    try:
        return int(value, 16)
    except ValueError:
        return 0


def _nanoseconds(finished_at: str) -> int:
    try:
        return round(datetime.fromisoformat(finished_at).timestamp() * 1000) * 1_000_000
    except ValueError:
        return 0


def encoded(events: Sequence[Event]) -> bytes:
    """A request of OTLP/HTTP with the events; `OTEL_RESOURCE_ATTRIBUTES` adds attributes of the sender."""
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.sdk.resources import OTELResourceDetector
    from opentelemetry.trace import TraceFlags

    def any_value(value: object) -> AnyValue:
        match value:
            case bool():  # bool is an int, too
                return AnyValue(bool_value=value)
            case str():
                return AnyValue(string_value=value)
            case int():
                return AnyValue(int_value=value)
            case float():
                return AnyValue(double_value=value)
            case _:
                raise TypeError(f"an attribute cannot be a {type(value).__name__}")

    def key_values(attributes: Mapping[str, object]) -> list[KeyValue]:
        return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]

    def record_of(event: Event) -> LogRecord:
        trace, span, _ = event.link
        return LogRecord(
            time_unix_nano=event.time_ns,
            observed_time_unix_nano=event.time_ns,
            trace_id=trace.to_bytes(16, "big") if trace else b"",
            span_id=span.to_bytes(8, "big") if span else b"",
            flags=TraceFlags.SAMPLED if trace else TraceFlags.DEFAULT,
            severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
            body=AnyValue(),
            event_name="gen_ai.evaluation.result",
            attributes=key_values(event.attributes),
        )

    if not events:
        return b""
    sender = {"service.name": "evalflow", "service.version": __version__, **OTELResourceDetector().detect().attributes}
    scope = InstrumentationScope(name="evalflow", version=__version__)
    logs = ScopeLogs(scope=scope, log_records=map(record_of, events))
    resource_logs = ResourceLogs(resource=Resource(attributes=key_values(sender)), scope_logs=[logs])
    return ExportLogsServiceRequest(resource_logs=[resource_logs]).SerializeToString()
