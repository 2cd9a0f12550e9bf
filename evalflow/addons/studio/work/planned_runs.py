"""Plan a run: compose its request once, in memory, to estimate it or to freeze it into a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evalflow import datasets as readers
from evalflow.addons.studio.store import cases
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.case_checks import AddedChecks, added_checks, may_have_checks
from evalflow.addons.studio.work.case_choice import KEYS
from evalflow.addons.studio.work.conf_files import (
    data_keys,
    json_line,
    write_cases,
    write_option,
    write_prompts,
    write_root_keys,
)
from evalflow.addons.studio.work.datasets import dataset_id
from evalflow.addons.studio.work.own_parts import CountedRows, Own, own_definitions, with_values
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace, refuse_elsewhere
from evalflow.addons.studio.work.subjects import RunSubjects
from evalflow.app.core.assemble import settings_of
from evalflow.app.core.case_kinds import CaseKinds
from evalflow.app.core.cases import select
from evalflow.config.load import compose, resolved
from evalflow.config.schema import DatasetConfig
from evalflow.config.validate import Composed, Settings
from evalflow.config.yaml_text import escaped
from evalflow.errors import UserError
from evalflow.metrics.registry import build_metric
from evalflow.paths import conf_dirs, private_folder, prompt_dirs
from evalflow.prompts import Prompts, is_file_name
from evalflow.records import Case

GROUPS = ("target", "judge", "embedder", "simulator")
_KEPT = ("name", "title", "description", "generates")
KEPT_CASES = 30_000
"""The most cases of a dataset kept in memory while a run is planned."""
_ASKING = ("prompt", "steps_prompt", "system_prompt")


class _KeptCases:
    """The cases of a dataset: kept after the first reading if they are few, read again each time if they are many."""

    def __init__(self, read: Callable[[], Iterable[Case]]) -> None:
        self._read = read
        self._kept: Sequence[Case] | None = None
        self.count = 0
        """The number of cases when they were last fully read."""

    def __iter__(self) -> Iterator[Case]:
        return self._all() if self._kept is None else iter(self._kept)

    def _all(self) -> Iterator[Case]:
        count, kept = 0, list[Case]()
        for case in self._read():
            count += 1
            if count <= KEPT_CASES:
                kept.append(case)
            elif kept:
                kept = []
            yield case
        self.count = count
        self._kept = kept if count <= KEPT_CASES else None


@dataclass(frozen=True, slots=True)
class _CaseRows:
    """Cases of conf/ as rows of JSON lines."""

    cases: _KeptCases

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        return map(readers.case_to_row, self.cases)

    @property
    def count(self) -> int:
        """The number of cases; reads them if it is unknown."""
        return self.cases.count or sum(1 for _ in self.cases)

    def lines(self) -> Iterator[str]:
        """The rows as JSON lines."""
        return map(json_line, self)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A composed run; nothing is written yet.

    Attributes:
        request: The request, with the judge filled in.
        rows: All cases of each dataset before selection, by the name in the request.
        settings: Validated, with these cases in memory.
        subjects: The subjects for links in problems.
        kinds: Finds what checks know of the current cases; it is kept from one estimate to the next.
        notices: Messages for the person who starts the run.
    """

    request: RunRequest
    rows: Mapping[str, CountedRows | _CaseRows]
    settings: Settings
    subjects: RunSubjects
    kinds: Callable[[], CaseKinds]
    notices: Sequence[str] = ()

    @property
    def counts(self) -> dict[str, int]:
        """The number of cases of each dataset before selection."""
        return {name: rows.count for name, rows in self.rows.items()}

    def freeze(self, folder: Path) -> Settings:
        """Write everything that the run uses below a folder; the caller removes the folder after an error.

        Returns the settings of a run from these files; nothing outside the folder affects them. They equal what the
        command line composes from `--config-dir FOLDER/conf` and the request's overrides.
        """
        private_folder(folder)
        conf, composed = folder / "conf", self.settings.composed
        config = deepcopy(composed.storable)
        written: dict[str, DatasetConfig] = {}
        for name, dataset in self.settings.run.dataset.items():
            key = self.settings.keys["dataset", name]
            write_cases(folder, key, self.rows[key].lines())
            written[name] = _frozen(dataset, folder, key)
            config["dataset"][key] = escaped(written[name].model_dump(exclude_defaults=True))
            write_option(folder, "dataset", key, config["dataset"][key])
        for name, values in config["metric"].items():
            # The key must exist so that a repeat can override where the steps are.
            steps = {"steps_from": None} if values.get("kind") == "g_eval" else {}
            write_option(folder, "metric", name, {**steps, **values})
        chosen = [group for group in GROUPS if group != "simulator" or self.request.simulator]
        for group in chosen:
            write_option(folder, group, composed.choices[group], config[group])
        outside = {"dataset", "metric", *chosen}
        write_root_keys(folder, {key: value for key, value in config.items() if key not in outside})
        write_prompts(folder, self._prompts(config))
        frozen = Composed(
            values=resolved(config),
            unresolved=config,
            choices=composed.choices,
            sources={},
            overrides=composed.overrides,
            conf_folders=tuple(conf_dirs(conf)),
            prompt_folders=tuple(prompt_dirs(conf)),
        )
        return replace(self.settings, composed=frozen).with_datasets(written)

    def _prompts(self, config: Mapping[str, Any]) -> dict[str, str]:
        """Every template that may be used, and the templates that they include."""
        composed = self.settings.composed
        prompts = Prompts(composed.prompt_folders, composed.unsaved.prompts)
        named: list[str] = []
        for values in (config["target"], config["simulator"], *config["metric"].values()):
            texts = (values.get(key) for key in _ASKING)
            named += [text for text in texts if isinstance(text, str) and is_file_name(text)]
        for name, metric in self.settings.run.metric.items():
            named += build_metric(name, metric, prompts).prompts
        parts = dict.fromkeys(part for one in named for part in prompts.parts(one) if not prompts.is_kept(part))
        return {**composed.unsaved.prompts, **{part: prompts.source(part) for part in parts}}


