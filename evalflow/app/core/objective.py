"""The one number of a run that a sweeper of Hydra optimises, such as Optuna's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evalflow.config.schema import RunConfig
from evalflow.errors import Problem, did_you_mean
from evalflow.lazy import pl
from evalflow.report.wording import headline_rows


def objective_problems(run: RunConfig, name: str) -> Iterator[Problem]:
    """Return why the metric that a run names as its objective does not give one number."""
    if name not in run.metric:
        yield Problem(
            f"there is no metric {name!r} in this run", f"objective={name}", did_you_mean(name, list(run.metric))
        )
    if len(run.dataset) > 1:
        datasets = " and ".join(run.dataset)
        hint = "sweep over one dataset, or put the cases into one file"
        yield Problem(f"an objective is one number, and {datasets} have one each", f"objective={name}", hint)


def objective_value(folder: Path, name: str) -> float | None:
    """The value of a metric over all cases of a finished run: its mean, or the first of its figures; None if none."""
    rows = headline_rows(pl.read_parquet(folder / "summary.parquet"))
    return next((row.value for row in rows if row.metric == name), None)
