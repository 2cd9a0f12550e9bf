"""Checks of the data before a run: fields that metrics need and no case has, scenarios without a user, and labels."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from evalflow import datasets
from evalflow.app.core.assemble import Parts
from evalflow.app.core.cases import BASELINE, is_generated, placeholder_answer
from evalflow.app.core.result_rules import known_metrics
from evalflow.config.explain import override, override_word
from evalflow.config.schema import DERIVED, DatasetConfig
from evalflow.config.simulators import SimulatorConfig
from evalflow.config.targets import HttpTargetConfig, ReplyConfig
from evalflow.config.validate import Settings
from evalflow.datasets.fields import OF_A_SCENARIO, is_plain, named_columns, path_roots
from evalflow.errors import Meant, Problem, UserError, did_you_mean, quoted
from evalflow.labels.read import GRADE_HINT, parse_case
from evalflow.metrics.case_fields import COSTS, fields_of, is_recorded, root
from evalflow.protocols import Metric
from evalflow.records import Case, Label
from evalflow.report.wording import counted
from evalflow.values.jsonvalues import as_list, look_up

SHOWN = 20  # maximum problems listed of one kind, and cases whose columns are remembered
_REMEMBERS = re.compile(r"\b(messages|history|id)\b")
"""What a service needs in its request to know the turns before: the turns, or an id by which it keeps them."""
_NAMED = 5  # cases without the part of an answer that is scored
GENERATED = ("answer", "actual")  # the fields that a live target can fill; the dataset's `generates` says which


class DataChecks:
    """Checks every case, or one for several of its kind, with little memory.

    What it reads of a case must be in `_kind` of `case_kinds`.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._run = parts.settings.run
        metrics = [pair.metric for pair in parts.pairs]
        self._metrics = {name: [one for one in metrics if one.config.covers(name)] for name in parts.datasets}
        self._wanted: defaultdict[str, dict[tuple[str, str], Metric]] = defaultdict(dict[tuple[str, str], Metric])
        self._applied: Counter[tuple[str, str]] = Counter()
        self._wrong_checks: list[tuple[Case, Problem]] = []  # the first, of a dataset that may be wrong as a whole
        self._more_wrong = 0
        self._offered: Counter[tuple[str, str, str]] = Counter()
        self._sizes: Counter[str] = Counter()
        self._grouped: Counter[str] = Counter()
        self._recorded: Counter[str] = Counter()
        self._thoughts: Counter[str] = Counter()
        self._without_part: defaultdict[str, list[str]] = defaultdict(list)
        self._present: Counter[tuple[str, str, str]] = Counter()
        self._columns: dict[str, dict[str, None]] = {}
        self._proposed = defaultdict[str, dict[str, str | None]](dict[str, str | None])
        self._texts: set[str] = set()  # datasets with a text, a number or texts under `expected`

    def add(self, case: Case, times: int = 1) -> None:
        self._sizes[case.dataset] += times
        self._grouped[case.dataset] += times * (case.group is not None)
        if is_plain(case.expected) or is_texts(case.expected):
            self._texts.add(case.dataset)
        if case.index < SHOWN:
            self._columns.setdefault(case.dataset, {}).update(dict.fromkeys(case.vars))
        answer = placeholder_answer(self._run, case)
        self._recorded[case.dataset] += times * is_recorded(case, answer)
        if answer.recorded:
            if answer.thoughts is not None and "thoughts" not in case.vars:
                self._thoughts[case.dataset] += times
            if answer.extracted is False:
                self._without_part[case.dataset].append(case.id)
        fields = fields_of(case, answer)
        for metric, bound in self._bind(case, times):
            for need in bound.config.needs:
                self._wanted[case.dataset].setdefault((metric.name, need), metric)
                self._present[case.dataset, metric.name, need] += times * (look_up(need, fields) not in (None, {}))
            for name in getattr(bound.config, "optional", ()):
                self._offered[case.dataset, metric.name, name] += times * (look_up(name, fields) not in (None, {}))

    def problems(self, repeated: Sequence[Case]) -> list[Problem]:
        """Duplicate ids, groups that no case has, and fields that a metric needs and no case will have.

        `repeated`: the first cases whose id an earlier case has.
        """
        faults = list(self._duplicates(repeated))
        for place, problem in placed(self._parts.datasets, self._wrong_checks):
            faults.append(replace(problem, where=place or problem.where))
        if self._more_wrong:
            faults.append(Problem(f"and {counted(self._more_wrong, 'more check')} like these cannot be used"))
        for dataset in self._sizes:
            faults += self._ungrouped(dataset)
            if not self._wrong_checks:
                for metric in self._metrics[dataset]:
                    if not metric.parts and not any(self._applied[one, metric.name] for one in self._sizes):
                        what = f"{metric.name} scores each case's own checks, but no case of {dataset} has checks"
                        hint = f"map them with dataset.{dataset}.fields, or leave the metric out"
                        faults.append(Problem(what, f"dataset.{dataset}.fields", hint))
            if not self._recorded[dataset]:
                faults += [self._unscored(dataset, m) for m in self._metrics[dataset] if m.reads_scores]
            faults += [
                self._absent(dataset, metric, need)
                for (name, need), metric in self._wanted[dataset].items()
                if not self._present[dataset, name, need] and not self._may_come(need)
            ]
        return faults

    def remarks(self) -> list[str]:
        """Return probable mistakes: thoughts, missing parts, misspelled variables."""
        mistakes: list[str] = []
        for dataset, recorded in self._recorded.items():
            of = f"{counted(recorded, 'recorded answer')} of {dataset}"
            if n := self._thoughts[dataset]:
                mistakes.append(
                    f"{n:,} of {of} begin with thoughts, which are left out: target.thoughts=keep keeps them"
                )
            if ids := self._without_part[dataset]:
                which = f"{', '.join(ids[:_NAMED])}{' and more' if len(ids) > _NAMED else ''}"
                what = f"target.extract finds nothing in {len(ids):,} of {of} ({which})"
                mistakes.append(f"{what}, which count as wrong where answers are compared")
        return mistakes + [
            f"metric {metric}: no case of {dataset} has {name}, which `optional` names"
            for (dataset, metric, name), present in self._offered.items()
            if not present and not self._may_come(name)
        ]

    def _bind(self, case: Case, times: int) -> list[tuple[Metric, Metric]]:
        """Yield each declared metric with each metric that it binds to; record invalid checks."""
        pairs: list[tuple[Metric, Metric]] = []
        for metric in self._metrics[case.dataset]:
            try:
                bound = metric.bind(case)
            except UserError as error:
                self._wrong_checks += [(case, problem) for problem in error.problems]
                self._more_wrong += max(0, len(self._wrong_checks) - SHOWN)
                del self._wrong_checks[SHOWN:]
                continue
            self._applied[case.dataset, metric.name] += times * len(bound)
            pairs += [(metric, one) for one in bound]
        return pairs

    def _duplicates(self, cases: Sequence[Case]) -> Iterator[Problem]:
        """The cases whose id an earlier one has, with the places of both."""
        for dataset in dict.fromkeys(case.dataset for case in cases):
            repeated = [case for case in cases if case.dataset == dataset]
            config, first = self._parts.datasets[dataset], dict[str, int]()
            for case in datasets.read(dataset, config):
                if case.id not in first and any(case.id == other.id for other in repeated):
                    first[case.id] = case.index
            places = datasets.places(config, {*first.values(), *(case.index for case in repeated)})
            for case in repeated:
                what = f"the id {case.id!r} is also that of {places.get(first[case.id], 'an earlier row')}"
                hint = "give each row its own id, or none: rows without an id get one of their content"
                yield Problem(what, places.get(case.index, f"dataset.{dataset}"), hint)

    def _may_come(self, need: str) -> bool:
        if root(need) in COSTS:
            return True  # known only once there is an answer, if at all
        if self._run.generate in (True, "missing") and root(need) in ("finish_reason", "thoughts"):
            return True
        field = DERIVED.get(need, root(need))
        return self._run.generate in (True, "missing") and field in self._run.target.may_fill

    def _ungrouped(self, dataset: str) -> Iterator[Problem]:
        """Problems of a `group` that no case has. The field `group` may be absent: shipped files declare it."""
        config = self._parts.datasets[dataset]
        source = config.group or (config.fields or {}).get("group")
        if source is None or self._grouped[dataset] or (named := named_columns("group", source)) == ["group"]:
            return
        columns = datasets.columns(config)
        if not set(named).intersection(columns):
            key = "group" if config.group else "fields.group"
            at = next(iter(named), source)
            what = f"no case of {dataset} has anything at {at!r} to form groups by"
            yield Problem(what, f"dataset.{dataset}.{key}", did_you_mean(str(at), columns))

    def _unscored(self, dataset: str, metric: Metric) -> Problem:
        what = f"{metric.name} reads scores of recorded answers, but this run has no recorded answers of {dataset}"
        generate = str(self._run.generate).lower()
        hint = f"leave the metric out, or score the recorded answers: generate=false (it is {generate})"
        return Problem(what, f"metric.{metric.name}", hint)

    def _absent(self, dataset: str, metric: Metric, need: str) -> Problem:
        generate, generates = self._run.generate, self._parts.datasets[dataset].generates
        key = self._parts.settings.key("dataset", dataset)
        if generate in (True, "missing") and root(need) in GENERATED and root(need) != generates:
            what = f"{metric.name} needs {need}, but the target's reply to {dataset} fills {generates}"
            hint = f"{key}.generates={root(need)}"
            if root(need) == "actual" and isinstance(self._run.target, ReplyConfig):
                hint += (
                    "; or beside the answer: target.actual=$.PATH, or of its OpenTelemetry trace: target.trace=$.PATH"
                )
            return Problem(what, f"{key}.generates", hint)
        if generate == "demo" and root(need) == "actual":
            what = f"{metric.name} needs {need}, which an example answer does not have"
            return Problem(what, f"metric.{metric.name}", "score the recorded answers: generate=false")
        if need == f"vars.{BASELINE}":
            what = f"{metric.name} compares with the baseline's answers, but there are none for {dataset}"
            hint = "name a run of the same cases: baseline=outputs/runs/..."
            return Problem(what, f"metric.{metric.name}", hint, BASELINE)
        field = "demo_answer" if generate == "demo" and need == "answer" else DERIVED.get(need, need)
        inside = {name for field in (self._parts.datasets[dataset].fields or {}).items() for name in path_roots(*field)}
        columns = [column for column in self._columns.get(dataset, {}) if column not in inside]
        expected = self._expected_column(dataset) if field == "reference" else None
        if expected is not None:
            what = f"{metric.name} needs {need}, but no case of {dataset} has it; {expected!r} is read as expected"
            return Problem(
                what, f"{key}.fields", f"to compare with it: {override(f'{key}.fields.reference', expected)}"
            )
        proposed = datasets.propose_fields(columns).get(field)
        example = self._column_for(dataset, field, columns)
        known = f"; columns without a field: {', '.join(columns)}" if columns else ""
        what = f"{metric.name} needs {need}, but no case of {dataset} has it{known}"
        name, _, inner = need.removeprefix("vars.").partition(".")
        place = f"{key}.fields.{name}.column" if need.startswith("vars.") else f"{key}.fields.{field}"
        other = "" if proposed or len(columns) < 2 else ", or another column"
        hint = f"map it{other}: {override(place, example)}" if example else _no_column(columns, metric.name, place)
        meant = Meant((), (override_word(place, example),)) if example and proposed else None
        if need.startswith("vars.") and inner and name in columns:
            hint = f"if {name} holds JSON as text, read it: " + quoted(f"++{key}.fields.{name}={{type: json}}")
        if generate is False and need == generates:
            hint = f"have it generated: generate=true target=openai (see `list target`), or {hint}"
        return Problem(what, f"{key}.fields", hint, f"{key}.fields.{field}", meant=meant)

    def _column_for(self, dataset: str, field: str, columns: Sequence[str]) -> str | None:
        """The column to propose for a field: by its name, else one that is not proposed for another field."""
        by_name, given = datasets.propose_fields(columns), self._proposed[dataset]
        if field not in given:
            taken = {*by_name.values(), *given.values()}
            left = next((column for column in columns if column not in taken), None)
            given[field] = by_name.get(field, left)
        return given[field]

    def _expected_column(self, dataset: str) -> str | None:
        """The column of texts that is read as `expected`; None without one."""
        given = (self._parts.datasets[dataset].fields or {}).get("expected", "expected")
        columns = [] if isinstance(given, dict) else named_columns("expected", given)
        return columns[0] if columns and dataset in self._texts else None


