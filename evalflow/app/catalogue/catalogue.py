"""The commands `list` and `show`: what can be chosen, and what it is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml
from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from evalflow.app.catalogue.kind_help import print_kind
from evalflow.app.catalogue.metric_table import metric_facts, metric_table
from evalflow.app.catalogue.suggest import Catalogue
from evalflow.config.yaml_size import expect_bounded
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.registry import metric_kinds
from evalflow.paths import conf_dirs, prompt_dirs
from evalflow.prompts import Prompts
from evalflow.report.terminal import literal, plain

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Reads what `yaml.safe_load` reads, eight times as quickly where libyaml is there."""
GROUPS = ("dataset", "metric", "judge", "target", "embedder", "experiment")

_NAME_WIDTH = 30
"""What a name has of a line at least, in a terminal however narrow."""


@dataclass(frozen=True, slots=True)
class Option:
    """One file that can be chosen."""

    group: str
    name: str
    file: Path
    values: dict[str, Any]

    @property
    def text(self) -> str:
        """The file as it stands."""
        return self.file.read_text(encoding="utf-8")

    @property
    def description(self) -> str:
        """Its `description`, or else the first comment after the package line."""
        if isinstance(self.values.get("description"), str):
            return self.values["description"]
        comments = [line[1:].strip() for line in self.text.splitlines() if line.startswith("#")]
        return next((comment for comment in comments if not comment.startswith("@package")), "")

    @property
    def selection(self) -> str:
        """How the command line names it, before a shell's quotes; a composite together with what it is made of."""
        parts: Any = self.values.get("of") if self.values.get("kind") == "composite" else None
        return f"[{','.join([*parts, self.name])}]" if parts else self.name

    @property
    def prompts(self) -> list[str]:
        """The names of the templates it uses."""
        steps: list[Any] = self.values.get("steps") or []
        parts = [self.values, *(cast("dict[str, Any]", step) for step in steps if isinstance(step, dict))]
        named = [part.get(key) for part in parts for key in ("steps_prompt", "prompt")]
        return list(dict.fromkeys(name for name in named if isinstance(name, str) and name.endswith(".jinja")))


def options(config_dir: Path | None, group: str | None = None) -> list[Option]:
    """Everything that can be chosen, by group and name; of files of one name, the one that would be used."""
    found: dict[tuple[str, str], Option] = {}
    for folder in conf_dirs(config_dir):
        for name in [group] if group else GROUPS:
            for option in _options_in(folder, name):
                found.setdefault((option.group, option.name), option)
    return [found[key] for key in sorted(found, key=lambda key: (GROUPS.index(key[0]), key[1]))]


def find_option(name: str, config_dir: Path | None) -> Option:
    """The option of that name; `group/name` where a name stands in several groups.

    Raises:
        UserError: There is none, or there are several.
    """
    group, _, own = name.rpartition("/")
    everything = options(config_dir)
    matching = [option for option in everything if option.name == own and group in ("", option.group)]
    if not matching:
        known = {option.name for option in everything} | {*metric_kinds().names()}
        raise UserError(Problem(f"there is nothing called {name!r}", "command line", did_you_mean(own, known)))
    if len(matching) > 1:
        choices = " or ".join(f"{option.group}/{option.name}" for option in matching)
        raise UserError(Problem(f"{name!r} stands in several groups", "command line", f"say {choices}"))
    return matching[0]


def print_list(group: str | None, config_dir: Path | None, console: Console, *, as_json: bool) -> int:
    """Print what can be chosen, in one group or in all."""
    everything = options(config_dir)
    found = [option for option in everything if group in (None, option.group)]
    matches = Catalogue(everything, config_dir)
    if as_json:
        facts = [_facts(option, matches) for option in found]
        console.file.write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        return 0
    for name in [group] if group else GROUPS:
        listed = [option for option in found if option.group == name]
        console.print(metric_table(listed, matches) if name == "metric" else _table(name, listed))
    return 0


def print_option(name: str, config_dir: Path | None, console: Console, *, as_json: bool) -> int:
    """Print an option's YAML, the prompts it uses, and a command to try; of a kind of metric its keys.

    Raises:
        UserError: There is nothing of that name, or there is too much.
    """
    everything = options(config_dir)
    if name in metric_kinds().names() and all(option.name != name for option in everything):
        members = [one for one in everything if one.group == "metric" and one.values.get("kind") == name]
        return print_kind(name, members, console, as_json=as_json)
    option = find_option(name, config_dir)
    templates = Prompts(prompt_dirs(config_dir))
    names = dict.fromkeys(part for prompt in option.prompts for part in templates.parts(prompt))
    prompts = {name: templates.source(name) for name in names}
    suggested = Catalogue(everything, config_dir).suggest(option)
    if as_json:
        facts = {
            "group": option.group,
            "name": option.name,
            "file": str(option.file),
            "yaml": option.text,
            "prompts": prompts,
            "example": suggested.command,
            "note": suggested.note,
        }
        console.file.write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        return 0
    console.print(literal(str(option.file), style="dim"), soft_wrap=True)
    console.print(Syntax(plain(option.text.rstrip()), "yaml", background_color="default", word_wrap=True))
    for prompt, source in prompts.items():
        console.rule(literal(f"prompts/{prompt}", style="dim"), align="left")
        console.print(Syntax(plain(source.rstrip()), "jinja", background_color="default", word_wrap=True))
    console.rule(literal("try it", style="dim"), align="left")
    if suggested.command:
        console.print(literal(suggested.command), soft_wrap=True)
    if suggested.note:
        console.print(literal(suggested.note, style="dim"), soft_wrap=True)
    return 0


def _facts(option: Option, matches: Catalogue) -> dict[str, Any]:
    facts = {
        "group": option.group,
        "name": option.name,
        "description": option.description,
        "file": str(option.file),
    }
    return {**facts, **metric_facts(option, matches)} if option.group == "metric" else facts


def _table(group: str, listed: list[Option]) -> Table:
    table = Table(title=group, title_justify="left", box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    longest = max((len(option.name) for option in listed), default=0)
    table.add_column(style="bold", overflow="fold", min_width=min(longest, _NAME_WIDTH))
    table.add_column(overflow="fold")
    for option in listed:
        table.add_row(literal(option.name), literal(option.description))
    return table


def _options_in(folder: Path, group: str) -> Iterator[Option]:
    for file in sorted((folder / group).glob("*.yaml")):
        if file.stem.startswith("_"):
            continue
        try:
            text = file.read_text(encoding="utf-8")
            expect_bounded(text)
            values = yaml.load(text, Loader=_LOADER)  # noqa: TID251, S506 - safe
        except yaml.YAMLError:
            # A broken file is listed all the same; choosing it says what is wrong with it.
            values = {"description": "(this file is not valid YAML)"}
        yield Option(group, file.stem, file, cast("dict[str, Any]", values) if isinstance(values, dict) else {})
