"""A promptfoo configuration: prompts x providers as targets, tests as cases, assertions as checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evalflow.addons.interop.importers.files import (
    ImportedConfig,
    ImportedExperiment,
    ImportSource,
    dataset_option,
    generate_for,
    judged_by,
    key_for,
)
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.located import LocatedMap, place, placed, resolved
from evalflow.addons.interop.importers.promptfoo.asserts import AssertionReader
from evalflow.addons.interop.importers.promptfoo.cases import (
    NO_LIKE,
    OPTION_REASONS,
    REASONS,
    SourceTest,
    TestReader,
    unknown_defaults,
    unknown_options,
)
from evalflow.addons.interop.importers.promptfoo.checks import CheckWriter
from evalflow.addons.interop.importers.promptfoo.prompts import ChatPrompt, PromptReader, SourcePrompt, chat_prompt
from evalflow.addons.interop.importers.promptfoo.providers import (
    JudgeChoice,
    SourceProvider,
    asks_model,
    judge_of,
    provider_of,
    target_of,
)
from evalflow.addons.interop.importers.promptfoo.rows import PromptColumn, allows, write_cases
from evalflow.addons.interop.importers.readers import text_in
from evalflow.addons.interop.importers.sources import MissingFile, SourceFolder, read_document
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_list, as_map

PARTS = ("prompts", "providers", "tests", "cases", "asserts", "groups")
_KNOWN = frozenset({"description", "prompts", "providers", "targets", "tests", "scenarios", "defaultTest", "$schema"})
_REASONS: Mapping[str, tuple[str, str]] = {
    "env": ("environment variables are not imported", "set them in your shell, or in .env"),
    "extensions": ("they are programs", "change the data or the target instead"),
    "nunjucksFilters": ("they are programs", "write the filtered text"),
    "redteam": ("evalflow does not generate attacks", "import the attacks that promptfoo generated as tests"),
    "derivedMetrics": ("sums over metrics are another kind of metric", "write a metric of the kind composite"),
    "evaluateOptions": ("evalflow has its own keys for speed and repeats", "see concurrency and repeats"),
    "outputPath": ("every run has its own folder", "see outputs/"),
    "assert": ("only tests and defaultTest have assertions", "write it under defaultTest, and import again"),
    "targets": ("the file also has providers, which are used instead", "list them all under providers"),
    "version": ("the format has only one version", ""),
    "assertionTemplates": ("assertions that refer to them are imported", ""),
}


_NO_PROMPT = SourcePrompt("", "", ""), ChatPrompt(None, "", frozenset())
"""The note if no prompt has an equivalent: the cases are still useful with the user's own target."""


@dataclass(slots=True)
class _Suite:
    """A configuration while it is read."""

    source: ImportSource
    folder: SourceFolder
    base: Path
    config: LocatedMap
    imported: ImportedConfig
    default: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger


def read_suite(source: ImportSource, path: Path) -> ImportedConfig:
    """Import a configuration file; UserError if it cannot be read, or has neither prompts nor tests."""
    document = read_document(path)
    if not isinstance(document, LocatedMap) or not {"prompts", "providers", "targets", "tests"} & set(document):
        hint = "it needs prompts, providers and tests, or results with `evalId`"
        raise UserError(Problem("it is not a configuration of promptfoo", shown(path), hint))
    config = resolved(document)
    suite = _Suite(
        source, SourceFolder.of(path, source.root), path.resolve().parent, config, ImportedConfig(ledger=Ledger(PARTS))
    )
    suite.default = _default(suite)
    _settings(suite)
    columns = _columns(suite, _prompts(suite), _providers(suite))
    checks = CheckWriter(AssertionReader(suite.folder, suite.base))
    tests = list(TestReader(suite.folder, suite.base, suite.ledger, suite.default).read(config))
    if not tests and (config.get("tests") or config.get("scenarios")):
        raise suite.ledger.nothing_taken(Problem("it has no tests", config.at("tests")), "tests")
    if not tests and "redteam" in config:
        hint = "have promptfoo write them (promptfoo redteam generate), and import its redteam.yaml"
        what = "it has a redteam section but no tests, and evalflow does not generate attacks"
        raise UserError(Problem(what, config.at("redteam"), hint))
    if not tests and columns[0].prompt.text == "":
        what = "it has no tests or prompts that can be imported"
        raise suite.ledger.nothing_taken(Problem(what, shown(path)))
    tests = tests or [_bare(suite)]
    datasets = write_cases(suite.source, suite.imported, tests, columns, checks)
    checks.settle(suite.ledger)
    if not datasets:
        raise suite.ledger.nothing_taken(Problem("it has no cases", shown(path)), "cases")
    _declare(suite, [*_answered(suite, columns)], checks, datasets)
    return suite.imported


def _answered(suite: _Suite, columns: Sequence[PromptColumn]) -> Iterator[PromptColumn]:
    """The columns that have cases; the others are listed."""
    for column in columns:
        if column.dataset:
            yield column
        else:
            why = "no test uses it, or no test sets the variables of its prompt"
            suite.ledger.leave("experiments", f"experiment {column.key}", column.prompt.where, why)


