"""What must not be loaded before it is needed, so that the first line on the screen comes quickly."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import evalflow

pytestmark = pytest.mark.slow

HEAVY = {
    "aiohttp",
    "alembic",
    "fastapi",
    "genai_prices",
    "ijson",
    "inscriptis",
    "instructor",
    "jsonpath",
    "jsonschema",
    "lap",
    "nicegui",
    "numpy",
    "onnxruntime",
    "openai",
    "polars",
    "prometheus_client",
    "ray",
    "scipy",
    "sqlalchemy",
    "tokenizers",
    "uvicorn",
}
READERS = {"ijson", "inscriptis", "jsonpath"}
CONFIGURATION = {"hydra", "omegaconf", "pydantic", "yaml"}
RICH = {"rich"}
APART = (
    "evalflow.addons.cluster.ray_crew",
    "evalflow.testing",
    "evalflow.addons.studio.web.api",
    "evalflow.addons.studio.web.application",
    "evalflow.addons.studio.web.nicegui_core",
    "evalflow.addons.studio.web.observe",
    "evalflow.addons.studio.web.pages",
    "evalflow.addons.studio.web.security",
    "evalflow.addons.studio.web.static",
    "evalflow.addons.studio.web.ui",
    "evalflow.addons.studio.work.backup",
    "evalflow.addons.studio.work",
    "evalflow.addons.studio.work.worker",
    "evalflow.addons.studio.store",
)
"""What `serve` and the worker alone load, when they need it: FastAPI, NiceGUI and SQLAlchemy are what it is made of."""


def loads(code: str, cwd: Path, of: set[str]) -> set[str]:
    """Those of the packages that a fresh interpreter has loaded after running the code."""
    code = f"import sys\n{code}\nimport json; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return of.intersection(json.loads(done.stdout.splitlines()[-1]))


def command(*arguments: str) -> str:
    """Code that runs a command line in this interpreter."""
    return f"from evalflow.cli import run_command\nassert run_command({list(arguments)!r}) == 0"


def test_what_is_loaded_is_seen(tmp_path: Path) -> None:
    assert "polars" in loads("import polars", tmp_path, HEAVY)


@pytest.mark.parametrize("module", ["evalflow", "evalflow.errors", "evalflow.cli", "evalflow.__main__"])
def test_the_entry_point_loads_next_to_nothing(module: str, tmp_path: Path) -> None:
    assert loads(f"import {module}", tmp_path, HEAVY | CONFIGURATION | RICH) == set()


def test_help_comes_before_the_configuration(tmp_path: Path) -> None:
    assert loads(command("--help"), tmp_path, HEAVY | CONFIGURATION) == set()


def test_no_module_loads_a_heavy_package_on_import(tmp_path: Path) -> None:
    walked = pkgutil.walk_packages(evalflow.__path__, "evalflow.")
    modules = [module.name for module in walked if not module.name.startswith(APART)]
    assert len(modules) > 50
    assert loads("\n".join(f"import {module}" for module in modules), tmp_path, HEAVY) == set()


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["show", "faithfulness"], ["check", "dataset=rag", "metric=faithfulness"]],
    ids=lambda arguments: arguments[0],
)
def test_what_asks_nobody_needs_none_of_them(arguments: list[str], tmp_path: Path) -> None:
    assert loads(command(*arguments), tmp_path, HEAVY - READERS) == set()


def test_a_list_composes_nothing_converts_nothing_and_colours_no_code(tmp_path: Path) -> None:
    unneeded = {"antlr4", "evalflow.limited.workbooks", "hydra", "inscriptis", "omegaconf", "pygments"}
    assert loads(command("list", "metric"), tmp_path, unneeded) == set()


NOT_FOR_CHECKS = {
    "evalflow.app.core.comparison",
    "evalflow.app.core.calibration",
    "evalflow.app.core.labels",
    "evalflow.app.core.leaderboard",
    "evalflow.app.core.sweep",
    "evalflow.limited.workbooks",
    "evalflow.addons.embedded.judge",
    "evalflow.report.calibration",
    "evalflow.report.comparison",
    "evalflow.report.sweep",
    "evalflow.stats.agreement",
    "evalflow.stats.unpaired",
    "evalflow.summary.agreement",
    "evalflow.summary.calibration",
    "evalflow.summary.compare",
    "evalflow.summary.judge_choice",
    "evalflow.traces",
}
"""Parts of evalflow that a run of a plain check has no use for."""


def test_a_list_loads_no_metric_and_no_template(tmp_path: Path) -> None:
    kinds = {"asyncio", "evalflow.addons.embedded.judge", "evalflow.metrics.base", "evalflow.metrics.kinds", "jinja2"}
    assert loads(command("list", "metric"), tmp_path, kinds) == set()


def test_a_run_loads_neither_comparison_nor_calibration_nor_sweeps(tmp_path: Path) -> None:
    assert loads(command("dataset=rag", "metric=exact_match"), tmp_path, NOT_FOR_CHECKS) == set()


def test_a_run_whose_data_bring_labels_needs_no_scipy(tmp_path: Path) -> None:
    run = command("dataset=rag", "metric=faithfulness", "limit=12")
    assert loads(run, tmp_path, {"scipy", "genai_prices", "openai"}) == set()


def test_a_run_that_asks_nobody_needs_little_more_than_its_tables(tmp_path: Path) -> None:
    run = command("dataset=rag", "metric=exact_match")
    assert loads(run, tmp_path, HEAVY - READERS) == {"numpy", "polars"}


def test_the_program_ends_without_a_search_for_cycles(tmp_path: Path) -> None:
    words = "import atexit, gc, sys; from evalflow.__main__ import main; sys.argv = ['evalflow', '--version']"
    code = f"{words}; atexit.register(lambda: print(gc.get_count()[0] < gc.get_freeze_count())); main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.splitlines()[-1] == "True", done.stderr
