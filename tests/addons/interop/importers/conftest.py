"""What tests of importers share: counts, and Node, where it is on the machine."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from evalflow.addons.interop.importers.files import ImportedConfig

Node = Callable[[str, Any], Any]
"""Calls a function of JavaScript with a value, and gives what it returns."""


@pytest.fixture(scope="session")
def node() -> Node:
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed: what was translated from JavaScript is not compared with it")

    def run(function: str, given: Any) -> Any:
        script = f"console.log(JSON.stringify(({function})(JSON.parse(require('fs').readFileSync(0, 'utf8')))))"
        done = subprocess.run(
            [program, "-e", script], input=json.dumps(given), capture_output=True, text=True, check=True, timeout=60
        )
        return json.loads(done.stdout)

    return run


def counts(found: ImportedConfig) -> dict[str, tuple[int, int, int]]:
    """Found, taken and left by part, without the parts of a case of which nothing was left."""
    known = found.ledger.counts()
    whole = ("columns", "messages")
    return {part: numbers for part, numbers in known.items() if part not in whole or numbers[2]}
