"""The optional packages, which the extras in pyproject.toml name."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from pathlib import Path

from evalflow.errors import Problem, UserError, program

PACKAGE = "evalflow-llm"
"""The name of the distribution; `evalflow` on the Python Package Index is another project."""


@contextmanager
def packages_of(extra: str, where: str) -> Generator[None]:
    """Import packages of an extra in the block; UserError with the command that installs them if one is missing.

    Example:
        >>> with packages_of("web", "serve"):
        ...     import json
    """
    try:
        yield
    except ModuleNotFoundError as error:
        what = f"this needs the package {error.name}, which is not installed"
        raise UserError(Problem(what, where, install_command(extra))) from None


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra, whether evalflow came from a checkout, Git or a wheel."""
    from packaging.requirements import Requirement

    try:
        declared = [Requirement(text) for text in requires(PACKAGE) or ()]
    except PackageNotFoundError:  # run from a checkout that is not installed
        return f"{pip_install('-e', f'.[{extra}]')}, in the checkout"
    wanted: list[str] = []
    for one in declared:
        if one.marker and "extra" in str(one.marker) and one.marker.evaluate({"extra": extra}):
            one.marker = None
            wanted.append(str(one))
    return pip_install(*wanted)


def pip_install(*arguments: str, again: bool = False) -> str:
    """The command that installs packages beside evalflow, by what made its environment: pip, pipx or uv.

    `again`: also those that are installed, since files of them are missing.
    """
    python, of_module, _ = program().partition(" -m ")
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        name = shlex.quote(Path(sys.prefix).name)
        tool = f"pipx runpip {name} install" if again else f"pipx inject {name}"  # inject leaves what is installed
    elif find_spec("pip") is None:
        tool = f"uv pip install --python {shlex.quote(sys.prefix)}"
    else:
        tool = f"{python if of_module else shlex.quote(sys.executable)} -m pip install"
    return f"{tool} {'--force-reinstall ' if again else ''}{shlex.join(arguments)}"
