"""The options of the command line: the YAML files of conf/, by group and name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError

from evalflow.config.explain import problems_of
from evalflow.config.yaml_text import SCHEMA_MARK, safe_yaml
from evalflow.errors import Problem, UserError, command, unknown_name
from evalflow.metrics.registry import METRIC_KINDS, calls_of
from evalflow.paths import GROUPS, conf_dirs, share_dir
from evalflow.records import EMBED, EVIDENCE_TASKS, Case
from evalflow.values.jsonvalues import as_list, as_map, is_object, look_up


@dataclass(frozen=True)
class Option:
    """A file of a config group, which is read when its values are first asked for."""

    group: str
    name: str
    file: Path

    @property
    def values(self) -> dict[str, Any]:
        """Its keys. A file that cannot be read has a description alone: selecting it reports the error."""
        return self._read[0]

    @property
    def fault(self) -> str:
        """Why the file cannot be read, or ""."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[dict[str, Any], str]:
        try:
            return option_values(self.file), ""
        except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
            mark = getattr(error, "problem_mark", None)
            where = f"{self.file}:{mark.line + 1}" if mark else str(self.file)
            fault = f"{where}: this is not valid YAML: {getattr(error, 'problem', None) or error}"
            return {"description": "(this file is not valid YAML)"}, fault

    @property
    def text(self) -> str:
        return self.file.read_text(encoding="utf-8", errors="replace")

    @property
    def description(self) -> str:
        """Its `description`, or else the first comment after the package line."""
        if isinstance(self.values.get("description"), str):
            return self.values["description"]
        comments = [line[1:].strip() for line in self.text.splitlines() if line.startswith("#")]
        descriptive = (comment for comment in comments if not comment.startswith(("@package", SCHEMA_MARK)))
        return next(descriptive, "")

    @property
    def title(self) -> str:
        """The displayed name: its `title`, or else its name."""
        title = self.values.get("title")
        return title if isinstance(title, str) and title else self.name

    @property
    def selection(self) -> str:
        """Its selection on the command line, without shell quotes; for a composite, together with its parts."""
        parts: Any = self.values.get("of") if self.values.get("kind") == "composite" else None
        return f"[{','.join([*parts, self.name])}]" if parts else self.name

    @property
    def needs(self) -> list[str]:
        return [str(need) for need in self.values.get("needs") or ()]

    @property
    def defaults(self) -> list[str | dict[str, Any]]:
        return self.values.get("defaults") or []

    @property
    def steps(self) -> list[Mapping[str, Any]]:
        """The steps of a chain, or the nodes of a graph, as far as they are maps."""
        steps = as_map(self.values.get("nodes")).values() or as_list(self.values.get("steps"))
        return [as_map(step) for step in steps if isinstance(step, dict)]

    @property
    def prompts(self) -> list[str]:
        parts = [self.values, *self.steps]
        named = [part.get(key) for part in parts for key in ("steps_prompt", "prompt")]
        return list(dict.fromkeys(name for name in named if isinstance(name, str) and name.endswith(".jinja")))

    @property
    def example_files(self) -> list[str]:
        """The files with few-shot examples that it names."""
        named = [part.get("examples") for part in (self.values, *self.steps)]
        return [name for name in named if isinstance(name, str)] if self.group == "metric" else []


def options(config_dir: Path | None, group: str | None = None) -> list[Option]:
    """Return all options by group and name; among files with the same name, the one that Hydra uses."""
    by_key: dict[tuple[str, str], Option] = {}
    for folder in conf_dirs(config_dir):
        for name in [group] if group else GROUPS:
            for option in _options_in(folder, name):
                by_key.setdefault((option.group, option.name), option)
    return [by_key[key] for key in sorted(by_key, key=lambda key: (GROUPS.index(key[0]), key[1]))]


def bases_of(option: Option, config_dir: Path | None) -> list[Option]:
    """The files of its group that an option extends, and what these extend, each once; hidden ones (`_openai`) too."""
    by_name = {option.name: option}
    waiting = [option]
    while waiting:
        names = [str(one).partition("@")[0] for one in waiting.pop(0).defaults if isinstance(one, str)]
        files = [folder / option.group / f"{name}.yaml" for name in names for folder in conf_dirs(config_dir)]
        new = [Option(option.group, file.stem, file) for file in files if file.is_file()]
        waiting += [base for base in new if by_name.setdefault(base.name, base) is base]
    return [base for base in by_name.values() if base is not option]


