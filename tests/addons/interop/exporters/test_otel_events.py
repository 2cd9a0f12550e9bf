"""The event of a score: what it says of each state, and when it is another one."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from evalflow.addons.interop.exporters.otel import BATCH, BATCH_TEXT, batches
from evalflow.addons.interop.exporters.otel_events import SCORE_COLUMNS, encoded, event_of, uid_of
from evalflow.records import Answer

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SCORE: dict[str, Any] = dict.fromkeys(SCORE_COLUMNS) | {
    "dataset": "d",
    "case_id": "c",
    "target": "t",
    "target_repeat": 0,
    "metric": "m",
    "repeat": 0,
    "status": "scored",
    "score": 0.5,
    "finished_at": "2026-11-23T18:00:00.123+00:00",
}


def attributes(**changes: Any) -> dict[str, Any]:
    return dict(event_of("run", {**SCORE, **changes}, None, "reasons").attributes)


@pytest.mark.parametrize("status", ["undefined", "error", "skipped"])
def test_a_cell_without_a_score_has_its_state_and_no_value(status: str) -> None:
    found = attributes(status=status, score=None, reason="because")
    assert found["evalflow.score.state"] == status
    assert "gen_ai.evaluation.score.value" not in found
    assert "gen_ai.evaluation.score.label" not in found
    assert found["gen_ai.evaluation.explanation"] == "because"
    assert found.get("error.type") == ("_OTHER" if status == "error" else None)


def test_a_score_is_the_same_event_whatever_its_threshold_and_another_one_if_it_is_made_again() -> None:
    known = uid_of("run", SCORE)
    assert known == uid_of("run", {**SCORE, "threshold": 0.9, "passed": False})
    others = [
        uid_of("run", {**SCORE, key: value})
        for key, value in {"case_id": "x", "metric": "x", "repeat": 1, "finished_at": "later"}.items()
    ]
    assert len({known, uid_of("other run", SCORE), *others}) == 6


@pytest.mark.parametrize(
    ("metadata", "linked"),
    [
        ({"trace_id": TRACE, "span_id": SPAN}, True),
        ({"trace_id": TRACE}, False),
        ({"trace_id": "0" * 32, "span_id": SPAN}, False),
        ({"trace_id": "g" * 32, "span_id": SPAN}, False),
        ({"trace_id": 7, "span_id": [SPAN]}, False),
        (None, False),
    ],
)
def test_only_a_whole_identity_of_a_span_is_a_link(metadata: Any, linked: bool) -> None:
    answer = Answer(dataset="d", index=0, case_id="c", target="t", metadata=metadata)
    [resource] = ExportLogsServiceRequest.FromString(encoded([event_of("run", SCORE, answer, "none")])).resource_logs
    one = resource.scope_logs[0].log_records[0]
    assert (one.trace_id.hex(), one.span_id.hex()) == ((TRACE, SPAN) if linked else ("", ""))
    assert one.time_unix_nano == 1_795_456_800_123_000_000


def test_text_that_is_no_unicode_can_be_sent() -> None:
    assert encoded([event_of("run", {**SCORE, "reason": "half \ud83d"}, None, "reasons")])


def test_a_request_is_limited_in_events_and_in_text() -> None:
    small, large = (event_of("run", {**SCORE, "reason": "x" * n}, None, "reasons") for n in (1, 16_000))
    assert [len(one) for one in batches([small] * (BATCH + 1))] == [BATCH, 1]
    assert all(sum(event.size for event in one) <= BATCH_TEXT for one in batches([large] * 100))


def test_each_name_is_one_of_the_conventions_or_has_our_prefix() -> None:
    modules = ("error", "gen_ai", "log")
    known: set[str] = set()
    for module in modules:
        path = f"opentelemetry.semconv._incubating.attributes.{module}_attributes"
        known |= {value for value in vars(importlib.import_module(path)).values() if isinstance(value, str)}
    failed = attributes(status="error", error_type="timeout", error="too late", reason="why", passed=False)
    names = {*failed, *attributes(passed=True)}
    assert {name for name in names if not name.startswith("evalflow.")} <= known
    assert "error.message" not in names  # which the conventions have deprecated
    assert failed["evalflow.score.error"] == "too late"
