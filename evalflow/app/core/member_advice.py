"""Advice on the members of a run's panels and cascades, from people's labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evalflow.app.core.saved import SavedRun
from evalflow.config.judges import CascadeConfig, MembersConfig
from evalflow.report.members import MemberAdvice, too_few
from evalflow.summary.members import cascade_advice, member_scores, panel_advice

if TYPE_CHECKING:
    import polars as pl

    from evalflow.report.calibration import Series
    from evalflow.summary.calibration import CalibrationRow


def advise_on_members(
    run: SavedRun, rows: Sequence[CalibrationRow], scores: pl.LazyFrame
) -> Mapping[Series, MemberAdvice]:
    """Advice for each row whose judge has members."""
    judges = run.manifest.judges
    return {
        (row.dataset, row.metric, row.target, row.judge): _advice(run, row, scores, members)
        for row in rows
        if row.judge in judges and (members := judges[row.judge or ""].members)
    }


def _advice(run: SavedRun, row: CalibrationRow, scores: pl.LazyFrame, names: Sequence[str]) -> MemberAdvice:
    facts = run.manifest.metrics[row.metric]
    config = run.rules.settings.judges[facts.declared]
    assert isinstance(config, MembersConfig)
    own = run.rules.metrics[row.metric].config.judge
    place = f"metric.{facts.key}.judge" if own and ("vote" in own or "escalate_below" in own) else "judge"
    seed = run.manifest.config["seed"]

    def advice(found: object = None, why: str = "") -> MemberAdvice:
        keys = dict(zip(names, config.asked, strict=True))
        return MemberAdvice(config.kind, keys, place, found, why)  # pyright: ignore[reportArgumentType]

    if row.weighted:
        return advice(why="the labels carry weights")
    members = member_scores(row, scores, names, confidence=isinstance(config, CascadeConfig))
    if members is None:
        return advice(why="its scores are no classes, and no threshold says what passes")
    if isinstance(config, CascadeConfig):
        found = cascade_advice(members, config.escalate_below, seed)
    else:
        found = panel_advice(members, seed)
    return advice(found, "" if found else too_few(int(members.known().sum())))
