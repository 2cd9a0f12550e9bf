"""The command `import`: convert another tool's files to YAML in ./conf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from evalflow.app.core.screen import propose_command, shown, write_new
from evalflow.app.core.suggest import MODEL, SENDS_NOTHING
from evalflow.errors import command
from evalflow.importers.files import ImportedConfig
from evalflow.importers.govuk import read_config
from evalflow.importers.tiamat import read_test
from evalflow.report.wording import literal

FORMATS: Mapping[str, Callable[[Path], ImportedConfig]] = {"govuk": read_config, "tiamat": read_test}
_TARGET = ("target=vllm", "target.model=MODEL")


def import_files(kind: str, path: str, console: Console) -> int:
    """Write a file for each dataset, metric and experiment in the tool's files, and print how to run them.

    Args:
        kind: One of FORMATS.
        path: The tool's file.
        console: Where to print what was written.

    Raises:
        UserError: The tool's files are invalid, or a file to be written exists already.
    """
    imported = FORMATS[kind](Path(path))
    for table in imported.datasets.values():
        table["path"] = shown(Path(table["path"]))
    write_new({Path("conf") / name: text for name, text in imported.files().items()}, console)
    for note in imported.notes:
        console.print(literal(f"note   {note}"), soft_wrap=True)
    for name, experiment in imported.experiments.items():
        target = _TARGET if experiment["generate"] else ()
        propose_command(console, command("check", f"experiment={name}", *target, *MODEL), SENDS_NOTHING)
    if imported.experiments:
        return 0
    words = [f"dataset=[{','.join(imported.datasets)}]", f"metric=[{','.join(imported.metrics)}]"]
    if not imported.has_answers:
        words += ["generate=true", *_TARGET]
    propose_command(console, command("check", *words, *MODEL), SENDS_NOTHING)
    return 0
