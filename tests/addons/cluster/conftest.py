"""The program with actors in this process."""

from __future__ import annotations

from tests.cli.conftest import program

from .crew import cluster

__all__ = ["cluster", "program"]
