"""What a run has finished already: the plan minus this is what remains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalflow.records import AnswerStatus, Usage
from evalflow.run.answers import read_answers
from evalflow.run.folder import RunFolder
from evalflow.run.prepared import PreparedFile
from evalflow.run.tally import Tally
from evalflow.summary import scan_journal

if TYPE_CHECKING:
    import polars as pl

_CELL = ("dataset", "case_id", "target", "target_repeat", "metric", "judge", "repeat")


def cell_digest(
    dataset: str, case_id: str, target: str, target_repeat: int, metric: str, judge: str | None, repeat: int
) -> int:
    """64 bits that stand for a cell, the same in every process."""
    text = "\0".join((dataset, case_id, target, str(target_repeat), metric, judge or "", str(repeat)))
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class Finished:
    """What an earlier part of a run has done.

    Attributes:
        cells: Digests of the finished cells.
        failed: Of these, the ones with the score 0, where they were asked for.
        paid: Digests of the calls whose cost its journals tell; see `Bill`.
    """

    cells: Set[int] = frozenset()
    failed: Set[int] = frozenset()
    paid: set[int] = field(default_factory=set[int])


def read_finished(folder: RunFolder, tally: Tally, *, errors_too: bool, failed_too: bool = False) -> Finished:
    """Read what is finished of a run.

    Args:
        folder: The run's folder; journals that do not exist hold nothing.
        tally: All that was done and paid is counted into it, also for lines that hold no more.
        errors_too: Whether a cell in state error counts as finished.
        failed_too: Whether to tell which scored 0.
    """
    import polars as pl

    lines = scan_journal(folder.journal).frame().select(*_CELL, "member_of", "status", "score", "cost_usd", "bill")
    lines = lines.collect(engine="streaming")
    paid: set[int] = set()
    for cost_usd, bill in lines.select("cost_usd", "bill").iter_rows():
        _count(tally, cost_usd, bill)
        paid.update(bill["paid"])
    # A cell that was asked again stands there twice, and its last line holds. A panel's members are no cells.
    cells = lines.filter(pl.col("member_of").is_null()).unique(_CELL, keep="last", maintain_order=True)
    if not errors_too:
        cells = cells.filter(pl.col("status") != "error")
    tally.scores.update(dict(cells["status"].value_counts().iter_rows()))
    for cost_usd, bill in PreparedFile(folder).bills():
        _count(tally, cost_usd, bill)
        paid.update(bill["paid"])
    paid.update(_count_answers(tally, folder.answers))
    failed = cells.filter(pl.col("score") == 0) if failed_too else cells.clear()
    return Finished(_digests(cells), _digests(failed), paid)


def _digests(cells: pl.DataFrame) -> set[int]:
    return {cell_digest(*row) for row in cells.select(_CELL).iter_rows()}


def _count(tally: Tally, cost_usd: float | None, bill: Mapping[str, Any]) -> None:
    """Count the calls of one score, or of what was prepared."""
    tally.requests += bill["requests"]
    tally.reasks += bill["reasks"]
    tally.cached += bill["remembered"]
    tally.count_saved(bill["saved_usd"])
    if bill["requests"]:
        tally.count_call(Usage(bill["input_tokens"], bill["output_tokens"]), cost_usd)


def _count_answers(tally: Tally, journal: Path) -> set[int]:
    """Count the answers: of several lines for one, all were paid for and the last holds.

    Returns:
        Digests of the calls that were paid for.
    """
    paid: set[int] = set()
    states: dict[int, AnswerStatus] = {}
    for answer in read_answers(journal):
        tally.count_answer(answer)
        paid.update(answer.paid)
        key = cell_digest(answer.dataset, answer.case_id, answer.target, answer.target_repeat, "", None, 0)
        states[key] = answer.status
    tally.answers = Counter[str](states.values())
    return paid
