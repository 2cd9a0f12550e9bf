"""Files of a whole sweep: its run.json, its table over all runs, its leaderboards and its report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evalflow.app.core.leaderboards import leaderboards
from evalflow.app.core.saved import SavedRun
from evalflow.engine.bookkeeping import now
from evalflow.engine.folder import RunFolder
from evalflow.lazy import pl
from evalflow.paths import private_folder
from evalflow.records.manifest import SCHEMA, Manifest, SweepManifest
from evalflow.report.sweep import JudgePair, agreement, write_sweep_report
from evalflow.summary.ranking import Leaderboard
from evalflow.summary.summarise import Summary, write_summary


def open_sweep(folder: Path, run_id: str, overrides: Sequence[str]) -> None:
    """Write the sweep's run.json before its first job."""
    private_folder(folder)
    begun: dict[str, Any] = {"schema": SCHEMA, "run_id": run_id, "status": "running", "started_at": now()}
    manifest = SweepManifest(**begun, finished_at=None, overrides=list(overrides), jobs=[])
    RunFolder(folder).write_manifest(manifest)


def write_sweep(
    folder: Path, jobs: Sequence[Path], failures: Mapping[str, str] | None = None
) -> tuple[pl.DataFrame, list[JudgePair], list[Leaderboard]]:
    """Write the sweep's tables and report from the files of its runs; `failures` are why runs ended early, by folder.

    Returns the runs' summaries, with the folder's name in the first column, `run`; the agreement of the judges, per
    metric and pair of judges; and the leaderboards, which are the details of the sweep's summary.
    """
    runs = [(job.name, RunFolder(job).read_manifest(), pl.read_parquet(job / "summary.parquet")) for job in jobs]
    summary = pl.concat([frame.select(pl.lit(name).alias("run"), pl.all()) for name, _, frame in runs])
    agreed = agreement([pl.scan_parquet(RunFolder(job).scores) for job in jobs])
    boards = leaderboards([SavedRun(RunFolder(folder / name), about, name) for name, about, _ in runs], summary)
    write_summary(Summary(summary, [asdict(board) for board in boards]), folder)
    opened = RunFolder(folder).read_sweep()
    assert opened is not None
    failed = opened.failed if failures is None else failures
    ended = {"status": "failed" if failed else "done", "finished_at": now(), "jobs": [job.name for job in jobs]}
    manifest = opened.model_copy(update={**ended, "failed": failed, **_totals(runs)})
    calibration = RunFolder(folder).calibration
    choice = json.loads(calibration.read_text(encoding="utf-8")) if calibration.is_file() else None
    write_sweep_report(
        folder / "report.html", manifest=manifest, runs=runs, agreement=agreed, boards=boards, choice=choice
    )
    RunFolder(folder).write_manifest(manifest)
    return summary, agreed, boards


def _totals(runs: Sequence[tuple[str, Manifest, pl.DataFrame]]) -> dict[str, Any]:
    totals: dict[str, Any] = {}
    for key in ("requests", "cached", "input_tokens", "output_tokens", "cost_usd", "saved_usd", "seconds"):
        values = [value for _, manifest, _ in runs if (value := getattr(manifest, key)) is not None]
        totals[key] = sum(values) if len(values) == len(runs) else None
    for key in ("provider_cached", "provider_saved_usd"):
        known = [value for _, manifest, _ in runs if (value := getattr(manifest, key)) is not None]
        totals |= {key: sum(known)} if known else {}
    return totals
