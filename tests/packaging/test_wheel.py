"""The wheel carries all that a run needs, and nothing of the checkout that built it."""

from __future__ import annotations

import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from evalflow.addons.embedded import minilm

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_what_the_default_judge_needs_is_no_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = {re.split("[<>=~]", wanted)[0] for wanted in project["dependencies"]}
    assert {"numpy", "onnxruntime", "tokenizers", minilm.MODEL[0], minilm.TOKENIZER[0]} <= installed


@pytest.fixture(name="wheel", scope="module")
def _wheel(wheel_file: Path) -> set[str]:
    """The names in the wheel."""
    return set(zipfile.ZipFile(wheel_file).namelist())


def names(folder: str) -> set[str]:
    """The files of a folder of the checkout that Git keeps or would keep."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    done = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True)
    return {name for name in done.stdout.splitlines() if (ROOT / name).exists()}


@pytest.mark.parametrize("folder", ["conf", "prompts", "data"])
def test_what_is_shipped(wheel: set[str], folder: str) -> None:
    wanted = {f"evalflow/_share/{name}" for name in names(folder)}
    assert wanted
    assert {name for name in wheel if name.startswith(f"evalflow/_share/{folder}/")} == wanted


def test_the_package_is_whole(wheel: set[str]) -> None:
    wanted = names("evalflow")
    assert "evalflow/py.typed" in wanted
    assert wanted <= wheel


def test_nothing_else_is_shipped(wheel: set[str]) -> None:
    assert {name.partition("/")[0].partition("-")[0] for name in wheel} == {"evalflow", "evalflow_llm"}
    assert not [name for name in wheel if "/local/" in name or "customers" in name or name.startswith("tests")]


def test_the_licence_goes_along(wheel: set[str]) -> None:
    assert [name for name in wheel if name.endswith("dist-info/licenses/LICENSE")]
