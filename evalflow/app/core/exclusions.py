"""The results that people took out of a run's metrics, in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from pydantic import TypeAdapter, ValidationError

from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError
from evalflow.paths import write_atomically
from evalflow.report.findings import exclusion_findings
from evalflow.summary.exclusions import ExcludedResult


def read_exclusions(folder: RunFolder) -> list[ExcludedResult]:
    """The results that exclusions.json names; UserError if it is damaged."""
    if not folder.exclusions.is_file():
        return []
    try:
        return TypeAdapter(list[ExcludedResult]).validate_json(folder.exclusions.read_bytes(), strict=True)
    except ValidationError:
        hint = "restore it, or remove it so that no result is excluded"
        raise UserError(Problem("this is no list of excluded results", str(folder.exclusions), hint)) from None


def write_exclusions(folder: RunFolder, excluded: Sequence[ExcludedResult]) -> None:
    """Write exclusions.json, which replaces the one before; without any, remove it."""
    if not excluded:
        folder.exclusions.unlink(missing_ok=True)
        return
    text = json.dumps([asdict(one) for one in excluded], ensure_ascii=False, indent=1)
    write_atomically(folder.exclusions, text + "\n")


def notes_on_exclusions(folder: RunFolder) -> list[str]:
    """Each metric's excluded results in words, as of summary.json; empty without any."""
    path = folder.path / "summary.json"
    if not folder.exclusions.is_file() or not path.is_file():
        return []
    return exclusion_findings(json.loads(path.read_bytes())["details"])
