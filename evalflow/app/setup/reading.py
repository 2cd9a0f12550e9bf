"""The cases of a run, gone over several times: to check them, to score them and to report on them."""

from __future__ import annotations

from collections.abc import Iterator

from evalflow import datasets
from evalflow.app.comparison.baseline_answers import BaselineAnswers
from evalflow.app.setup.select import offered
from evalflow.config.schema import RunConfig
from evalflow.records import Case

KEPT_BYTES = 8 * 2**20
"""Files of up to this size together are read once."""
KEPT_CASES = 10_000
"""So are up to this many cases: one takes a kilobyte even where nothing is in it."""


class Reading:
    """All cases that a run's data offer, in input order, as often as it is iterated over.

    Small data are read once and kept, so that what is scored is what was checked. Larger data are streamed from their
    files each time, in bounded memory.

    Args:
        run: Whose data.
        others: The baseline's answers, for metrics that compare with them.
    """

    def __init__(self, run: RunConfig, others: BaselineAnswers | None = None) -> None:
        self._run = run
        self._others = others
        self._kept: list[Case] | None = None

    def __iter__(self) -> Iterator[Case]:
        return self._read() if self._kept is None else iter(self._kept)

    def _read(self) -> Iterator[Case]:
        kept: list[Case] | None = [] if self._are_small() else None
        for one in offered(self._run):
            case = self._others.beside(one) if self._others else one
            if kept is not None:
                kept.append(case)
                if len(kept) > KEPT_CASES:
                    kept = None
            yield case
        self._kept = kept

    def _are_small(self) -> bool:
        sizes = [datasets.text_bytes(config) for config in self._run.dataset.values()]
        return sum(sizes) <= KEPT_BYTES
