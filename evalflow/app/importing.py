"""The command `import`: convert another tool's files to YAML in ./conf."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from evalflow.app.core.assemble import with_default_judge
from evalflow.app.core.derive import Derived
from evalflow.app.core.options import MODEL, SENDS_NOTHING
from evalflow.app.core.result_rules import ResultRules
from evalflow.app.core.screen import TerminalScreen, propose_command, shown, write_new
from evalflow.app.report import case_rows
from evalflow.app.run import execute
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.importers.files import ImportedConfig
from evalflow.importers.govuk import read_config
from evalflow.importers.tiamat import read_test
from evalflow.paths import private_folder, write_atomically
from evalflow.records.manifest import Manifest
from evalflow.report.comparison import native_means, print_pairs
from evalflow.report.wording import literal

FORMATS: Mapping[str, Callable[[Path], ImportedConfig]] = {"govuk": read_config, "tiamat": read_test}
_TARGET = ("target=vllm", "target.model=MODEL")
_FOLDER = Path(".evalflow") / "tiamat"
_SHOWN = 20  # maximum cases of each dataset in the table


def import_files(kind: str, path: str, console: Console) -> int:
    """Write a file for each dataset, metric and experiment in the tool's files, and print how to run them."""
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


def run_tiamat(test: str, overrides: Sequence[str], out: Console, err: Console) -> int:
    """Evaluate each of the test's datasets with each of its metrics, in one run; returns the exit code.

    The files are converted to a config folder named by a hash of its content, which `--config-dir` can read too. New
    answers are generated, unless the rows contain answers or an override says otherwise. By default the target's own
    model is the judge.
    """
    imported = read_test(Path(test))
    folder = _written(imported)
    chosen = [f"dataset=[{','.join(imported.datasets)}]", f"metric=[{','.join(imported.metrics)}]"]
    generate = [] if imported.has_answers else ["generate=true"]
    words = with_default_judge([*chosen, *generate, *overrides], folder, judged=True)
    return execute(words, folder, _TiamatScreen(out, err))


class _TiamatScreen(TerminalScreen):
    """Shows each dataset with each metric, case by case, before the summary."""

    def ends(self, folder: RunFolder, manifest: Manifest, rules: ResultRules, derived: Derived) -> None:
        distinct = derived.scores.select("dataset", "case_id").unique(maintain_order=True)
        wanted = distinct.group_by("dataset", maintain_order=True).head(_SHOWN).collect()
        print_pairs(self._out, list(case_rows(folder, derived.scores, wanted)), native_means(derived.scores))
        super().ends(folder, manifest, rules, derived)


def _written(imported: ImportedConfig) -> Path:
    files = imported.files()
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]
    folder = _FOLDER.absolute() / digest
    try:
        for name, text in files.items():
            path = folder / name
            private_folder(path.parent)
            if not path.is_file():
                write_atomically(path, text)
    except OSError as error:
        raise UserError(Problem(f"cannot write there: {error.strerror}", str(folder))) from None
    return folder