def _no_column(columns: Sequence[str], metric: str, key: str) -> str:
    if columns:
        return f"no column is left for it: leave {metric} out, or name the column: {key}=COLUMN"
    return f"name the column that has it: {key}=COLUMN"


def is_texts(value: Any) -> bool:
    """Whether it is a list of texts, and has some."""
    values = as_list(value)
    return bool(values) and all(isinstance(one, str) for one in values)


class ScenarioChecks:
    """Counts the cases of each dataset whose answer is generated, by whether they have a scenario."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._run = settings.run
        self._asked: Counter[str] = Counter()
        self._scenarios: Counter[str] = Counter()
        self._goals: dict[str, Case] = {}

    def add(self, case: Case, times: int = 1) -> None:
        if not is_generated(self._run, case):
            return
        self._asked[case.dataset] += times
        if case.scenario is not None:
            self._scenarios[case.dataset] += times
        elif not case.vars.keys().isdisjoint(OF_A_SCENARIO):
            self._goals.setdefault(case.dataset, case)

    def problems(self) -> Iterator[Problem]:
        if not self._run.simulator.turns:
            yield from self._unplayed()
            return
        yield from self._incomplete()
        if not self._scenarios:
            hint = override(f"dataset.{next(iter(self._run.dataset))}.fields.scenario", "COLUMN")
            what = "no case that is asked has a scenario, so no user would be simulated"
            yield Problem(what, "simulator", f"map it: {hint}; or leave the simulator out", "simulator")
            return
        yield from self._unable()
        yield from self._unpriced()

    def _unplayed(self) -> Iterator[Problem]:
        for dataset, n in self._scenarios.items():
            what = (
                f"{n:,} of {self._asked[dataset]:,} cases of {dataset} have a scenario, but no simulator plays the user"
            )
            unused = override(f"{self._settings.key('dataset', dataset)}.fields.scenario", "unused")
            hint = f"add simulator=openai (see `list simulator`); to ask only the turns of the cases: {unused}"
            yield Problem(what, "simulator", hint, "simulator")

    def _incomplete(self) -> Iterator[Problem]:
        for dataset, case in self._goals.items():
            had = next(name for name in OF_A_SCENARIO if name in case.vars)
            what = f"case {case.id!r} has {had} but no scenario, so no user is simulated for it"
            yield Problem(what, f"dataset.{dataset}", "add its scenario: the situation that the user is in")

    def _unable(self) -> Iterator[Problem]:
        for dataset in self._scenarios:
            config, key = self._run.dataset[dataset], self._settings.key("dataset", dataset)
            if config.generates != "answer":
                what = f"the target gives {dataset} predictions, with which a user cannot converse"
                yield Problem(what, f"{key}.generates", f"{key}.generates=answer")
        target = self._run.target
        if getattr(target, "batch", False):
            what = "a simulated conversation would take a round of batches for each of its turns"
            yield Problem(what, "target.batch", "target.batch=false")
        service = target if isinstance(target, HttpTargetConfig) and target.open is None else None
        sent = None if service is None or service.body is None else json.dumps([service.url, service.body])
        if sent is not None and not _REMEMBERS.search(sent):
            what = "the request has neither the earlier turns nor an id, so the service cannot hold a conversation"
            yield Problem(what, "target.body", 'add "{{ messages }}" or "{{ history }}", or "{{ id }}" for sessions')

    def _unpriced(self) -> Iterator[Problem]:
        simulator = self._run.simulator
        is_limited = isinstance(simulator, SimulatorConfig) and simulator.limits.usd is not None
        for name, part in (("target", self._run.target), ("simulator", simulator)):
            if is_limited and hasattr(part, "price") and getattr(part, "price", None) is None:
                what = f"the price of the {name} is unknown"
                hint = f"{name}.price={{input_per_million: 0.4, output_per_million: 1.6}}, or limit tokens"
                yield Problem(what, "simulator.limits.usd", hint)


class LabelChecks:
    """Checks the labels of cases; `apply` says whether some label is for a metric that scores its case."""

    def __init__(self, settings: Settings) -> None:
        self.apply = False
        self._settings = settings
        self._wrong: list[tuple[Case, Problem]] = []
        self._more = 0
        self._others: Counter[str] = Counter()
        self._metrics: dict[str, Metric] = {}
        self._read: dict[str, Callable[[Any], Any]] = {}

    def add(self, case: Case, metrics: Mapping[str, Metric]) -> None:
        """Check the labels of a selected case; `metrics` are those that will score it, by the names of their scores."""
        if not case.labels:
            return
        self._metrics = {**metrics, **self._metrics}
        parsed_labels = parse_case(case)
        own = [one for one in parsed_labels.given if one.metric in metrics]
        self.apply = self.apply or bool(own)
        self._others.update(one.metric for one in parsed_labels.given if one.metric not in metrics)
        wrong = [(case, problem) for problem in (*parsed_labels.problems, *self._off_scale(own), *_twice(own))]
        self._more += max(0, len(self._wrong) + len(wrong) - SHOWN)
        self._wrong = [*self._wrong, *wrong][:SHOWN]

    def problems(self) -> Iterator[Problem]:
        """Return values off the scale, duplicate labels by one person, and invalid labels, each with its place."""
        for place, problem in placed(self._settings.run.dataset, self._wrong):
            yield replace(problem, where=f"{place}: {problem.where}") if place else problem
        if self._more:
            hint = "correct them, or do without the labels: map the field to nothing (fields.labels=null)"
            yield Problem(f"and {self._more:,} more labels like these are wrong", "labels of the data", hint)

    def remarks(self) -> Iterator[str]:
        """Labels of unknown metrics: most often a misspelled name."""
        known = known_metrics(self._settings)
        for name, n in self._others.items():
            if name.partition("#")[0] not in known:
                hint = did_you_mean(name, self._metrics)
                yield f"{n:,} labels in the data are of {name!r}, which is not a metric, and do not count; {hint}"

    def _off_scale(self, given: list[Label]) -> Iterator[Problem]:
        for one in given:
            try:
                self._reader(one.metric)(one.value)
            except ValueError as error:
                yield Problem(f"the label of {one.metric}: {error}", one.where, GRADE_HINT)

    def _reader(self, name: str) -> Callable[[Any], Any]:
        if name not in self._read:
            from evalflow.metrics.scale import label_scale, read_judgement

            metric = self._metrics[name]
            self._read[name] = partial(read_judgement, label_scale(metric.config, bounded=metric.bounded))
        return self._read[name]


def _twice(given: list[Label]) -> Iterator[Problem]:
    """Duplicate labels of one answer by one person. A label without a hash is for the recorded answer."""
    seen: set[tuple[Any, ...]] = set()
    for label in given:
        key = (label.metric, label.by, label.answer_hash, label.target, label.target_repeat)
        if key in seen:
            what = f"two labels by {label.by} for one answer on {label.metric}"
            yield Problem(what, label.where, "keep one, or say in `by` who else it is of")
        seen.add(key)


def placed(
    configs: Mapping[str, DatasetConfig], faults: Sequence[tuple[Case, Problem]]
) -> Iterator[tuple[str | None, Problem]]:
    """The problems by dataset, each with its case's place in the file."""
    for name in dict.fromkeys(case.dataset for case, _ in faults):
        own = [(case.index, problem) for case, problem in faults if case.dataset == name]
        places = datasets.places(configs[name], {index for index, _ in own})
        yield from ((places.get(index), problem) for index, problem in own)
