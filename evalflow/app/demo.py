"""`run ... --fill-demo`: fill in missing example answers (all with `--replace-demo`) from the run, in a new file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from evalflow import datasets
from evalflow.app.core.assemble import composed_settings, with_default_judge
from evalflow.app.core.cases import answer_in_data
from evalflow.app.core.derive import Derived
from evalflow.app.core.result_rules import ResultRules
from evalflow.app.core.screen import TerminalScreen
from evalflow.app.run import execute
from evalflow.config.schema import DatasetConfig, RunConfig
from evalflow.config.validate import Settings
from evalflow.engine.folder import RunFolder
from evalflow.engine.journal import AnswerBook
from evalflow.errors import InfrastructureError, Problem, UserError, command
from evalflow.paths import share_dir, shown
from evalflow.records import Case, Message
from evalflow.records.manifest import Manifest
from evalflow.summary.journal import json_line


def run_and_fill(
    arguments: Sequence[str], config_dir: Path | None, out: Console, err: Console, *, replacing: bool = False
) -> int:
    """Run the command line, then write each dataset with its missing example answers filled in; returns the exit code.

    UserError if the run yields no answers to fill in, or the new file cannot be written: then nothing was sent.
    InfrastructureError if the file could not be written after the run, whose answers are kept.
    """
    flag = "--replace-demo" if replacing else "--fill-demo"
    if flags := [word for word in arguments if word.startswith("-")]:
        what = f"{flag} does not go with {flags[0]}"
        raise UserError(Problem(what, "command line", "fill from one run at a time"))
    arguments = with_default_judge(arguments, config_dir)
    if problems := list(_problems(composed_settings(arguments, config_dir), flag)):
        raise UserError(problems)
    return execute(arguments, config_dir, _DemoScreen(out, err, replacing=replacing))


class _DemoScreen(TerminalScreen):
    """Fills in the example answers when a run has ended, and prints where they are."""

    def __init__(self, out: Console, err: Console, *, replacing: bool) -> None:
        super().__init__(out, err)
        self._replacing = replacing

    def ends(self, folder: RunFolder, manifest: Manifest, rules: ResultRules, derived: Derived) -> None:
        super().ends(folder, manifest, rules, derived)
        run = rules.settings.run
        with AnswerBook() as book:
            book.add(folder.answers, run.dataset)

            def example(case: Case) -> Message | None:
                return _example(run, book, case, manifest.target.name)

            for name, config in run.dataset.items():
                if config.generates == "answer":
                    self._fill(name, config, rules.settings.key("dataset", name), example)

    def _fill(self, name: str, config: DatasetConfig, key: str, example: Callable[[Case], Message | None]) -> None:
        wanted = filled = 0
        for case, answer in _pairs(name, config, example, replacing=self._replacing):
            wanted += self._replacing or case.demo_answer is None
            filled += answer is not None
        if not filled:
            why = "no case lacks one" if not wanted else f"{wanted} lack one, and the run has no answer to them"
            self._line("demo", f"nothing to fill in {name}: {why}")
            return
        pairs = _pairs(name, config, example, replacing=self._replacing)
        filled_in = (replace(case, demo_answer=answer) if answer else case for case, answer in pairs)
        path = _write(filled_in, datasets.files(config)[0])
        missing = "" if self._replacing else "missing "
        self._line("demo", f"{filled} of {wanted} {missing}example answers of {name} are in {shown(path)}")
        overrides = [f"dataset={key.removeprefix('dataset.')}", f"{key}.path={shown(path)}", f"{key}.fields=null"]
        self._line("try", command(*overrides, "generate=demo", "metric=relevance"))


def _problems(settings: Settings, flag: str) -> Iterator[Problem]:
    run = settings.run
    if run.generate == "demo":
        hint = "ask a target: generate=true target=..."
        yield Problem(f"{flag} takes the answers of a run, and this one scores the example answers", "generate", hint)
    fillable = {name: config for name, config in run.dataset.items() if config.generates == "answer"}
    if not fillable:
        yield Problem(f"{flag} fills in answers, and no dataset of this run generates any", "dataset")
    for name, config in fillable.items():
        where = f"{settings.key('dataset', name)}.path"
        files = datasets.files(config)
        if len(files) > 1:
            yield Problem(f"{flag} writes beside one file, and {name} has {len(files)}", where, "name one of them")
        elif files[0].is_relative_to(share_dir()) and not Path.cwd().is_relative_to(share_dir()):
            yield Problem(f"{shown(files[0])} is a sample that ships", where, "make a copy of your own, and name that")
        elif not os.access(files[0].parent, os.W_OK):
            yield Problem(f"nothing can be written into {shown(files[0].parent)}", where, "make a copy elsewhere")


def _pairs(
    name: str, config: DatasetConfig, example: Callable[[Case], Message | None], *, replacing: bool
) -> Iterator[tuple[Case, Message | None]]:
    """Each case with its new example answer; None if the case keeps its own."""
    for case in datasets.read(name, config):
        yield case, example(case) if replacing or case.demo_answer is None else None


def _example(run: RunConfig, book: AnswerBook, case: Case, target: str) -> Message | None:
    """The target's first answer to the case, with its metadata."""
    for repeat in range(run.repeats.target):
        answer = book.get(case.dataset, case.id, target, repeat) or answer_in_data(run, case, target, repeat)
        if answer and answer.status == "answered" and answer.answer is not None:
            return Message("assistant", answer.answer, answer.metadata or None)
    return None


def _write(cases: Iterator[Case], source: Path) -> Path:
    """Write the cases as JSON lines beside their source; existing files stay."""
    number = 1
    while True:
        path = source.with_name(f"{source.stem}.demo{'' if number == 1 else f'-{number}'}.jsonl")
        number += 1
        try:
            with path.open("xb") as file:
                file.writelines(json_line(datasets.case_to_row(case)) + b"\n" for case in cases)
        except FileExistsError:
            continue
        except OSError as error:
            path.unlink(missing_ok=True)
            hint = "make room, and run the same command again: answers are remembered"
            raise InfrastructureError(f"{shown(path)} cannot be written: {error.strerror}", hint) from None
        return path
