"""One remembered call: what it is known by, what is kept of it, and how it stands in a file."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache

from evalflow.frozen import record
from evalflow.records import Usage

_FRAME = struct.Struct("<II")  # length and CRC-32 of what follows
_HEAD = struct.Struct("<32sdHH")  # key, made_at, lengths of scope and run_id
_FACTS = struct.Struct("<Iqqd")  # requests, input and output tokens or -1, latency_s


@record(kw_only=True)
class Entry:
    """What is kept of a call that was answered well.

    Attributes:
        body: The response's body as it came; of a reply that took re-asks, the last, valid one.
        requests: Calls that it took, re-asks included.
        usage: Tokens of all of them; None where one did not say.
        latency_s: Seconds of all of them.
        run_id: The run that paid for it.
        made_at: Seconds since the epoch.
    """

    body: bytes
    requests: int = 1
    usage: Usage | None = None
    latency_s: float = 0.0
    run_id: str = ""
    made_at: float = 0.0

    @property
    def checksum(self) -> int:
        """CRC-32 of the body and of what is known about it."""
        return zlib.crc32(_facts(self), zlib.crc32(self.body))


def key_of(base_url: str, path: str, body: bytes, *repeats: int) -> bytes:
    """What a call is known by: SHA-256 over everything that reaches the model, and nothing else.

    Args:
        base_url: The endpoint.
        path: Below it.
        body: The request's bytes: model, parameters, messages, schema.
        repeats: Which of several wanted answers to the same request this is, such as the judge's repeat.

    Returns:
        32 bytes.
    """
    return hashlib.sha256(_place(base_url, path, *repeats) + body).digest()


@lru_cache(maxsize=64)
def _place(*parts: str | int) -> bytes:
    return json.dumps(parts).encode() + b"\n"


def pack(key: bytes, scope: str, entry: Entry) -> bytes:
    """An entry as one record of a file; `unpack` is its inverse."""
    names = scope.encode(), entry.run_id.encode()
    head = _HEAD.pack(key, entry.made_at, *map(len, names))
    payload = b"".join((head, _facts(entry), *names, entry.body))
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def unpack(data: bytes) -> Iterator[tuple[bytes, str, Entry]]:
    """Key, scope and entry of each record, up to the first that is torn or damaged."""
    at = 0
    while at + _FRAME.size <= len(data):
        size, checksum = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        payload = data[at : at + size]
        if len(payload) < size or zlib.crc32(payload) != checksum:
            return
        at += size
        key, made_at, *lengths = _HEAD.unpack_from(payload)
        requests, input_tokens, output_tokens, latency_s = _FACTS.unpack_from(payload, _HEAD.size)
        scope_at = _HEAD.size + _FACTS.size
        run_at = scope_at + lengths[0]
        body_at = run_at + lengths[1]
        yield (
            key,
            payload[scope_at:run_at].decode(),
            Entry(
                body=payload[body_at:],
                requests=requests,
                usage=Usage(input_tokens, output_tokens) if input_tokens >= 0 else None,
                latency_s=latency_s,
                run_id=payload[run_at:body_at].decode(),
                made_at=made_at,
            ),
        )


def _facts(entry: Entry) -> bytes:
    usage = entry.usage
    if usage is None:
        return _FACTS.pack(entry.requests, -1, -1, entry.latency_s)
    return _FACTS.pack(entry.requests, usage.input_tokens, usage.output_tokens, entry.latency_s)
