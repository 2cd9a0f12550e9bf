"""The program, as the tests of the command line have it."""

from __future__ import annotations

from tests.cli.conftest import program

__all__ = ["program"]
