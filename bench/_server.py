"""The endpoint that the benchmarks are run against: any request gets the same reply after a given time.

    python bench/_server.py LATENCY_S [REPLY]

A process of its own, and so lean that it is never what is measured: it reads a request's length, and sends bytes that
were made once. It prints its port; when its standard input is closed, it prints what came (see `Seen`) and ends. What
checks behaviour uses `evalflow.testing.Endpoint`, which understands what it is asked.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import asdict, dataclass

LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
VERDICT = {"reason": "Each sentence follows from the one before, and only the last is loosely joined. " * 3, "score": 4}


def reply(content: str) -> bytes:
    """A chat completion as bytes of HTTP."""
    message = {"role": "assistant", "content": content, "refusal": None}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 500, "completion_tokens": 60, "total_tokens": 560},
    }
    text = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


@dataclass(slots=True)
class Seen:
    """What came.

    Attributes:
        requests: How many.
        sent_bytes: Their bodies together.
        first_s, last_s: When the first one came, and when the last one was answered, in seconds since 1970.
    """

    requests: int = 0
    sent_bytes: int = 0
    first_s: float = 0.0
    last_s: float = 0.0


class Connection(asyncio.Protocol):
    """One client, whose requests come one after the other."""

    def __init__(self, answer: bytes, latency_s: float, seen: Seen) -> None:
        self._answer = answer
        self._latency_s = latency_s
        self._seen = seen
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer once a request is whole."""
        self._unread += data
        head = self._unread.find(b"\r\n\r\n")
        if head < 0:
            return
        found = LENGTH.search(self._unread, 0, head)
        length = int(found[1]) if found else 0
        if len(self._unread) >= head + 4 + length:
            self._unread = b""
            self._seen.requests += 1
            self._seen.sent_bytes += length
            self._seen.first_s = self._seen.first_s or time.time()
            asyncio.get_running_loop().call_later(self._latency_s, self._answer_now)

    def _answer_now(self) -> None:
        self._transport.write(self._answer)
        self._seen.last_s = time.time()


async def main(latency_s: float, text: str) -> None:
    """Serve until standard input ends."""
    loop, seen = asyncio.get_running_loop(), Seen()
    answer = reply(text)
    server = await loop.create_server(lambda: Connection(answer, latency_s, seen), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()
    print(json.dumps(asdict(seen)))


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else json.dumps(VERDICT)))