def check_new_name(group: str, name: str) -> None:
    """Raise UserError if the name is taken, even by a shipped option, which the new file would replace."""
    from evalflow.config.schema import IDENTIFIER  # late: a list needs no model of a run's configuration

    if not IDENTIFIER.match(name):
        hint = "lower-case letters, digits and _, a letter first"
        raise UserError(Problem(f"{name!r} cannot be a name", "command line", hint))
    if any(option.name == name for option in options(None, group)):
        one = f"{'an' if group[0] in 'aeiou' else 'a'} {group}"
        raise UserError(Problem(f"there already is {one} {name!r}", "command line", "choose another name"))


def find_option(name: str, everything: Sequence[Option]) -> Option:
    """The option of that name (`group/name` where several groups have it); UserError if there is none, or several."""
    group, _, own = name.rpartition("/")
    matching = [option for option in everything if option.name == own and group in ("", option.group)]
    if not matching:
        known = {option.name for option in everything} | {*METRIC_KINDS.names()}
        before = f"{group}/" if group else ""
        raise UserError(unknown_name(f"nothing is called {name!r}", "command line", own, known, before=before))
    if len(matching) > 1:
        choices = [command("show", f"{option.group}/{option.name}") for option in matching]
        hint = "\n    ".join(["name the group:", *choices])
        raise UserError(Problem(f"{name!r} is in several groups", "command line", hint))
    return matching[0]


def _options_in(folder: Path, group: str) -> Iterator[Option]:
    for file in sorted((folder / group).glob("*.yaml")):
        if not file.stem.startswith("_") and file.is_file():
            yield Option(group, file.stem, file)


def option_values(file: Path) -> dict[str, Any]:
    """The keys of a file of a config group; yaml.YAMLError if it is not valid."""
    values = _parsed(file.read_text(encoding="utf-8"))
    return deepcopy(values) if is_object(values) else {}


@lru_cache(maxsize=1024)
def _parsed(text: str) -> object:
    """The value of a YAML text. Kept, since each page of the application's library needs that of over a hundred."""
    return safe_yaml(text)


_CASES = 5  # cases read of each dataset
_OF_ANY_SHAPE = frozenset({"expected", "actual"})
"""Fields of any content: a dataset with them fits only if an experiment pairs it with the metric."""
MODEL = ("judge=vllm", "judge.model=MODEL")
_EXAMPLES = {"model": "MODEL", "base_url": "http://127.0.0.1:8000/v1", "url": "http://127.0.0.1:8000/"}
SENDS_NOTHING = "sends nothing; name your model and leave out `check` to run it"
ASKS_BOT = "sends nothing; name your bot's address and leave out `check` to ask it; other bots: docs/targets.md"
_SIMULATED = ("generate=true", "target=vllm", "target.model=MODEL", "simulator=vllm", "simulator.model=MODEL")


