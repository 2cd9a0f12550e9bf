"""The commands `run` and `resume`: a run or a sweep, from a command line to an exit code."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from evalflow.app.core.assemble import settings_of, with_default_judge
from evalflow.app.core.begin import RunOrder
from evalflow.app.core.engines import close_engines
from evalflow.app.core.open_run import inspected, opened
from evalflow.app.core.options import options
from evalflow.app.core.saved import ProgramError, agree, composed_of, expect_agreed, find_run, started_again
from evalflow.config.load import HydraJob, launch
from evalflow.config.schema import BudgetConfig
from evalflow.config.surroundings import ENGINE_KINDS
from evalflow.engine.folder import RunFolder, refuse_links
from evalflow.errors import EvalflowError, Problem, UserError, WaitingError, command, unknown_name
from evalflow.paths import new_run_id
from evalflow.records.manifest import PLANNED, Manifest

if TYPE_CHECKING:
    from evalflow.app.core.screen import TerminalScreen

WORST_FIRST = (130, 5, 4, 2, 6, 3, 1, 0)


def run(order: RunOrder, screen: TerminalScreen) -> int:
    """Check the run, execute it, write all files, and report the outcome; returns the exit code: 0, 1 or 3.

    Raises as `inspected` and `opened` do, WaitingError if it waits for batches, and KeyboardInterrupt if stopped by
    hand; finished results are written.
    """
    with opened(order, inspected(order), screen) as one:
        one.score()
    return one.exit_code


def execute(
    arguments: Sequence[str], config_dir: Path | None, screen: TerminalScreen, run_id: str | None = None
) -> int:
    """Execute a run or a sweep from overrides and Hydra's flags; the exit code of a sweep is the worst of its runs.

    A worker sets `run_id`, to find the run that it starts. UserError if the configuration could not be composed, or if
    the run, or each run of a sweep, was refused before it began.
    """
    arguments = with_default_judge(arguments, config_dir)
    overrides = [argument for argument in arguments if "=" in argument and not argument.startswith("-")]
    jobs = _Jobs(run_id or new_run_id(overrides), overrides, screen)
    try:
        launch(arguments, jobs.run, config_dir, jobs.run_id, settings_of)
    except KeyboardInterrupt:
        jobs.codes.append(130)
        screen.interrupted(jobs.folders[-1] if jobs.folders else None)
    finally:
        close_engines()
        jobs.end_sweep()
    if jobs.refused and not jobs.folders and 130 not in jobs.codes:
        raise UserError(dict.fromkeys(jobs.refused))
    return next((code for code in WORST_FIRST if code in jobs.codes), 0)


@dataclass(slots=True)
class _Jobs:
    run_id: str
    overrides: Sequence[str]
    screen: TerminalScreen
    codes: list[int] = field(default_factory=list[int])
    folders: list[Path] = field(default_factory=list[Path])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    refused: list[Problem] = field(default_factory=list[Problem])  # of a sweep's runs, while none has begun
    sweep: Path | None = None

    def run(self, job: HydraJob) -> float | None:
        """Execute one run, which is part of a sweep if it has a number; return the value of its objective.

        None if it names no objective, or has failed.
        """
        own_id, latest = self.run_id, job.folder
        if job.number is not None:
            own_id, latest = f"{self.run_id}-{job.number}", job.folder.parent
            if self.sweep is None:
                from evalflow.app.core.sweep import open_sweep

                self.sweep = latest
                open_sweep(latest, self.run_id, self.overrides)
                self.screen.sweeping()
        folder = RunFolder(job.folder)

        def has_begun() -> bool:
            try:
                return folder.manifest.exists() and folder.read_manifest().run_id == own_id
            except UserError:  # another run's folder, which this run has refused to overwrite
                return False

        try:
            order = RunOrder(job.read(), job.folder, own_id, latest, tuple(self.folders))
            self.codes.append(run(order, self.screen))
            objective = order.composed.storable.get("objective")
            if objective is not None and self.codes[-1] in (0, 1):
                from evalflow.app.core.objective import objective_value

                return objective_value(job.folder, objective)
        except WaitingError as error:
            self.screen.waiting(error, job.folder)
            self.codes.append(error.exit_code)
        except EvalflowError as error:
            self.failed[job.folder.name] = "; ".join(" ".join(line.split()) for line in str(error).splitlines())
            self.codes.append(error.exit_code)
            if isinstance(error, UserError) and not self.folders and not has_begun():
                self.refused += error.problems
            else:
                self.screen.failed(error, job.folder if has_begun() else None)
        finally:
            if has_begun():
                self.folders.append(job.folder)
            elif {path.name for path in job.folder.glob("*")} <= {".hydra"}:  # Hydra creates it before any check
                shutil.rmtree(job.folder, ignore_errors=True)
        return None

    def _copy_sweep(self, sweep: Path) -> None:
        """Copy the sweep with its runs, some of which may have failed, where the first of them is copied to."""
        if (to := RunFolder(self.folders[0]).read_manifest().config.get("copy_to")) is not None:
            from evalflow.app.core.stored_runs import OutgoingCopy

            self.screen.exported(OutgoingCopy(sweep, to).finish(), RunFolder(sweep))

    def end_sweep(self) -> None:
        if self.sweep and self.folders:
            from evalflow.app.core.sweep import write_sweep

            self.screen.swept(self.sweep, *write_sweep(self.sweep, self.folders, self.failed), self.failed)
            self._copy_sweep(self.sweep)
        elif self.sweep:
            shutil.rmtree(self.sweep, ignore_errors=True)


def resume(
    given: str | None,
    screen: TerminalScreen,
    *,
    retry_errors: bool,
    changes: Sequence[str] = (),
    agrees: Callable[[str], bool] = lambda _: False,
) -> int:
    """Finish a run, or start a planned one: score all cells that its journals lack.

    The exit code is that of `run`; 6 or 130 if it ends early.

    `changes` is a new budget for all parts of the run together, e.g. `budget.usd=5`, and where it works from now on,
    e.g. `engine=ray`; UserError for any other setting.
    `agrees` asks the user whether to start a program that the folder names, if it was never started here before.
    """
    saved = find_run(given, "resume")
    folder, manifest = saved.folder, saved.manifest
    refuse_links(folder)
    try:
        hint = f"if you trust it: {command('resume', folder.path, '--trust-program')}"
        expect_agreed(manifest, str(folder.path), hint)
    except ProgramError as error:
        if not agrees(error.problems[0].what):
            raise
        agree(manifest)
    manifest = _with_changes(manifest, changes)
    order = RunOrder(
        composed_of(manifest), folder.path, manifest.run_id, None, resumed=manifest, retry_errors=retry_errors
    )
    if manifest.status == PLANNED:
        order = RunOrder(composed_of(manifest), folder.path, manifest.run_id, folder.path, planned=manifest)
    try:
        return run(order, screen)
    except WaitingError as error:
        screen.waiting(error, folder.path)
        return error.exit_code
    except KeyboardInterrupt:
        screen.interrupted(folder.path)
        return 130
    finally:
        close_engines()


def _with_changes(manifest: Manifest, changes: Sequence[str]) -> Manifest:
    """The manifest with another budget or engine, the only settings that can change when a run is resumed."""
    pairs = [(change, *change.lstrip("+").partition("=")[::2]) for change in changes]
    settings = [change for change, key, _ in pairs if key != "engine" and not key.startswith(("budget.", "engine."))]
    if settings:
        kept_too = "a run keeps its settings, all but its budget and engine, or its scores would not be alike"
        what = f"{', '.join(settings)}: {kept_too}"
        again = started_again(manifest, changes)
        raise UserError(Problem(what, "command line", f"start it again; replies are remembered: {again}"))
    config = {**manifest.config, "budget": {**manifest.config.get("budget", {})}}
    config["engine"] = {**manifest.config.get("engine", {"kind": "local"})}
    for _, key, text in sorted(pairs, key=lambda pair: pair[1]):  # `engine` before its keys
        group, _, name = key.partition(".")
        if not name:
            config["engine"] = dict(_engine(text))
            continue
        model = BudgetConfig if group == "budget" else ENGINE_KINDS.config(config["engine"]["kind"])
        known = model.model_fields
        if name not in known:
            what = f"the {group} has no {name!r}"
            raise UserError(unknown_name(what, "command line", name, known, before=f"{group}."))
        config[group][name] = yaml.safe_load(text)
    return manifest.model_copy(update={"config": config})


def _engine(name: str) -> Mapping[str, Any]:
    engines = {option.name: option.values for option in options(None, "engine")}
    if name not in engines:
        raise UserError(unknown_name(f"there is no engine {name!r}", "command line", name, engines, before="engine="))
    return engines[name]
