"""promptfoo's tests as cases: inline, in files and globs, in CSV, with defaults, scenarios and lists of values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path

from evalflow.addons.interop.importers.files import output_text
from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.located import LocatedMap, placed
from evalflow.addons.interop.importers.promptfoo.csv_tests import PROGRAM_FILE, row_as_test
from evalflow.addons.interop.importers.readers import object_in, objects_in, text_in, text_of
from evalflow.addons.interop.importers.sources import MissingFile, SourceFolder, read_document, read_rows, text_of_file
from evalflow.config.schema import DatasetConfig
from evalflow.datasets import columns
from evalflow.datasets.sources import NUMBERING
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_list, as_map, as_number

_KNOWN = frozenset(
    {
        "vars",
        "assert",
        "description",
        "threshold",
        "metadata",
        "options",
        "providerOutput",
        "tags",
        "id",
        "prompts",
        "providers",
    }
)
_KNOWN_DEFAULTS = _KNOWN - {"id", "providerOutput"}
_OPTIONS = frozenset({"prefix", "suffix", "disableVarExpansion", "disableDefaultAsserts"})
_MANY = 100_000  # maximum cases from one test's lists of values
NO_LIKE = ("it has no equivalent", "")
PROGRAM = "have the program write its tests to a file: .yaml, .json, .jsonl or .csv"


_Entry = tuple[Mapping[str, object], str, Path]
"""A test as declared, its place, and the folder of its file."""


@dataclass(slots=True)
class SourceTest:
    """A test with its defaults.

    Attributes:
        id: Its own, if it has one.
        vars: Its variables; a list of texts makes a case for each.
        asserts: Its assertions, default ones first.
        answer: The recorded answer, if the test has one.
        prompts, providers: The names of the prompts and providers that it is for; None: all.
    """

    where: str
    description: str = ""
    id: str = ""
    vars: dict[str, object] = field(default_factory=dict[str, object])
    asserts: list[object] = field(default_factory=list[object])
    threshold: float | None = None
    answer: str | None = None
    metadata: dict[str, object] = field(default_factory=dict[str, object])
    expands: bool = True
    tags: list[str] = field(default_factory=list[str])
    prompts: list[str] | None = None
    providers: list[str] | None = None

    def cases(self) -> Iterator[dict[str, object]]:
        """The variables of each case: the product of the lists of texts."""
        choices = [self._choices(value) for value in self.vars.values()]
        for values in product(*choices):
            yield dict(zip(self.vars, values, strict=True))

    @property
    def count(self) -> int:
        total = 1
        for value in self.vars.values():
            total *= len(self._choices(value))
        return total

    def _choices(self, value: object) -> list[object]:
        items = as_list(value)
        return items if self.expands and items and isinstance(items[0], str) else [value]


@dataclass(frozen=True, slots=True)
class TestReader:
    """Reads the tests of a configuration. What has no equivalent goes to the ledger."""

    folder: SourceFolder
    base: Path
    ledger: Ledger
    default: Mapping[str, object]

    def read(self, config: LocatedMap) -> Iterator[SourceTest]:
        """All tests, scenarios last."""
        tests = self._entries(config.get("tests"), config.at("tests"), self.base)
        scenarios = enumerate(as_list(config.get("scenarios")))
        declared = (self._scenario(scenario, config.at("scenarios"), number) for number, scenario in scenarios)
        for own, where, base in chain(tests, chain.from_iterable(declared)):
            with self.ledger.taking("tests", f"test {own.get('description') or ''}".strip(), where):
                yield self._test(own, where, base)

    def _entries(self, declared: object, where: str, base: Path) -> Iterator[_Entry]:
        for number, (entry, spot) in enumerate(placed(declared, where)):
            if isinstance(entry, str):
                yield from self._files(entry, spot)
            elif (test := object_in(entry)) is None:
                self.ledger.leave(
                    "tests", f"test {number + 1}", spot, "it is neither an object nor a file", "write `vars:`"
                )
            elif "path" in test and not {"vars", "assert", "providerOutput"} & set(test):
                self.ledger.leave("tests", "tests", spot, "a program with a configuration makes them", PROGRAM)
            else:
                yield test, spot, base

    def _files(self, name: str, where: str) -> Iterator[_Entry]:
        """The tests in files."""
        plain = name.removeprefix("file://")
        if re.match(r"https?://|huggingface://", name):
            self.ledger.leave("tests", f"tests {name}", where, "they are on another machine", "download them first")
            return
        if PROGRAM_FILE.search(plain) or plain.endswith((".xlsx", ".xls")):
            hint = PROGRAM if PROGRAM_FILE.search(plain) else "save it as CSV"
            self.ledger.leave("tests", f"tests {name}", where, "they are in a program or a spreadsheet", hint)
            return
        try:
            paths = self.folder.matching(plain, self.base, where)
        except MissingFile as failure:
            self.ledger.leave("tests", f"tests {name}", where, failure.reason, failure.hint)
            return
        for path in paths:
            ending = path.suffix.lower()
            if ending in (".csv", ".jsonl"):
                named = {*columns(DatasetConfig(path=str(path), format="csv"))} if ending == ".csv" else set[str]()
                for row in read_rows(path, self.ledger, part="tests"):
                    if missing := named - row.data.keys() - {NUMBERING}:
                        raise UserError(Problem(f"the row has no cell for {min(missing)}", row.where))
                    yield row_as_test(row.data, row.where) if named else row.data, row.where, path.parent
            elif ending in (".yaml", ".yml", ".json"):
                yield from self._entries(read_document(path), shown(path), path.parent)
            else:
                raise UserError(
                    Problem(f"tests in {path.name} cannot be read", where, "known: .csv .jsonl .json .yaml")
                )

    def _scenario(self, scenario: object, where: str, number: int) -> Iterator[_Entry]:
        """Each configuration of a scenario with each of its tests; the test's keys win."""
        declared = as_map(scenario)
        configs = objects_in(declared.get("config"))
        if configs is None:
            hint = "write its tests out under `tests`"
            self.ledger.leave("tests", f"scenario {number + 1}", where, "its configurations are not objects", hint)
            return
        for key in sorted({*declared} - {"config", "tests"}):
            self.ledger.leave("settings", f"{key} of scenario {number + 1}", where, *REASONS.get(key, NO_LIKE))
        tests = list(self._entries(declared.get("tests") or [dict[str, object]()], where, self.base))
        for config, (own, spot, base) in product(configs, tests):
            yield (
                {
                    **config,
                    **own,
                    "vars": {**as_map(config.get("vars")), **as_map(own.get("vars"))},
                    "assert": [*_list(config.get("assert")), *_list(own.get("assert"))],
                    "options": {**as_map(config.get("options")), **as_map(own.get("options"))},
                },
                spot,
                base,
            )

    def _test(self, own: Mapping[str, object], where: str, base: Path) -> SourceTest:
        default = self.default
        options = {**as_map(default.get("options")), **as_map(own.get("options"))}
        merged = {**default, **{key: value for key, value in own.items() if value is not None}}
        for key in sorted({*own} - _KNOWN):
            self.ledger.leave("settings", f"{key} of a test", where, *REASONS.get(key, NO_LIKE))
        for key in unknown_options(own.get("options")):
            self.ledger.leave("settings", f"options.{key} of a test", where, *OPTION_REASONS.get(key, NO_LIKE))
        variables = {**_vars(default.get("vars"), self, self.base), **_vars(own.get("vars"), self, base)}
        without = options.get("disableDefaultAsserts") is True
        asserts = [*([] if without else _list(default.get("assert"))), *_list(own.get("assert"))]
        answer = merged.get("providerOutput")
        threshold = merged.get("threshold")
        test = SourceTest(
            where,
            description=text_in(merged, "description"),
            id=text_in(own, "id"),
            vars=variables,
            asserts=asserts,
            threshold=as_number(threshold),
            answer=None if answer is None else answer if isinstance(answer, str) else output_text(answer),
            metadata={**as_map(default.get("metadata")), **as_map(own.get("metadata"))},
            expands=options.get("disableVarExpansion") is not True,
            tags=list(dict.fromkeys([*tag_names(default.get("tags")), *tag_names(own.get("tags"))])),
            prompts=_names(own.get("prompts")),
            providers=_names(own.get("providers")),
        )
        if test.count > _MANY:
            raise UserError(Problem(f"its lists of values make {test.count:,} cases", where, f"at most {_MANY:,}"))
        return test

    def variable(self, name: str, value: object, base: Path, where: str) -> object:
        """A variable's value, read from its file if it names one."""
        if not isinstance(value, str) or not value.startswith("file://"):
            return value
        file = value.removeprefix("file://")
        if PROGRAM_FILE.search(file):
            self.ledger.leave("variables", f"variable {name}", where, f"the program {file} makes it", PROGRAM)
            return ""
        contents: list[object] = []
        for path in self.folder.matching(file, base, where):
            is_document = path.suffix.lower() in (".json", ".yaml", ".yml")
            contents.append(read_document(path) if is_document else text_of_file(path))
        return contents[0] if len(contents) == 1 else contents


