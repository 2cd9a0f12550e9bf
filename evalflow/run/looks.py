"""Looks at a run's gates while its cases are asked in random order, and the end of the run once all are decided.

A look uses only the cases up to the first unfinished one. Those that happen to be finished are no random sample: short
answers come sooner than long ones.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from evalflow.datasets import tag_levels
from evalflow.frozen import record
from evalflow.lazy import np, pl
from evalflow.records import Case, ScoreRecord, passes
from evalflow.run.plan import shuffled
from evalflow.summary.gates import Gate, Looked

if TYPE_CHECKING:
    from evalflow.records import Direction

_Cells = defaultdict[str, list[tuple[str, float | None]]]
"""The state and score of a case's finished cells, by metric."""


@record()
class LookedMetric:
    """A metric that gates look at.

    Attributes:
        cells: How many scores each case has of it.
        datasets: The datasets whose cases it scores.
        threshold: The score from which on a case passes (inclusive); None if the metric has none.
    """

    name: str
    cells: int
    datasets: Collection[str]
    threshold: float | None = None
    direction: Direction = "higher_is_better"


class Looks:
    """The looks at all gates that have any.

    Attributes:
        metrics: The metrics that are looked at, by name.
    """

    def __init__(self, gates: Iterable[Gate], metrics: Iterable[LookedMetric], *, stops: bool = False) -> None:
        self.metrics = {metric.name: metric for metric in metrics}
        self._gates = [gate for gate in gates if gate.looks is not None]
        self._stops = stops
        self._courses: dict[str, list[_Course]] = {}
        self._cells: defaultdict[tuple[str, str], _Cells] = defaultdict(lambda: defaultdict(list))
        self._begun: set[tuple[str, str]] = set()
        self._most: int | None = None
        self._waiting = deque[Case]()
        self._unit: list[Case] = []
        self._all_drawn = self._left_out = False

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
        """The same as `note`, by the columns of a score; none of a panel's members."""
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
        """The cases in the random order of the seed; only until all gates are decided if these stop the run."""
        data = _Data()
        for number, case in enumerate(shuffled(data.counting(cases), seed)):
            self._courses = self._courses or self._begin(data)
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
        """Whether every gate is decided, on all of its datasets."""
        courses = [course for own in self._courses.values() for course in own]
        every_gate = len({course.gate for course in courses}) == len(self._gates)
        return every_gate and all(course.passed is not None for course in courses)

    @property
    def stopped(self) -> bool:
        """Whether cases were left out, all gates being decided."""
        return self._left_out and self.decided

    def results(self) -> dict[tuple[Gate, str], Looked]:
        """The last look at each gate, by gate and dataset."""
        courses = ((dataset, course) for dataset, own in self._courses.items() for course in own)
        return {(course.gate, dataset): course.looked() for dataset, course in courses}

    def _begin(self, data: _Data) -> dict[str, list[_Course]]:
        courses: defaultdict[str, list[_Course]] = defaultdict(list)
        for gate in self._gates:
            metric = self.metrics[str(gate.metric)]
            kind = _AnytimeCourse if gate.looks == "anytime" else _PlannedCourse
            for dataset in data.cases:
                if dataset in metric.datasets and (gate.tag is None or gate.tag in data.tags[dataset]):
                    courses[dataset].append(kind(gate, metric, data.cases[dataset], data.largest_group(dataset)))
        return courses

    def _advance(self) -> None:
        """Pass on the cases up to the first unfinished one; those of a group together, once all are finished."""
        while True:
            if self._unit and self._is_whole():
                cells = [self._cells.pop(_key(case), _Cells(list)) for case in self._unit]
                for course in self._courses[self._unit[0].dataset]:
                    course.add(self._unit, cells)
                self._unit = []
            if not self._waiting or not self._is_finished(self._waiting[0]):
                return
            self._unit.append(self._waiting.popleft())

    def _is_whole(self) -> bool:
        last = self._unit[-1]
        if last.group is None:
            return True
        following = self._waiting[0] if self._waiting else None
        return self._all_drawn if following is None else _group(following) != _group(last)

    def _is_finished(self, case: Case) -> bool:
        cells = self._cells[_key(case)]
        own = (metric for metric in self.metrics.values() if case.dataset in metric.datasets)
        return all(len(cells[metric.name]) >= metric.cells for metric in own)


def _key(case: Case) -> tuple[str, str]:
    return case.dataset, case.id


def _group(case: Case) -> tuple[str, str | None]:
    return case.dataset, case.group


