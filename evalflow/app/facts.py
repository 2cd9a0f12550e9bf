"""What run.json says of the parts of a run."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from evalflow import datasets
from evalflow.app.inspect import Inspection


def facts_of(inspection: Inspection) -> dict[str, Any]:
    """Configuration, data, prompts, metrics, judges and target: what a resumed run must find unchanged."""
    parts = inspection.parts
    composed = parts.settings.composed
    return {
        "config": composed.storable,
        "choices": {group: composed.choices[group] for group in ("judge", "target")},
        "search_folders": {
            "conf": [str(folder) for folder in composed.conf_folders],
            "prompts": [str(folder) for folder in composed.prompt_folders],
        },
        "datasets": {
            name: {
                "files": [str(path) for path in datasets.files(config)],
                "sha256": datasets.digest(config),
                "cases": inspection.cases[name],
            }
            for name, config in parts.datasets.items()
        },
        "metrics": {
            name: {
                "version": metric.config.version,
                "prompt_sha256": parts.prompts.digest(metric.prompts) if metric.prompts else None,
                "judge": next((p.judge.name for p in parts.pairs if p.metric is metric and p.judge), None),
                "bounded": metric.bounded,
                "figures": asdict(metric.figures) if metric.figures else None,
            }
            for name, metric in parts.metrics.items()
        },
        "judges": {
            name: {"nature": judge.nature, "identity": judge.identity, "calibrated": judge.calibrated}
            for name, judge in parts.judges.items()
        },
        "target": {"name": parts.target.name, "identity": parts.target.identity},
        "prices": {name: price for name, price in parts.prices().items() if price},
    }
