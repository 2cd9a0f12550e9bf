"""What a run has finished already: the plan minus this is what remains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Set
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


def read_finished(
    folder: RunFolder, tally: Tally, bounded: Collection[str], *, errors_too: bool, failed_too: bool = False
) -> Finished:
    """Read what is finished of a run.

    Args:
        folder: The run's folder; journals that do not exist hold nothing.
        tally: All that was done and paid is counted into it, also for lines that hold no more.
        bounded: The metrics whose scores lie in 0..1.
        errors_too: Whether a cell in state error counts as finished.
        failed_too: Whether to tell which scored 0.
    """
    import polars as pl

    columns = (*_CELL, "member_of", "status", "score", "cost_usd", "bill")
    lines = scan_journal(folder.journal, bounded).frame().select(columns).collect(engine="streaming")
    paid: set[int] = set()
    for cost_usd, bill in lines.select("cost_usd", "bill").iter_rows():
        _count(tally, cost_usd, bill)
        paid.update(bill["paid"])
    # A cell that was asked again stands there twice, and its last line holds. A panel's members are no cells.
    cells = lines.filter(pl.col("member_of").is_null()).unique(_CELL, keep="last", maintain_order=True)
    if not errors_too:
        cells = cells.filter(pl.col("status") != "error")
    for cost_usd, bill in PreparedFile(folder).bills():
        _count(tally, cost_usd, bill)
        paid.update(bill["paid"])
    known, lost = _count_answers(tally, folder.answers, paid)
    if lost:  # whose answers they were, nobody knows: what has none is answered again, and scored again
        answer = ("dataset", "case_id", "target", "target_repeat")
        kept = [_answer_digest(*row) in known for row in cells.select(answer).iter_rows()]
        cells = cells.filter(pl.Series(kept, dtype=pl.Boolean))
    tally.scores.update(dict(cells["status"].value_counts().iter_rows()))
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


def _count_answers(tally: Tally, journal: Path, paid: set[int]) -> tuple[Set[int], bool]:
    """Count the answers: of several lines for one, all were paid for and the last holds.

    Args:
        tally: Counts them.
        journal: The answers.
        paid: Takes the digests of the calls that were paid for.

    Returns:
        Digests of the answers, and whether others are lost, since their lines are damaged.
    """
    lost = False
    states: dict[int, AnswerStatus] = {}
    for answer in read_answers(journal):
        if answer is None:
            lost = True
            continue
        tally.count_answer(answer)
        paid.update(answer.paid)
        states[_answer_digest(answer.dataset, answer.case_id, answer.target, answer.target_repeat)] = answer.status
    tally.answers = Counter[str](states.values())
    return states.keys(), lost


def _answer_digest(dataset: str, case_id: str, target: str, target_repeat: int) -> int:
    return cell_digest(dataset, case_id, target, target_repeat, "", None, 0)
