"""What people's labels make of a run's means: the judge's own mean and the corrected one, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.report.calibration_words import warnings_of
from evalflow.report.wording import method, number, series_name, varying

if TYPE_CHECKING:
    from rich.console import Console

    from evalflow.report.calibration import Calibration
    from evalflow.summary import CalibrationRow


@dataclass(frozen=True, slots=True)
class Corrected:
    """A metric's mean before and after, as it is shown.

    Attributes:
        name: The metric, with what tells it from others of the run.
        alone, alone_interval: The mean as judge or metric alone has it, with its interval.
        corrected, corrected_interval: The mean corrected by people, likewise.
        method: How it was made.
        sentence: What this says.
        warnings: What stands against it.
    """

    name: str
    alone: str
    alone_interval: str
    corrected: str
    corrected_interval: str
    method: str
    sentence: str
    warnings: list[str]


def corrected_means(found: Calibration | None) -> list[Corrected]:
    """A line for each mean that labels could correct; none where there are too few of them."""
    rows = [row for row in found.rows if row.corrected.estimate is not None] if found else []
    parts = varying([_parts(row) for row in rows])
    return [_shown(row, " · ".join(filter(None, (row.metric, series_name(_parts(row), parts))))) for row in rows]


def print_corrected(console: Console, found: Calibration | None) -> None:
    """The sentences on a terminal, under the table of means."""
    from evalflow.report.terminal import literal

    for one in corrected_means(found):
        console.print(literal(one.sentence, style="bold"))
        for warning in one.warnings:
            console.print(literal(f"warning: {warning}", style="yellow"))


def _shown(row: CalibrationRow, name: str) -> Corrected:
    c = row.corrected
    return Corrected(
        name, number(c.judge_mean), _interval(row.judged.low, row.judged.high), number(c.estimate),
        _interval(c.low, c.high), method(c.method), " ".join(_sentence(row, name)), warnings_of(row),
    )  # fmt: skip


def _sentence(row: CalibrationRow, name: str) -> Iterator[str]:
    c = row.corrected
    yield f"{name}: the {row.who} says {number(c.judge_mean)},"
    if not c.n_unlabelled:
        span = "" if c.low is None else f" ({number(c.low)} to {number(c.high)} for answers like these)"
        yield f"and people, who labelled all {c.n:,} {row.named}, say {number(c.estimate)}{span}."
        return
    yield f"and people would say about {number(c.estimate)}"
    if c.low is not None and c.high is not None:
        yield f"(most likely {number(c.low)} to {number(c.high)}),"
    yield f"going by {c.n:,} of {c.n + c.n_unlabelled:,} {row.named} that they labelled."


def _parts(row: CalibrationRow) -> dict[str, str | None]:
    return {"dataset": row.dataset, "target": row.target, "judge": row.judge}


def _interval(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{number(low)} … {number(high)}"
