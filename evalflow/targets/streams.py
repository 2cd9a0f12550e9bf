"""Replies that come as a stream of events: server-sent events and JSON lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evalflow.calls.faults import excerpt
from evalflow.config.exchanges import StreamConfig
from evalflow.errors import TargetError
from evalflow.jsonvalues import json_path, parsed

_LINE_END = re.compile(r"\r\n|\n|\r")  # not those of Unicode, which may stand in texts
_ENDS = frozenset({"", "[DONE]"})  # the data of events that only say that the stream is over


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
    """Turns a whole stream into the reply that it amounts to, as `StreamConfig` says."""

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._text = json_path(config.text) if config.text else None

    def reply(self, body: bytes) -> bytes:
        """The reply as JSON; TargetError if the service reported an error, or if no event counts."""
        text = body.decode("utf-8", "replace")
        counting: list[StreamEvent] = []
        names: list[str] = []
        for event in server_sent(text) if self._config.format == "sse" else json_lines(text):
            names.append(event.name)
            if self._config.format == "sse" and event.name in self._config.errors:
                what = f"the service reports an error: {excerpt(event.data.encode())}"
                raise TargetError("reported", what, excerpt(event.data.encode()))
            wanted = self._config.events
            if event.data not in _ENDS and (wanted is None or event.name in wanted):
                counting.append(event)
        if not counting:
            came = f"it has {', '.join(dict.fromkeys(names))}" if names else f"it has no event: {excerpt(body)}"
            what = f"the stream has no event that counts (target.stream.events); {came}"
            raise TargetError("malformed", what, excerpt(body))
        value = _value(counting[-1].data) if self._config.take == "last" else self._joined(counting)
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")

    def _joined(self, events: list[StreamEvent]) -> dict[str, Any]:
        values = [_value(event.data) for event in events]
        texts = [value if self._text is None else self._text.value(value) for value in values]
        wrong = next((text for text in texts if text is not None and not isinstance(text, str)), None)
        if wrong is not None:
            where = f"at {self._text.text}" if self._text else "the data of an event"
            what = f"{where} is not a text: {excerpt(json.dumps(wrong).encode())}"
            raise TargetError("malformed", f"{what}; say where it is: target.stream.text=$.PATH")
        return {"answer": "".join(text for text in texts if text), "events": values}


def _value(data: str) -> Any:
    """The data of an event: JSON, else its text."""
    try:
        return parsed(data.encode("utf-8", "replace"))
    except ValueError:
        return data
