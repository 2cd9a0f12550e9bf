"""What stands over every table: who judged, and what kind of judge that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def judge_line(name: str, about: Mapping[str, Any]) -> str:
    """One judge in one line: `judge: embedded (text overlap, not an LLM), uncalibrated`.

    Args:
        name: The judge's name, as in the column `judge`.
        about: Its entry under `judges` in run.json: `nature`, and `labels` (how many people's labels it was held
            against) once there are any. A judge without labels is uncalibrated, whatever its thresholds say.
    """
    nature = about.get("nature")
    labels = about.get("labels") or 0
    held = f"held against {labels} labels" if labels else "uncalibrated"
    return f"judge: {name} ({nature}), {held}" if nature else f"judge: {name}, {held}"


def judge_lines(manifest: Mapping[str, Any]) -> Sequence[str]:
    """A line for each judge of a run; one saying so where no metric asks any."""
    judges: Mapping[str, Mapping[str, Any]] = manifest.get("judges") or {}
    return [judge_line(name, about) for name, about in judges.items()] or ["judge: none (no metric asks one)"]
