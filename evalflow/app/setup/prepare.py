"""What is made once per run, before the first score: such as the steps of G-Eval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol, cast

from evalflow.bill import NOTHING
from evalflow.errors import UserError
from evalflow.protocols import Metric
from evalflow.records import Case, Outcome
from evalflow.run.deadline import Deadlines, Failed
from evalflow.run.folder import RunFolder
from evalflow.run.meter import Meter
from evalflow.run.pair import Pair
from evalflow.run.prepared import PreparedFile
from evalflow.run.tally import Tally


class Reader(Protocol):
    """Who is told what was made."""

    def prepared(self, metric: str, entry: Mapping[str, Any], folder: RunFolder) -> None:
        """Something was made; `entry` is that of prepared.json."""


async def prepare(pairs: Sequence[Pair], folder: RunFolder, tally: Tally, reader: Reader) -> tuple[Pair, ...]:
    """The metrics, ready to score. What the run has made before is used again; what is made now is kept and counted.

    Raises:
        UserError: prepared.json is not what was written.
        InfrastructureError, BudgetError: A call cannot be made.
    """
    file = PreparedFile(folder)
    ready: list[Pair] = []
    for pair in pairs:
        judge = Meter(pair.judge, tally) if pair.judge else None
        told = _Told(file, pair.metric.name, judge, folder, reader)
        metric = await Deadlines(None).attempt(pair.metric.prepare(judge, told), UserError)
        if isinstance(metric, Failed):
            metric = cast("Metric", _Unprepared(pair.metric, metric))
        ready.append(replace(pair, metric=metric))
    return tuple(ready)


class _Unprepared:
    """A metric that could not be prepared: each of its scores is an error that says so."""

    def __init__(self, metric: Metric, failed: Failed) -> None:
        self._metric = metric
        self._failed = failed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metric, name)

    def bind(self, case: Case) -> Sequence[_Unprepared]:
        return [_Unprepared(metric, self._failed) for metric in self._metric.bind(case)]

    async def score(self, *_: object) -> Outcome:
        what = f"the metric could not be prepared: {self._failed.error}"
        return Outcome(status="error", error_type=self._failed.error_type, error=what)


class _Told:
    """Implements Prepared around the file; adds to an entry what it took, and tells what is new."""

    def __init__(self, file: PreparedFile, metric: str, judge: Meter | None, folder: RunFolder, reader: Reader) -> None:
        self._file = file
        self._metric = metric
        self._judge = judge
        self._folder = folder
        self._reader = reader

    def get(self, key: str) -> Mapping[str, Any] | None:
        return self._file.get(key)

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        cost, bill = (self._judge.cost_usd, self._judge.bill()) if self._judge else (0.0, NOTHING)
        self._file.put(key, {**entry, "cost_usd": cost, "bill": asdict(bill)})
        self._reader.prepared(self._metric, entry, self._folder)
