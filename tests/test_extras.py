"""The command that a missing extra is answered with."""

from __future__ import annotations

import importlib.metadata
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from evalflow import extras

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(autouse=True)
def _has_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: "as pip makes an environment")


@pytest.mark.parametrize("extra", [name for name in PROJECT["optional-dependencies"] if name != "dev"])
def test_it_names_the_packages_of_the_extra_and_no_others(extra: str) -> None:
    python, flag, pip, install, *packages = shlex.split(extras.install_command(extra))
    assert (python, flag, pip, install) == ("python", "-m", "pip", "install")
    declared = PROJECT["optional-dependencies"][extra]
    assert {str(Requirement(name)) for name in packages} == {str(Requirement(name)) for name in declared}


def test_a_checkout_that_is_not_installed_is_installed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(extras, "requires", absent)
    assert extras.install_command("web") == "python -m pip install -e '.[web]', in the checkout"


def test_the_command_is_of_the_tool_that_made_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = tmp_path / "my env"
    env.mkdir()
    monkeypatch.setattr(sys, "prefix", str(env))
    monkeypatch.setattr(sys, "executable", f"{env}/bin/python")
    monkeypatch.setattr(sys, "orig_argv", [".venv/bin/python", "-m", "evalflow", "list"])
    assert extras.pip_install("nltk>=3") == ".venv/bin/python -m pip install 'nltk>=3'"
    monkeypatch.setattr(sys, "orig_argv", ["/nowhere/bin/python", "-m", "evalflow", "list"])
    assert extras.pip_install("nltk") == "/nowhere/bin/python -m pip install nltk"
    monkeypatch.setattr(sys, "orig_argv", [f"{env}/bin/python", f"{env}/bin/evalflow", "list"])
    assert extras.pip_install("nltk") == f"'{env}/bin/python' -m pip install nltk"
    monkeypatch.setattr(extras, "find_spec", lambda _: None)  # as where uv made it
    assert extras.pip_install("nltk") == f"uv pip install --python '{env}' nltk"
    assert extras.pip_install("nltk", again=True) == f"uv pip install --python '{env}' --force-reinstall nltk"
    (env / "pipx_metadata.json").touch()
    assert extras.pip_install("nltk") == "pipx inject 'my env' nltk"
    assert extras.pip_install("nltk", again=True) == "pipx runpip 'my env' install --force-reinstall nltk"


def test_nothing_tells_to_install_the_package_of_another_project() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("evalflow/**/*.py"), *ROOT.glob("conf/**/*.yaml")]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if "install" in line]
    assert len(lines) > 20
    assert [line for line in lines if "evalflow[" in line or "install evalflow" in line] == []


def test_the_page_lists_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [name for name in PROJECT["optional-dependencies"] if f"| `{name}` |" not in page] == []
    assert PROJECT["name"] == extras.PACKAGE
