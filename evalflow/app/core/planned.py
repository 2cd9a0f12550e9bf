"""Runs planned by one process and started by another; the composed configuration is stored in the run's folder."""

from __future__ import annotations

from pathlib import Path

from evalflow.app.core.begin import described
from evalflow.app.core.inspect import Inspection
from evalflow.config.yaml_text import yaml_of
from evalflow.engine.folder import RunFolder
from evalflow.paths import private_folder, write_atomically
from evalflow.records.manifest import PLANNED, Manifest


def write_plan(inspection: Inspection, folder: Path, run_id: str) -> None:
    """Write the files by which `resume` starts the run: run.json, and `.hydra/` as a run of the command line has it.

    UserError if the baseline that gates need is not a run, or measured something else.
    """
    manifest = described(inspection, run_id).model_copy(update={"status": PLANNED, "process": 0})
    composed = inspection.parts.settings.composed
    hydra = private_folder(folder / ".hydra")
    write_atomically(hydra / "config.yaml", yaml_of(composed.storable))
    write_atomically(hydra / "overrides.yaml", yaml_of(composed.overrides))
    RunFolder(folder).write_manifest(manifest)


def moved_here(manifest: Manifest) -> Manifest:
    """The manifest of a planned run whose working directory may have been restored elsewhere, as it is here."""
    before, here = Path(manifest.working_directory), Path.cwd()

    def moved(path: str) -> str:
        return str(here / Path(path).relative_to(before)) if Path(path).is_relative_to(before) else path

    datasets = {
        name: facts.model_copy(update={"files": [moved(file) for file in facts.files]})
        for name, facts in manifest.datasets.items()
    }
    folders = {group: [moved(path) for path in paths] for group, paths in manifest.search_folders.items()}
    return manifest.model_copy(update={"datasets": datasets, "search_folders": folders})
