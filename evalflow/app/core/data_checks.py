"""What the cases have, what is missing in all of them, and the labels they bring."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from evalflow import datasets
from evalflow.app.core.assemble import Parts
from evalflow.app.core.cases import BASELINE, placeholder_answer
from evalflow.config.explain import override
from evalflow.config.schema import RunConfig
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.jsonvalues import look_up
from evalflow.labels.read import Given, parse_case
from evalflow.metrics.scale import label_scale, read_label
from evalflow.metrics.steps import fields_of, is_recorded, root
from evalflow.protocols import Metric
from evalflow.records import Case
from evalflow.run.plan import case_digest

ENOUGH = 20
"""Duplicate ids that are named, and cases whose columns are remembered."""
GENERATED = ("answer", "actual")
"""What a live target fills: one of them, as the dataset says."""


class DataChecks:
    """Looks at every case once, in little memory."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._run = parts.settings.run
        self._metrics = [pair.metric for pair in parts.pairs]
        self._covering: dict[str, list[Metric]] = {}
        self._wanted: defaultdict[str, dict[tuple[str, str], Metric]] = defaultdict(dict[tuple[str, str], Metric])
        self._applied: Counter[tuple[str, str]] = Counter()
        self._misbound: list[tuple[Case, Problem]] = []
        self._offered: dict[tuple[str, str, str], bool] = {}
        self._seen: set[int] = set()
        self._repeated: list[Problem] = []
        self._sizes: Counter[str] = Counter()
        self._grouped: Counter[str] = Counter()
        self._recorded: Counter[str] = Counter()
        self._present: Counter[tuple[str, str, str]] = Counter()
        self._columns: dict[str, dict[str, None]] = {}

    def add(self, case: Case) -> None:
        """Look at one case, and at the answer as it will be."""
        self._sizes[case.dataset] += 1
        self._grouped[case.dataset] += case.group is not None
        self._check_id(case)
        if case.index < ENOUGH:
            self._columns.setdefault(case.dataset, {}).update(dict.fromkeys(case.vars))
        answer = placeholder_answer(self._run, case)
        self._recorded[case.dataset] += is_recorded(case, answer)
        fields = fields_of(case, answer)
        for metric, bound in self._bind(case):
            for need in bound.config.needs:
                self._wanted[case.dataset].setdefault((metric.name, need), metric)
                if look_up(need, fields) not in (None, {}):
                    self._present[case.dataset, metric.name, need] += 1
            for name in getattr(bound.config, "optional", ()):
                key = (case.dataset, metric.name, name)
                self._offered[key] = self._offered.get(key, False) or look_up(name, fields) not in (None, {})

    def problems(self) -> list[Problem]:
        """Duplicate ids, groups that no case has, and what a metric needs and no case will have."""
        found = [*self._repeated, *self._placed()]
        for dataset in self._sizes:
            found += self._ungrouped(dataset)
            if not self._misbound:
                idle = (m for m in self._of(dataset) if not m.parts and not self._applied[dataset, m.name])
                found += [self._idle(dataset, m) for m in idle]
            if not self._recorded[dataset]:
                found += [self._unscored(dataset, m) for m in self._of(dataset) if m.reads_scores]
            found += [
                self._absent(dataset, metric, need)
                for (name, need), metric in self._wanted[dataset].items()
                if not self._present[dataset, name, need] and not self._may_come(need)
            ]
        return found

    def remarks(self) -> list[str]:
        """What a metric would show its judge too, and no case has: most often a slip of the pen."""
        return [
            f"metric {metric}: no case of {dataset} has {name}, which `optional` names"
            for (dataset, metric, name), present in self._offered.items()
            if not present and not self._may_come(name)
        ]

    def _placed(self) -> Iterator[Problem]:
        """What is wrong with the checks of the first cases, with the place in the file."""
        misbound = self._misbound[:ENOUGH]
        for dataset in {case.dataset: None for case, _ in misbound}:
            mine = [(case.index, problem) for case, problem in misbound if case.dataset == dataset]
            places = datasets.places(self._parts.datasets[dataset], {index for index, _ in mine})
            yield from (replace(problem, where=places.get(index, problem.where)) for index, problem in mine)

    def _of(self, dataset: str) -> list[Metric]:
        if dataset not in self._covering:
            self._covering[dataset] = [metric for metric in self._metrics if metric.config.covers(dataset)]
        return self._covering[dataset]

    def _bind(self, case: Case) -> list[tuple[Metric, Metric]]:
        """Each declared metric with what it binds to; what is wrong with the checks of a case is kept."""
        found: list[tuple[Metric, Metric]] = []
        for metric in self._covering.get(case.dataset) or self._of(case.dataset):
            try:
                bound = metric.bind(case)
            except UserError as error:
                self._misbound += [(case, problem) for problem in error.problems]
                continue
            self._applied[case.dataset, metric.name] += len(bound)
            found += [(metric, one) for one in bound]
        return found

    def _idle(self, dataset: str, metric: Metric) -> Problem:
        what = f"{metric.name} scores the checks that a case brings along, and no case of {dataset} has any"
        hint = f"map them with dataset.{dataset}.fields, or leave the metric out"
        return Problem(what, f"dataset.{dataset}.fields", hint)

    def _check_id(self, case: Case) -> None:
        digest = case_digest(case)
        if digest in self._seen and len(self._repeated) < ENOUGH:
            what = f"record {case.index + 1} has the id {case.id!r} of an earlier one"
            hint = "ids must be unique; records without an id that are equal count as one"
            self._repeated.append(Problem(what, f"dataset.{case.dataset}", hint))
        self._seen.add(digest)

    def _may_come(self, need: str) -> bool:
        """Whether the target's replies may bring what no case has."""
        return self._run.generate in (True, "missing") and root(need) in self._run.target.may_fill

    def _ungrouped(self, dataset: str) -> Iterator[Problem]:
        """A group that leads to nothing. The field's own name is no promise: the shipped files declare it."""
        config = self._parts.datasets[dataset]
        source = config.group or (config.fields or {}).get("group")
        if source in (None, "group") or self._grouped[dataset]:
            return
        columns = datasets.columns(config)
        if source not in columns:
            key = "group" if config.group else "fields.group"
            what = f"no case of {dataset} has anything at {source!r} to form groups by"
            yield Problem(what, f"dataset.{dataset}.{key}", did_you_mean(str(source), columns))

    def _unscored(self, dataset: str, metric: Metric) -> Problem:
        what = f"{metric.name} reads scores of recorded answers, and this run has none of {dataset}"
        hint = f"leave the metric out, or score the recorded answers: generate=false (it is {_shown(self._run)})"
        return Problem(what, f"metric.{metric.name}", hint)

    def _absent(self, dataset: str, metric: Metric, need: str) -> Problem:
        generate, generates = self._run.generate, self._parts.datasets[dataset].generates
        key = self._parts.settings.key("dataset", dataset)
        if generate in (True, "missing") and root(need) in GENERATED and root(need) != generates:
            what = f"{metric.name} needs {need}, and the target's reply to {dataset} fills {generates}"
            return Problem(what, f"{key}.generates", f"{key}.generates={root(need)}")
        if generate == "demo" and root(need) == "actual":
            what = f"{metric.name} needs {need}, which an example answer does not have"
            return Problem(what, f"metric.{metric.name}", "score the recorded answers: generate=false")
        field = "demo_answer" if generate == "demo" and need == "answer" else need
        columns = list(self._columns.get(dataset, {}))
        example = columns[0] if columns else "COLUMN"
        known = f"; columns without a field: {', '.join(columns)}" if columns else ""
        what = f"{metric.name} needs {need}, and no case of {dataset} has it{known}"
        hint = f"map it: {override(f'{key}.fields.{field}', example)}"
        if need == f"vars.{BASELINE}":
            what = f"{metric.name} compares with the baseline's answers, and there is none to a case of {dataset}"
            hint = "name a run of the same cases: baseline=outputs/runs/..."
        if generate is False and need == generates:
            hint = f"have it generated: generate=true target=openai (see `list target`), or {hint}"
        return Problem(what, f"{key}.fields", hint)


def _shown(run: RunConfig) -> str:
    return str(run.generate).lower()


_TOLD = 20
"""Wrong labels that are named."""


class LabelChecks:
    """Looks at the labels of one case after the other, and keeps what is wrong with them.

    Args:
        settings: The run's.

    Attributes:
        apply: Whether one is of a metric that scores its case.
    """

    def __init__(self, settings: Settings) -> None:
        self.apply = False
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
        self.apply = self.apply or bool(own)
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
