"""evalflow.log: the warnings and errors of one run, secrets redacted."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_SHORTEST = 8


class Redactor(logging.Filter):
    """Replaces the values of environment variables that are named like secrets."""

    def __init__(self) -> None:
        super().__init__()
        self._secrets = [v for k, v in os.environ.items() if _SECRET_NAME.search(k) and len(v) >= _SHORTEST]

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact one record; none is dropped."""
        text = record.getMessage()
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        record.msg, record.args = text, None
        return True


@contextmanager
def log_to(path: Path) -> Generator[None]:
    """Send evalflow's warnings and errors to a file while the block runs; the file is made even if nothing comes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(Redactor())
    handler.setLevel(logging.WARNING)
    logger = logging.getLogger("evalflow")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        handler.close()
