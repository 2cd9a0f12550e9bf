"""Judges where they are chosen: those whose key is missing are marked, with what to do."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from evalflow.app.studio.judges import StoredJudge
from evalflow.web.ui.parts import message


def judge_labels(found: Sequence[StoredJudge]) -> dict[str, str]:
    """The judges by name, as options of a field."""
    return {one.name: f"{one.title} (key missing)" if one.missing_key else one.title for one in found}


def missing_key_note(judge: StoredJudge | None, *, is_linked: bool = True) -> None:
    """Say that the judge's key is not set, and how to set it; nothing if it is."""
    if judge is None or not judge.missing_key:
        return
    hint = f"Set it before the server starts: export {judge.missing_key}=... Or choose another judge."
    message(f"{judge.title}: {judge.missing_key} is not set in the server's environment.", hint, "warn")
    if is_linked:
        ui.link(f"Change {judge.title}", f"/judges/{judge.name}").classes("small")
