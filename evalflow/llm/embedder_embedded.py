"""The embedder that needs no key and no network: all-MiniLM-L6-v2 on the CPU."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from evalflow.config.endpoints import EmbeddedEmbedderConfig
from evalflow.llm.minilm import MiniLM
from evalflow.records import Embedded

MAX_WORKERS = 4


class EmbeddedEmbedder:
    """Sentence embeddings in this process. English only; of a longer text the first 256 tokens are read.

    Args:
        config: Its name, and whether thresholds count.
    """

    remote = False
    nature = "sentence embeddings, all-MiniLM-L6-v2"

    def __init__(self, config: EmbeddedEmbedderConfig) -> None:
        self._config = config
        self._minilm = MiniLM()
        # Threads, because the model is CPU-bound and must not hold up the event loop.
        self._workers = ThreadPoolExecutor(min(MAX_WORKERS, os.cpu_count() or 1), thread_name_prefix="embedder")

    @property
    def name(self) -> str:
        """The column value."""
        return self._config.name or "minilm"

    @property
    def identity(self) -> str:
        """A digest of the model and of the packages that run it."""
        return hashlib.sha256(f"embedder {self._minilm.identity}".encode()).hexdigest()[:16]

    @property
    def calibrated(self) -> bool:
        """Whether a threshold on its similarities means anything."""
        return self._config.calibrated

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """One unit vector of 384 numbers for each text."""
        began = time.perf_counter()
        found = await asyncio.get_running_loop().run_in_executor(self._workers, self._minilm.embed, texts)
        return Embedded(vectors=found.tolist(), latency_s=time.perf_counter() - began)

    async def close(self) -> None:
        """Let its threads end."""
        self._workers.shutdown(wait=False, cancel_futures=True)
