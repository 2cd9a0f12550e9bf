"""The command `resume`: finish a run without repeating finished calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from evalflow.app.core.begin import RunOrder
from evalflow.app.core.programs import ProgramError, agree, expect_agreed
from evalflow.app.core.saved import composed_of, find_run, read_manifest
from evalflow.app.run import Screen, run
from evalflow.config.schema import BudgetConfig
from evalflow.errors import Problem, UserError, command, did_you_mean
from evalflow.paths import conf_dirs
from evalflow.run.folder import refuse_links


def resume(
    given: str | None,
    screen: Screen,
    *,
    retry_errors: bool,
    changes: Sequence[str] = (),
    agrees: Callable[[str], bool] = lambda _: False,
) -> int:
    """Finish a run: score all cells that its journals lack.

    Args:
        given: The run's folder; by default the latest.
        screen: Shows progress and results.
        retry_errors: Retry what ended in error.
        changes: The new budget, e.g. `budget.usd=5`, for all parts of the run together.
        agrees: Asks the user whether to start a program that the folder names, if it was never started here before.

    Returns:
        The exit code, as for `run`; 130 if stopped by hand again.

    Raises:
        UserError: `changes` has a setting other than the budget, there is no such run, another process works on it, or
            its data or configuration have changed.
        InfrastructureError, BudgetError: No further calls could be made; finished results are written.
    """
    folder = find_run(given, "resume")
    refuse_links(folder)
    manifest = read_manifest(folder)
    try:
        hint = f"if you trust it: {command('resume', folder.path, '--trust-program')}"
        expect_agreed(manifest, str(folder.path), hint)
    except ProgramError as error:
        if not agrees(error.problems[0].what):
            raise
        agree(manifest)
    manifest = _with_budget(manifest, changes)
    order = RunOrder(
        composed=composed_of(manifest),
        folder=folder.path,
        run_id=manifest["run_id"],
        latest=None,
        resumed=manifest,
        retry_errors=retry_errors,
    )
    try:
        return run(order, screen)
    except KeyboardInterrupt:
        screen.interrupted(folder.path)
        return 130


def _new_run_command(manifest: Mapping[str, Any], changes: Sequence[str]) -> str:
    changed = {change.partition("=")[0].lstrip("+~") for change in changes}
    kept = [word for word in manifest["overrides"] if word.partition("=")[0].lstrip("+~") not in changed]
    own = [str(folder) for folder in manifest["search_folders"]["conf"] if Path(folder) not in conf_dirs(None)]
    return command(*(["--config-dir", own[0]] if own else []), *kept, *changes)


def _with_budget(manifest: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """The manifest with another budget, the only setting that can change when a run is resumed."""
    settings = [change for change in changes if not change.startswith("budget.")]
    if settings:
        what = f"{', '.join(settings)}: a run keeps its settings, all but its budget, or its scores would not be alike"
        raise UserError(
            Problem(
                what,
                "command line",
                f"start it again; what was asked is remembered: {_new_run_command(manifest, changes)}",
            )
        )
    config = manifest["config"]
    values: dict[str, Any] = {**config.get("budget", {})}
    for change in changes:
        key, _, text = change.removeprefix("budget.").partition("=")
        if key not in BudgetConfig.model_fields:
            hint = did_you_mean(key, BudgetConfig.model_fields)
            raise UserError(Problem(f"the budget has no {key!r}", "command line", hint))
        values[key] = yaml.safe_load(text)
    return {**manifest, "config": {**config, "budget": values}}
