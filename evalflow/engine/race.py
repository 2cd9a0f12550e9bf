"""Looks at the difference of two configurations that are asked the same cases, turn by turn."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from evalflow.engine.looks import Cells, Course, Data, LookedMetric, Looks
from evalflow.lazy import np
from evalflow.records import Case, ScoreRecord
from evalflow.stats.arrays import CONFIDENCE
from evalflow.stats.looks import LimitTest, anytime_interval
from evalflow.stats.paired import Difference

A, B = "A", "B"


class RaceLooks(Looks["_RaceCourse"]):
    """The looks at the mean difference B - A of one metric in 0..1, at any time. The race stops once it is decided.

    `cells` are a case's scores in A, and in B. Each dataset is decided by itself, together at 95 %; so is, with a
    margin, a difference of at most this size in either direction.
    """

    def __init__(self, cells: tuple[int, int], datasets: Sequence[str], margin: float | None) -> None:
        super().__init__([LookedMetric(side, n, datasets) for side, n in zip((A, B), cells, strict=True)], stops=True)
        self._margin = margin

    def note_of(self, side: str, score: ScoreRecord) -> None:
        """Record a finished score of side A or B."""
        if score.member_of is None:
            self.add(score.dataset, score.case_id, side, score.status, score.score)

    def results(self) -> dict[str, tuple[Difference, bool]]:
        """Return, by dataset, the difference so far and whether it was shown to be within the margin."""
        return {dataset: (course.difference(), course.within_margin) for dataset, course in self._all()}

    def _begin(self, data: Data) -> Mapping[str, Sequence[_RaceCourse]]:
        datasets = [dataset for dataset in data.cases if dataset in self.metrics[A].datasets]
        level = 1 - (1 - CONFIDENCE) / max(1, len(datasets))
        return {
            dataset: [_RaceCourse(data.cases[dataset], data.largest_group(dataset), self._margin, level)]
            for dataset in datasets
        }


class _RaceCourse(Course):
    """The differences of one dataset, as numbers in 0..1: (1 + B - A) / 2."""

    def __init__(self, cases: int, largest: int, margin: float | None, level: float) -> None:
        super().__init__(cases, largest)
        self._a, self._b = array("d"), array("d")
        limits = (0.5,) if margin is None else (0.5, (1 - margin) / 2, (1 + margin) / 2)
        self._tests = [LimitTest(limit, level=level, largest=largest) for limit in limits]

    @property
    def within_margin(self) -> bool:
        return [test.verdict for test in self._tests[1:]] == ["above", "below"]

    @property
    def decided(self) -> bool:
        return self.within_margin or self._tests[0].verdict is not None

    def difference(self) -> Difference:
        """The difference of the cases so far, with an interval and a p-value that hold at every look."""
        if not self._values:
            return Difference(0, 0, method="none: no common cases")
        a, b = float(np.mean(self._a)), float(np.mean(self._b))
        interval = anytime_interval(self._values, self._clusters, largest=self._largest)
        if interval.low is None or interval.high is None:
            return Difference(len(self._values), self._units, a, b, b - a, method=interval.method)
        ends = 2 * interval.low - 1, 2 * interval.high - 1
        method = f"{interval.method}: {self._after()}"
        p = self._tests[0].p_value
        return Difference(len(self._values), self._units, a, b, b - a, None, None, *ends, p, method)

    def _value(self, case: Case, cells: Cells) -> float | None:
        a, b = (_mean(cells.get(side, ())) for side in (A, B))
        if a is None or b is None:
            return None
        self._a.append(a)
        self._b.append(b)
        return (1 + b - a) / 2

    def _look(self, values: Sequence[float]) -> None:
        for test in self._tests if values else ():
            test.add(sum(values), len(values))


def _mean(cells: Sequence[tuple[str, float | None]]) -> float | None:
    scores = [score for _, score in cells if score is not None]
    return sum(scores) / len(scores) if scores else None
