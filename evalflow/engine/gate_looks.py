"""Looks at a run's gates, by intervals that hold at every look."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evalflow.datasets import tag_levels
from evalflow.engine.looks import Cells, Course, Data, LookedMetric, Looks
from evalflow.lazy import np
from evalflow.records import Case, passes
from evalflow.summary.gates import Gate, Looked
from evalflow.summary.verdicts import against_limit

if TYPE_CHECKING:
    from evalflow.stats.stopping import Rule


class GateLooks(Looks["_GateCourse"]):
    """The looks at all gates that have any; together they may stop a run."""

    def __init__(self, gates: Iterable[Gate], metrics: Iterable[LookedMetric], *, stops: bool = False) -> None:
        super().__init__(metrics, stops=stops)
        self._gates = [gate for gate in gates if gate.looks is not None]

    @property
    def decided(self) -> bool:
        """Whether every gate is decided, on all of its datasets; a gate that concerns no case is not."""
        return super().decided and len({course.gate for _, course in self._all()}) == len(self._gates)

    def results(self, *, stopped: bool = False) -> dict[tuple[Gate, str], Looked]:
        """The last look at each gate, by gate and dataset; if they `stopped` the run, its means are corrected."""
        last_looks = {(course.gate, dataset): (course, course.looked()) for dataset, course in self._all()}
        return {
            key: replace(look, value=course.adjusted(look)) if stopped else look
            for key, (course, look) in last_looks.items()
        }

    def _begin(self, data: Data) -> Mapping[str, Sequence[_GateCourse]]:
        courses: defaultdict[str, list[_GateCourse]] = defaultdict(list)
        for gate in self._gates:
            metric = self.metrics[str(gate.metric)]
            kind = _AnytimeCourse if gate.looks == "anytime" else _PlannedCourse
            for dataset in data.cases:
                if dataset in metric.datasets and (gate.tag is None or gate.tag in data.tags[dataset]):
                    courses[dataset].append(kind(gate, metric, data.cases[dataset], data.largest_group(dataset)))
        return courses


class _GateCourse(Course):
    """The looks at one gate on one dataset; the decision stays once it is made.

    A decision must hold with cells in error at the lower end of the scale and at the upper end, so that it holds
    whatever their scores would be.
    """

    def __init__(self, gate: Gate, metric: LookedMetric, cases: int, largest: int) -> None:
        super().__init__(cases, largest)
        self.gate = gate
        self._metric = metric
        self._states = Counter[str]()
        self._verdict: bool | None = None
        self._in_error = 0  # cases with a cell in error
        self._bounds: list[tuple[float, float]] = []  # of the cases of the last unit
        self._deciding: int | None = None  # number of values at the decision

    @property
    def passed(self) -> bool | None:
        expected = self._states.total() - self._states["skipped"]
        undefined = self._states["undefined"] / expected if expected else 0.0
        few_undefined = passes(undefined, self.gate.max_undefined_rate, higher_is_better=False)
        return self._verdict if few_undefined else None

    @property
    def decided(self) -> bool:
        return self.passed is not None

    def looked(self) -> Looked:
        raise NotImplementedError

    def adjusted(self, look: Looked) -> float | None:
        """The mean within the look's interval, corrected for the bias of a stop at the decision."""
        if self._deciding is None or look.low is None or look.high is None:
            return look.value
        from evalflow.stats.stopping import adjusted_mean

        until, clusters = self._deciding, self._clusters
        expected = math.ceil(self._cases * len(self._values) / self._seen)
        mean = adjusted_mean(
            self._values[:until], None if clusters is None else clusters[:until], expected, self._rule(expected)
        )
        later = self._later(self._values[until:])
        value = (until * mean + sum(later)) / (until + len(later))
        return min(max(value, look.low), look.high)

    def _rule(self, expected: int) -> Rule:
        raise NotImplementedError

    def _later(self, values: Sequence[float]) -> Sequence[float]:
        """The values after the decision that count in the look's mean."""
        return values

    def _value(self, case: Case, cells: Cells) -> float | None:
        """The mean of a case's repeats; None if it has no score or lacks the gate's tag."""
        if self.gate.tag is not None and not any(self.gate.tag in tag_levels(tag) for tag in case.tags):
            return None
        own = cells.get(self._metric.name, ())
        self._states.update(status for status, _ in own)
        errors = sum(status == "error" for status, _ in own)
        scores = [score for _, score in own if score is not None]
        if self.gate.statistic != "mean":
            higher = self._metric.direction == "higher_is_better"
            scores = [float(passes(score, self._metric.threshold, higher_is_better=higher)) for score in scores]
        if scores or errors:
            n = len(scores) + errors
            self._bounds.append((sum(scores) / n, (sum(scores) + errors) / n))
            self._in_error += errors > 0
        return sum(scores) / len(scores) if scores else None

    def _of_unit(self) -> tuple[Sequence[float], Sequence[float]]:
        """The values of the unit's cases with errors at the lower end of the scale, and at the upper end."""
        ends, self._bounds = self._bounds, []
        return [low for low, _ in ends], [high for _, high in ends]

    def _open(self, low: float | None, high: float | None) -> int:
        """The cases in error, if they alone keep an interval from deciding the gate; else 0."""
        if self._verdict is not None or low is None or high is None:
            return 0
        return 0 if against_limit(self.gate.condition, low, high) is None else self._in_error


