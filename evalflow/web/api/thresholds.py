"""/runs/{run}/thresholds: other thresholds for a run that has ended, kept, given back, or taken along by its bot."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from evalflow.app.workspace.metrics import Metric
from evalflow.app.workspace.run_types import Run
from evalflow.app.workspace.thresholds import carry_threshold, keep_threshold, restore_threshold
from evalflow.web.api.deps import Expected, Name, Space, tagged

router = APIRouter(prefix="/runs/{run}/thresholds/{metric}", tags=["scores"])


class Threshold(BaseModel):
    """A threshold."""

    model_config = ConfigDict(extra="forbid")

    threshold: Annotated[float, Field(allow_inf_nan=False, description="On the scale of the scores.")]


@router.put("")
def put_threshold(
    space: Space, run: Name, metric: Name, other: Threshold, expected: Expected, response: Response
) -> Run:
    """Judge a run by another threshold from now on: its gates, exit code and reports follow; nothing is run again."""
    return _tagged(keep_threshold(space, run, metric, other.threshold, expected), response)


@router.delete("")
def remove_threshold(space: Space, run: Name, metric: Name, expected: Expected, response: Response) -> Run:
    """Judge a run by the threshold that it was made with again."""
    return _tagged(restore_threshold(space, run, metric, expected), response)


@router.post("/carry")
def post_carried(space: Space, run: Name, metric: Name, other: Threshold) -> Metric:
    """Put a threshold, and nothing else, into the metric of the run's bot for its next runs; the run stays."""
    return carry_threshold(space, run, metric, other.threshold)


def _tagged(run: Run, response: Response) -> Run:
    tagged(response, run.version)
    return run
