"""What must not be loaded before it is needed, so that the first line on the screen comes quickly.

The number of modules that a command loads is limited too: a new import at the top of a file is seen here, before people
wait for it.
"""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

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


@cache
def loaded(code: str) -> frozenset[str]:
    """The modules that a fresh interpreter has loaded after running the code in an empty folder."""
    code = f"import sys\n{code}\nfound = [*sys.modules]\nimport json; print(json.dumps(found))"
    with TemporaryDirectory() as cwd:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return frozenset(json.loads(done.stdout.splitlines()[-1]))


def loads(code: str, of: set[str]) -> set[str]:
    """Those of the packages that a fresh interpreter has loaded after running the code."""
    return of & loaded(code)


def command(*arguments: str) -> str:
    """Code that runs a command line in this interpreter."""
    return f"from evalflow.cli import run_command\nassert run_command({list(arguments)!r}) == 0"


def test_what_is_loaded_is_seen() -> None:
    assert "polars" in loads("import polars", HEAVY)


@pytest.mark.parametrize("module", ["evalflow", "evalflow.errors", "evalflow.cli", "evalflow.__main__"])
def test_the_entry_point_loads_next_to_nothing(module: str) -> None:
    assert loads(f"import {module}", HEAVY | CONFIGURATION | RICH) == set()


def test_help_comes_before_the_configuration() -> None:
    assert loads(command("--help"), HEAVY | CONFIGURATION) == set()


def test_no_module_loads_a_heavy_package_on_import() -> None:
    walked = pkgutil.walk_packages(evalflow.__path__, "evalflow.")
    modules = [module.name for module in walked if not module.name.startswith(APART)]
    assert len(modules) > 50
    assert loads("\n".join(f"import {module}" for module in modules), HEAVY) == set()


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["show", "faithfulness"], ["check", "dataset=rag", "metric=faithfulness"]],
    ids=lambda arguments: arguments[0],
)
def test_what_asks_nobody_needs_none_of_them(arguments: list[str]) -> None:
    assert loads(command(*arguments), HEAVY - READERS) == set()


def test_a_list_composes_nothing_converts_nothing_and_colours_no_code() -> None:
    unneeded = {"antlr4", "evalflow.limited.workbooks", "hydra", "inscriptis", "omegaconf", "pygments"}
    assert loads(command("list", "metric"), unneeded) == set()


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


def test_a_list_loads_no_metric_and_no_template() -> None:
    kinds = {"asyncio", "evalflow.addons.embedded.judge", "evalflow.metrics.base", "evalflow.metrics.kinds", "jinja2"}
    assert loads(command("list", "metric"), kinds) == set()


def test_a_run_loads_neither_comparison_nor_calibration_nor_sweeps() -> None:
    assert loads(command("dataset=rag", "metric=exact_match"), NOT_FOR_CHECKS) == set()


def test_a_run_whose_data_bring_labels_needs_no_scipy() -> None:
    run = command("dataset=rag", "metric=faithfulness")
    assert loads(run, {"scipy", "genai_prices", "openai"}) == set()


# Ours, and all, each about 2 % above what it is. Before you raise one, import where it is used.
@pytest.mark.parametrize(
    ("words", "most_own", "most"),
    [
        (("list", "metric"), 41, 350),
        (("dataset=rag", "metric=exact_match"), 213, 1095),
        (("dataset=rag", "metric=faithfulness"), 257, 1182),
    ],
)
def test_a_command_loads_no_more_modules_than_now(words: tuple[str, ...], most_own: int, most: int) -> None:
    every = loaded(command(*words))
    assert sum(name.partition(".")[0] == "evalflow" for name in every) <= most_own
    assert len(every) <= most


def test_a_run_that_asks_nobody_needs_little_more_than_its_tables() -> None:
    run = command("dataset=rag", "metric=exact_match")
    assert loads(run, HEAVY - READERS) == {"numpy", "polars"}


def test_the_program_ends_without_a_search_for_cycles(tmp_path: Path) -> None:
    words = "import atexit, gc, sys; from evalflow.__main__ import main; sys.argv = ['evalflow', '--version']"
    code = f"{words}; atexit.register(lambda: print(gc.get_count()[0] < gc.get_freeze_count())); main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.splitlines()[-1] == "True", done.stderr
