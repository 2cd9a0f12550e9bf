"""What a run has finished already: the plan minus this is what remains."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from evalflow.summary import scan_journal

_CELL = ("dataset", "case_id", "target", "target_repeat", "metric", "judge", "repeat")


def cell_digest(
    dataset: str, case_id: str, target: str, target_repeat: int, metric: str, judge: str | None, repeat: int
) -> int:
    """64 bits that stand for a cell, the same in every process."""
    text = "\0".join((dataset, case_id, target, str(target_repeat), metric, judge or "", str(repeat)))
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class Finished:
    """What a journal of scores holds.

    Attributes:
        cells: Digests of the finished cells.
        states: How many of them are in each state.
        input_tokens, output_tokens, cost_usd: What they took, cached ones left out; cost None where one is not known.
    """

    cells: Set[int] = frozenset()
    states: Mapping[str, int] = field(default_factory=dict[str, int])
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0


def finished_cells(journal: Path, *, errors_too: bool) -> Finished:
    """Read what is finished.

    Args:
        journal: scores.jsonl; one that does not exist holds nothing.
        errors_too: Whether a cell in state error counts as finished.
    """
    import polars as pl

    # A cell that was asked again stands there twice, and its last line holds.
    rows = scan_journal(journal).frame().unique(_CELL, keep="last", maintain_order=True)
    if not errors_too:
        rows = rows.filter(pl.col("status") != "error")
    used = rows.select(*_CELL, "status", "cached", "input_tokens", "output_tokens", "cost_usd")
    table = used.collect(engine="streaming")
    paid = table.filter(pl.col("judge").is_not_null() & ~pl.col("cached") & pl.col("input_tokens").is_not_null())
    return Finished(
        cells={cell_digest(*row) for row in table.select(_CELL).iter_rows()},
        states=dict(table["status"].value_counts().iter_rows()),
        input_tokens=int(paid["input_tokens"].sum()),
        output_tokens=int(paid["output_tokens"].fill_null(0).sum()),
        cost_usd=None if paid["cost_usd"].has_nulls() else float(paid["cost_usd"].sum()),
    )
