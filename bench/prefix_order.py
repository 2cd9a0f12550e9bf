"""What asking the metrics of a case one after the other gains from a prefix cache, and what it costs in time.

    .venv/bin/python bench/prefix_order.py

An endpoint caches blocks of 16 tokens (64 characters) from the end of a request's prefill on. A reply takes a second,
and 100 µs more for each token that is not cached. It serves any number of requests at once, as a provider does; as one
GPU it prefills one after the other. Six metrics of each case begin with the same five contexts of 400 tokens. The
orders: at once, as the pipeline asks; one first, then the others at once; one after the other. Times need an idle
machine.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CASES, METRICS, BLOCK = 16, 6, 64
REPLY_S, TOKEN_S = 1.0, 100e-6
ORDERS = ("at once", "one first", "in turn")


class PrefixCache:
    """What a request finds of its beginning, and when its prefill ends."""

    def __init__(self, *, serial: bool) -> None:
        self._serial = serial
        self._ready: dict[str, float] = {}
        self._free_at = 0.0
        self._lock = threading.Lock()
        self.tokens = self.cached = 0

    def take(self, text: str) -> tuple[int, float]:
        """Its cached tokens, and the seconds until its reply."""
        with self._lock:
            now = time.monotonic()
            ends = range(BLOCK, len(text) + 1, BLOCK)
            found = next((end - BLOCK for end in ends if self._ready.get(text[:end], now + 1) > now), len(text))
            prefill = (len(text) - found) / 4 * TOKEN_S
            begun = max(now, self._free_at) if self._serial else now
            done = begun + prefill
            self._free_at = done if self._serial else 0.0
            for end in ends:
                self._ready[text[:end]] = min(done, self._ready.get(text[:end], done))
            self.tokens += len(text) // 4
            self.cached += found // 4
            return found // 4, done - now + REPLY_S


def child(order: str, words: list[str]) -> int:
    """A run whose pipeline asks the metrics of a case in this order."""
    from evalflow.__main__ import main
    from evalflow.engine import pipeline

    class Ordered(asyncio.TaskGroup):
        last: Any = None

        def create_task(self, coroutine: Any, **_: Any) -> Any:
            before, wait_for_all = self.last, order == "in turn"

            async def after() -> None:
                if before is not None:
                    await asyncio.wait({before})
                await coroutine

            task = super().create_task(after())
            if before is None or wait_for_all:
                self.last = task
            return task

    if order != "at once":
        setattr(pipeline, "asyncio", SimpleNamespace(**{**vars(asyncio), "TaskGroup": Ordered}))  # noqa: B010
    sys.argv = ["evalflow", *words]
    main()
    return 0


def write(folder: Path) -> None:
    for name in ("conf/metric", "prompts/own"):
        (folder / name).mkdir(parents=True)
    for number in range(METRICS):
        (folder / f"prompts/own/m{number}.jinja").write_text(
            '{% from "_shared/material.jinja" import context_block %}\n{{ context_block(contexts) }}\n'
            '{{ question | fenced("question") }}\n{{ answer | fenced("answer") }}\n' + f"Is criterion {number} met?\n"
        )
        (folder / f"conf/metric/m{number}.yaml").write_text(
            f"# @package metric.m{number}\nkind: judge\ndescription: d\nneeds: [question, answer, contexts]\n"
            f"steps: [{{id: v, prompt: own/m{number}.jinja, returns: {{verdict: bool}}}}]\n"
            "score: {op: value, of: v, field: verdict}\n"
        )
    rows = [
        {
            "id": str(case),
            "question": f"What does rule {case} say?",
            "answer": "It says so.",
            "contexts": [f"Case {case}, context {n}. " + "The rule holds on all days. " * 57 for n in range(5)],
        }
        for case in range(CASES)
    ]
    (folder / "conf/dataset").mkdir()
    (folder / "conf/dataset/mine.yaml").write_text("# @package dataset.mine\npath: mine.jsonl\n")
    (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def measure(order: str, *, serial: bool) -> str:
    from evalflow.testing import Endpoint, Request, reply

    cache = PrefixCache(serial=serial)

    def judge(request: Request) -> Any:
        cached, seconds = cache.take(request.text)
        return reply({"verdict": True}, cached_tokens=cached).after(seconds)

    with tempfile.TemporaryDirectory() as place, Endpoint(judge) as endpoint:
        write(Path(place))
        metrics = ",".join(f"m{number}" for number in range(METRICS))
        words = [
            "dataset=mine",
            f"metric=[{metrics}]",
            "judge=vllm",
            "judge.concurrency={start: 16, max: 16}",
            "judge.model=m",
            f"judge.base_url={endpoint.url}",
        ]
        command = [sys.executable, str(Path(__file__).resolve()), "--child", order, *words]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert endpoint.count >= CASES * METRICS, done.stderr[-2000:] + done.stdout[-500:]
        (run,) = (Path(place) / "outputs/runs").iterdir()
        seconds = json.loads((run / "run.json").read_text())["seconds"]
    return f"{order:10} {seconds:6.1f} s   {cache.cached / cache.tokens:6.1%} of {cache.tokens:,} input tokens cached"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.exit(child(sys.argv[2], sys.argv[3:]))
    for serial in (False, True):
        print("one GPU" if serial else "any number at once")
        for each in ORDERS:
            print(" ", measure(each, serial=serial), flush=True)
