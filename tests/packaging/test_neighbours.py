"""Beside evalflow other packages keep their newest release, and docs/install.md names what is held back.

It asks the Package Index through uv, so it runs only by `make test-neighbours`.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from packaging.version import Version

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
UV = os.environ.get("EVALFLOW_TEST_UV", "")


def rows() -> dict[str, set[str]]:
    """The packages of the page's table, each with the names in its column of what is held back."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    table = page.partition("## Beside other packages")[2].partition("\n## ")[0]
    cells = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    return {one[1].strip(" `"): set(re.findall("`(.+?)`", one[3])) for one in cells}


def resolved(folder: Path, *wanted: str | Path) -> dict[str, Version]:
    """The versions that uv chooses on the oldest supported Python."""
    (folder / "wanted.in").write_text("\n".join(one for one in wanted if isinstance(one, str)), encoding="utf-8")
    files = [folder / "wanted.in", *(one for one in wanted if isinstance(one, Path))]
    command = [UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", "3.11", *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name: Version(version) for name, version in re.findall(r"^([\w.-]+)==([\w.+!-]+)", done.stdout, re.M)}


def test_the_table_names_the_packages() -> None:
    names = {
        "autogen-agentchat",
        "crewai",
        "dspy",
        "haystack-ai",
        "langchain",
        "llama-index",
        "mlflow",
        "semantic-kernel",
    }
    assert rows().keys() == names


@pytest.mark.skipif(not UV, reason="asks the Package Index; make test-neighbours")
@pytest.mark.parametrize("name", sorted(rows()))
def test_nothing_else_is_held_back(name: str, tmp_path: Path) -> None:
    alone, beside = resolved(tmp_path, name), resolved(tmp_path, name, ROOT / "pyproject.toml")
    assert beside[name] == alone[name]
    assert {one for one, version in alone.items() if one in beside and beside[one] < version} <= rows()[name]
