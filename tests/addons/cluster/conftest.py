"""The program with actors in this process."""

from __future__ import annotations

from tests.addons.cluster.crew import cluster
from tests.cli.conftest import program

__all__ = ["cluster", "program"]