def _options(suite: _Suite) -> Mapping[str, object]:
    return as_map(suite.default.get("options"))


def _default(suite: _Suite) -> Mapping[str, object]:
    declared = suite.config.get("defaultTest")
    if isinstance(declared, str):
        where = suite.config.at("defaultTest")
        declared = read_document(suite.folder.find(declared.removeprefix("file://"), suite.base, where))
    return as_map(declared)


def _settings(suite: _Suite) -> None:
    """List keys without an equivalent, of the file and of its default test."""
    twice = {"targets"} if "providers" in suite.config else set[str]()
    for key in suite.config:
        if key not in _KNOWN or key in twice:
            reason = ("they are YAML templates, imported where they are used", "") if key.startswith("x-") else None
            why = reason or _REASONS.get(key, NO_LIKE)
            suite.ledger.leave("settings", key, suite.config.at(key), *why)
    options = _options(suite)
    for key in unknown_options(options):
        if not (key == "provider" and _judge(suite)):
            where = place(options, suite.config.at("defaultTest"))
            suite.ledger.leave("settings", f"defaultTest.options.{key}", where, *OPTION_REASONS.get(key, NO_LIKE))
    for key in unknown_defaults(suite.default):
        where = place(suite.default, suite.config.at("defaultTest"))
        suite.ledger.leave("settings", f"defaultTest.{key}", where, *REASONS.get(key, NO_LIKE))


def _judge(suite: _Suite, own: Sequence[object] = ()) -> JudgeChoice | None:
    """The judge that grades; None if the file names no judge, or evalflow has no equivalent.

    It is the default test's judge, else the one that all assertions with their `own` judge name.
    """
    provider = _options(suite).get("provider") or (own[0] if len(own) == 1 else None)
    provider = as_map(provider).get("text", provider)
    try:
        return judge_of(provider_of(provider, suite.config.at("defaultTest"))) if provider else None
    except Untranslatable:
        return None


def _prompts(suite: _Suite) -> list[tuple[SourcePrompt, ChatPrompt]]:
    declared = suite.config.get("prompts")
    if declared is None:
        declared = ["{{prompt}}"]
    around = _options(suite)
    taken: list[tuple[SourcePrompt, ChatPrompt]] = []
    for item in PromptReader(suite.folder, suite.base).read(declared, suite.config.at("prompts")):
        if not isinstance(item, SourcePrompt):
            what, where, failure = item
            suite.ledger.leave("prompts", what, where, failure.reason, failure.hint)
            continue
        with suite.ledger.taking("prompts", _named(item), item.where):
            chat = chat_prompt(item, text_in(around, "prefix"), text_in(around, "suffix"))
            taken.append((item, chat))
    return taken


def _providers(suite: _Suite) -> list[tuple[SourceProvider, str]]:
    """The providers, with the prefixes of their targets' keys."""
    key = "providers" if "providers" in suite.config else "targets"
    taken: list[tuple[SourceProvider, str]] = []
    for entry, where in _entries(suite, suite.config.get(key), suite.config.at(key)):
        suite.ledger.found("providers")
        try:
            provider = provider_of(entry, where)
        except Untranslatable as failure:
            suite.ledger.left("providers", "provider", where, failure.reason, failure.hint)
            continue
        taken.append((provider, provider.label))
    return taken


def _entries(suite: _Suite, declared: object, where: str) -> Iterator[tuple[object, str]]:
    """Each provider with its place; those in YAML and JSON files too."""
    for entry, spot in placed(declared, where):
        if isinstance(entry, str) and entry.startswith("file://") and entry.endswith((".yaml", ".yml", ".json")):
            try:
                path = suite.folder.find(entry.removeprefix("file://"), suite.base, spot)
            except MissingFile as failure:
                suite.ledger.leave("providers", f"provider {entry}", spot, failure.reason, failure.hint)
                continue
            yield from _entries(suite, read_document(path), shown(path))
        else:
            yield entry, spot


