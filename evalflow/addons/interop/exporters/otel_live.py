"""Sends scores to an OTLP/HTTP receiver while the run continues."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

from evalflow.addons.interop.exporters.otel import DeliveryLog, Receiver, deliver
from evalflow.addons.interop.exporters.otel_events import SCORE_COLUMNS, Event, event_of
from evalflow.config.surroundings import TextToSend
from evalflow.protocols import Sink
from evalflow.records import Answer, ScoreRecord, passes
from evalflow.redaction import Redactor
from evalflow.report.results_csv import Score
from evalflow.summary.summarise import Threshold

WAITING = 1024  # maximum waiting events, and answers kept for their scores; others are sent at the end
EVERY_S = 1.0
BATCH = 64
"""Maximum events per second.

More would slow the run: its thread waits for Python's lock while this one computes, and even longer on a busy machine.
"""

log = logging.getLogger("evalflow")


class LiveSender:
    """Sends from its own thread, through a bounded queue, and never makes a run wait.

    Events that do not fit into the queue, or are unsent when it is closed, are sent at the end of the run.
    """

    def __init__(self, receiver: Receiver, delivered: DeliveryLog) -> None:
        self._waiting: deque[Event] = deque()
        self._closed = threading.Event()
        self.failed = False  # whether it has given up
        self._receiver = receiver
        self._delivered = delivered
        self._thread = threading.Thread(target=self._run, name="otel", daemon=True)
        self._thread.start()

    @property
    def has_room(self) -> bool:
        """Whether a new event would be sent soon."""
        return len(self._waiting) < WAITING and not self.failed

    def offer(self, event: Event) -> None:
        self._waiting.append(event)

    def close(self, timeout_s: float) -> bool:
        """Stop after the current request; returns whether it ended in time."""
        self._closed.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            deliver(self._batches(), self._receiver, self._delivered)
        except Exception:
            log.exception("scores could not be sent")
        self.failed = not self._closed.is_set()

    def _batches(self) -> Iterator[Sequence[Event]]:
        while not self._closed.wait(EVERY_S):
            if batch := [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]:
                yield batch


class SendingSink:
    """Implements Sink around another one, and offers each score to a LiveSender after writing it."""

    def __init__(
        self, sink: Sink, sender: LiveSender, thresholds: Sequence[Threshold], text: TextToSend, redactor: Redactor
    ) -> None:
        self._sink = sink
        self._sender = sender
        self._limits = {(threshold.metric, threshold.judge): threshold for threshold in thresholds}
        self._text: TextToSend = text
        self._redactor = redactor
        self._answers: OrderedDict[tuple[str, str, str, int], Answer] = OrderedDict()

    def write(self, record: Answer | ScoreRecord) -> None:
        self._sink.write(record)
        key = (record.dataset, record.case_id, record.target, record.target_repeat)
        if isinstance(record, Answer):
            self._answers[key] = record
            if len(self._answers) > WAITING:
                self._answers.popitem(last=False)
        elif record.member_of is None and self._sender.has_room and (answer := self._answers.get(key)) is not None:
            self._sender.offer(event_of(record.run_id, self._row(record), answer, self._text))

    def _row(self, record: ScoreRecord) -> Score:
        """The record as a row of the score table, without secrets."""
        row: Score = {name: getattr(record, name, None) for name in SCORE_COLUMNS}
        limit = self._limits.get((record.metric, record.judge))
        if limit is not None:
            row["threshold"] = limit.value
            if record.score is not None:
                higher = limit.direction == "higher_is_better"
                row["passed"] = passes(record.score, limit.value, higher_is_better=higher)
        row["reason"] = record.reason and self._redactor.data(record.reason)
        row["error"] = record.error and self._redactor.data(self._redactor.text(record.error))
        return row
