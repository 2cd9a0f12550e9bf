"""Recorded answers, and generated ones where a recorded answer is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evalflow.errors import CallError, TargetError
from evalflow.llm.finish_reasons import finish_reason
from evalflow.protocols import Target
from evalflow.records import RECORDED_FAILURE, Answer, Case
from evalflow.targets.answer_step import AnswerStep
from evalflow.targets.reply import Form


class RecordedTarget:
    """Returns the recorded answers; with `demo` the example answers, to try metrics before there is a target."""

    def __init__(
        self, name: str, forms: Mapping[str, Form] | None = None, step: AnswerStep | None = None, *, demo: bool = False
    ) -> None:
        self.name = name
        self._step = step or AnswerStep()
        self.identity = self._step.identity("demo" if demo else "recorded")
        self._forms = forms or {}
        self._demo = demo

    async def answer(self, case: Case, repeat: int) -> Answer:
        answer = recorded_answer(case, self.name, repeat, demo=self._demo)
        return self._step.applied(answer, self._forms.get(case.dataset, Form()).generates)

    async def close(self) -> None:
        """Nothing to release."""


def recorded_answer(case: Case, target: str, repeat: int, *, demo: bool = False) -> Answer:
    """The recorded answer of a case; in state `error` if the data says that recording failed.

    Its columns finish_reason, thoughts and full_answer, which a run's cases.jsonl has, are those of the answer.
    With `demo` it is the example answer with its own metadata: what was recorded with another answer does not apply.
    """
    example = case.demo_answer
    answer = (example.content if example else None) if demo else case.answer
    actual = None if demo else case.actual
    metadata = (example.metadata if example else None) or {} if demo else case.metadata
    failure, about = None if demo else case.failure, case.vars
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
        finish_reason=None if demo else finish_reason(about.get("finish_reason")),
        thoughts=None if demo else _text(about.get("thoughts")),
        full_answer=None if demo else _text(about.get("full_answer")),
        recorded=not demo,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def blank(case: Case, target: str, repeat: int) -> Answer:
    """An answer with only the case's identity, to be filled in.

    Example:
        >>> from dataclasses import replace
        >>> case = Case(dataset="rag", index=0, id="a", messages=(Message("user", "Well?"),))
        >>> replace(blank(case, "echo", 0), status="answered", answer="Well?").case_id
        'a'
    """
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
    ended = error.finish_reason if isinstance(error, TargetError) else None
    answer = replace(answer, status="error", error_type=error.error_type, error=str(error), finish_reason=ended)
    return error.spend.fill(answer) if error.spend else answer


class MissingTarget:
    """Asks the live target only if the data has no answer. Its name has both names, since it has answers of both."""

    def __init__(self, live: Target, forms: Mapping[str, Form], step: AnswerStep | None = None) -> None:
        self.name = f"recorded+{live.name}"
        self.identity = f"recorded+{live.identity}"
        self._live = live
        self._recorded = RecordedTarget(self.name, forms, step)
        self._forms = forms

    async def answer(self, case: Case, repeat: int) -> Answer:
        if getattr(case, self._forms[case.dataset].generates) is not None:
            return await self._recorded.answer(case, repeat)
        return replace(await self._live.answer(case, repeat), target=self.name)

    async def close(self) -> None:
        await self._live.close()
