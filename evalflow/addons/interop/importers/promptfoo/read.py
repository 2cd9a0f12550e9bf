"""Tells promptfoo's configurations from its results, and imports either."""

from __future__ import annotations

from pathlib import Path

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.promptfoo.config import read_suite
from evalflow.addons.interop.importers.promptfoo.results import read_results
from evalflow.addons.interop.importers.sources import expect_text
from evalflow.errors import Problem, UserError
from evalflow.paths import shown

_NAMES = ("promptfooconfig.yaml", "promptfooconfig.yml", "promptfooconfig.json")
_HEAD = 4096


def read_promptfoo(source: ImportSource) -> ImportedConfig:
    """Import a configuration, a folder with one, or results in JSON or JSON lines."""
    path = source.file(*_NAMES, hint=f"expected {', '.join(_NAMES)}", lacking="the folder has no configuration")
    if path.suffix.lower() in (".js", ".ts", ".mjs", ".cjs", ".py"):
        hint = "write its export as YAML or JSON; evalflow does not run programs to import them"
        raise UserError(Problem("it is a program", shown(path), hint))
    if path.suffix.lower() in (".csv", ".html", ".xml"):
        hint = "write it as JSON: promptfoo export eval ID -o results.json"
        raise UserError(Problem("results in this format lack some of the recorded data", shown(path), hint))
    return read_results(source, path) if _has_results(path) else read_suite(source, path)


def _has_results(path: Path) -> bool:
    """Whether the file begins with keys of results, which a configuration does not have."""
    expect_text(path)
    if path.suffix.lower() == ".jsonl":
        return True
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return any(key in head for key in (b'"evalId"', b"\nevalId:", b"evalId:")) or (
        b'"results"' in head and b'"providers"' not in head and path.suffix.lower() == ".json"
    )
