"""The command `run`: one run, or a sweep of them, from a command line to an exit code."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from evalflow.app.run import Watcher, run
from evalflow.app.setup.order import Order
from evalflow.app.setup.settings import settings_of, with_default_judge
from evalflow.app.sweep import SweepTables, open_sweep, write_sweep
from evalflow.config.load import Job, launch
from evalflow.config.runid import new_run_id
from evalflow.errors import EvalflowError
from evalflow.run.folder import RunFolder

WORST_FIRST = (130, 5, 4, 2, 3, 1, 0)


class Screen(Watcher, Protocol):
    """What `execute` shows beside the runs themselves."""

    def failed(self, error: EvalflowError, folder: Path | None) -> None:
        """A run ended early; `folder` is what it left behind, if anything."""

    def interrupted(self, folder: Path | None) -> None:
        """A run was stopped by hand; `folder` is what it left behind, if anything."""

    def sweeping(self) -> None:
        """The runs to come are those of a sweep."""

    def swept(self, folder: Path, tables: SweepTables) -> None:
        """A sweep is done and its report written."""


@dataclass(slots=True)
class _Jobs:
    """What became of the jobs so far."""

    codes: list[int] = field(default_factory=list[int])
    folders: list[Path] = field(default_factory=list[Path])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    sweep: Path | None = None


def execute(arguments: Sequence[str], config_dir: Path | None, screen: Screen, run_id: str | None = None) -> int:
    """Run what the command line says.

    Args:
        arguments: Overrides and Hydra's flags.
        config_dir: A config folder to search first.
        screen: Who shows it.
        run_id: The id that the run is to have, where something waits for it; None: a new one.

    Returns:
        The exit code; of a sweep, the worst of its jobs.

    Raises:
        UserError: Nothing could be composed.
    """
    arguments = with_default_judge(arguments, config_dir)
    overrides = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    run_id = run_id or new_run_id(overrides)
    jobs = _Jobs()
    try:
        launch(
            arguments,
            lambda job: jobs.codes.append(_one(job, run_id, overrides, jobs, screen)),
            config_dir,
            run_id,
            settings_of,
        )
    except KeyboardInterrupt:
        jobs.codes.append(130)
        screen.interrupted(jobs.folders[-1] if jobs.folders else None)
    finally:
        if jobs.sweep:
            _end_sweep(jobs, jobs.sweep, screen)
    return next((code for code in WORST_FIRST if code in jobs.codes), 0)


def _one(job: Job, run_id: str, overrides: Sequence[str], jobs: _Jobs, screen: Screen) -> int:
    own_id, latest = run_id, job.folder
    if job.number is not None:
        own_id, latest = f"{run_id}-{job.number}", job.folder.parent
        if jobs.sweep is None:
            jobs.sweep = job.folder.parent
            open_sweep(jobs.sweep, run_id, overrides)
            screen.sweeping()
    try:
        return run(Order(job.read(), job.folder, own_id, latest, tuple(jobs.folders)), screen)
    except EvalflowError as error:
        jobs.failed[job.folder.name] = "; ".join(" ".join(line.split()) for line in str(error).splitlines())
        screen.failed(error, job.folder if _has_begun(job.folder, own_id) else None)
        return error.exit_code
    finally:
        if _has_begun(job.folder, own_id):
            jobs.folders.append(job.folder)
        else:
            _leave_nothing(job.folder)


def _has_begun(folder: Path, run_id: str) -> bool:
    """Whether the folder holds this very run."""
    return RunFolder(folder).manifest.exists() and RunFolder(folder).read_manifest()["run_id"] == run_id


def _leave_nothing(folder: Path) -> None:
    """Remove the folder of a run that was refused: Hydra makes it before anything can be checked."""
    if {path.name for path in folder.glob("*")} <= {".hydra"}:
        shutil.rmtree(folder, ignore_errors=True)


def _end_sweep(jobs: _Jobs, sweep: Path, screen: Screen) -> None:
    if not jobs.folders:
        shutil.rmtree(sweep, ignore_errors=True)
        return
    screen.swept(sweep, write_sweep(sweep, jobs.folders, jobs.failed))
