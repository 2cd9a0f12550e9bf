"""The floor that judge calls are held against: aiohttp sends the same bytes again and again, and pydantic reads them.

python bench/_floor.py URL CALLS IN_FLIGHT
"""

from __future__ import annotations

import asyncio
import json
import sys

import aiohttp
from pydantic import BaseModel


class Verdict(BaseModel):
    """The reply."""

    reason: str
    score: int


class Message(BaseModel):
    """Where it stands."""

    content: str


class Choice(BaseModel):
    """Where that stands."""

    message: Message


class Completion(BaseModel):
    """And that."""

    choices: list[Choice]


async def main(url: str, calls: int, in_flight: int) -> None:
    """Send the calls."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * 1_900}], "temperature": 0.0})
    data = body.encode()
    left = iter(range(calls))

    async def work(session: aiohttp.ClientSession) -> None:
        for _ in left:
            async with session.post(f"{url}/chat/completions", data=data) as response:
                completion = Completion.model_validate_json(await response.read())
            Verdict.model_validate_json(completion.choices[0].message.content)

    connector = aiohttp.TCPConnector(limit=in_flight)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session, asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(work(session))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
