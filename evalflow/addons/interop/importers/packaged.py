"""Importers of other packages: their rows become cases, after each row is checked as a row of a dataset is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from evalflow.addons.interop.importers.columns import finite
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.recorded import recorded_cases
from evalflow.calls.faults import of_exception
from evalflow.config.schema import DatasetConfig
from evalflow.datasets import MAX_PROBLEMS, Builder
from evalflow.datasets.fields import field_map
from evalflow.datasets.sources import record
from evalflow.errors import EvalflowError, Problem, UserError, of_place
from evalflow.paths import shown
from evalflow.protocols import Importer, OmittedRow
from evalflow.records import Case
from evalflow.values.jsonvalues import as_map, is_mapping, is_object, kind

_SCORES = "scores"


def read_with(importer: Importer, tool: str, package: str, source: ImportSource) -> ImportedConfig:
    """Import the rows that the importer of a package returns.

    UserError for a fault of the importer, for rows that are not cases (up to 20), and for a file without cases.
    """
    if source.root is not None:
        what = f"--root is for files that name other files, and the importer {tool} reads only one path"
        raise UserError(Problem(what, "command line", "leave out --root"))
    if not source.path.exists():
        raise UserError(Problem("there is no such file or folder", str(source.path)))
    file = shown(source.path)
    with recorded_cases(source, tool, _SCORES) as cases:
        for item in _CheckedRows(importer, tool, package, source):
            if isinstance(item, OmittedRow):
                cases.ledger.leave("cases", "row", item.where or file, item.reason, item.hint)
                continue
            cases.ledger.found("cases")
            where, row = item
            scores = as_map(row.get(_SCORES)).items()
            cases.write({name: value for name, value in row.items() if name != _SCORES}, scores, where)
    return cases.imported


class _CheckedRows:
    """What an importer returns: valid rows with their places, and what it leaves out; UserError for anything else."""

    def __init__(self, importer: Importer, tool: str, package: str, source: ImportSource) -> None:
        self._importer: Callable[[Path], object] = importer
        self._tool = tool
        self._source = source
        self._file = shown(source.path)
        self._package = package
        self._blame = f"the importer {tool} of the package {package} returned it; correct it there"
        config = DatasetConfig(path=str(source.path), format="jsonl", allow_irregular=True)
        self._builder = Builder(source.name, field_map(source.name, config), cells=False, allow_irregular=True)

    def __iter__(self) -> Iterator[OmittedRow | tuple[str, Mapping[str, object]]]:
        problems: list[Problem] = []
        for number, item in enumerate(self._returned(), start=1):
            if isinstance(item, OmittedRow):
                yield item
                continue
            where = f"{self._file}, row {number}"
            row = self._row(item, where)
            if isinstance(row, Mapping):
                yield where, row
                continue
            problems += row
            if len(problems) >= MAX_PROBLEMS:
                break
        if problems:
            raise UserError(problems)

    def _returned(self) -> Iterator[object]:
        try:
            rows = self._importer(self._source.path)
            if not isinstance(rows, Iterable):
                raise UserError(Problem(f"expected rows, got {type(rows).__name__}", self._file, self._blame))
            yield from cast("Iterable[object]", rows)
        except EvalflowError:
            raise
        except Exception as error:
            place = of_place(error) if isinstance(error, OSError) else None
            what = f"the importer {self._tool} failed: {of_exception(error)}"
            hint = f"check the file; if it is correct, the package {self._package} has a fault"
            raise place or UserError(Problem(what, self._file, hint)) from error

    def _row(self, item: object, where: str) -> Mapping[str, object] | list[Problem]:
        """The row as JSON holds it, or what is wrong with it."""
        if not is_mapping(item):
            return [Problem(f"expected a mapping of case fields, got {type(item).__name__}", where, self._blame)]
        try:
            row = as_map(json.loads(json.dumps(dict(item))))
        except (TypeError, ValueError, RecursionError) as error:
            return [Problem(f"JSON cannot hold the row: {error}", where, self._blame)]
        scores = row.get(_SCORES)
        if scores is not None and not is_object(scores):
            return [Problem(f"scores: expected an object of numbers, got {kind(scores)}", where, self._blame)]
        plain = as_map(finite({name: value for name, value in row.items() if name != _SCORES}, Ledger(), where))
        source_row = record(plain, where)
        case = [source_row] if isinstance(source_row, Problem) else self._builder.case(0, source_row)
        if not isinstance(case, Case):
            return [Problem(problem.what, problem.where, self._blame) for problem in case]
        if not case.messages and case.scenario is None:
            return [Problem("it has neither a question nor messages nor a scenario", where, self._blame)]
        return row
