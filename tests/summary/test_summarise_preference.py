"""Figures of pairs in the summary: of every pair that was scored, and of those that the order leaves undefined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from evalflow.records import FigureSpec, ScoreRecord
from evalflow.summary.summarise import summarise


def test_every_scored_pair_is_in_the_win_rate_and_every_pair_that_was_asked_about_in_the_consistency(
    record: Callable[..., ScoreRecord], table: Callable[..., pl.LazyFrame], declare: Callable[..., Any]
) -> None:
    """A panel whose members differ has a score between those of pairs, and no value of its own."""
    win, flip = {"verdict": "win", "lean": 0, "longer": True}, {"verdict": None, "lean": 1, "longer": None}
    scores = table([record(1.0, 0, value=win), record(2 / 3, 1), record(None, 2, status="undefined", value=flip)])
    summary = summarise(scores.collect().lazy(), {"m": declare(figures=FigureSpec("pairwise"))})
    rows = {row["statistic"]: row for row in summary.frame.to_dicts()}
    assert rows["win_rate"]["value"] == pytest.approx(rows["mean"]["value"])
    assert rows["consistency"]["value"] == 0.5
    [counts] = [one for one in summary.details if one["statistic"] == "win_rate"]
    assert [counts[name] for name in ("n", "wins", "losses", "ties", "decided_by_order")] == [2, 2, 0, 0, 1]
