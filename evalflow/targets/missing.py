"""`generate: missing`: the recorded answer where there is one, a generated one where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evalflow.protocols import Target
from evalflow.records import Answer, Case
from evalflow.targets.form import Form
from evalflow.targets.recorded import RecordedTarget


class MissingTarget:
    """Asks the live target only for what the data lack. Its column value names both, since its answers are of both.

    Args:
        live: Who is asked.
        forms: By dataset, its form, with the case field that the live target fills.
    """

    def __init__(self, live: Target, forms: Mapping[str, Form]) -> None:
        self._live = live
        self._forms = forms
        self._recorded = RecordedTarget(self.name)

    @property
    def name(self) -> str:
        """The column value."""
        return f"recorded+{self._live.name}"

    @property
    def identity(self) -> str:
        """The live target's, marked."""
        return f"recorded+{self._live.identity}"

    async def answer(self, case: Case, repeat: int) -> Answer:
        """The recorded answer, else a generated one."""
        if getattr(case, self._forms[case.dataset].generates) is not None:
            return await self._recorded.answer(case, repeat)
        return replace(await self._live.answer(case, repeat), target=self.name)

    async def close(self) -> None:
        """Release the live target's connections."""
        await self._live.close()
