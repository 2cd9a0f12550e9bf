"""The command `resume`: finish a run. Nothing that is finished is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from evalflow.app.launch import Screen
from evalflow.app.locate import find_run
from evalflow.app.results.saved import composed_of, read_manifest
from evalflow.app.run import run
from evalflow.app.setup.order import Order
from evalflow.config.schema import BudgetConfig
from evalflow.errors import Problem, UserError, did_you_mean


def resume(given: str | None, screen: Screen, *, retry_errors: bool, budget: Sequence[str] = ()) -> int:
    """Finish a run: the plan minus what its journals hold.

    Args:
        given: The run's folder; the latest without it.
        screen: Who shows it.
        retry_errors: Ask again what ended in error.
        budget: What the budget is from now on, such as `budget.usd=5`, over all parts of the run together.

    Returns:
        The exit code, as of `run`; 130 where it was stopped by hand once more.

    Raises:
        UserError: There is no such run, another process works on it, or what it is made from has changed.
        InfrastructureError, BudgetError: A call could not be made any more; what was finished is written.
    """
    folder = find_run(given)
    manifest = _with_budget(read_manifest(folder), budget)
    order = Order(
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


def _with_budget(manifest: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """The manifest with another budget. Nothing else of a run can change while it is resumed."""
    config = manifest["config"]
    values: dict[str, Any] = {**config.get("budget", {})}
    for change in changes:
        key, _, text = change.removeprefix("budget.").partition("=")
        if key not in BudgetConfig.model_fields:
            hint = did_you_mean(key, BudgetConfig.model_fields)
            raise UserError(Problem(f"the budget has no {key!r}", "command line", hint))
        values[key] = yaml.safe_load(text)
    return {**manifest, "config": {**config, "budget": values}}