def unknown_defaults(default: Mapping[str, object]) -> list[str]:
    """The keys of the default test that have no equivalent."""
    return [key for key, value in default.items() if key not in _KNOWN_DEFAULTS and value not in (None, False)]


def unknown_options(declared: object) -> list[str]:
    """The options of a test, or of all tests, that have no equivalent."""
    return [key for key, value in as_map(declared).items() if key not in _OPTIONS and value not in (None, False)]


REASONS: Mapping[str, tuple[str, str]] = {
    "provider": ("a run has one target for all cases", "choose it for the run: target=..."),
    "assertScoringFunction": ("it is a program", "write a metric of the kind composite: docs/metrics.md"),
    "transform": ("it changes the answer before it is scored", "let the target change it: docs/targets.md"),
    "postprocess": ("it changes the answer before it is scored", "let the target change it: docs/targets.md"),
    "transformVars": ("its program changes the variables", "write the changed values into the file"),
    "rubricPrompt": ("it is the judge's prompt", "write a metric of the kind rubric: docs/metrics.md"),
    "storeOutputAs": ("a case cannot use another case's answer", "give the cases earlier turns as `messages`"),
    "timeout": ("time limits of answers are a key of the target", "target.timeout_s=SECONDS"),
    "runSerially": ("cases do not depend on each other", "give the cases earlier turns as `messages`"),
}


