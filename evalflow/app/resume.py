"""The command `resume`: finish a run. Nothing that is finished is asked again."""

from __future__ import annotations

from evalflow.app.locate import find_run
from evalflow.app.run import Order, Watcher, run
from evalflow.app.saved import composed_of, read_manifest


def resume(given: str | None, watcher: Watcher, *, retry_errors: bool) -> int:
    """Finish a run: the plan minus what its journals hold.

    Args:
        given: The run's folder; the latest without it.
        watcher: Who shows it.
        retry_errors: Ask again what ended in error.

    Returns:
        The exit code, as of `run`.

    Raises:
        UserError: There is no such run, another process works on it, or what it is made from has changed.
        InfrastructureError, BudgetError: A call could not be made any more; what was finished is written.
    """
    folder = find_run(given)
    manifest = read_manifest(folder)
    order = Order(
        composed=composed_of(manifest),
        folder=folder.path,
        run_id=manifest["run_id"],
        latest=None,
        resumed=manifest,
        retry_errors=retry_errors,
    )
    return run(order, watcher)
