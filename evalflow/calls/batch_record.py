"""The record of a run's batches: written before each is submitted, so that nothing is submitted twice."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalflow.errors import InfrastructureError
from evalflow.paths import completed, private_file, private_folder

RECORD, REPLIES = "batches.jsonl", "batches"
"""The names, in the run's folder, of the record and of the folder with each batch's replies."""


@dataclass(frozen=True, slots=True)
class BatchReply:
    """The reply to one request of a batch; without a status it is missing, and `problem` says why."""

    id: str
    status: int | None
    body: bytes = b""
    problem: str = ""


@dataclass(slots=True, eq=False)
class RecordedBatch:
    """A batch and its requests' ids.

    Attributes:
        name: Our name for it, which is sent to the endpoint; `id` is the endpoint's, None until it is known.
        service: Names the endpoint and the model.
        state: begun; submitted; collected; failed (as a whole) or absent (never created): the requests of these two are
            sent again.
    """

    name: str
    service: str
    begun_at: str
    ids: Collection[str]
    id: str | None = None
    state: str = "begun"


@dataclass(slots=True)
class BatchRecord:
    """The batches of one run, in its folder; `fresh` ignores replies that were collected before."""

    folder: Path
    run_id: str
    fresh: bool = False
    batches: dict[str, RecordedBatch] = field(default_factory=dict[str, RecordedBatch])
    _places: dict[str, tuple[Path, int]] = field(default_factory=dict[str, tuple[Path, int]])

    def __post_init__(self) -> None:
        for row in _rows(self.folder / RECORD):
            self._note(row)
        if not self.fresh:
            for batch in self.batches.values():
                if batch.state == "collected":
                    self._index(batch)

    def begin(self, service: str, ids: Collection[str]) -> RecordedBatch:
        """Record durably a batch that is about to be submitted."""
        name = f"{self.run_id}-{len(self.batches) + 1}"
        begun_at = datetime.now(UTC).isoformat(timespec="seconds")
        row = {"batch": name, "state": "begun", "service": service, "begun_at": begun_at, "ids": list(ids)}
        self._append(row)
        return self.batches[name]

    def adopt(self, other: BatchRecord) -> None:
        """Record another run's pending batches, so that this run does not submit their requests again."""
        for batch in other.batches.values():
            if batch.state == "submitted" and batch.name not in self.batches:
                row = {
                    "batch": batch.name,
                    "service": batch.service,
                    "begun_at": batch.begun_at,
                    "ids": list(batch.ids),
                }
                self._append({**row, "state": "begun"})
                self._append({"batch": batch.name, "state": "submitted", "id": batch.id})

    def submitted(self, batch: RecordedBatch, batch_id: str) -> None:
        self._append({"batch": batch.name, "state": "submitted", "id": batch_id})

    def over(self, batch: RecordedBatch, state: str) -> None:
        """Record that a batch will give no replies: it is absent or failed."""
        self._append({"batch": batch.name, "state": state})

    def collected(self, batch: RecordedBatch, status: str, replies: Iterable[BatchReply]) -> None:
        """Store the replies of a batch that has ended."""
        private_folder(self.folder / REPLIES)
        with completed(self._replies(batch)) as draft, draft.open("wb") as file:
            for reply in replies:
                row = {"id": reply.id, "status": reply.status, "problem": reply.problem, "body": reply.body.decode()}
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        self._append({"batch": batch.name, "state": "collected", "status": status})
        self._index(batch)

    def reply(self, line_id: str) -> BatchReply | None:
        """Return a collected reply."""
        place = self._places.get(line_id)
        if place is None:
            return None
        path, offset = place
        with path.open("rb") as file:
            file.seek(offset)
            return _reply(json.loads(file.readline()))

    def _replies(self, batch: RecordedBatch) -> Path:
        return self.folder / REPLIES / f"{batch.name}.jsonl"

    def _index(self, batch: RecordedBatch) -> None:
        path = self._replies(batch)
        offset = 0
        try:
            with path.open("rb") as file:
                for line in file:
                    self._places[json.loads(line)["id"]] = path, offset
                    offset += len(line)
        except (OSError, ValueError, LookupError) as error:
            hint = "put it back: the replies in it are paid for; without it, remove its lines from batches.jsonl"
            raise InfrastructureError(f"{path} cannot be read: {error}", hint) from None

    def _append(self, row: dict[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        file = private_file(self.folder / RECORD, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while line:
                line = line[os.write(file, line) :]
            os.fsync(file)
        finally:
            os.close(file)
        self._note(row)

    def _note(self, row: dict[str, Any]) -> None:
        name = row["batch"]
        if row["state"] == "begun":
            self.batches[name] = RecordedBatch(name, row["service"], row["begun_at"], row["ids"])
            return
        batch = self.batches[name]
        batch.state, batch.id = row["state"], row.get("id", batch.id)


def _reply(row: dict[str, Any]) -> BatchReply:
    return BatchReply(row["id"], row["status"], row["body"].encode(), row["problem"])


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a record. An unfinished last line of a killed process is cut off: nothing was done on it yet."""
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(line)
            wanted = {"batch", "service", "begun_at", "ids"} if row["state"] == "begun" else {"batch"}
            if not wanted <= row.keys():
                raise ValueError("keys are missing")
        except (ValueError, LookupError, TypeError, AttributeError):
            hint = "put the file back as it was: it tells what is paid for"
            raise InfrastructureError(f"{path}, line {number}, is damaged", hint) from None
        yield row