@dataclass(frozen=True, slots=True)
class DatasetMatch:
    """A dataset whose cases have the fields that a metric needs; `demo`: only with `generate=demo`."""

    dataset: str
    demo: bool


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A command line that works unchanged, and what to know about it; or None, and why there is none."""

    command: str | None
    note: str = ""


class Catalogue:
    """Matches options with each other."""

    def __init__(self, options: Sequence[Option], config_dir: Path | None = None) -> None:
        self._folder = ["--config-dir", str(config_dir)] if config_dir else []
        self._options = {(option.group, option.name): option for option in options}

    def keyless(self, metric: Option) -> bool | None:
        """Whether the embedded judge and embedder can score it; None if the cases decide, or the kind is unknown."""
        values = metric.values
        if parts := self._parts(metric):
            return all(self.keyless(part) for part in parts)
        calls = calls_of(values)
        if calls is None or calls.high is None:
            return None
        # None stands for the answer to a prompt.
        tasks: set[str | None] = {EMBED} if values.get("kind") == "similarity" else {None}
        if values.get("kind") in ("judge", "graph"):
            tasks = {step.get("task") for step in metric.steps if "prompt" in step}
        return calls.high == 0 or tasks <= EVIDENCE_TASKS | {EMBED}

    def matches(self, metric: Option) -> list[DatasetMatch]:
        """The datasets that have the fields a metric needs, the best first: your own before sample data."""
        needs = {need for one in self._parts(metric) or [metric] for need in one.needs}
        if metric.values.get("kind") == "checks":
            needs = {"answer", "checks"}
        ranked: list[tuple[tuple[bool, bool, bool, bool], DatasetMatch]] = []
        for name, cases in self._cases.items():
            paired = self._is_paired(metric, name)
            if not cases or (not paired and (not needs or needs & _OF_ANY_SHAPE)):
                continue
            enough = any if paired else all
            others = _OF_ANY_SHAPE - needs
            for demo in (False, True):
                if enough(_has(case, need, demo=demo) for case in cases for need in needs):
                    one_turn = "messages" in needs and all(len(case.messages) == 1 for case in cases)
                    other_task = not paired and any(_has(case, field, demo=False) for case in cases for field in others)
                    sample = self._is_sample(name)
                    ranked.append(((one_turn, demo, sample, other_task), DatasetMatch(name, demo)))
                    break
        return [match for _, match in sorted(ranked, key=lambda one: one[0])]

    def _is_sample(self, dataset: str) -> bool:
        """Whether a dataset ships with evalflow; in a checkout, those that `new` has written do not."""
        option = self._options["dataset", dataset]
        return option.file.is_relative_to(share_dir()) and SCHEMA_MARK not in option.text

    def suggest(self, option: Option) -> Suggestion:
        """A command to try with an option."""
        if option.fault:
            return Suggestion(None, option.fault)
        if option.group == "metric":
            if matches := self.matches(option):
                return self._score(option, matches[0])
            if "brief" in option.needs and (dataset := next(filter(self._has_scenarios, self._cases), None)):
                return self._run([f"dataset={dataset}", f"metric={option.selection}", *_SIMULATED], keyless=False)
            needs = ", ".join(option.needs)
            return Suggestion(None, f"no dataset here has what it needs ({needs}); `new dataset` maps yours")
        if option.group == "dataset":
            return self._of_dataset(option)
        if option.group == "experiment":
            needs_model = any("override /judge" in one for one in option.defaults if isinstance(one, dict))
            return self._run([f"experiment={option.name}"], keyless=not needs_model)
        return self._of_part(option)

    def _of_dataset(self, dataset: Option) -> Suggestion:
        metrics = [option for option in self._options.values() if option.group == "metric"]
        matching = [(one, match) for one in metrics for match in self.matches(one) if match.dataset == dataset.name]
        if self._has_scenarios(dataset.name):
            metric = "metric=conversation_completeness"
            return self._run([f"dataset={dataset.name}", metric, *_SIMULATED], keyless=False)
        if isinstance(content := self._read(dataset), Problem):
            return Suggestion(None, f"it cannot be read: {content}")
        if suggestion := self._to_ask(dataset, content, metrics):
            return suggestion
        if not matching:
            return Suggestion(None, "no metric fits what its cases have so far; map more `fields`")

        def order(pair: tuple[Option, DatasetMatch]) -> tuple[bool, bool, bool, int]:
            metric, _ = pair
            paired, of_answer = self._is_paired(metric, dataset.name), "answer" in metric.needs
            return not self.keyless(metric), not paired, not of_answer, -len(metric.needs)

        return self._score(*min(matching, key=order))

    def _to_ask(self, dataset: Option, cases: Sequence[Case], metrics: Sequence[Option]) -> Suggestion | None:
        """A check that asks a bot, for questions without answers; None if there are answers, or nothing to ask."""
        fields = ("answer", "demo_answer", "actual")
        if any(getattr(case, field) is not None for case in cases for field in fields):
            return None
        if not all(case.messages for case in cases):
            return None

        def fits(metric: Option) -> bool:
            others = [need for need in metric.needs if need != "answer"]
            compares_texts = "answer" in metric.needs and _OF_ANY_SHAPE.isdisjoint(others)
            return compares_texts and all(_has(case, need, demo=False) for case in cases for need in others)

        fitting = [metric for metric in metrics if self.keyless(metric) and fits(metric)]
        if not fitting:
            return None
        metric = max(fitting, key=lambda metric: len(metric.needs))
        bot = ("generate=true", "target=http", f"target.url={_EXAMPLES['url']}")
        line = command("check", *self._folder, f"dataset={dataset.name}", f"metric={metric.selection}", *bot)
        return Suggestion(line, ASKS_BOT)

    def _has_scenarios(self, dataset: str) -> bool:
        return any(case.scenario is not None for case in self._cases.get(dataset, ()))

    def _score(self, metric: Option, match: DatasetMatch) -> Suggestion:
        overrides = [f"dataset={match.dataset}", *(["generate=demo"] if match.demo else [])]
        return self._run([*overrides, f"metric={metric.selection}"], keyless=bool(self.keyless(metric)))

    def _of_part(self, option: Option) -> Suggestion:
        """A command for a judge, target or embedder: a check with example values, since a run would call it."""
        group = option.group
        overrides = ["dataset=rag", f"metric={'semantic_similarity' if group == 'embedder' else 'faithfulness'}"]
        values = dict(self._flat(group, option.name))
        if group == "simulator" and values.get("kind") != "none":
            overrides = ["dataset=scenarios", "metric=answer_words", *_SIMULATED[:3]]
        overrides += [f"{group}={option.name}"]
        if values.get("kind") in ("embedded", "recorded", "none"):
            return self._run(overrides, keyless=True)
        overrides += ["generate=true"] if group == "target" else []
        if any(str(value).startswith("${target.") for value in values.values()):
            overrides += ["generate=true", "target=vllm", "target.model=MODEL"]
        open_keys = [key for key, value in values.items() if value == "???"]
        if programs := [key for key in open_keys if key in ("argv", "call", "tools")]:
            return Suggestion(None, f"docs/targets.md: say in {group}.{programs[0]} which program answers")
        overrides += [f"{group}.{key}={_EXAMPLES.get(key.rpartition('.')[2], 'VALUE')}" for key in open_keys]
        keys = {str(value) for key, value in values.items() if key.endswith("api_key_env") and value}
        keys = sorted(key for key in keys if "$" not in key)
        needed = f"; needs {' and '.join(keys)} in the environment or in .env" if keys else ""
        return Suggestion(command("check", *self._folder, *overrides), SENDS_NOTHING + needed)

    def _run(self, overrides: Sequence[str], *, keyless: bool) -> Suggestion:
        """A run if it needs no key; else its check with an example model."""
        if keyless:
            return Suggestion(command(*self._folder, *overrides))
        return Suggestion(command("check", *self._folder, *overrides, *MODEL), SENDS_NOTHING)

    def _flat(self, group: str, name: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """The keys of a file and of those that it inherits from; later values override earlier ones."""
        option = self._options.get((group, name))
        if option is None:
            return
        for one in option.defaults if "_self_" in option.defaults else [*option.defaults, "_self_"]:
            if one != "_self_":
                base, _, package = str(one).partition("@")
                yield from self._flat(group, base, f"{prefix}{package}." if package else prefix)
            else:
                own = {key: value for key, value in option.values.items() if key != "defaults"}
                yield from ((f"{prefix}{key}", value) for key, value in own.items())

    def _parts(self, metric: Option) -> list[Option]:
        parts: Any = metric.values.get("of") if metric.values.get("kind") == "composite" else ()
        return [self._options["metric", name] for name in parts or () if ("metric", name) in self._options]

    def _is_paired(self, metric: Option, dataset: str) -> bool:
        """Whether the two share a name, or an experiment uses them together."""
        return metric.name == dataset or metric.name in self._experiments.get(dataset, ())

    @cached_property
    def _experiments(self) -> dict[str, set[str]]:
        paired: dict[str, set[str]] = {}
        for option in self._options.values():
            if option.group == "experiment":
                chosen = {key: value for one in option.defaults if isinstance(one, dict) for key, value in one.items()}
                for dataset in _listed(chosen.get("override /dataset")):
                    paired.setdefault(dataset, set()).update(_listed(chosen.get("override /metric")))
        return paired

    @cached_property
    def _cases(self) -> dict[str, list[Case]]:
        """The first cases of each dataset; empty if they cannot be read."""
        read = {name: self._read(option) for (group, name), option in self._options.items() if group == "dataset"}
        return {name: [] if isinstance(content, Problem) else content for name, content in read.items()}

    def _read(self, dataset: Option) -> list[Case] | Problem:
        """The first cases of a dataset, or the first problem of its file or its data."""
        from evalflow import datasets
        from evalflow.config.schema import DatasetConfig

        try:
            config = DatasetConfig.model_validate(dict(self._flat("dataset", dataset.name)))
            # Only the presence of a context matters, so its HTML is not converted.
            return list(islice(datasets.read(dataset.name, config, to_text=str), _CASES))
        except UserError as error:
            return error.problems[0]
        except ValidationError as error:
            return problems_of(error, DatasetConfig, f"dataset.{dataset.name}", dataset.file, ())[0]


def _has(case: Case, need: str, *, demo: bool) -> bool:
    if demo and need == "answer":
        return bool(case.demo_answer)
    from evalflow.config.schema import DERIVED

    need = DERIVED.get(need, need)
    root = need.partition(".")[0]
    return look_up(need, {root: getattr(case, root, None)}) not in (None, "", (), [], {})


def _listed(value: Any) -> list[str]:
    return cast("list[str]", value) if isinstance(value, list) else [value] if value else []