OPTION_REASONS: Mapping[str, tuple[str, str]] = {
    **REASONS,
    "provider": ("it is the judge", "choose the judge of the run: judge=openai judge.model=..."),
}


def tag_names(declared: object) -> list[str]:
    """Tags as names; a map gives `key > value`."""
    if isinstance(declared, Mapping):
        return [f"{key} > {value}" for key, value in as_map(declared).items() if value is not None]
    return [tag for value in _list(declared) if (tag := text_of(value, "tag")).strip()]


def _names(declared: object) -> list[str] | None:
    if declared is None:
        return None
    return [
        text_of(entry, "prompt or provider") if (named := object_in(entry)) is None else text_in(named, "id")
        for entry in _list(declared)
    ]


def _vars(declared: object, reader: TestReader, base: Path) -> dict[str, object]:
    if isinstance(declared, str):
        where = "vars"
        variables: dict[str, object] = {}
        for path in reader.folder.matching(declared.removeprefix("file://"), base, where):
            variables |= as_map(read_document(path))
        return variables
    own = as_map(declared)
    return {
        name: reader.variable(name, value, base, declared.at(name) if isinstance(declared, LocatedMap) else "vars")
        for name, value in own.items()
    }


def _list(value: object) -> list[object]:
    return as_list(value) if isinstance(value, list) else [] if value is None else [value]
