"""Runs planned by one process and started by another; the composed configuration is stored in the run's folder."""

from __future__ import annotations

from pathlib import Path

from evalflow.app.core.begin import described
from evalflow.app.core.inspect import Inspection
from evalflow.config.yaml_text import yaml_of
from evalflow.engine.folder import RunFolder
from evalflow.paths import private_folder, shown, write_atomically
from evalflow.records.manifest import PLANNED


def write_plan(inspection: Inspection, folder: Path, run_id: str) -> None:
    """Write the files by which `resume` starts the run: run.json, and `.hydra/` as a run of the command line has it.

    UserError if the baseline that gates need is not a run, or measured something else.
    """
    manifest = described(inspection, run_id)
    manifest = manifest.model_copy(update={"status": PLANNED, "process": 0, "folder": shown(folder)})
    composed = inspection.parts.settings.composed
    hydra = private_folder(folder / ".hydra")
    write_atomically(hydra / "config.yaml", yaml_of(composed.storable))
    write_atomically(hydra / "overrides.yaml", yaml_of(composed.overrides))
    RunFolder(folder).write_manifest(manifest)
