"""The labels that the data bring along, read against the metrics before anything is paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from evalflow import datasets
from evalflow.config.validate import Settings
from evalflow.errors import Problem, did_you_mean
from evalflow.labels import Given, parse_case
from evalflow.metrics.people import label_scale, read_label
from evalflow.protocols import Metric
from evalflow.records import Case

_TOLD = 20
"""Wrong labels that are named."""


class DataLabels:
    """Looks at the labels of one case after the other, and keeps what is wrong with them.

    Args:
        settings: The run's.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._wrong: list[tuple[Case, Problem]] = []
        self._more = 0
        self._others: Counter[str] = Counter()
        self._read: dict[str, Callable[[Any], Any]] = {}

    def add(self, case: Case, metrics: Mapping[str, Metric]) -> None:
        """Look at the labels of a case.

        Args:
            case: A selected one.
            metrics: Those that will score it, by the names that their scores have.
        """
        if not case.labels:
            return
        for name, metric in metrics.items():
            self._read.setdefault(name, partial(read_label, label_scale(metric.config, bounded=metric.bounded)))
        found = parse_case(case)
        own = [one for one in found.given if one.label.metric in metrics]
        self._others.update(one.label.metric for one in found.given if one.label.metric not in metrics)
        for problem in (*found.problems, *self._off_scale(own), *_twice(own)):
            if len(self._wrong) < _TOLD:
                self._wrong.append((case, problem))
            else:
                self._more += 1

    def problems(self) -> Iterator[Problem]:
        """Values off the scale, two labels by one person, and what is no label; with the place in the file."""
        for name in {case.dataset: None for case, _ in self._wrong}:
            mine = [(case.index, problem) for case, problem in self._wrong if case.dataset == name]
            places = datasets.places(self._settings.run.dataset[name], {index for index, _ in mine})
            for index, problem in mine:
                place = places.get(index)
                yield replace(problem, where=f"{place}: {problem.where}") if place else problem
        if self._more:
            hint = "correct them, or do without the labels: map the field to nothing (fields.labels=null)"
            yield Problem(f"and {self._more:,} more labels like these are wrong", "labels of the data", hint)

    def remarks(self) -> Iterator[str]:
        """Labels of metrics that nobody knows: most often a slip of the pen."""
        folders = self._settings.composed.conf_folders
        for name, n in self._others.items():
            file = f"{name.partition('#')[0]}.yaml"
            if file[:-5] not in self._settings.run.metric and not any(
                (one / "metric" / file).is_file() for one in folders
            ):
                hint = did_you_mean(name, self._read)
                yield f"{n:,} labels in the data are of {name!r}, which is no metric, and do not count; {hint}"

    def _off_scale(self, given: list[Given]) -> Iterator[Problem]:
        for one in given:
            try:
                self._read[one.label.metric](one.label.value)
            except ValueError as error:
                yield Problem(f"the label of {one.label.metric}: {error}", one.where, "grade on the metric's own scale")


def _twice(given: list[Given]) -> Iterator[Problem]:
    """Two labels of one answer by one person; where no hash names the answer, it is the recorded one."""
    seen: set[tuple[Any, ...]] = set()
    for one in given:
        label = one.label
        key = (label.metric, label.by, label.answer_hash, label.target, label.target_repeat)
        if key in seen:
            what = f"two labels by {label.by} for one answer on {label.metric}"
            yield Problem(what, one.where, "keep one, or say in `by` who else it is of")
        seen.add(key)
