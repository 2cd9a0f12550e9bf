"""What belongs to a sweep as a whole: its run.json, its table over all runs, its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.app.core.leaderboard import leaderboards
from evalflow.app.core.saved import SavedRun
from evalflow.lazy import pl
from evalflow.paths import private_folder
from evalflow.report.sweep import agreement, write_sweep_report
from evalflow.run.folder import RunFolder
from evalflow.run.manifest import SCHEMA, now
from evalflow.summary.summarise import Summary, write_summary


@dataclass(frozen=True, slots=True)
class SweepTables:
    """A sweep in tables.

    Attributes:
        summary: The summaries of all runs, with the column `run` in front: the job's folder name.
        agreement: How far the judges agree, per metric and pair of judges.
        boards: What `leaderboards` gives.
        failed: Runs that ended early, by folder name, and why.
    """

    summary: pl.DataFrame
    agreement: pl.DataFrame
    boards: Sequence[Mapping[str, Any]]
    failed: Mapping[str, str]


def open_sweep(folder: Path, run_id: str, overrides: Sequence[str]) -> None:
    """Write the sweep's run.json before its first job."""
    private_folder(folder)
    RunFolder(folder).write_manifest(
        {
            "schema": SCHEMA,
            "run_id": run_id,
            "status": "running",
            "started_at": now(),
            "finished_at": None,
            "overrides": list(overrides),
            "jobs": [],
        }
    )


def write_sweep(folder: Path, jobs: Sequence[Path], failures: Mapping[str, str] | None = None) -> SweepTables:
    """Write the sweep's tables and report from what its runs wrote.

    Args:
        folder: The sweep's folder, with a run.json.
        jobs: The folders of the runs that have something to show, in order.
        failures: Runs that ended early, by folder name, and why; None: those that run.json names.
    """
    runs: list[tuple[str, dict[str, Any], pl.DataFrame]] = []
    for job in jobs:
        manifest = RunFolder(job).read_manifest()
        runs.append((job.name, manifest, pl.read_parquet(job / "summary.parquet")))
    summary = pl.concat([frame.select(pl.lit(name).alias("run"), pl.all()) for name, _, frame in runs])
    agreed = agreement([pl.scan_parquet(RunFolder(job).scores) for job in jobs])
    boards = leaderboards([SavedRun(RunFolder(folder / name), about, name) for name, about, _ in runs], summary)
    write_summary(Summary(summary, boards), folder)
    opened = RunFolder(folder).read_manifest()
    failed: Mapping[str, str] = opened.get("failed", {}) if failures is None else failures
    manifest = {
        **opened,
        "status": "failed" if failed else "done",
        "finished_at": now(),
        "jobs": [job.name for job in jobs],
        "failed": failed,
        **_totals(runs),
    }
    write_sweep_report(
        folder / "report.html", manifest=manifest, runs=runs, agreement=agreed, boards=boards, choice=_choice(folder)
    )
    RunFolder(folder).write_manifest(manifest)
    return SweepTables(summary, agreed, boards, failed)


def _choice(folder: Path) -> dict[str, Any] | None:
    """Which judge agrees most with people, where `calibrate` was asked."""
    kept = RunFolder(folder).calibration
    return json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else None


def _totals(runs: Sequence[tuple[str, dict[str, Any], pl.DataFrame]]) -> dict[str, Any]:
    """Requests, tokens, cost and time of all runs; null where one is not known."""
    totals: dict[str, Any] = {}
    for key in ("requests", "cached", "input_tokens", "output_tokens", "cost_usd", "saved_usd", "seconds"):
        values = [manifest[key] for _, manifest, _ in runs if manifest.get(key) is not None]
        totals[key] = sum(values) if len(values) == len(runs) else None
    return totals
