"""Collect requests until a run cannot continue without replies, submit them as batches and wait for the replies.

Cases are scored as usual and their requests wait here. A run that stops waiting ends without these scores; when it is
resumed, the cases send the same requests and find their replies or batches in the record.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evalflow.calls.batch_record import BatchRecord, BatchReply, RecordedBatch
from evalflow.calls.limiter import Limiters
from evalflow.config.surroundings import BatchConfig
from evalflow.errors import CallError, EvalflowError, InfrastructureError, WaitingError

LINGER_S = 1.0  # seconds without a new request after which the batch is complete
WAITING_CASES = 10_000  # cases that wait for replies at the same time; each takes some 26 KiB

log = logging.getLogger("evalflow")


@dataclass(frozen=True, slots=True)
class BatchState:
    """The progress of a batch; `fault`: why it failed as a whole, before any request was made."""

    status: str
    ended: bool = False
    done: int = 0
    fault: str = ""


class BatchService(Protocol):
    """The batches of one endpoint, for one model.

    Attributes:
        name: The endpoint and the model, as in the record and in messages.
        most_requests, most_bytes: Maximum size of one batch.
    """

    name: str
    most_requests: int
    most_bytes: int

    def line(self, line_id: str, body: bytes) -> bytes:
        """Return a request's line in a batch."""
        ...

    async def submit(self, name: str, lines: Sequence[bytes]) -> str:
        """Submit a batch and return its id at the endpoint."""
        ...

    async def find(self, batch: RecordedBatch, recorded_ids: Collection[str]) -> str | None:
        """Return the id of a possibly submitted batch; None if it was not. `known` are the ids of other batches."""
        ...

    async def look(self, batch_id: str) -> BatchState:
        """Return the progress of a batch."""
        ...

    async def replies(self, batch_id: str) -> Sequence[BatchReply]:
        """Return the replies of a batch that has ended."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class BatchQueue:
    """Takes a run's requests for batches. It is `collecting` once the run has begun; before, calls go directly."""

    def __init__(self, config: BatchConfig, limiters: Limiters) -> None:
        self._config = config
        self._limiters = limiters
        self._services: dict[str, BatchService] = {}
        self._record: BatchRecord | None = None
        self._open: dict[str, RecordedBatch] = {}  # by the ids of their requests
        self._asked: dict[str, asyncio.Future[BatchReply]] = {}
        self._queued: defaultdict[str, dict[str, bytes]] = defaultdict(dict)  # lines by service and id
        self._touched = asyncio.Event()
        self._until: float | None = None
        self._worker: asyncio.Task[None] | None = None
        self._failed: EvalflowError | None = None
        self._stopping = False

    @property
    def collecting(self) -> bool:
        return self._record is not None

    def join(self, name: str, make: Callable[[], BatchService]) -> BatchService:
        """Return the service of this name, created if new: judges and targets with one model share batches."""
        if name not in self._services:
            self._services[name] = make()
        return self._services[name]

    def begin(self, folder: Path, run_id: str, siblings: Iterable[Path], *, fresh: bool) -> None:
        """Send requests by batch from now on and record them in a run's folder; `fresh` as in `BatchRecord`.

        Requests that other runs of the sweep, whose folders are `siblings`, have submitted are not submitted again.
        """
        self._record = BatchRecord(folder, run_id, fresh)
        for path in siblings:
            self._record.adopt(BatchRecord(path, "", fresh=True))
        for batch in self._record.batches.values():
            if batch.state == "submitted" and batch.service in self._services:
                self._open.update(dict.fromkeys(batch.ids, batch))

    async def ask(self, service: BatchService, line_id: str, body: bytes) -> BatchReply:
        """Return the reply to a request. WaitingError after the maximum wait; InfrastructureError as for calls."""
        assert self._record is not None
        reply = self._record.reply(line_id)
        if reply is not None:
            return reply
        if self._failed is not None:
            raise self._failed
        turn = self._asked[line_id] = asyncio.get_running_loop().create_future()
        if line_id not in self._open:
            self._queued[service.name][line_id] = service.line(line_id, body)
        self._touched.set()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        try:
            return await turn
        finally:
            self._asked.pop(line_id, None)
            self._queued[service.name].pop(line_id, None)

    def stop(self) -> None:
        """Submit nothing more."""
        self._stopping = True

    async def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
        for service in self._services.values():
            await service.close()

    async def _work(self) -> None:
        try:
            await self._resolve()
            while self._asked:
                await self._settle()
                if not self._stopping:
                    await self._submit()
                await self._collect()
        except EvalflowError as error:
            # A refused upload is not the fault of one case.
            self._fail(InfrastructureError(str(error)) if isinstance(error, CallError) else error)
        except OSError as error:
            self._fail(InfrastructureError(f"the record of the batches cannot be written: {error}", "make room"))
        except Exception as error:
            log.exception("batches failed")
            self._fail(InfrastructureError(f"batches failed: {error!r}"))

    def _fail(self, error: EvalflowError) -> None:
        """End the run: one waiting request raises the error, which cancels all others."""
        self._failed = error
        turn = next((turn for turn in self._asked.values() if not turn.done()), None)
        if turn is not None:
            turn.set_exception(error)

    async def _settle(self) -> None:
        """Wait until no call is in flight and no request was added for a while."""
        while True:
            self._touched.clear()
            try:
                async with asyncio.timeout(LINGER_S):
                    await self._touched.wait()
            except TimeoutError:
                if not self._limiters.in_flight:
                    return

    async def _resolve(self) -> None:
        """Find out whether batches recorded as begun were submitted."""
        assert self._record is not None
        for batch in list(self._record.batches.values()):
            service = self._services.get(batch.service)
            if batch.state != "begun" or service is None:
                continue
            recorded_ids = {other.id for other in self._record.batches.values() if other.id is not None}
            batch_id = await service.find(batch, recorded_ids)
            if batch_id is None:
                self._record.over(batch, "absent")
                continue
            log.warning("the batch %s was submitted when this run ended: it is %s", batch.name, batch_id)
            self._submitted(batch, batch_id)
            for line_id in batch.ids:
                self._queued[batch.service].pop(line_id, None)

    async def _submit(self) -> None:
        assert self._record is not None
        queued, self._queued = self._queued, defaultdict(dict)
        for name, lines in queued.items():
            service = self._services[name]
            for part in _parts(lines, service.most_requests, service.most_bytes):
                batch = self._record.begin(name, list(part))
                self._submitted(batch, await service.submit(batch.name, list(part.values())))

    def _submitted(self, batch: RecordedBatch, batch_id: str) -> None:
        assert self._record is not None
        self._record.submitted(batch, batch_id)
        self._open.update(dict.fromkeys(batch.ids, batch))

    async def _collect(self) -> None:
        """Wait until a batch has ended or there is more to submit; WaitingError after the maximum wait."""
        loop = asyncio.get_running_loop()
        while batches := dict.fromkeys(self._open[line_id] for line_id in self._asked if line_id in self._open):
            done, ended = 0, False
            for batch in batches:
                assert batch.id is not None
                state = await self._services[batch.service].look(batch.id)
                done += state.done
                if state.ended:
                    ended = True
                    await self._take(batch, batch.id, state)
            if ended:
                return
            self._until = self._until or loop.time() + self._config.wait_s
            left = self._until - loop.time()
            if left <= 0:
                raise WaitingError(_waiting(batches, done))
            self._touched.clear()
            try:
                async with asyncio.timeout(min(self._config.poll_s, left)):
                    await self._touched.wait()
            except TimeoutError:
                continue
            return

    async def _take(self, batch: RecordedBatch, batch_id: str, state: BatchState) -> None:
        """Collect a batch that has ended and deliver its replies to the waiting requests."""
        assert self._record is not None
        service = self._services[batch.service]
        for line_id in batch.ids:
            self._open.pop(line_id, None)
        if state.fault:
            self._record.over(batch, "failed")
            hint = "nothing of it is paid for; `resume` submits it again"
            raise InfrastructureError(f"{service.name}: the batch {batch_id} failed: {state.fault}", hint)
        replies = _matched(batch, await service.replies(batch_id))
        cancelled = state.status == "cancelled"
        if not cancelled:
            why = f"the batch {batch_id} has ended ({state.status}) without a reply to it"
            replies |= {line: BatchReply(line, None, problem=why) for line in batch.ids if line not in replies}
        self._record.collected(batch, state.status, replies.values())
        for line_id, reply in replies.items():
            turn = self._asked.get(line_id)
            if turn is not None and not turn.done():
                turn.set_result(reply)
        if cancelled:
            what = (
                f"{service.name}: the batch {batch_id} was cancelled after {len(replies)} of {len(batch.ids)} replies"
            )
            raise InfrastructureError(what, "these are kept; `resume` submits the others again")


