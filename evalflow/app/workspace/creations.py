"""What creations were answered, so that one that is sent again is answered again, and not done again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalflow.app.workspace.space import Workspace


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer of HTTP.

    Attributes:
        request: Digest of the request, as text.
        status: As it was sent.
        headers: Name and value of each.
        body: As it was sent.
    """

    request: str
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


def answered(space: Workspace, key: str) -> Answered | None:
    """What was answered under a key, if anything was in the last 30 days."""
    from evalflow.store import creations

    with space.database.reading() as connection:
        row = creations.get(connection, key)
    if row is None:
        return None
    return Answered(row["request"], row["status"], [(name, value) for name, value in row["headers"]], row["body"])


def keep_answer(space: Workspace, key: str, answer: Answered) -> None:
    """Keep what was answered under a key.

    Args:
        space: Where.
        key: At most 64 characters, such as a digest.
        answer: What it was.
    """
    from evalflow.store import creations

    headers = [list(pair) for pair in answer.headers]
    values = {"key": key, "request": answer.request, "status": answer.status, "headers": headers, "body": answer.body}
    with space.database.writing() as connection:
        creations.put(connection, values)