class _AnytimeCourse(_GateCourse):
    def __init__(self, gate: Gate, metric: LookedMetric, cases: int, largest: int) -> None:
        from evalflow.stats.looks import LimitTest

        super().__init__(gate, metric, cases, largest)
        self._above = LimitTest(gate.condition.limit, largest=largest, only="above")
        self._below = LimitTest(gate.condition.limit, largest=largest, only="below")

    def _look(self, values: Sequence[float]) -> None:
        lows, highs = self._of_unit()
        if not lows or self._verdict is not None:
            return
        self._above.add(sum(lows), len(lows))
        self._below.add(sum(highs), len(highs))
        if self._above.verdict or self._below.verdict:
            self._verdict = bool(self._above.verdict) == (self.gate.condition.operator in (">=", ">"))
            self._deciding = len(self._values)

    def _rule(self, expected: int) -> Rule:
        from evalflow.stats.stopping import by_bets

        return by_bets(self.gate.condition.limit, largest=self._largest)

    def looked(self) -> Looked:
        from evalflow.stats.looks import anytime_interval

        interval = anytime_interval(self._values, self._clusters, largest=self._largest)
        value = float(np.mean(self._values)) if self._values else None
        text, is_open = f"looks at any time, {self._after()}", self._open(interval.low, interval.high)
        return Looked(value, interval.low, interval.high, self.passed, text, interval.method, is_open)


class _PlannedCourse(_GateCourse):
    _done = 0
    _last: Looked | None = None

    def __init__(self, gate: Gate, metric: LookedMetric, cases: int, largest: int) -> None:
        super().__init__(gate, metric, cases, largest)
        self._lows, self._highs, self._of = array("d"), array("d"), array("q")

    def _look(self, values: Sequence[float]) -> None:
        lows, highs = self._of_unit()
        self._lows.extend(lows)
        self._highs.extend(highs)
        self._of.extend([self._seen] * len(lows))
        looks = int(self.gate.looks or 1)
        due = looks * self._seen // self._cases
        if due > self._done and self._verdict is None and self._values:
            from evalflow.stats.looks import planned_interval

            self._done = due
            interval = planned_interval(self._values, self._clusters, look=due, looks=looks)
            low, high = interval.low, interval.high
            if self._in_error:
                clusters = self._of if self._largest > 1 else None
                low = planned_interval(self._lows, clusters, look=due, looks=looks).low
                high = planned_interval(self._highs, clusters, look=due, looks=looks).high
            if low is not None and high is not None:
                self._verdict = against_limit(self.gate.condition, low, high)
            self._deciding = None if self._verdict is None else len(self._values)
            text, is_open = f"look {due} of {looks}, {self._after()}", self._open(interval.low, interval.high)
            value = float(np.mean(self._values))
            self._last = Looked(value, interval.low, interval.high, None, text, interval.method, is_open)

    def _rule(self, expected: int) -> Rule:
        from evalflow.stats.stopping import by_plan

        return by_plan(self.gate.condition.limit, expected, int(self.gate.looks or 1))

    def _later(self, values: Sequence[float]) -> Sequence[float]:
        return ()

    def looked(self) -> Looked:
        if self._last is None:
            first = -(-self._cases // int(self.gate.looks or 1))
            return Looked(None, None, None, None, f"no look yet: the first is after {first:,} cases, {self._after()}")
        return replace(self._last, passed=self.passed)