def _matched(batch: RecordedBatch, replies: Sequence[BatchReply]) -> dict[str, BatchReply]:
    """Return the replies by request id, without those to unknown ids and duplicates."""
    ids, by_id, unknown, twice = set(batch.ids), dict[str, BatchReply](), 0, 0
    for reply in replies:
        if reply.id not in ids:
            unknown += 1
        elif reply.id in by_id:
            twice += 1
        else:
            by_id[reply.id] = reply
    if unknown or twice:
        what = "the batch %s (%s) has %d replies to requests that are not its own and %d second replies, all unused"
        log.warning(what, batch.name, batch.id, unknown, twice)
    return by_id


def _parts(lines: Mapping[str, bytes], most_requests: int, most_bytes: int) -> Iterator[dict[str, bytes]]:
    """Split the lines into parts that each fit into a batch."""
    part, size = dict[str, bytes](), 0
    for line_id, line in lines.items():
        if part and (len(part) == most_requests or size + len(line) > most_bytes):
            yield part
            part, size = {}, 0
        part[line_id] = line
        size += len(line)
    if part:
        yield part


def _waiting(batches: Collection[RecordedBatch], done: int) -> str:
    of = sum(len(batch.ids) for batch in batches)
    services = ", ".join(dict.fromkeys(batch.service for batch in batches))
    ids = ", ".join(str(batch.id) for batch in batches)
    counted = "a batch" if len(batches) == 1 else f"{len(batches)} batches"
    return f"waiting for {counted} of {services}: {done:,} of {of:,} requests are done ({ids})"
