"""Sends a run's scores to an OpenTelemetry receiver: while it continues, at its end, and afterwards."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from evalflow.addons.interop.exporters.otel import ATTEMPTS, DeliveryLog, Receiver, batches, deliver, expect_installed
from evalflow.addons.interop.exporters.otel_events import IDENTITY, SCORE_COLUMNS, Event, event_of, uid_of
from evalflow.addons.interop.exporters.otel_live import LiveSender, SendingSink
from evalflow.app.core.engines import ObservedRun
from evalflow.app.core.saved import SavedRun, answered_rows
from evalflow.calls.connections import Connections
from evalflow.config.surroundings import A_RECEIVER, ObserverConfig, OtelConfig, TextToSend
from evalflow.engine import bookkeeping
from evalflow.lazy import pl
from evalflow.protocols import Sink
from evalflow.records.manifest import ExportFacts
from evalflow.report.results_csv import iterate_rows

log = logging.getLogger("evalflow")


class OtelObserverConfig(OtelConfig, ObserverConfig):
    """The receiver of scores as OpenTelemetry log records while the run continues."""

    kind: Literal["otel"]  # pyright: ignore[reportIncompatibleVariableOverride]
    endpoint: Annotated[str, A_RECEIVER] = Field()  # pyright: ignore[reportIncompatibleVariableOverride]

    def expect_ready(self, key: str) -> None:
        expect_installed(f"{key}.endpoint")


class OtelObserver:
    """Implements Observer: the scores of one run, for an OpenTelemetry receiver."""

    Config = OtelObserverConfig

    def __init__(self, config: OtelObserverConfig, run: ObservedRun) -> None:
        self._config = config
        self._run = run
        self._receiver = receiver_of(config.endpoint, run.connections)
        self._delivered = DeliveryLog(run.folder.path, run.folder.delivered, self._receiver.address)
        self._live = LiveSender(self._receiver, self._delivered)

    @classmethod
    def build(cls, config: OtelObserverConfig, run: ObservedRun) -> OtelObserver:
        return cls(config, run)

    def sink(self, inner: Sink) -> Sink:
        return SendingSink(inner, self._live, self._run.rules.thresholds(), self._config.text, self._run.redactor)

    def finish(self, run: SavedRun) -> ExportFacts:
        """Send the remaining scores within a time limit, and count them. Failures are counted, not raised."""
        ends_at = time.monotonic() + self._config.timeout_s
        why: str | None = "the time limit was reached"
        try:
            if self._live.close(self._config.timeout_s):
                # One attempt is enough if the receiver was just tried several times.
                tries = 1 if self._live.failed else ATTEMPTS
                why = send_rest(run, self._receiver, self._delivered, self._config.text, ends_at, tries)
        except KeyboardInterrupt:
            why = "interrupted"
        except Exception as error:
            log.exception("scores could not be sent")
            why = f"{type(error).__name__}: {error}"
        return facts_of(self._receiver, self._delivered, run, why)

    def close(self) -> None:
        """Send nothing more."""
        self._live.close(0)
        self._delivered.close()


def receiver_of(endpoint: str, connections: Connections | None, key: str = "otel.endpoint") -> Receiver:
    """The receiver at an address; UserError if its packages are missing, or it is not among the connections."""
    expect_installed(key)
    if connections is None:
        return Receiver(endpoint)
    connection = connections.of_receiver(Receiver(endpoint).address, key)
    return Receiver(
        endpoint, os.environ.get(connection.api_key_env) if connection.api_key_env else None, connection.reach
    )


def send_rest(
    run: SavedRun,
    receiver: Receiver,
    delivered: DeliveryLog,
    text: TextToSend,
    ends_at: float = float("inf"),
    attempts: int = ATTEMPTS,
) -> str | None:
    """Send the scores of a run's tables that the receiver has not taken; returns why some were not, or None."""
    left = _undelivered(run, delivered)
    if not left.select(pl.len()).collect().item():
        return None
    return deliver(batches(_events(run, left, text)), receiver, delivered, ends_at, attempts)


def facts_of(receiver: Receiver, delivered: DeliveryLog, run: SavedRun, why: str | None) -> ExportFacts:
    """For run.json: the counts of scores sent and not sent to a receiver."""
    unsent = _undelivered(run, delivered).select(pl.len()).collect().item()
    sent = _own_scores(run).select(pl.len()).collect().item() - unsent
    return ExportFacts(
        to="otel",
        where=receiver.address,
        at=bookkeeping.now(),
        sent=sent,
        rejected=min(sent, delivered.rejected),
        unsent=unsent,
        why=why or delivered.why,
    )


def _own_scores(run: SavedRun) -> pl.LazyFrame:
    return run.scores().filter(pl.col("member_of").is_null())


def _undelivered(run: SavedRun, delivered: DeliveryLog) -> pl.LazyFrame:
    scores, run_id = _own_scores(run), run.manifest.run_id
    if not delivered.uids:
        return scores
    wanted = [uid_of(run_id, row) not in delivered.uids for row in iterate_rows(scores.select(IDENTITY))]
    return scores.filter(pl.Series(wanted, dtype=pl.Boolean))


def _events(run: SavedRun, scores: pl.LazyFrame, text: TextToSend) -> Iterator[Event]:
    cases = scores.select("dataset", "case_id").unique().collect()
    for row in answered_rows(run, scores, set(cases.iter_rows()), SCORE_COLUMNS):
        for score in row.scores:
            yield event_of(run.manifest.run_id, score, row.answer, text)
