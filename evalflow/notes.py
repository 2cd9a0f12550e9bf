"""Notes on a run: what changed its cost or the meaning of its scores without the user asking for it.

The run prints each once and keeps it in run.json, and so in its reports.
"""

from __future__ import annotations

import logging

NOTE = logging.WARNING + 5
"""The log level of notes. Log records reach the run that they belong to, even from a cluster's nodes."""


def note(text: str) -> None:
    """Add a note to the run that is under way; without one it is a line of the log."""
    logging.getLogger("evalflow").log(NOTE, "%s", text)
