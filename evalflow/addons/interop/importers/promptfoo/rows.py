"""The cases of a promptfoo configuration: one per test for all its prompts and providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from evalflow.addons.interop.importers.files import (
    DataFile,
    ImportedConfig,
    ImportSource,
    key_for,
    own_or_number,
    question_of,
)
from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.addons.interop.importers.nunjucks import render, rendered_variables
from evalflow.addons.interop.importers.promptfoo.cases import SourceTest
from evalflow.addons.interop.importers.promptfoo.checks import CheckWriter
from evalflow.addons.interop.importers.promptfoo.prompts import ChatPrompt, SourcePrompt, prompt_text
from evalflow.addons.interop.importers.promptfoo.providers import SourceProvider, TargetOption


@dataclass(slots=True)
class PromptColumn:
    """One provider with one prompt.

    Attributes:
        key: The key of its experiment and target.
        target: Its target; None if evalflow has no equivalent of the provider.
        provider: The provider as declared, if there is one.
        dataset: The dataset that it answers; empty if no test is for it.
        answered, cases: Number of cases with a recorded answer, and of all cases.
    """

    key: str
    prompt: SourcePrompt
    chat: ChatPrompt
    target: TargetOption | None
    provider: SourceProvider | None = None
    dataset: str = ""
    answered: int = 0
    cases: int = 0

    @property
    def echoes(self) -> bool:
        return self.target is not None and self.target.echoes

    def fault_of(self, case: _Case) -> Untranslatable | None:
        """Why a case does not belong to this column; the reason is empty if the test is meant for other columns."""
        own = (self.provider.id, self.provider.label) if self.provider else ()
        if not (_is_meant(case.test.prompts, self.prompt.label) and _is_meant(case.test.providers, *own)):
            return Untranslatable("")
        if case.failure is not None:
            return case.failure
        try:
            render(prompt_text(self.prompt), case.variables)
        except Untranslatable as failure:
            reason = failure.reason.removeprefix("it uses ").removesuffix(", which is not set")
            if reason == failure.reason:
                return failure
            return Untranslatable(f"its prompt uses {reason}, which the test does not set", failure.hint)
        return None


def _is_meant(names: Sequence[str] | None, *own: str) -> bool:
    return names is None or not own or any(allows(names, item) for item in own)


@dataclass(slots=True)
class _Case:
    """A test with one value from each of its lists of values."""

    number: int
    test: SourceTest
    variables: dict[str, object]
    failure: Untranslatable | None = None


@dataclass(slots=True)
class _Table:
    """The cases of a dataset, and the columns that answer it."""

    key: str
    columns: list[PromptColumn]
    part: str
    usable: frozenset[int] = field(default_factory=frozenset[int])


def write_cases(
    source: ImportSource,
    imported: ImportedConfig,
    tests: Sequence[SourceTest],
    columns: Sequence[PromptColumn],
    checks: CheckWriter,
) -> list[str]:
    """Write the cases and set each column's dataset; returns the keys of the datasets.

    Columns with the same cases share a dataset, except those whose answers are their prompts.
    """
    faults = [[column.fault_of(case) for column in columns] for case in _cases(tests)]
    tables = list(_tables(source, columns, faults))
    ids: set[str] = set()
    with ExitStack() as stack:
        files = {table.key: stack.enter_context(source.rows(imported, table.key, table.part)) for table in tables}
        for case, item in zip(_cases(tests), faults, strict=True):
            mine = [table for table in tables if case.number in table.usable]
            if not mine:
                _leave(imported, case, item)
                continue
            case_id = own_or_number(case.test.id, case.number, ids)
            for table in mine:
                imported.ledger.found(table.part)
                _write(files[table.key], table, case, case_id, checks)
    return [table.key for table in tables]


def _cases(tests: Sequence[SourceTest]) -> Iterator[_Case]:
    number = 0
    for test in tests:
        for declared in test.cases():
            number += 1
            try:
                yield _Case(number, test, rendered_variables(declared))
            except Untranslatable as failure:
                hint = failure.hint or "replace the variable by its value"
                yield _Case(number, test, {}, Untranslatable(failure.reason, hint))


def _tables(
    source: ImportSource, columns: Sequence[PromptColumn], faults: Sequence[Sequence[Untranslatable | None]]
) -> Iterator[_Table]:
    by_cases: dict[frozenset[int], _Table] = {}
    taken: set[str] = {column.key for column in columns if column.echoes}
    for at, column in sorted(enumerate(columns), key=lambda numbered: numbered[1].echoes):
        usable = frozenset(number for number, fault in enumerate(faults, 1) if fault[at] is None)
        if not usable:
            continue
        table = by_cases.get(usable)
        if table is not None and not column.echoes:
            table.columns.append(column)
        else:
            key = column.key if column.echoes else key_for(source.name, taken, "dataset")
            taken.add(key)
            part = "answers of echo" if column.echoes and by_cases else f"cases of {key}" if by_cases else "cases"
            table = _Table(key, [column], part, usable)
            if not column.echoes or not by_cases:
                by_cases[usable] = table
            yield table
        column.dataset = table.key


def _leave(imported: ImportedConfig, case: _Case, faults: Sequence[Untranslatable | None]) -> None:
    """List a case that no column can use, with the first reason."""
    fault = next((item for item in faults if item is not None and item.reason), None)
    if fault is None:
        fault = Untranslatable("it is for prompts or providers that are not imported")
    what = f"a case of test {case.test.description or case.number}"
    imported.ledger.found("cases")
    imported.ledger.left("cases", what, case.test.where, fault.reason, fault.hint)


def _write(file: DataFile, table: _Table, case: _Case, case_id: str, checks: CheckWriter) -> None:
    test, columns = case.test, table.columns
    used = {name for column in columns for name in column.chat.variables}
    variables = {**case.variables, **dict.fromkeys(sorted(used - set(case.variables)), "")}  # as Nunjucks would show it
    written, fields = checks.write(test.asserts, variables, test.where, test.threshold)
    prompt = columns[0].prompt
    row: dict[str, object] = {"id": case_id, "question": question_of(variables, _filled(prompt, variables)), **fields}
    row["vars"] = variables
    if test.answer is not None:
        row["answer"] = test.answer
    elif columns[0].echoes:
        row["answer"] = render(prompt_text(prompt), variables)
    about = {**test.metadata, **({"description": test.description} if test.description else {})}
    about |= {"test_id": test.id} if test.id and test.id != case_id else {}
    row |= {"metadata": about} if about else {}
    row |= {"tags": test.tags} if test.tags else {}
    file.write({**row, "checks": written} if written else row, test.where)
    for column in columns:
        column.cases += 1
        column.answered += "answer" in row


def _filled(prompt: SourcePrompt, variables: Mapping[str, object]) -> str:
    """The prompt with the variables of a case; empty if it cannot be filled."""
    try:
        return render(prompt_text(prompt), variables)
    except Untranslatable:
        return ""


def allows(names: Sequence[str], label: str) -> bool:
    """Whether a list of names matches this one: exactly, by `PREFIX*`, or by the part before its colon."""
    return any(
        label == name or (name.endswith("*") and label.startswith(name[:-1])) or label.startswith(f"{name}:")
        for name in names
    )
