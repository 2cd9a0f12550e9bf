"""The optional packages, which the extras in pyproject.toml name."""

from __future__ import annotations

import shlex
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires

from evalflow.errors import Problem, UserError

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
        return f"python -m pip install -e '.[{extra}]', in the checkout"
    wanted: list[str] = []
    for one in declared:
        if one.marker and "extra" in str(one.marker) and one.marker.evaluate({"extra": extra}):
            one.marker = None
            wanted.append(str(one))
    return shlex.join(["python", "-m", "pip", "install", *wanted])
