"""The core works without the folder of an addon: in a copy of the package that lacks it, and its entry points."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from configparser import ConfigParser
from importlib.metadata import distribution
from pathlib import Path

import pytest

from evalflow.extras import PACKAGE

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[2]
ADDONS = sorted(path.name for path in (CHECKOUT / "evalflow/addons").iterdir() if (path / "__init__.py").exists())
COMMANDS = """
    import contextlib, io, sys
    import evalflow
    from evalflow.cli import run_command
    from evalflow.cli.verbs import VERBS

    def command(*words):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command(list(words))
        assert code == 0, (words, code, out.getvalue(), err.getvalue())
        return out.getvalue()

    assert evalflow.__file__.startswith(sys.argv[1]), evalflow.__file__
    command("--help")
    assert not {*sys.argv[2:]} & {*VERBS}
    for verb in VERBS.own:
        command(verb, "--help")
    assert "faithfulness" in command("list", "metric")
    for run in ("one", "two"):
        command("dataset=rag", "metric=exact_match", f"hydra.run.dir=outputs/{run}")
    assert "exact_match" in command("compare", "outputs/one", "outputs/two")
"""


def copy_without(addons: list[str], folder: Path) -> set[str]:
    """A copy of what is installed, without these addons; the verbs that it therefore lacks."""
    places = {CHECKOUT / "evalflow/addons" / addon for addon in addons}
    shutil.copytree(
        CHECKOUT / "evalflow",
        folder / "evalflow",
        # Compiled files are copied too, except the temporary ones that another process is writing.
        ignore=lambda parent, names: [n for n in names if ".pyc." in n or Path(parent, n) in places],
    )
    for shared in ("conf", "prompts", "data"):
        (folder / shared).symlink_to(CHECKOUT / shared)
    points, lacking = ConfigParser(delimiters="="), set[str]()
    for point in distribution(PACKAGE).entry_points:
        if any(point.module.startswith(f"evalflow.addons.{addon}.") for addon in addons):
            lacking |= {point.name} if point.group == "evalflow.verbs" else set()
            continue
        if not points.has_section(point.group):
            points.add_section(point.group)
        points.set(point.group, point.name, point.value)
    about = folder / f"{PACKAGE.replace('-', '_')}-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0\n")
    with (about / "entry_points.txt").open("w") as file:
        points.write(file)
    return lacking


@pytest.mark.parametrize("addons", [*([addon] for addon in ADDONS), ADDONS], ids="+".join)
def test_the_core_works_without_an_addon(addons: list[str], tmp_path: Path) -> None:
    lacking = copy_without(addons, tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(COMMANDS), str(tmp_path), *lacking],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
