"""What run.json says of the parts of a run."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evalflow import datasets
from evalflow.app.setup.assemble import Parts
from evalflow.app.setup.inspect import Inspection
from evalflow.llm.panel import Panel
from evalflow.protocols import Judge


def facts_of(inspection: Inspection) -> dict[str, Any]:
    """Configuration, data, prompts, metrics, judges and target: what a resumed run must find unchanged."""
    parts = inspection.parts
    composed = parts.settings.composed
    return {
        "config": _pinned(parts),
        "choices": {group: composed.choices[group] for group in ("judge", "embedder", "target")},
        "search_folders": {
            "conf": [str(folder) for folder in composed.conf_folders],
            "prompts": [str(folder) for folder in composed.prompt_folders],
        },
        "datasets": {
            name: {
                "files": [str(path) for path in datasets.files(config)],
                "sha256": datasets.digest(config),
                "cases": inspection.cases[name],
                "labelled": inspection.labelled[name],
            }
            for name, config in parts.datasets.items()
        },
        "metrics": {
            name: {
                "declared": one.declared,
                "key": parts.settings.keys["metric", one.declared],
                "description": one.metric.config.description,
                "version": one.metric.config.version,
                "prompt_sha256": parts.prompts.digest(one.metric.prompts) if one.metric.prompts else None,
                "judge": one.judge.name if one.judge else None,
                "asks": one.metric.asks,
                "embeds": one.metric.embeds,
                "bounded": one.metric.bounded,
                "figures": asdict(one.metric.figures) if one.metric.figures else None,
            }
            for name, one in inspection.scored.items()
        },
        "judges": {
            name: {
                "nature": judge.nature,
                "identity": judge.identity,
                "calibrated": judge.calibrated,
                **_members(judge),
            }
            for name, judge in inspection.judges.items()
        },
        "target": {"name": parts.target.name, "identity": parts.target.identity},
        "prices": {name: price for name, price in parts.prices().items() if price},
    }


def _members(judge: Judge) -> dict[str, Any]:
    """What kind of several judges it is, and their names in the order in which they are asked; nothing of one."""
    if not isinstance(judge, Panel):
        return {}
    return {"kind": judge.config.kind, "members": [member.name for member in judge.members]}


def _pinned(parts: Parts) -> dict[str, Any]:
    """The configuration, with what it borrows from another run under its real name.

    `outputs/latest` is this very run from now on, and would lead nowhere when it is resumed.
    """
    config = deepcopy(parts.settings.composed.storable)
    if parts.settings.run.baseline is not None:
        config["baseline"] = parts.settings.run.baseline
    for name, metric in parts.settings.run.metric.items():
        borrowed: str | None = getattr(metric, "steps_from", None)
        if borrowed:
            config["metric"][parts.settings.keys["metric", name]]["steps_from"] = str(Path(borrowed).resolve())
    return config
