"""evalflow.log: the warnings and errors of one run, secrets redacted."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from evalflow.config.panels import single_judges
from evalflow.config.validate import Settings

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 6
"""A shorter value is a placeholder such as `none`, which would be struck out everywhere."""


def secrets_of(settings: Settings) -> set[str]:
    """What must not be shown: the keys and passwords that the configuration names, and all that is named like one."""
    found = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    judges = [one for judge in (settings.run.judge, *settings.judges.values()) for one in single_judges(judge).values()]
    for endpoint in (settings.run.target, settings.run.embedder, *judges):
        found.add(os.environ.get(getattr(endpoint, "api_key_env", None) or "", ""))
        password = urlsplit(getattr(endpoint, "base_url", None) or getattr(endpoint, "url", None) or "").password or ""
        found |= {password, unquote(password), *getattr(endpoint, "secrets", ())}
    return {secret.strip() for secret in found if len(secret.strip()) >= _SHORTEST}


class RedactingFormatter(logging.Formatter):
    """Writes a record, traceback included, with the secrets struck out."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        # The longest first, or a part of it would be struck out and the rest stay.
        self._secrets = sorted(secrets, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        """The record as one text."""
        text = super().format(record)
        for secret in self._secrets:
            text = text.replace(secret, "[redacted]")
        return text


class _LogFile(logging.FileHandler):
    """A file whose disk may be full: what went wrong there is said by the run itself, not once for every line."""

    def handleError(self, record: logging.LogRecord) -> None:  # the name is logging's
        """Leave out what cannot be written."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        """Let go of the file."""
        with contextlib.suppress(OSError):
            super().close()


@contextmanager
def log_to(path: Path, secrets: Iterable[str]) -> Generator[None]:
    """Send evalflow's warnings and errors to a file while the block runs; the file is made even if nothing comes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _LogFile(path, encoding="utf-8")
    handler.setFormatter(RedactingFormatter(secrets))
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
