"""Derive everything of a saved run again: tables, calibration, reports and run.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evalflow.app.core.calibration import standing_calibration
from evalflow.app.core.certificates import certified
from evalflow.app.core.derive import derive, report
from evalflow.app.core.saved import load, read_manifest, rederived
from evalflow.report.calibration import write_calibration
from evalflow.run.folder import RunFolder, refuse_links


def rewrite(folder: RunFolder, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Derive everything of a run again: tables, calibration, reports and run.json.

    Args:
        folder: The run's.
        overrides: Of what is derived, such as thresholds; kept in run.json.

    Returns:
        run.json as it is now.

    Raises:
        UserError: An override would need new scores, or what the run was made from is gone.
    """
    refuse_links(folder)
    saved = load(folder, rederived(read_manifest(folder), overrides) if overrides else None)
    derived = derive(folder, saved.recipe)
    derived = replace(derived, calibration=standing_calibration(saved))
    if derived.calibration is not None and folder.calibration_page.is_file():
        write_calibration(folder.calibration_page, derived.calibration)
    manifest = {**certified(saved.manifest, folder), "scores": derived.states}
    if manifest["status"] == "done":
        manifest["exit_code"] = derived.exit_code
    report(folder, saved.recipe, derived, saved.cases(), manifest)
    folder.write_manifest(manifest)
    return manifest
