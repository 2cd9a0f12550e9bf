"""Recorded answers, and generated ones where a recorded answer is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evalflow.errors import CallError
from evalflow.protocols import Target
from evalflow.records import RECORDED_FAILURE, Answer, Case
from evalflow.targets.reply import Form


class RecordedTarget:
    """Returns the recorded answers; with `demo` the example answers, to try metrics before there is a target."""

    def __init__(self, name: str, *, demo: bool = False) -> None:
        self.name = name
        self.identity = "demo" if demo else "recorded"
        self._demo = demo

    async def answer(self, case: Case, repeat: int) -> Answer:
        return recorded_answer(case, self.name, repeat, demo=self._demo)

    async def close(self) -> None:
        """Nothing to release."""


def recorded_answer(case: Case, target: str, repeat: int, *, demo: bool = False) -> Answer:
    """The recorded answer of a case; in state `error` if the data says that recording failed.

    With `demo` it is the example answer with its own metadata: what was recorded with another answer does not apply.
    """
    example = case.demo_answer
    answer = (example.content if example else None) if demo else case.answer
    actual = None if demo else case.actual
    metadata = (example.metadata if example else None) or {} if demo else case.metadata
    failure = None if demo else case.failure
    # Not by `replace` of a blank one, which takes several times as long, and every case comes here often.
    return Answer(
        dataset=case.dataset,
        index=case.index,
        case_id=case.id,
        target=target,
        target_repeat=repeat,
        messages=case.messages,
        status="error" if failure is not None else "absent" if answer is None and actual is None else "answered",
        answer=answer,
        actual=actual,
        contexts=case.contexts,
        metadata=metadata,
        error_type=None if failure is None else RECORDED_FAILURE,
        error=failure,
    )


def blank(case: Case, target: str, repeat: int) -> Answer:
    """An answer with only the case's identity, to be filled in."""
    return Answer(
        dataset=case.dataset,
        index=case.index,
        case_id=case.id,
        target=target,
        target_repeat=repeat,
        messages=case.messages,
    )


def failed(answer: Answer, error: CallError) -> Answer:
    """The answer in state `error`, including the cost of the failed call."""
    answer = replace(answer, status="error", error_type=error.error_type, error=str(error))
    return error.spend.fill(answer) if error.spend else answer


class MissingTarget:
    """Asks the live target only if the data has no answer. Its name has both names, since it has answers of both."""

    def __init__(self, live: Target, forms: Mapping[str, Form]) -> None:
        self.name = f"recorded+{live.name}"
        self.identity = f"recorded+{live.identity}"
        self._live = live
        self._forms = forms

    async def answer(self, case: Case, repeat: int) -> Answer:
        if getattr(case, self._forms[case.dataset].generates) is not None:
            return recorded_answer(case, self.name, repeat)
        return replace(await self._live.answer(case, repeat), target=self.name)

    async def close(self) -> None:
        await self._live.close()
