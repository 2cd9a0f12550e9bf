"""The import rule of pyproject.toml holds, and a breach of it is seen."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import evalflow

pytestmark = pytest.mark.slow

PACKAGE = Path(evalflow.__file__).parent
ROOT = PACKAGE.parent


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the `evalflow` of a folder."""
    config = ROOT / "pyproject.toml"
    code = f"from importlinter.cli import lint_imports; raise SystemExit(lint_imports({str(config)!r}, no_cache=True))"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


def test_the_rule_holds() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "breach", "contract"),
    [
        ("errors.py", "import evalflow.app", "An upper layer imports lower ones only"),
        ("stats/intervals.py", "import evalflow.metrics", "An upper layer imports lower ones only"),
        ("metrics/registry.py", "def f():\n    import openai", "openai and instructor in llm only"),
        (
            "errors.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import evalflow.app",
            "An upper layer imports lower ones only",
        ),
        ("engine/pipeline.py", "import hydra", "Hydra and OmegaConf in config only"),
        ("app/run.py", "import evalflow.testing", "The product never imports evalflow.testing"),
        ("app/core/saved.py", "import evalflow.app.run", "Verbs over the core"),
        ("app/compare.py", "import evalflow.app.report", "Verbs over the core"),
        ("app/core/saved.py", "import evalflow.app.core.rederive", "No circle of imports, inside packages too"),
    ],
)
def test_a_breach_is_seen(tmp_path: Path, module: str, breach: str, contract: str) -> None:
    copy = tmp_path / "evalflow"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "_share"))
    with (copy / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{breach}\n")
    done = lint(tmp_path)
    assert done.returncode != 0
    assert f"{contract} BROKEN" in done.stdout
