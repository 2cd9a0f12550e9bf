"""The journal of answers: writing a line, and finding an answer again without keeping them all in memory."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

from evalflow.protocols import Target
from evalflow.records import Answer, Case, Context, Message, Usage
from evalflow.summary import json_line

log = logging.getLogger("evalflow")

_TYPES = {"dataset": str, "case_id": str, "target": str, "status": str, "target_repeat": int, "requests": int}


def answer_row(answer: Answer) -> dict[str, Any]:
    """An answer as one line of answers.jsonl; `answer_from_row` is its inverse."""
    usage = answer.usage
    return {
        "dataset": answer.dataset,
        "index": answer.index,
        "case_id": answer.case_id,
        "target": answer.target,
        "target_repeat": answer.target_repeat,
        "status": answer.status,
        "messages": [{"role": m.role, "content": m.content, "metadata": m.metadata} for m in answer.messages],
        "answer": answer.answer,
        "actual": answer.actual,
        "contexts": None
        if answer.contexts is None
        else [{"text": c.text, "title": c.title, "path": c.path} for c in answer.contexts],
        "metadata": answer.metadata,
        "requests": answer.requests,
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens} if usage else None,
        "cost_usd": answer.cost_usd,
        "saved_usd": answer.saved_usd,
        "paid": answer.paid,
        "latency_s": answer.latency_s,
        "cached": answer.cached,
        "error_type": answer.error_type,
        "error": answer.error,
    }


def answer_from_row(row: dict[str, Any]) -> Answer:
    """The answer that a line of answers.jsonl holds."""
    contexts = row["contexts"]
    typed: dict[str, Any] = {
        "messages": tuple(Message(**message) for message in row["messages"]),
        "contexts": None if contexts is None else tuple(Context(**context) for context in contexts),
        "usage": Usage(**row["usage"]) if row["usage"] else None,
        "paid": tuple(row.get("paid") or ()),
    }
    return Answer(**{**row, **typed})


def read_answers(journal: Path) -> Iterator[Answer | None]:
    """The answers of a journal in the order written; of a missing one none.

    A line that was never finished is left out; one that is damaged is None.
    """
    for _, _, row in _lines(journal):
        yield None if row is None else answer_from_row(row)


def _lines(journal: Path, needle: bytes = b"") -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Where each finished line with `needle` stands, its length, and what it holds; None where it is damaged."""
    if not journal.exists():
        return
    offset = 0
    with journal.open("rb") as lines:
        for line in lines:
            if needle in line and line.endswith(b"\n"):
                yield offset, len(line), _row(line)
            offset += len(line)


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row: Any = json.loads(line)
        answer_from_row(row)
        return row if all(isinstance(row[key], kind) for key, kind in _TYPES.items()) else None
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None


class AnswerBook:
    """Answers in journals, found by where they stand in the file; for a `with`.

    A line that was never finished or is damaged is left out, and of several lines for one answer the last one counts.
    """

    def __init__(self) -> None:
        self._files: list[int] = []
        self._places: dict[int, tuple[int, int, int]] = {}

    def add(self, journal: Path, datasets: Iterable[str], *, case_id: str | None = None) -> None:
        """Add a journal, where it exists: its answers to cases of these datasets.

        Args:
            journal: answers.jsonl.
            datasets: By name.
            case_id: Only answers to cases with this id; lines without it are not parsed.
        """
        if not journal.exists():
            return
        wanted = set(datasets)
        needle = b"" if case_id is None else json_line(case_id)
        file = os.open(journal, os.O_RDONLY)
        self._files.append(file)
        damaged = 0
        for offset, length, row in _lines(journal, needle):
            if row is None:
                damaged += 1
            elif row["dataset"] in wanted:
                key = _digest(row["dataset"], row["case_id"], row["target"], row["target_repeat"])
                self._places[key] = (file, offset, length)
        if damaged:
            log.warning("%s: %d of its lines are damaged and do not count", journal, damaged)

    def get(self, dataset: str, case_id: str, target: str, repeat: int) -> Answer | None:
        """The answer of that case, or None."""
        place = self._places.get(_digest(dataset, case_id, target, repeat))
        if place is None:
            return None
        file, offset, length = place
        return answer_from_row(json.loads(os.pread(file, length, offset)))

    def close(self) -> None:
        """Let go of the journals."""
        while self._files:
            os.close(self._files.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._places)


def _digest(dataset: str, case_id: str, target: str, repeat: int) -> int:
    text = "\0".join((dataset, case_id, target, str(repeat)))
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class RememberingTarget:
    """A target that is not asked again for what stands in a book; failed answers are asked again.

    Args:
        target: Who is asked otherwise.
        book: Answers of the same target, as its identity tells.
    """

    def __init__(self, target: Target, book: AnswerBook) -> None:
        self._target = target
        self._book = book

    @property
    def name(self) -> str:
        """The target's column value."""
        return self._target.name

    @property
    def identity(self) -> str:
        """The target's identity."""
        return self._target.identity

    async def answer(self, case: Case, repeat: int) -> Answer:
        """The answer in the book, else the target's."""
        known = self._book.get(case.dataset, case.id, self.name, repeat)
        if known is None or known.status == "error":
            return await self._target.answer(case, repeat)
        saved_usd = known.saved_usd if known.cached else known.cost_usd
        return replace(known, index=case.index, requests=0, cost_usd=0.0, saved_usd=saved_usd, paid=(), cached=True)

    async def close(self) -> None:
        """Release the target's connections."""
        await self._target.close()
