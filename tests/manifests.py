"""Manifests of runs that tests make up: what is not given has a value that no test looks at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalflow.records.manifest import SCHEMA, Manifest, SweepManifest

_HEADER: dict[str, Any] = {
    "schema": SCHEMA,
    "run_id": "r",
    "status": "done",
    "started_at": "2026-11-21T14:03:22+00:00",
    "finished_at": None,
    "overrides": [],
}
_RUN: dict[str, Any] = {
    "working_directory": "/",
    "process": 1,
    "versions": {},
    "git_commit": None,
    "config": {},
    "choices": {},
    "search_folders": {"conf": [], "prompts": []},
    "order": {"shuffled": False, "seed": 0},
    "prices": {},
    "spent_before": {},
}
_DATASET: dict[str, Any] = {"files": [], "sha256": "", "cases": 0, "labelled": 0}
_JUDGE: dict[str, Any] = {"nature": "", "identity": "", "calibrated": True}
_METRIC: dict[str, Any] = {
    "judge": None,
    "asks": False,
    "embeds": False,
    "bounded": True,
    "description": "",
    "version": 1,
    "prompt_sha256": None,
    "figures": None,
}


def manifest_of(
    datasets: Mapping[str, Mapping[str, Any]] | None = None,
    metrics: Mapping[str, Mapping[str, Any]] | None = None,
    judges: Mapping[str, Mapping[str, Any]] | None = None,
    target: str = "recorded",
    **facts: Any,
) -> Manifest:
    """The manifest of a run."""
    own = {
        "datasets": {name: {**_DATASET, **about} for name, about in (datasets or {}).items()},
        "metrics": {name: {**_METRIC, "declared": name, "key": name, **one} for name, one in (metrics or {}).items()},
        "judges": {name: {**_JUDGE, **about} for name, about in (judges or {}).items()},
        "target": {"name": target, "identity": ""},
    }
    return Manifest.model_validate({**_HEADER, **_RUN, **own, **facts})


def sweep_of(**facts: Any) -> SweepManifest:
    """The manifest of a sweep."""
    return SweepManifest(**{**_HEADER, "jobs": [], **facts})