@requires("read")
def plan(space: Workspace, request: RunRequest) -> PlannedRun:
    """Compose and validate the run of a request, and add the checks of its cases."""
    own = own_definitions(space, request)
    planned = _planned(space, request, own)
    if not may_have_checks(space, request, own):
        return planned
    run, added = planned.settings.run, None
    with suppress(UserError):  # the check of the run reports invalid data with all other problems
        added = added_checks(space, select(run), judges=run.judge.kind != "embedded")
    if added is None:
        return planned
    if added.request(request) != request:
        planned = _planned(space, added.request(request), own, added, planned)
    return replace(planned, notices=added.notices)


def _planned(
    space: Workspace,
    request: RunRequest,
    own: Own,
    added: AddedChecks | None = None,
    known: PlannedRun | None = None,
) -> PlannedRun:
    """Compose a run with these definitions; reuse the cases that `known` has read."""
    definitions = {name: definition for name, (definition, _) in own.metrics.items()}
    subjects = RunSubjects(request.bot, request.judge or "target", definitions, request.datasets, own.datasets)
    with subjects.linked():
        refuse_elsewhere(space, {**request.options, "metric": definitions})
        named, changes = with_values(space, request)
        changes = added.values(changes) if added else changes
        settings = settings_of(compose(named.words(), unsaved=own.unsaved(changes)), programs=False)
        if known is not None:
            settings = settings.with_datasets(known.settings.run.dataset)
            return PlannedRun(named, known.rows, settings, subjects, known.kinds)
        rows, held = dict[str, CountedRows | _CaseRows](), dict[str, DatasetConfig]()
        for name, config in settings.run.dataset.items():
            key = settings.keys["dataset", name]
            frozen = _frozen(config, Path(), key)
            if key in own.datasets:
                rows[key] = own.datasets[key][1]
                read = _KeptCases(partial(readers.read, name, readers.HeldDataset.of(frozen, rows[key])))
            else:
                read = _KeptCases(partial(readers.read, name, config))
                rows[key] = _CaseRows(read)
            held[name] = readers.HeldDataset.of(frozen, rows[key], read)
        kinds = partial(_kinds, space, settings, own)
        return PlannedRun(named, rows, settings.with_datasets(held), subjects, kinds)


def _kinds(space: Workspace, settings: Settings, own: Own) -> CaseKinds:
    """What checks know of the current cases. Files of conf/ are read each time."""
    run, keys = settings.run, {settings.keys["dataset", name] for name in settings.run.dataset}
    if not keys <= own.datasets.keys():
        return CaseKinds()
    states = [space.read(cases.state, dataset_id(space, key)) for key in sorted(keys)]
    reading = [(name, config.model_dump_json()) for name, config in run.dataset.items()]
    return space.kinds.get((*states, *reading, run.limit, run.generate), CaseKinds)


def _frozen(config: DatasetConfig, folder: Path, key: str) -> DatasetConfig:
    """The configuration of a dataset's frozen copy, with the same selection of cases."""
    values = {name: getattr(config, name) for name in (*_KEPT, *KEYS)}
    return DatasetConfig.model_validate({**values, **data_keys(folder, key)})
