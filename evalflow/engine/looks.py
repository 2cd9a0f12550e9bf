"""Look at finished scores while cases are run in random order; a look may end a run before its last case.

A look uses only the cases up to the first unfinished one. Those that happen to be finished are not a random sample:
short answers come sooner than long ones.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from evalflow.datasets import tag_levels
from evalflow.engine.plan import shuffled
from evalflow.lazy import pl
from evalflow.records import Case, Direction, ScoreRecord

Cells = Mapping[str, Sequence[tuple[str, float | None]]]  # the state and score of each of a case's cells, by metric


@dataclass(frozen=True, slots=True)
class LookedMetric:
    """A metric that gates look at: how many scores each case has of it, and its datasets.

    A case passes from the threshold on (inclusive); None if the metric has none.
    """

    name: str
    cells: int
    datasets: Collection[str]
    threshold: float | None = None
    direction: Direction = "higher_is_better"


class Course:
    """The sequence of looks at one question on one dataset."""

    def __init__(self, cases: int, largest: int) -> None:
        self._cases, self._largest = cases, largest
        self._values, self._groups = array("d"), array("q")
        self._seen = self._units = 0

    @property
    def decided(self) -> bool:
        raise NotImplementedError

    def add(self, unit: Sequence[Case], cells: Sequence[Cells]) -> None:
        """Add a case, or all cases of a group, in the order in which they were drawn."""
        self._seen += len(unit)
        scores = [self._value(case, own) for case, own in zip(unit, cells, strict=True)]
        values = [value for value in scores if value is not None]
        self._units += bool(values)
        self._values.extend(values)
        self._groups.extend([self._units] * len(values))
        self._look(values)

    def _value(self, case: Case, cells: Cells) -> float | None:
        """Return a case's value in 0..1; None if it has none."""
        raise NotImplementedError

    def _look(self, values: Sequence[float]) -> None:
        """Look after these values of one unit, if a look is due."""
        raise NotImplementedError

    @property
    def _clusters(self) -> array[int] | None:
        return self._groups if self._largest > 1 else None

    def _after(self) -> str:
        return f"after {self._seen:,} of {self._cases:,} cases"


AnyCourse = TypeVar("AnyCourse", bound=Course)


class Looks(Generic[AnyCourse]):
    """All looks at a run, at the `metrics` by name; a subclass says at what."""

    def __init__(self, metrics: Iterable[LookedMetric], *, stops: bool) -> None:
        self.metrics = {metric.name: metric for metric in metrics}
        self._stops = stops
        self._courses: Mapping[str, Sequence[AnyCourse]] = {}
        self._expected: Mapping[str, Sequence[tuple[str, int]]] = {}
        self._cells: defaultdict[tuple[str, str], defaultdict[str, list[tuple[str, float | None]]]]
        self._cells = defaultdict(lambda: defaultdict(list))
        self._begun: set[tuple[str, str]] = set()
        self._most: int | None = None
        self._waiting = deque[Case]()
        self._unit: list[Case] = []
        self._all_drawn = self._left_out = False

    def _begin(self, data: Data) -> Mapping[str, Sequence[AnyCourse]]:
        """The courses of each dataset, once the data are known."""
        raise NotImplementedError

    def begun(self, cases: Iterable[tuple[str, str]], most: int | None = None) -> None:
        """Name the cases (dataset, id) that an earlier part of the run has begun: they are finished before it stops.

        If that part was stopped after `most` cases, no further case is asked.
        """
        self._begun.update(cases)
        self._most = most

    def note(self, score: ScoreRecord) -> None:
        """Take a finished score of one of `metrics`."""
        if score.member_of is None:
            self.add(score.dataset, score.case_id, score.metric, score.status, score.score)

    def add(self, dataset: str, case_id: str, metric: str, status: str, score: float | None) -> None:
        """Like `note`, from the columns of a score; not for scores of a panel's members."""
        self._cells[dataset, case_id][metric].append((status, score))
        if self._waiting and (dataset, case_id) == _key(self._waiting[0]):
            self._advance()

    def note_all(self, scores: pl.LazyFrame) -> None:
        """Take finished scores from a table with a row for each cell."""
        own = pl.col("metric").is_in(list(self.metrics)) & pl.col("member_of").is_null()
        rows = scores.filter(own).select("dataset", "case_id", "metric", "status", "score")
        for row in rows.collect(engine="streaming").iter_rows():
            self.add(*row)

    def follow(self, cases: Iterable[Case], seed: int) -> Iterator[Case]:
        """The cases in the random order of the seed; only until everything is decided if that stops the run."""
        data = Data()
        for number, case in enumerate(shuffled(data.counting(cases), seed)):
            self._courses = self._courses or self._begin(data)
            self._expected = self._expected or {name: self._cells_of(name) for name in data.cases}
            if number == self._most or (self._stops and self.decided and not self._begun):
                self._left_out = True
                return
            self._begun.discard(_key(case))
            self._waiting.append(case)
            self._advance()
            yield case
        self._all_drawn = True
        self._advance()

    def look_again(self, cases: Iterable[Case], seed: int) -> None:
        """Look at scores that are all noted, up to the first case that lacks one."""
        for _ in self.follow(cases, seed):
            if self._waiting:
                return

    @property
    def decided(self) -> bool:
        """Whether everything is decided, on all datasets."""
        courses = self._all()
        return bool(courses) and all(course.decided for _, course in courses)

    @property
    def stopped(self) -> bool:
        """Whether cases were left out because everything was decided."""
        return self._left_out and self.decided

    def _all(self) -> list[tuple[str, AnyCourse]]:
        return [(dataset, course) for dataset, own in self._courses.items() for course in own]

    def _advance(self) -> None:
        """Pass on the cases up to the first unfinished one; those of a group together, once all are finished."""
        while True:
            if self._unit and self._is_whole():
                cells: list[Cells] = [self._cells.pop(_key(case), {}) for case in self._unit]
                for course in self._courses.get(self._unit[0].dataset, ()):
                    course.add(self._unit, cells)
                self._unit = []
            if not self._waiting or not self._is_finished(self._waiting[0]):
                return
            self._unit.append(self._waiting.popleft())

    def _cells_of(self, dataset: str) -> list[tuple[str, int]]:
        """Each metric that scores the dataset's cases, with its scores of a case."""
        return [(metric.name, metric.cells) for metric in self.metrics.values() if dataset in metric.datasets]

    def _is_whole(self) -> bool:
        last = self._unit[-1]
        if last.group is None:
            return True
        following = self._waiting[0] if self._waiting else None
        return self._all_drawn if following is None else _group(following) != _group(last)

    def _is_finished(self, case: Case) -> bool:
        cells = self._cells[_key(case)]
        return all(len(cells[name]) >= count for name, count in self._expected[case.dataset])


def _key(case: Case) -> tuple[str, str]:
    return case.dataset, case.id


def _group(case: Case) -> tuple[str, str | None]:
    return case.dataset, case.group


class Data:
    """Facts about the data that looks need before the first one, by dataset: cases, tags, and the largest group."""

    def __init__(self) -> None:
        self.cases = Counter[str]()
        self.tags: defaultdict[str, set[str]] = defaultdict(set)
        self._groups: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def counting(self, cases: Iterable[Case]) -> Iterator[Case]:
        for case in cases:
            self.cases[case.dataset] += 1
            if case.tags:
                self.tags[case.dataset].update(level for tag in case.tags for level in tag_levels(tag))
            if case.group is not None:
                self._groups[case.dataset][case.group] += 1
            yield case

    def largest_group(self, dataset: str) -> int:
        return max(self._groups[dataset].values(), default=1)
