"""What the scores of a run mean: thresholds, directions, gates and judges, as the database keeps them of a run."""

from __future__ import annotations

import json
from typing import Any

from evalflow.app.core.derive import hold_gates
from evalflow.app.core.saved import Saved, declared, kept, load, standing
from evalflow.report.header import judge_lines
from evalflow.run.folder import RunFolder
from evalflow.run.plan import PreparedFile
from evalflow.summary.journal import json_line


def facts_of_run(folder: RunFolder) -> dict[str, Any]:
    """What the scores of a finished run mean; see `Run.facts`."""
    saved = load(folder)
    summary = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))
    return {
        "metrics": facts_of_metrics(saved),
        "summary": [row for row in summary["rows"] if row["tag"] is None],
        "gates": _gates(saved),
        "datasets": {name: facts["cases"] for name, facts in saved.manifest["datasets"].items()},
        "target": saved.manifest["target"]["name"],
        "judges": saved.manifest["judges"],
        "kept": kept(saved),
        "seed": saved.recipe.settings.run.seed,
        "wrote_steps": sorted({entry["metric"] for entry in PreparedFile(folder).entries() if entry.get("steps")}),
    }


def facts_of_metrics(saved: Saved) -> list[dict[str, Any]]:
    """What is said of each metric of a run, which may still be under way."""
    recipe, measured, judges = saved.recipe, saved.manifest["metrics"], saved.manifest["judges"]
    limits, made_with = standing(saved), declared(saved)
    return [
        {
            "name": name,
            "judge": recipe.judge_of[name],
            "threshold": limits.get(name),
            "declared": made_with.get(name),
            "direction": metric.config.direction,
            "bounded": metric.bounded,
            "description": metric.config.description,
            "judged": judge_lines(
                {
                    "metrics": {name: measured[name]},
                    "judges": {judge: about for judge, about in judges.items() if judge == recipe.judge_of[name]},
                }
            )[0],
        }
        for name, metric in recipe.metrics.items()
    ]


def _gates(saved: Saved) -> list[Any]:
    import polars as pl

    frame = pl.read_parquet(saved.folder.path / "summary.parquet")
    _, held = hold_gates(saved.recipe, frame, pl.scan_parquet(saved.folder.scores))
    return json.loads(json_line([dict(row) for row in held]))
