"""Titles of metrics and datasets, shown instead of their names on pages about several runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar

from evalflow.records.manifest import Manifest
from evalflow.report.wording import plain_line


class _OfMetric(Protocol):
    """A dataclass of results of a metric, such as a row of the summary."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def metric(self) -> str: ...


T = TypeVar("T", bound=_OfMetric)


@dataclass(frozen=True, slots=True)
class ShownTitles:
    """The titles of metrics and datasets by name, without those that are just the name."""

    metrics: Mapping[str, str]
    datasets: Mapping[str, str]

    @classmethod
    def of(cls, runs: Iterable[Manifest]) -> ShownTitles:
        """The titles in several runs; if they differ, those of the last that has one."""
        every = list(runs)
        metrics = {name: title for run in every for name, title in run.titles.items()}
        datasets = ((name, run.dataset_title(name)) for run in every for name in run.datasets)
        return cls(metrics, {name: title for name, title in datasets if title != name})

    def metric(self, name: str) -> str:
        """A metric's title on one line, or else its name."""
        return plain_line(self.metrics.get(name, name))

    def dataset(self, name: str) -> str:
        """A dataset's title on one line, or else its name."""
        return plain_line(self.datasets.get(name, name))

    def shown(self, rows: Iterable[T]) -> list[T]:
        """The rows for display: their metrics, and datasets if they have some, have titles instead of names."""
        return [replace(row, **self._names(row)) for row in rows]

    def _names(self, row: _OfMetric) -> dict[str, str]:
        own = {"metric": row.metric, "dataset": getattr(row, "dataset", "")}
        known = {"metric": self.metrics, "dataset": self.datasets}
        return {key: titles[own[key]] for key, titles in known.items() if own[key] in titles}
