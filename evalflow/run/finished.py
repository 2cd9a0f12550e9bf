"""What a run has finished already: the plan minus this is what remains."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from evalflow.run.folder import RunFolder
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
    """What a run's journals hold.

    Attributes:
        cells: Digests of the finished cells.
        states: How many of them are in each state.
        input_tokens, output_tokens, cost_usd: What was paid for all lines of both journals; cost None where one is
            not known.
    """

    cells: Set[int] = frozenset()
    states: Mapping[str, int] = field(default_factory=dict[str, int])
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0


def read_finished(folder: RunFolder, *, errors_too: bool) -> Finished:
    """Read what is finished of a run.

    Args:
        folder: The run's folder; journals that do not exist hold nothing.
        errors_too: Whether a cell in state error counts as finished.
    """
    import polars as pl

    columns = (*_CELL, "status", "cached", "input_tokens", "output_tokens", "cost_usd")
    lines = scan_journal(folder.journal).frame().select(columns).collect(engine="streaming")
    asked = pl.col("judge").is_not_null() & ~pl.col("cached") & pl.col("input_tokens").is_not_null()
    paid = [*lines.filter(asked).select("input_tokens", "output_tokens", "cost_usd").iter_rows(), *_answers(folder)]
    costs = [cost for _, _, cost in paid if cost is not None]
    # A cell that was asked again stands there twice, and its last line holds.
    cells = lines.unique(_CELL, keep="last", maintain_order=True)
    if not errors_too:
        cells = cells.filter(pl.col("status") != "error")
    return Finished(
        cells={cell_digest(*row) for row in cells.select(_CELL).iter_rows()},
        states=dict(cells["status"].value_counts().iter_rows()),
        input_tokens=sum(tokens or 0 for tokens, _, _ in paid),
        output_tokens=sum(tokens or 0 for _, tokens, _ in paid),
        cost_usd=sum(costs) if len(costs) == len(paid) else None,
    )


def _answers(folder: RunFolder) -> Iterator[tuple[int, int, float | None]]:
    """Tokens and cost of the answers that were asked for."""
    if not folder.answers.exists():
        return
    with folder.answers.open("rb") as file:
        rows: Iterator[dict[str, Any]] = (json.loads(line) for line in file if line.endswith(b"\n"))
        for row in rows:
            if row["requests"] and not row["cached"]:
                usage = row["usage"] or {"input_tokens": 0, "output_tokens": 0}
                yield usage["input_tokens"], usage["output_tokens"], row["cost_usd"]
