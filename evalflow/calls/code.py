"""Find the files of Python code: its package and the local modules that it imports.

Anything that code reads at run time (files, services, variables of a notebook) is not covered.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import cast

from evalflow.errors import Problem, UserError

_IMPORT = re.compile(r"^[ \t]*import[ \t]+(\w[\w., \t]*)|^[ \t]*from[ \t]+(\w[\w.]*)", re.MULTILINE)
_PLACES = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED = {"site-packages", "dist-packages"}


_KEPT = "evalflow_digest"
"""The attribute of a module's spec with the file's digest when first seen; a reloaded module has a new spec."""


def digests(module: ModuleType) -> list[str]:
    """Return a digest of each file of a module's code, as far as its imports show; none for a notebook.

    UserError if a file changed after this process imported it, so that the old code would run.
    """
    by_file = {file: _digest(file) for file in source_files(module)}
    names = {file.name for file in by_file}
    stale: list[str] = []
    for name, loaded in list(sys.modules.items()):
        file, spec = getattr(loaded, "__file__", None), getattr(loaded, "__spec__", None)
        if file and spec is not None and Path(file).name in names and (digest := by_file.get(Path(file).resolve())):
            kept = cast("dict[str, str]", vars(spec))
            stale += [name] if kept.setdefault(_KEPT, digest) != digest else []
    if stale:
        what = f"{', '.join(stale)} changed after this process imported it, so the old code would answer"
        hint = f"reload it: importlib.reload({stale[0]}), and the modules that import it; or start again"
        raise UserError(Problem(what, "target", hint))
    return list(by_file.values())


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def source_files(module: ModuleType) -> list[Path]:
    """Return the sorted files of the module's top-level package and of the local modules that they import."""
    package = importlib.import_module(module.__name__.partition(".")[0])
    waiting = _python_files(getattr(package, "__path__", ()), getattr(module, "__file__", None))
    files: set[Path] = set()
    seen: set[str] = set()
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            names = _imported_by(file) - seen
            seen |= names
            waiting += [local for name in names for local in _local_files(name)]
    return sorted(files)


def _imported_by(file: Path) -> set[str]:
    """Return the top-level names that a file imports anywhere; relative imports count as its own package."""
    text = file.read_text(encoding="utf-8", errors="replace")
    listed = (name for several, single in _IMPORT.findall(text) for name in (several or single).split(","))
    return {name.split()[0].split(".")[0] for name in listed if name.strip()}


def _local_files(name: str) -> list[Path]:
    """Return the files of a top-level module or package; none if it is installed or in the standard library."""
    try:
        spec = PathFinder.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    # Check folders first: listing the thousands of files of an installed package takes seconds.
    own = [folder for folder in spec.submodule_search_locations or () if not _is_installed(Path(folder).resolve())]
    return [file for file in _python_files(own, spec.origin) if not _is_installed(file)]


def _is_installed(path: Path) -> bool:
    return bool(_INSTALLED & {*path.parts}) or any(path.is_relative_to(place) for place in _installed_places())


@cache
def _installed_places() -> tuple[Path, ...]:
    return (*(Path(sysconfig.get_path(place)).resolve() for place in _PLACES), Path(__file__).resolve().parents[1])


def _python_files(folders: Iterable[str], file: str | None) -> list[Path]:
    files = [path for folder in folders for path in Path(folder).resolve().rglob("*.py")]
    return files or ([Path(file).resolve()] if file and file.endswith(".py") else [])
