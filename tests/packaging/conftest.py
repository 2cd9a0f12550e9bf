"""The wheel, built from a copy of the checkout in which a person has left things of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT_FROM = ("pyproject.toml", "README.md", "LICENSE", ".gitignore", "evalflow", "conf", "prompts", "data")


@pytest.fixture(scope="session")
def wheel_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    checkout = tmp_path_factory.mktemp("checkout")
    for name in BUILT_FROM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, checkout / name)
    for own in ("conf/local/default.yaml", "data/customers.jsonl", "outputs/run/scores.parquet", ".env"):
        (checkout / own).parent.mkdir(parents=True, exist_ok=True)
        (checkout / own).write_text("secret: 1\n")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(build, cwd=checkout, check=True, capture_output=True)
    [path] = (checkout / "dist").glob("*.whl")
    return path
