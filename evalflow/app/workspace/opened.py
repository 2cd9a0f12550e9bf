"""Runs that were made on the command line, taken in from their folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalflow.app.locate import find_run
from evalflow.app.results.saved import read_manifest
from evalflow.app.trusted import agree, expect_agreed
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.runs import get_run
from evalflow.app.workspace.snapshot import shown
from evalflow.app.workspace.space import TakenError, Workspace, refuse_elsewhere, within
from evalflow.errors import Problem, UserError, command
from evalflow.run.folder import refuse_links


def open_run(space: Workspace, folder: Path, *, trust_program: bool = False) -> Run:
    """Take a run in that was made on the command line; its scores follow as soon as a worker has read them.

    Args:
        space: Where.
        folder: The run's.
        trust_program: Whether to resume the run may start the program that its run.json names.

    Raises:
        TakenError: It is here already.
        ProgramError: To resume it would start a program, and nobody has agreed to that.
        UserError: The folder holds no run that has ended, or one of another version; or it lies elsewhere.
    """
    from evalflow.store import runs

    found = find_run(within(space, folder))
    refuse_links(found)
    manifest = read_manifest(found)
    refuse_elsewhere(space, manifest["config"])
    if trust_program:
        agree(manifest, space.root)
    expect_agreed(manifest, str(found.path), "open it with trust_program if you trust whoever made it", space.root)
    if manifest["status"] == "running" or not found.scores.is_file():
        hint = f"finish it: {command('resume', found.path)}"
        raise UserError(Problem("this run has no scores yet", str(found.path), hint))
    values: dict[str, Any] = {
        "run_id": manifest["run_id"],
        "title": "",
        "bot": manifest["target"]["name"],
        "state": "queued",
        "task": "load",
        "origin": "command line",
        "composition": {},
        "arguments": [*_own_conf(manifest), *manifest["overrides"]],
        "folder": str(found.path),
    }
    with space.database.writing() as connection:
        if runs.get(connection, manifest["run_id"]):
            raise TakenError(Problem(f"run {manifest['run_id']} is here already", str(found.path)))
        runs.create(connection, values)
    return get_run(space, manifest["run_id"])


def _own_conf(manifest: Mapping[str, Any]) -> list[str]:
    """The words that name the config folder which a command line was given; none where it was given none."""
    first, *_ = folders = manifest["search_folders"]["conf"]
    found_anyway = (str(Path(manifest["working_directory"], "conf").resolve()), folders[-1])
    return [] if first in found_anyway else ["--config-dir", shown(Path(first))]
