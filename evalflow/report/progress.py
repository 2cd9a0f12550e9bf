"""Progress of a run: a live bar on a terminal, a plain line now and then in a pipe."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from rich.console import Console

from evalflow.report.wording import cost

_TICK = 0.1
_LINE_EVERY = 10.0


class Counts(Protocol):
    """What is shown; a run's tally has it."""

    expected: int
    in_flight: int
    requests: int

    @property
    def done(self) -> int:
        """Finished scores."""
        ...

    @property
    def errors(self) -> int:
        """Scores in state error."""
        ...

    @property
    def cost(self) -> float | None:
        """US dollars so far, None where unknown."""
        ...


async def follow(counts: Counts, console: Console) -> None:
    """Show progress until cancelled, and once more at the end."""
    if console.is_terminal:
        await _bar(counts, console)
    else:
        await _lines(counts, console)


async def _bar(counts: Counts, console: Console) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=24),
        TextColumn("{task.completed}/{task.total} scores · {task.fields[facts]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )
    started = time.monotonic()
    with Progress(*columns, console=console, transient=False) as progress:
        task = progress.add_task("", total=counts.expected, facts="")
        try:
            while True:
                progress.update(task, completed=counts.done, facts=_facts(counts, started))
                await asyncio.sleep(_TICK)
        finally:
            progress.update(task, completed=counts.done, facts=_facts(counts, started))


async def _lines(counts: Counts, console: Console) -> None:
    started = time.monotonic()
    try:
        while True:
            await asyncio.sleep(_LINE_EVERY)
            console.print(_line(counts, started), highlight=False)
    finally:
        console.print(_line(counts, started), highlight=False)


def _line(counts: Counts, started: float) -> str:
    return f"{counts.done}/{counts.expected} scores · {_facts(counts, started)}"


def _facts(counts: Counts, started: float) -> str:
    rate = counts.done / max(time.monotonic() - started, 1e-9)
    pace = f"{rate:.1f}/s" if rate >= 1 else f"{60 * rate:.1f}/min"
    facts = [f"{counts.in_flight} cases under way", pace, f"{counts.errors} errors"]
    if counts.requests or counts.cost is None:
        facts.append(f"cost {cost(counts.cost)}")
    return " · ".join(facts)
