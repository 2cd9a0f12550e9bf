"""Whether pydantic builds the schema of a model at its first use, so that a command builds only those it needs."""

from __future__ import annotations

from pydantic import VERSION

DEFER_BUILD = tuple(map(int, VERSION.split(".")[:2])) >= (2, 14)
"""False for older versions, in which two threads may not use a model for the first time."""
