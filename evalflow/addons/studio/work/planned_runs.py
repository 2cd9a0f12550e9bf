"""A run request, composed once and in memory: there it is estimated, or it is frozen into a folder to run from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from evalflow import datasets as readers
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.case_choice import KEYS
from evalflow.addons.studio.work.conf_files import data_keys, write_cases, write_option, write_prompts, write_root_keys
from evalflow.addons.studio.work.own_parts import CountedRows, own_definitions, with_values
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace, refuse_elsewhere
from evalflow.addons.studio.work.subjects import RunSubjects
from evalflow.app.core.assemble import settings_of
from evalflow.config.load import compose, resolved
from evalflow.config.schema import DatasetConfig
from evalflow.config.validate import Composed, Settings
from evalflow.config.yaml_text import escaped
from evalflow.metrics.registry import build_metric
from evalflow.paths import conf_dirs, private_folder, prompt_dirs
from evalflow.prompts import Prompts, is_file_name

GROUPS = ("target", "judge", "embedder", "simulator")
_KEPT = ("name", "title", "description", "generates")
_ASKING = ("prompt", "steps_prompt", "system_prompt")


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run as it is composed; nothing of it is written.

    Attributes:
        request: What was asked, with the judge named.
        rows: The cases that each dataset has, before any are chosen, by the name in the request.
        settings: Validated, with these cases in memory.
        subjects: What its problems are about.
    """

    request: RunRequest
    rows: Mapping[str, CountedRows]
    settings: Settings
    subjects: RunSubjects

    @property
    def counts(self) -> dict[str, int]:
        """How many cases each dataset has, before any are chosen."""
        return {name: rows.count for name, rows in self.rows.items()}

    def freeze(self, folder: Path) -> Settings:
        """Write all that the run uses below a folder; if this fails, the caller removes it.

        Returns the settings of a run from these files, on which nothing outside of the folder has an effect. They
        equal those that the command line composes of `--config-dir FOLDER/conf` and the words of the request.
        """
        private_folder(folder)
        conf, composed = folder / "conf", self.settings.composed
        config = deepcopy(composed.storable)
        written: dict[str, DatasetConfig] = {}
        for name, dataset in self.settings.run.dataset.items():
            key = self.settings.keys["dataset", name]
            write_cases(folder, key, self.rows[key])
            written[name] = _frozen(dataset, folder, key)
            config["dataset"][key] = escaped(written[name].model_dump(exclude_defaults=True))
            write_option(folder, "dataset", key, config["dataset"][key])
        for name, values in config["metric"].items():
            # Named, so that a repeat can override where the steps are.
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
        """Every template that may be used, and those that it includes."""
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
    """Compose and validate the run of a request."""
    own = own_definitions(space, request)
    definitions = {name: definition for name, (definition, _) in own.metrics.items()}
    subjects = RunSubjects(request.bot, request.judge or "target", definitions, request.datasets)
    with subjects.linked():
        refuse_elsewhere(space, {**request.options, "metric": definitions})
        named, changes = with_values(space, request)
        settings = settings_of(compose(named.words(), unsaved=own.unsaved(changes)), programs=False)
        rows, held = dict[str, CountedRows](), dict[str, DatasetConfig]()
        for name, config in settings.run.dataset.items():
            key = settings.keys["dataset", name]
            rows[key] = (
                own.datasets[key][1] if key in own.datasets else CountedRows(partial(_declared_rows, key, config))
            )
            held[name] = readers.HeldDataset.of(_frozen(config, Path(), key), rows[key])
        return PlannedRun(named, rows, settings.with_datasets(held), subjects)


def _declared_rows(key: str, config: DatasetConfig) -> Iterator[dict[str, object]]:
    return map(readers.case_to_row, readers.read(key, config))


def _frozen(config: DatasetConfig, folder: Path, key: str) -> DatasetConfig:
    """The dataset with its cases as they were read, of which it takes the same ones."""
    values = {name: getattr(config, name) for name in (*_KEPT, *KEYS)}
    return DatasetConfig.model_validate({**values, **data_keys(folder, key)})
