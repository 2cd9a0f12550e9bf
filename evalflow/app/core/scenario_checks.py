"""Checks before a run of cases with a scenario: that somebody plays the user, to a target that can hold a talk."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

from evalflow.app.core.cases import is_generated
from evalflow.config.explain import override
from evalflow.config.simulators import ConversationLimits
from evalflow.config.targets import HttpTargetConfig
from evalflow.config.validate import Settings
from evalflow.datasets.fields import OF_A_SCENARIO
from evalflow.errors import Problem
from evalflow.records import Case

_REMEMBERS = re.compile(r"\b(messages|history|id)\b")
"""What a service needs in its request to know the turns before: the turns, or an id by which it keeps them."""


class ScenarioChecks:
    """Counts the cases of each dataset whose answer is generated, by whether they have a scenario."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._run = settings.run
        self._asked: Counter[str] = Counter()
        self._scenarios: Counter[str] = Counter()
        self._goals: dict[str, Case] = {}

    def add(self, case: Case) -> None:
        if not is_generated(self._run, case):
            return
        self._asked[case.dataset] += 1
        if case.scenario is not None:
            self._scenarios[case.dataset] += 1
        elif not case.vars.keys().isdisjoint(OF_A_SCENARIO):
            self._goals.setdefault(case.dataset, case)

    def problems(self) -> Iterator[Problem]:
        if not self._run.simulator.turns:
            yield from self._unplayed()
            return
        yield from self._incomplete()
        if not self._scenarios:
            hint = override(f"dataset.{next(iter(self._run.dataset))}.fields.scenario", "COLUMN")
            what = "no case that is asked has a scenario, so nobody would talk to the simulated user"
            yield Problem(what, "simulator", f"map it: {hint}; or leave the simulator out", "simulator")
            return
        yield from self._unable()
        yield from self._unpriced()

    def _unplayed(self) -> Iterator[Problem]:
        for dataset, n in self._scenarios.items():
            what = f"{n:,} of {self._asked[dataset]:,} cases of {dataset} have a scenario, and nobody plays the user"
            unused = override(f"{self._settings.key('dataset', dataset)}.fields.scenario", "unused")
            hint = f"add simulator=openai (see `list simulator`); to ask only the turns of the cases: {unused}"
            yield Problem(what, "simulator", hint, "simulator")

    def _incomplete(self) -> Iterator[Problem]:
        for dataset, case in self._goals.items():
            had = next(name for name in OF_A_SCENARIO if name in case.vars)
            what = f"case {case.id!r} has {had} and no scenario, so that no user is simulated for it"
            yield Problem(what, f"dataset.{dataset}", "add its scenario: the situation that the user is in")

    def _unable(self) -> Iterator[Problem]:
        for dataset in self._scenarios:
            config, key = self._run.dataset[dataset], self._settings.key("dataset", dataset)
            if config.generates != "answer":
                what = f"the target gives {dataset} a prediction, and a user cannot talk with that"
                yield Problem(what, f"{key}.generates", f"{key}.generates=answer")
        target = self._run.target
        if getattr(target, "batch", False):
            what = "a simulated conversation would take a round of batches for each of its turns"
            yield Problem(what, "target.batch", "target.batch=false")
        body = target.body if isinstance(target, HttpTargetConfig) else None
        if body is not None and not _REMEMBERS.search(json.dumps(body)):
            what = "the request has neither the earlier turns nor an id, so that the service cannot hold a talk"
            yield Problem(what, "target.body", 'add "{{ messages }}" or "{{ history }}", or "{{ id }}" for sessions')

    def _unpriced(self) -> Iterator[Problem]:
        limits = getattr(self._run.simulator, "limits", ConversationLimits())
        for name, part in (("target", self._run.target), ("simulator", self._run.simulator)):
            if limits.usd is not None and hasattr(part, "price") and getattr(part, "price", None) is None:
                what = f"the price of the {name} is not known"
                hint = f"{name}.price={{input_per_million: 0.4, output_per_million: 1.6}}, or limit tokens"
                yield Problem(what, "simulator.limits.usd", hint)
