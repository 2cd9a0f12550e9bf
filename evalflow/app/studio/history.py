"""A metric's number over successive runs, with gates, and with breaks where its meaning changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalflow.app.core.comparison import Obstacle, other_versions, unlike_metrics
from evalflow.app.core.saved import read_manifest
from evalflow.app.studio.comparing import scored_runs
from evalflow.app.studio.run_types import Run
from evalflow.app.studio.space import Workspace
from evalflow.errors import EvalflowError
from evalflow.run.folder import RunFolder
from evalflow.summary.gates import Condition, parse_condition

_ENDS = {"pass_rate": ("pass_rate", "pass_rate_low", "pass_rate_high")}
"""Statistics that are columns of the row of the mean."""
_CALLED = ("the run before", "this one")
Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tracked:
    """A metric with a history.

    Attributes:
        statistics: The available statistics: mean, pass_rate, or names of figures.
        runs: The number of runs.
    """

    bot: str
    dataset: str
    metric: str
    statistics: Sequence[str]
    runs: int


@dataclass(frozen=True, slots=True)
class Held:
    """A gate on the number. `passed` is None if the data could not decide."""

    condition: Condition
    passed: bool | None


@dataclass(frozen=True, slots=True)
class Point:
    """A run in a history.

    Attributes:
        run_id, title, at: The run, and when it was created (ISO 8601, UTC).
        value, low, high: The number and its 95 % interval; None if missing.
        n, n_scored: All cells, and those with a score.
        gates: The gates on this number.
        breaks: Why this point cannot be compared with the one before.
        changed: Other changes since the point before: the bot, or the data.
    """

    run_id: str
    title: str
    at: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_scored: int
    gates: Sequence[Held]
    breaks: Sequence[Obstacle]
    changed: Sequence[str]


@dataclass(frozen=True, slots=True)
class History:
    """A number over runs, oldest first. `higher_is_better` and `bounded` (to 0..1) come from the latest run."""

    points: Sequence[Point]
    higher_is_better: bool
    bounded: bool


def tracked(space: Workspace) -> list[Tracked]:
    """All metrics with a history, those with the latest run first."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    count: dict[tuple[str, str, str], set[str]] = {}
    for run in scored_runs(space):
        for row in run.facts["summary"]:
            key = (run.bot, row["dataset"], row["metric"])
            known = found.setdefault(key, {})
            known[row["statistic"]] = None
            if row["pass_rate"] is not None:
                known["pass_rate"] = None
            count.setdefault(key, set()).add(run.run_id)
    return [Tracked(*key, list(statistics), len(count[key])) for key, statistics in found.items()]


def history(space: Workspace, bot: str, dataset: str, metric: str, statistic: str = "mean") -> History:
    """How a number changed over the latest runs. `statistic`: mean, pass_rate, or the name of a figure."""
    points: list[Point] = []
    traits: Mapping[str, Any] = {}
    before: Manifest | None = None
    for run in reversed(scored_runs(space)):
        row = _row(run, dataset, metric, statistic) if run.bot == bot else None
        if row is None:
            continue
        now = _manifest(run)
        traits = _traits(run, metric)
        points.append(_point(run, row, statistic, [] if not points else _breaks(metric, before, now), before, now))
        before = now
    higher = traits.get("direction") != "lower_is_better" or statistic == "pass_rate"
    return History(points, higher, bool(traits.get("bounded")) or statistic == "pass_rate")


def _row(run: Run, dataset: str, metric: str, statistic: str) -> Mapping[str, Any] | None:
    wanted = ("mean" if statistic in _ENDS else statistic, dataset, metric, _traits(run, metric).get("judge"))
    for row in run.facts["summary"]:
        if (row["statistic"], row["dataset"], row["metric"], row["judge"]) == wanted:
            return row
    return None


def _traits(run: Run, metric: str) -> dict[str, Any]:
    metrics: Sequence[dict[str, Any]] = run.facts["metrics"]
    return next((one for one in metrics if one["name"] == metric), dict[str, Any]())


def _point(
    run: Run,
    row: Mapping[str, Any],
    statistic: str,
    breaks: Sequence[Obstacle],
    before: Manifest | None,
    now: Manifest | None,
) -> Point:
    value, low, high = (row[name] for name in _ENDS.get(statistic, ("value", "ci_low", "ci_high")))
    return Point(
        run_id=run.run_id,
        title=run.title,
        at=run.created_at,
        value=value,
        low=low,
        high=high,
        n=row["n"],
        n_scored=row["n_scored"],
        gates=list(_gates(run, row["dataset"], row["metric"], statistic)),
        breaks=breaks,
        changed=list(_changed(row["dataset"], before, now)) if before and now else [],
    )


def _gates(run: Run, dataset: str, metric: str, statistic: str) -> Iterator[Held]:
    """The gates on the number itself, without gates on a tag or against a baseline."""
    for gate in run.facts["gates"]:
        if gate["dataset"] == dataset and gate["name"] == f"{metric} {statistic} {gate['condition']}":
            yield Held(parse_condition(gate["condition"], gate["name"]), gate["passed"])


def _manifest(run: Run) -> Manifest | None:
    try:
        return read_manifest(RunFolder(run.folder))
    except (EvalflowError, OSError, ValueError):
        return None


def _breaks(metric: str, before: Manifest | None, now: Manifest | None) -> list[Obstacle]:
    if before is None or now is None:
        return [Obstacle("metric", "the folder of a run is gone, so that nobody can tell whether it measured the same")]
    old, new = (manifest["metrics"].get(metric) for manifest in (before, now))
    if old is None or new is None:
        return [Obstacle("metric", f"the files of a run do not know metric {metric}")]
    versions = other_versions({metric: old["version"]}, {metric: new["version"]}, _CALLED)
    return [*versions, *unlike_metrics(metric, before, now, _CALLED)]


def _changed(dataset: str, before: Manifest, now: Manifest) -> Iterator[str]:
    if before["target"]["identity"] != now["target"]["identity"]:
        yield "the bot"
    old, new = (manifest["datasets"].get(dataset) for manifest in (before, now))
    if old and new and (old["sha256"], old["cases"]) != (new["sha256"], new["cases"]):
        yield "the data"
