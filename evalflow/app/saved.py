"""Reading a run back from its folder: enough to derive everything again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from evalflow import datasets
from evalflow.app.derive import Recipe
from evalflow.app.settings import settings_of
from evalflow.config.load import Composed
from evalflow.config.schema import DatasetConfig
from evalflow.errors import Problem, UserError
from evalflow.metrics.registry import build_metric
from evalflow.prompts import Prompts
from evalflow.records import Case
from evalflow.run.folder import RunFolder
from evalflow.run.manifest import SCHEMA
from evalflow.summary import parse_gates


@dataclass(frozen=True, slots=True)
class Saved:
    """A run as its folder tells it."""

    folder: RunFolder
    manifest: dict[str, Any]
    recipe: Recipe

    def cases(self) -> Iterator[Case]:
        """The cases as evaluated, in input order."""
        return read_cases(self.folder, self.manifest)


def read_manifest(folder: RunFolder) -> dict[str, Any]:
    """run.json.

    Raises:
        UserError: It was written by another version.
    """
    manifest = folder.read_manifest()
    if manifest.get("schema") != SCHEMA:
        what = f"this run was written by another version of evalflow (schema {manifest.get('schema')}, not {SCHEMA})"
        raise UserError(Problem(what, str(folder.manifest), "open it with the version named in it"))
    return manifest


def composed_of(manifest: dict[str, Any]) -> Composed:
    """The configuration that a run was made from."""
    search = manifest["search_folders"]
    return Composed(
        values=manifest["config"],
        choices=manifest["choices"],
        sources={},
        overrides=tuple(manifest["overrides"]),
        conf_folders=tuple(Path(path) for path in search["conf"]),
        prompt_folders=tuple(Path(path) for path in search["prompts"]),
    )


def load(folder: RunFolder) -> Saved:
    """Read a run back.

    Raises:
        UserError: Its files are of another version, or what it was made from is gone.
    """
    manifest = read_manifest(folder)
    settings = settings_of(composed_of(manifest))
    prompts = Prompts(settings.composed.prompt_folders)
    metrics = {name: build_metric(name, config, prompts) for name, config in settings.run.metric.items()}
    judge_of = {name: facts["judge"] for name, facts in manifest["metrics"].items()}
    gates = parse_gates(settings.run.gate, metrics)
    return Saved(folder, manifest, Recipe(settings, metrics, judge_of, gates))


def read_cases(folder: RunFolder, manifest: dict[str, Any]) -> Iterator[Case]:
    """The cases of a run's cases.jsonl, each under the name of the dataset it came from.

    Raises:
        UserError: The file is missing.
    """
    if not folder.cases.is_file():
        raise UserError(Problem("the run has no cases.jsonl: it ended before it could be written", str(folder.path)))
    everything = datasets.read("cases", DatasetConfig(path=str(folder.cases), format="jsonl"))
    for name, facts in manifest["datasets"].items():
        for case in islice(everything, facts["cases"]):
            yield replace(case, dataset=name)