def _columns(
    suite: _Suite, prompts: Sequence[tuple[SourcePrompt, ChatPrompt]], providers: Sequence[tuple[SourceProvider, str]]
) -> list[PromptColumn]:
    columns: list[PromptColumn] = []
    taken: set[str] = set()
    unsent = [dict[str, None]() for _ in prompts]
    for provider, label in providers:
        left: Sequence[str] = ()
        try:
            for number, (prompt, chat) in enumerate(prompts):
                if provider.prompts is not None and not allows(provider.prompts, prompt.label):
                    continue
                several = f" {number + 1}" if len(prompts) > 1 else ""
                key = key_for(f"{suite.source.name} {label}{several}", taken, "target")
                config = {**provider.config, **prompt.config} if asks_model(provider) else provider.config
                target = target_of(replace(provider, label=f"{label}{several}", config=config), key, chat.user)
                taken.add(key)
                suite.imported.notes.extend(target.notes)
                mine = [name for name in target.left if name.partition(".")[0] in prompt.config]
                unsent[number] |= dict.fromkeys(mine if asks_model(provider) else prompt.config)
                left = [name for name in target.left if name not in mine]
                columns.append(PromptColumn(key, prompt, chat, target, provider))
            suite.ledger.took("providers")
            _leave_settings(suite, f"provider {provider.id[:80]}", provider.where, left)
            for name in provider.aside:
                suite.ledger.leave("settings", f"{name} of provider {provider.id[:80]}", provider.where, *NO_LIKE)
        except Untranslatable as failure:
            suite.ledger.left("providers", f"provider {provider.id[:80]}", provider.where, failure.reason, failure.hint)
    used = {column.prompt.label for column in columns}
    for (prompt, _), names in zip(prompts, unsent, strict=True):
        _leave_settings(suite, _named(prompt), prompt.where, [*(names if prompt.label in used else prompt.config)])
    if not columns:  # the prompts are still useful with the user's own target
        for number, (prompt, chat) in enumerate(prompts or [_NO_PROMPT]):
            several = f" {number + 1}" if len(prompts) > 1 else ""
            columns.append(PromptColumn(key_for(f"{suite.source.name}{several}", (), "target"), prompt, chat, None))
    if len(columns) == 1:
        columns[0].key = suite.source.name
    return columns


def _named(prompt: SourcePrompt) -> str:
    return f"prompt {prompt.label.strip().partition(chr(10))[0][:60]}"


def _leave_settings(suite: _Suite, whose: str, where: str, names: Sequence[str]) -> None:
    """List the settings of a provider that are not sent."""
    for name in names:
        reason, hint = (
            "evalflow does not know it as a parameter",
            "if the endpoint accepts it, set it in target.parameters",
        )
        if re.search("tool|function", name):
            reason, hint = "targets of this kind have no tools", "write target=agent by hand: docs/agents.md"
        suite.ledger.leave("settings", f"config.{name} of {whose}", where, reason, hint)


def _bare(suite: _Suite) -> SourceTest:
    """The implied single test of a configuration without tests."""
    suite.ledger.take("tests")
    variables = suite.default.get("vars")
    asserts = suite.default.get("assert")
    return SourceTest(
        suite.config.where,
        vars=dict(as_map(variables)),
        asserts=list(as_list(asserts)),
    )


def _declare(suite: _Suite, columns: Sequence[PromptColumn], checks: CheckWriter, datasets: Sequence[str]) -> None:
    """Write the options: datasets, the metric with its checks, targets, and an experiment for each column."""
    imported, name = suite.imported, suite.source.name
    about = _description(suite)
    for key in datasets:
        imported.datasets[key] = dataset_option(key, about, name=name)
    metrics: list[str] = []
    if checks.count:
        metrics.append("checks")
    metrics += checks.metrics
    if not metrics:
        metrics = ["relevance"]
        imported.notes.append("the tests have no assertions: the experiments have metric=relevance; choose your own")
    imported.notes.extend(checks.notes)
    judge = _judge(suite, [*checks.judges.values()]) if checks.judged else None
    if judge:
        imported.notes.extend(judge.notes)
        _leave_settings(suite, "the judge", suite.config.at("defaultTest"), judge.left)
    if checks.judges and not (judge and len(checks.judges) == 1 and not _options(suite).get("provider")):
        named = ", ".join(checks.judges)
        imported.notes.append(f"assertions name judges of their own, {named}: a run has one judge for all checks")
    for number, column in enumerate(columns):
        generate = not column.echoes and generate_for(column.answered, column.cases)
        experiment = ImportedExperiment(column.dataset, metrics, generate)
        values = _target_values(suite, column, number)
        if column.target and (generate or column.echoes):
            experiment.target = column.key
            imported.targets[column.key] = {**column.target.values, **values}
        elif generate and values:
            experiment.more["target"] = values
        if limits := {metric: {"threshold": limit} for metric, limit in checks.metrics.items() if limit is not None}:
            experiment.more["metric"] = limits
        imported.experiments[column.key] = experiment
    if judge:
        judged_by(imported, f"{name}_judge", judge.choice, judge.values)
    elif not checks.judged:
        imported.unjudged |= set(imported.experiments)


def _description(suite: _Suite) -> str:
    description = suite.config.get("description")
    if isinstance(description, str) and description:
        return description
    if description:
        suite.ledger.leave("settings", "description", suite.config.at("description"), "it is not text")
    return f"Cases of {shown(suite.source.path)}."


def _target_values(suite: _Suite, column: PromptColumn, number: int) -> dict[str, object]:
    """The prompts of a model, each in a file of its own."""
    if column.target and column.target.values.get("kind") == "recorded":
        return {}
    if column.target and column.target.starts_from == "http":
        return {}
    values: dict[str, object] = {}
    for key, text in (("system_prompt", column.chat.system), ("prompt", column.chat.user)):
        if text:
            place = f"{suite.source.name}/{key}_{number + 1}.jinja"
            path_of_text = next((path for path, written in suite.imported.prompts.items() if written == text), place)
            suite.imported.prompts[path_of_text] = text
            values[key] = path_of_text
    return values
