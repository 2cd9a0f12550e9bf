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

from evalflow.config.address import secrets_in
from evalflow.config.panels import single_judges
from evalflow.config.validate import Settings
from evalflow.redaction import Redactor, environment_values

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def secrets_of(settings: Settings) -> set[str]:
    """What must not be shown: keys, passwords, headers and variables that the configuration names."""
    found = environment_values(settings.composed.storable)
    judges = [one for judge in (settings.run.judge, *settings.judges.values()) for one in single_judges(judge).values()]
    for endpoint in (settings.run.target, settings.run.embedder, *judges):
        found.add(os.environ.get(getattr(endpoint, "api_key_env", None) or "", ""))
        address: str = getattr(endpoint, "base_url", None) or getattr(endpoint, "url", None) or ""
        found |= secrets_in(address) | set(getattr(endpoint, "secrets", ()))
    return {secret for secret in found if secret.strip()}


class RedactingFormatter(logging.Formatter):
    """Writes a record, traceback included, without the secrets, and without what a variable named like one holds."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        named = (value for name, value in os.environ.items() if _SECRET_NAME.search(name))
        self._redactor = Redactor([*secrets, *named])

    def format(self, record: logging.LogRecord) -> str:
        """The record as one text."""
        return self._redactor.text(super().format(record))


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
