"""Sends calls as requests of batches, as `Gateway` sends them directly."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from typing import TypeVar

from evalflow.calls import faults
from evalflow.calls.batch_record import BatchReply
from evalflow.calls.batches import BatchQueue, BatchService
from evalflow.calls.budget import Account, Amount
from evalflow.calls.client import Billed, MalformedReply, call_error, spent_on
from evalflow.calls.faults import CallFault
from evalflow.calls.http import HttpRequest, Response
from evalflow.errors import InfrastructureError

UNKNOWN_S = -1.0  # the latency of a reply by batch
T = TypeVar("T", bound=Billed)


class BatchGateway:
    """Sends the calls of one judge or target by batch; `account` is charged for each try."""

    def __init__(
        self, queue: BatchQueue, service: BatchService, account: Account | None, attempts: int, key_hint: str
    ) -> None:
        self._queue = queue
        self._service = service
        self._account = account
        self._attempts = attempts
        self._key_hint = key_hint

    async def send(self, request: HttpRequest, decode: Callable[[Response], T], key: bytes, turn: int) -> T:
        """Return the decoded reply to a request; after a transient fault it is put into another batch.

        A request is identified by the cache key of its value and its turn among the requests for that value, so that a
        resumed run finds the same reply. Errors as in `Gateway.send`, and WaitingError.
        """
        account = self._account
        for attempt in itertools.count(1):
            reserved = await account.reserve(request) if account else None
            spent = reserved
            try:
                reply = await self._queue.ask(self._service, _line_id(key, request, turn, attempt), request.body or b"")
                outcome = _read(reply, decode)
                if account and reserved:
                    spent = Amount() if reply.status is None else spent_on(account, outcome, reserved)
            finally:
                if account and reserved and spent:
                    account.budget.settle(reserved, spent)
            if not isinstance(outcome, CallFault):
                return outcome
            if outcome.decision == "stop":
                hint = self._key_hint if outcome.error_type == "authentication" else outcome.hint
                error = InfrastructureError(f"{self._service.name}: {outcome.message}", hint)
                error.refusal = outcome.refusal
                raise error
            if outcome.decision == "give_up":
                raise call_error(outcome, outcome.message, None)
            if attempt == self._attempts:
                raise call_error(outcome, f"{outcome.message} (after {attempt} tries)", None)
        raise AssertionError("unreachable")


def _line_id(key: bytes, request: HttpRequest, turn: int, attempt: int) -> str:
    """Return the id of a request in its batch: 64 letters and digits, Anthropic's maximum."""
    if turn == 0 and attempt == 1:
        return key.hex()
    return hashlib.sha256(b"%b %d %d " % (key, turn, attempt) + (request.body or b"")).hexdigest()


def _read(reply: BatchReply, decode: Callable[[Response], T]) -> T | CallFault:
    if reply.status is None:
        return CallFault("retry", "expired", reply.problem, unreachable=True)
    response = Response(reply.status, {}, reply.body, UNKNOWN_S)
    if not 200 <= reply.status < 300:
        return faults.of_status(response)
    try:
        return decode(response)
    except MalformedReply as error:
        return faults.of_malformed(response, str(error))
