"""Builds traces in OTLP JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def value(known: Any) -> dict[str, Any]:
    if isinstance(known, bool):
        return {"boolValue": known}
    if isinstance(known, int):
        return {"intValue": str(known)}
    if isinstance(known, float):
        return {"doubleValue": known}
    if isinstance(known, list):
        return {"arrayValue": {"values": [value(one) for one in known]}}
    if isinstance(known, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": value(one)} for key, one in known.items()]}}
    return {"stringValue": known}


def attributes(known: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(one)} for key, one in known.items()]


def span(name: str, parent: str = "", at: int = 0, **more: Any) -> dict[str, Any]:
    """A span of trace t that begins `at` seconds and takes half of one."""
    events = [{"name": event, "attributes": attributes(known)} for event, known in more.get("events", {}).items()]
    return {
        "traceId": more.get("trace", "t"),
        "spanId": name,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(at * 10**9),
        "endTimeUnixNano": at * 10**9 + 5 * 10**8,
        "attributes": attributes(more.get("says", {})),
        "events": events,
        "status": more.get("status", {}),
    }


def request(*spans: Mapping[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def told(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def chat(asked: str, said: str, **more: Any) -> dict[str, Any]:
    messages = {"gen_ai.input.messages": [told("user", asked)], "gen_ai.output.messages": [told("assistant", said)]}
    return {"gen_ai.operation.name": "chat", **messages, **more}