class _Data:
    """What looks need to know of the data before the first one, by dataset: cases, tags, and the largest group."""

    def __init__(self) -> None:
        self.cases = Counter[str]()
        self.tags: defaultdict[str, set[str]] = defaultdict(set)
        self._groups: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def counting(self, cases: Iterable[Case]) -> Iterator[Case]:
        for case in cases:
            self.cases[case.dataset] += 1
            self.tags[case.dataset].update(level for tag in case.tags for level in tag_levels(tag))
            if case.group is not None:
                self._groups[case.dataset][case.group] += 1
            yield case

    def largest_group(self, dataset: str) -> int:
        return max(self._groups[dataset].values(), default=1)


class _Course:
    """The looks at one gate on one dataset.

    Attributes:
        passed: The decision, which stays once it is made; None as long as there is none.
    """

    def __init__(self, gate: Gate, metric: LookedMetric, cases: int, largest: int) -> None:
        self.gate = gate
        self._metric = metric
        self._cases, self._largest = cases, largest
        self._values, self._groups = array("d"), array("q")
        self._seen = self._units = 0
        self._states = Counter[str]()
        self._verdict: bool | None = None

    @property
    def passed(self) -> bool | None:
        expected = self._states.total() - self._states["skipped"]
        undefined = self._states["undefined"] / expected if expected else 0.0
        few = passes(undefined, self.gate.max_undefined_rate, higher_is_better=False)
        return self._verdict if few else None

    def add(self, unit: Sequence[Case], cells: Sequence[Mapping[str, Sequence[tuple[str, float | None]]]]) -> None:
        """Add a case, or all cases of a group, in the order in which they were drawn."""
        self._seen += len(unit)
        self._units += 1
        values = [value for case, own in zip(unit, cells, strict=True) if (value := self._value(case, own)) is not None]
        self._values.extend(values)
        self._groups.extend([self._units] * len(values))
        self._look(values)

    def looked(self) -> Looked:
        raise NotImplementedError

    def _look(self, values: Sequence[float]) -> None:
        """Look after these values of one unit, if a look is due."""
        raise NotImplementedError

    def _value(self, case: Case, cells: Mapping[str, Sequence[tuple[str, float | None]]]) -> float | None:
        """The mean of a case's repeats; None if it has no score or lacks the gate's tag."""
        if self.gate.tag is not None and not any(self.gate.tag in tag_levels(tag) for tag in case.tags):
            return None
        own = cells.get(self._metric.name, ())
        self._states.update(status for status, _ in own)
        scores = [score for _, score in own if score is not None]
        if self.gate.statistic != "mean":
            higher = self._metric.direction == "higher_is_better"
            scores = [float(passes(score, self._metric.threshold, higher_is_better=higher)) for score in scores]
        return sum(scores) / len(scores) if scores else None

    @property
    def _clusters(self) -> array[int] | None:
        return self._groups if self._largest > 1 else None

    def _after(self) -> str:
        return f"after {self._seen:,} of {self._cases:,} cases"


class _AnytimeCourse(_Course):
    def __init__(self, gate: Gate, metric: LookedMetric, cases: int, largest: int) -> None:
        from evalflow.stats.looks import LimitTest

        super().__init__(gate, metric, cases, largest)
        self._test = LimitTest(gate.condition.limit, largest=largest)

    def _look(self, values: Sequence[float]) -> None:
        if not values or self._verdict is not None:
            return
        self._test.add(sum(values), len(values))
        if self._test.verdict is not None:
            self._verdict = (self._test.verdict == "above") == (self.gate.condition.operator in (">=", ">"))

    def looked(self) -> Looked:
        from evalflow.stats.looks import anytime_interval

        found = anytime_interval(self._values, self._clusters, largest=self._largest)
        value = float(np.mean(self._values)) if self._values else None
        text = f"looks at any time: {found.method}, {self._after()}"
        return Looked(value, found.low, found.high, self.passed, text)


class _PlannedCourse(_Course):
    _done = 0
    _last: Looked | None = None

    def _look(self, values: Sequence[float]) -> None:
        looks = int(self.gate.looks or 1)
        due = looks * self._seen // self._cases
        if due > self._done and self._verdict is None and self._values:
            from evalflow.stats.looks import planned_interval

            self._done = due
            found = planned_interval(self._values, self._clusters, look=due, looks=looks)
            if found.low is not None and found.high is not None:
                self._verdict = self.gate.condition.decided_by(found.low, found.high)
            text = f"look {due} of {looks}: {found.method}, {self._after()}"
            self._last = Looked(float(np.mean(self._values)), found.low, found.high, None, text)

    def looked(self) -> Looked:
        from dataclasses import replace

        if self._last is None:
            first = -(-self._cases // int(self.gate.looks or 1))
            return Looked(None, None, None, None, f"no look yet: the first is after {first:,} cases, {self._after()}")
        return replace(self._last, passed=self.passed)
