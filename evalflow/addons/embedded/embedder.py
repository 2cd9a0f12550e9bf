"""The embedder that needs no key: sentence embeddings in this process."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from evalflow.addons.embedded import minilm
from evalflow.records import Embedded, JudgeInfo

if TYPE_CHECKING:
    from evalflow.calls.client import CallSession
    from evalflow.config.judges import EmbeddedEmbedderConfig

MAX_WORKERS = 4


class EmbeddedEmbedder:
    """Sentence embeddings in this process. English only; only the first 256 tokens of a text are read."""

    def __init__(self, config: EmbeddedEmbedderConfig, _: object = None, session: CallSession | None = None) -> None:
        self._minilm = minilm.shared()
        self._kept = session.computed if session else None
        self.info = JudgeInfo(
            name=config.name or "minilm",
            nature="sentence embeddings, all-MiniLM-L6-v2",
            scripts=minilm.SCRIPTS,
            identity=hashlib.sha256(f"embedder {self._minilm.identity}".encode()).hexdigest()[:16],
            calibrated=config.calibrated,
            remote=False,
        )
        # Threads, because the model is CPU-bound and must not block the event loop.
        self._workers = ThreadPoolExecutor(min(MAX_WORKERS, os.cpu_count() or 1), thread_name_prefix="embedder")

    async def embed(self, texts: Sequence[str]) -> Embedded:
        began = time.perf_counter()
        vectors = await asyncio.get_running_loop().run_in_executor(self._workers, self._minilm.embed, texts, self._kept)
        return Embedded(vectors=vectors.tolist(), latency_s=time.perf_counter() - began)

    async def close(self) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)
