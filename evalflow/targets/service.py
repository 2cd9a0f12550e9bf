"""What programs of one's own have in common as targets, however they are reached: JSON in, JSON out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from evalflow.apart import apart
from evalflow.calls.budget import Account
from evalflow.calls.entry import Entry, key_of
from evalflow.calls.once import Unreadable, short
from evalflow.calls.session import CallSession
from evalflow.config.targets import ReplyConfig
from evalflow.errors import CallError, Problem, TargetError, UserError
from evalflow.records import Answer, Case
from evalflow.targets.answers import blank, failed
from evalflow.targets.form import Form
from evalflow.targets.reply import ReplyReader, Said


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply as it came, and the seconds that it took.

    Attributes:
        body: The reply.
        latency_s: The seconds.
        aside: What else was said, to stand behind the error where the reply cannot be used.
    """

    body: bytes
    latency_s: float
    aside: str = ""


class Way(Protocol):
    """How a program is reached."""

    @property
    def identity(self) -> str:
        """All that decides its replies, beside what is sent."""
        ...

    def render(self, case: Case) -> bytes:
        """What is sent for a case.

        Raises:
            UserError: It cannot be made of this case.
        """
        ...

    async def ask(self, data: bytes) -> Heard:
        """Send it and wait for the reply.

        Raises:
            CallError: This call failed for good.
            InfrastructureError: Every further call would fail too.
            BudgetError: The budget does not cover it.
        """
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class ServiceTarget:
    """A program of one's own. What it costs is not known; its replies are remembered like a model's.

    Args:
        way: How it is reached.
        config: How its replies become answers.
        name: The column value.
        forms: By dataset, its own form, with the case field that a reply must have.
        session: Shared by all clients of a run.
    """

    def __init__(
        self, way: Way, config: ReplyConfig, name: str, forms: Mapping[str, Form], session: CallSession
    ) -> None:
        self._way = way
        self._reader = ReplyReader(config)
        self._mapping = config.model_dump(mode="json", include={"answer", "actual", "contexts", "metadata"})
        self._name = name
        self._forms = forms
        self._once = session.once

    @property
    def name(self) -> str:
        """The column value."""
        return self._name

    @property
    def identity(self) -> str:
        """A digest of all that decides its answers."""
        return digest([self._way.identity, self._mapping])

    async def answer(self, case: Case, repeat: int) -> Answer:
        """Ask the program; a failure is an answer in state `error`. See `Target`."""
        begun = blank(case, self._name, repeat)
        form = self._forms[case.dataset]
        try:
            data = self._way.render(case)
            key = key_of(self._way.identity, "", data, repeat)
            paid, recall = partial(self._paid, data, form), partial(self._recall, form)
            if self._once is None:
                (said, entry), known = (await paid())[0], False
            else:
                (said, entry), known = await self._once(key, paid, recall)
        except UserError as error:
            return replace(begun, status="error", error_type="prompt", error=str(error))
        except CallError as error:
            return replace(failed(begun, error), usage=None, cost_usd=None)
        return replace(
            begun,
            answer=said.answer,
            actual=said.actual,
            contexts=said.contexts,
            metadata=said.metadata,
            requests=0 if known else 1,
            cost_usd=0.0 if known else None,
            saved_usd=None if known else 0.0,
            paid=() if known else (short(key),),
            latency_s=entry.latency_s,
            cached=known,
        )

    async def close(self) -> None:
        """Let go of connections and processes."""
        await self._way.close()

    async def _paid(self, data: bytes, form: Form) -> tuple[tuple[Said, Entry], Entry]:
        """Ask for a reply; one that cannot be used is not to be remembered."""
        heard = await self._way.ask(data)
        read = partial(self._reader.read, heard.body, form)
        try:
            said = read() if self._reader.quick else await apart(read)
        except TargetError as error:
            told = f"{error}{heard.aside}"
            raise TargetError(error.error_type, told, error.raw, requests=1, latency_s=heard.latency_s) from None
        entry = Entry(body=heard.body, latency_s=heard.latency_s)
        return (said, entry), entry

    def _recall(self, form: Form, entry: Entry) -> tuple[Said, Entry]:
        try:
            return self._reader.read(entry.body, form), entry
        except TargetError as error:
            raise Unreadable(str(error)) from None


def digest(content: Any) -> str:
    """16 hexadecimal digits that equal contents share."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def account(session: CallSession) -> Account | None:
    """What calls are held against; None without a budget.

    Raises:
        UserError: A budget in dollars meets a target whose price nobody knows.
    """
    budget = session.budget
    if budget is None:
        return None
    if budget.limits.usd is not None and not budget.limits.allow_unpriced:
        what = "budget.usd is set, and what a call of this target costs is not known"
        hint = "budget.allow_unpriced=true counts its calls as free; budget.requests limits how many there are"
        raise UserError(Problem(what, "target", hint))
    return Account(budget, None, None)
