"""What a run leads to: the bot and the datasets that are still here, and the run before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from evalflow.app.workspace.bots import get_bot
from evalflow.app.workspace.comparing import Candidate, candidate, scored_of, scored_runs, share_scores
from evalflow.app.workspace.datasets import list_datasets
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.runs import get_run
from evalflow.app.workspace.space import NotFoundError, Workspace
from evalflow.errors import EvalflowError

_LOOKED_AT = 10
"""How many earlier runs are looked at for one that can be compared as it is."""


@dataclass(frozen=True, slots=True)
class Related:
    """Where one can go on from a run.

    Attributes:
        bot: Its name; empty where there is none of that name here, as of a run of the command line.
        datasets: Those of its datasets that are here.
        before: The latest earlier run of the same bot that shares a dataset and a metric with it, one that can be
            compared as it is first; None where there is none, or it has no results itself or they are gone.
    """

    bot: str
    datasets: Sequence[str]
    before: Candidate | None


def related(space: Workspace, run_id: str) -> Related:
    """Look what there is.

    Raises:
        NotFoundError: There is no such run.
    """
    run = get_run(space, run_id)
    known = {dataset.name for dataset in list_datasets(space)}
    own = run.request.datasets if run.request else run.facts.get("datasets", ())
    return Related(_bot(space, run), [name for name in own if name in known], _before(space, run))


def _bot(space: Workspace, run: Run) -> str:
    try:
        return get_bot(space, run.bot).name
    except NotFoundError:
        return ""


def _before(space: Workspace, run: Run) -> Candidate | None:
    if not run.facts.get("metrics"):
        return None
    earlier = (
        other
        for other in scored_runs(space)
        if other.bot == run.bot and other.created_at < run.created_at and share_scores(run, other)
    )
    try:
        scored = scored_of(run)
    except EvalflowError:
        return None
    found = [candidate(other, scored) for other in islice(earlier, _LOOKED_AT)]
    return next((one for one in found if not one.obstacles), found[0] if found else None)
