"""Replies that come as a stream of events: server-sent events and JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from evalflow.calls.faults import excerpt
from evalflow.config.exchanges import StreamConfig
from evalflow.errors import TargetError
from evalflow.values.jsonvalues import as_map, is_object, json_path, parsed

_LINE_END = re.compile(r"\r\n|\n|\r")  # not Unicode's line ends, which may occur in texts
_ENDS = frozenset({"", "[DONE]"})  # data of events that only mark the end of the stream
_PULSES = frozenset({"ping", "heartbeat", "keepalive", "keep-alive"})  # names of keep-alive events


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of a stream; without a name in the stream it is a `message`."""

    name: str
    data: str


def server_sent(text: str) -> Iterator[StreamEvent]:
    r"""The events of a text/event-stream, by the HTML standard; a last one without its blank line counts too.

    >>> [*server_sent("event: data\ndata: [1,\ndata: 2]\n\n: a comment\ndata: x")]
    [StreamEvent(name='data', data='[1,\n2]'), StreamEvent(name='message', data='x')]
    """
    name, data = "", list[str]()
    for line in (*_LINE_END.split(text.removeprefix("\ufeff")), ""):
        if not line:
            if data:
                yield StreamEvent(name or "message", "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)


def json_lines(text: str) -> Iterator[StreamEvent]:
    """The lines of JSON lines as events without a name."""
    return (StreamEvent("message", line) for line in _LINE_END.split(text.removeprefix("\ufeff")) if line.strip())


class StreamReader:
    """Turns a whole stream into one reply, as configured by `StreamConfig`."""

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._text = json_path(config.text) if config.text else None

    def reply(self, body: bytes) -> bytes:
        """The reply as JSON; TargetError if the service reported an error, no event counts, or one was cut off."""
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise TargetError("malformed", f"the stream is not UTF-8: {excerpt(body)}", excerpt(body)) from None
        counting: list[StreamEvent] = []
        names: list[str] = []
        for event in server_sent(text) if self._config.format == "sse" else json_lines(text):
            names.append(event.name)
            if self._config.format == "sse" and event.name in self._config.errors:
                raise _reported(event.data)
            if event.data not in _ENDS and self._counts(event.name):
                counting.append(event)
        if not counting:
            came = f"it has {', '.join(dict.fromkeys(names))}" if names else f"it has no event: {excerpt(body)}"
            what = f"the stream has no event that counts (target.stream.events); {came}"
            raise TargetError("malformed", what, excerpt(body))
        value = self._value(counting[-1].data) if self._config.take == "last" else self._joined(counting)
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")

    def _counts(self, name: str) -> bool:
        wanted = self._config.events
        return name not in _PULSES if wanted is None else name in wanted

    def _joined(self, events: list[StreamEvent]) -> dict[str, object]:
        if self._text is None:
            values = [_parsed(event.data) for event in events]
            if is_object(values[0]):
                raise _no_text("the data of an event is not a text", values[0])
            quoted = [
                value
                for value, event in zip(values, events, strict=True)
                if isinstance(value, str) and value is not event.data
            ]
            texts = quoted if len(quoted) == len(events) else [event.data for event in events]
            return {"answer": "".join(texts), "events": values}
        values = [self._value(event.data) for event in events]
        matches = [match for match in map(self._text.value, values) if match is not None]
        if not matches:
            raise _no_text(f"no event has anything at {self._text.text}", values[-1])
        texts = [match for match in matches if isinstance(match, str)]
        if len(texts) < len(matches):
            wrong = next(match for match in matches if not isinstance(match, str))
            raise _no_text(f"at {self._text.text} is not a text", wrong)
        return {"answer": "".join(texts), "events": values}

    def _value(self, data: str) -> object:
        """The data of an event: JSON, else its text."""
        value = _parsed(data)
        if value is data and (self._config.format == "jsonl" or data.lstrip().startswith(("{", "["))):
            what = f"an event is not JSON, so the stream may have been cut off: {excerpt(data.encode())}"
            raise TargetError("malformed", what, excerpt(data.encode()))
        if as_map(value).get("error") and self._config.errors:
            raise _reported(data)
        return value


def _reported(data: str) -> TargetError:
    report = excerpt(data.encode())
    return TargetError("reported", f"the service reports an error: {report}", report)


def _no_text(what: str, value: object) -> TargetError:
    came = excerpt(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return TargetError("malformed", f"{what}: {came}; say where the text is: target.stream.text=$.PATH")


def _parsed(data: str) -> object:
    try:
        return parsed(data.encode("utf-8", "replace"))
    except ValueError:
        return data
