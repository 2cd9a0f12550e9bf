"""Findings in words under a title, as the page lists them and the terminal prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalflow.report.terminal import literal

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class Told:
    """What was found of one thing.

    Attributes:
        title: Of what.
        lines: One finding each.
    """

    title: str
    lines: Sequence[str]


def print_told(console: Console, heading: str, found: Sequence[Told]) -> None:
    """All of them under one heading; nothing where there are none."""
    from rich.padding import Padding

    if not found:
        return
    console.print(literal(heading, style="bold"))
    for one in found:
        console.print(literal(f"  {one.title}"))
        for line in one.lines:
            console.print(Padding(literal(line, style="dim"), (0, 0, 0, 4)))
    console.print()
