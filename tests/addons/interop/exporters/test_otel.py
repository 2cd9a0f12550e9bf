"""What is known of a delivery, also by a process that opens its log later."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from evalflow.addons.interop.exporters.otel import DeliveryLog, Receiver, deliver
from evalflow.addons.interop.exporters.otel_events import SCORE_COLUMNS, event_of
from tests.addons.interop.exporters.receiver import OtlpReceiver
from tests.addons.interop.exporters.receiver import partial as partial_success

SCORE: dict[str, Any] = dict.fromkeys(SCORE_COLUMNS) | {
    "status": "scored",
    "score": 0.5,
    "metric": "m",
    "finished_at": "2026-11-23T18:00:00+00:00",
}


def test_the_reason_of_a_rejection_outlives_the_process_that_was_told_it(tmp_path: Path) -> None:
    event, file = event_of("run", SCORE, None, "none"), tmp_path / "delivered"
    with OtlpReceiver(lambda *_: partial_success(1, "too old")) as receiver:
        known = partial(DeliveryLog, tmp_path, file, Receiver(receiver.url).address)
        log = known()
        assert deliver([[event]], Receiver(receiver.url), log) == "rejected: too old"
        log.close()
    later = known()
    assert (later.rejected, later.why, later.uids) == (1, "rejected: too old", {event.uid})
    later.close()
    afresh = known(again=True)
    assert (afresh.rejected, afresh.why) == (0, None)
    afresh.close()
