"""The answers that stand in the data: what was recorded, or the example answers of `generate: demo`."""

from __future__ import annotations

from evalflow.records import RECORDED_FAILURE, Answer, Case


class RecordedTarget:
    """Gives what stands in the data; a case that has nothing is `absent`.

    Args:
        name: The column value.
        demo: Give the example answers, to try metrics on before there is a target.
    """

    def __init__(self, name: str, *, demo: bool = False) -> None:
        self._name = name
        self._demo = demo

    @property
    def name(self) -> str:
        """The column value."""
        return self._name

    @property
    def identity(self) -> str:
        """Which of the data's answers; the data themselves are in the manifest."""
        return "demo" if self._demo else "recorded"

    async def answer(self, case: Case, repeat: int) -> Answer:
        """The case's own answer."""
        return recorded_answer(case, self._name, repeat, demo=self._demo)

    async def close(self) -> None:
        """Nothing to release."""


def recorded_answer(case: Case, target: str, repeat: int, *, demo: bool = False) -> Answer:
    """The answer that a case brings along; one in state `error` where the data says that recording it failed.

    Args:
        case: The case.
        target: The column value.
        repeat: The target's repeat; each has the same answer.
        demo: The example answer with its metadata, instead of the recorded answer, prediction and metadata. An example
            without any came with nothing ({}): what was recorded beside another answer says nothing of it.
    """
    example = case.demo_answer
    answer = (example.content if example else None) if demo else case.answer
    actual = None if demo else case.actual
    metadata = (example.metadata if example else None) or {} if demo else case.metadata
    failure = None if demo else case.failure
    status = "error" if failure is not None else "absent" if answer is None and actual is None else "answered"
    return Answer(
        dataset=case.dataset,
        index=case.index,
        case_id=case.id,
        target=target,
        target_repeat=repeat,
        status=status,
        messages=case.messages,
        answer=answer,
        actual=actual,
        contexts=case.contexts,
        metadata=metadata,
        error_type=None if failure is None else RECORDED_FAILURE,
        error=failure,
    )
