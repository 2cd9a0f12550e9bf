"""Logs as JSON lines, for `serve --log json` and `worker --log json`."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, event, and the fields of the event.

    Of an error it has the kind and the places in the code, not the message: that may hold the text of a case.
    """

    def format(self, record: logging.LogRecord) -> str:
        event = record.getMessage() if isinstance(record.msg, str) else type(record.msg).__name__
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": record.levelname.lower(), "event": event, **getattr(record, "fields", {})}
        if record.exc_info and record.exc_info[0]:
            line["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            line["at"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line, ensure_ascii=False, default=str)


def log_json_lines() -> None:
    """Write the log of this process to standard error as JSON lines, requests included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("evalflow").setLevel(logging.INFO)
    logging.getLogger("nicegui").propagate = True
