"""The commands `list` and `show`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from evalflow.app.core.options import Catalogue, Option, bases_of, find_option, options
from evalflow.errors import command
from evalflow.metrics.registry import METRIC_KINDS, Calls, calls_of
from evalflow.paths import GROUPS
from evalflow.report.wording import literal, print_json

if TYPE_CHECKING:
    from pydantic import BaseModel

_NAME_WIDTH = 30  # minimum width of the name column, however narrow the terminal
_UNCUT = 1000  # columns, more than any line needs


def print_kind(kind: str, members: Sequence[Option], console: Console, *, as_json: bool) -> int:
    """Print the keys of a kind of metric, and an example file."""
    shortest = min(members, key=lambda option: len(option.text), default=None)
    keys = keys_of(kind)
    names = [option.name for option in members]
    if as_json:
        facts = {"group": "metric", "kind": kind, "keys": keys, "metrics": names}
        facts |= {"yaml": shortest.text if shortest else None, "parts": [asdict(part) for part in _parts_of(kind)]}
        return print_json(console, facts)
    console.print(literal(f"a kind of metric; of it are: {', '.join(names) or 'none yet'}", style="dim"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("key", style="bold")
    table.add_column("default", max_width=24)
    table.add_column("what it says", ratio=1)
    for key in keys:
        default = "required" if key["required"] else json.dumps(key["default"], ensure_ascii=False)
        table.add_row(literal(key["key"]), literal(default), literal(key["meaning"]))
    console.print(table)
    _print_explained(_parts_of(kind), console)
    if shortest:
        console.rule(literal(str(shortest.file), style="dim"), align="left")
        _print_code(console, shortest.text, "yaml")
        console.rule(literal("try it", style="dim"), align="left")
        console.print(literal(command("new", "metric", f"my_{shortest.name}", "--from", shortest.name)), soft_wrap=True)
    return 0


def keys_of(kind: str) -> list[dict[str, Any]]:
    """Return the keys of a kind, its own last, with YAML default and meaning; UserError if there is no such kind."""
    from pydantic_core import PydanticUndefined

    from evalflow.config.explain import meanings_of

    config = METRIC_KINDS.config(kind)
    meanings, keys = meanings_of(config), list[dict[str, Any]]()
    for name, field in config.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        required = default is PydanticUndefined
        if required or hasattr(default, "model_dump"):
            default = None if required else default.model_dump(exclude_none=True)
        about = {"required": required, "default": default, "meaning": meanings.get(name, "")}
        keys.append({"key": field.alias or name, **about})
    return keys


@dataclass(frozen=True, slots=True)
class Explained:
    """A part of a file or of data: its requirements, its keys with their meanings, and examples."""

    names: Sequence[str]
    meaning: str
    keys: Mapping[str, str]
    examples: Sequence[Any]


def _parts_of(kind: Any) -> list[Explained]:
    """Return the parts of a metric of this kind besides its keys."""
    of_kind = {"check": _operations, "checks": _checks_of_cases, "judge": _replies_and_rules, "graph": _nodes}
    return of_kind[kind]() if kind in of_kind else []


def _operations() -> list[Explained]:
    """The operations of metrics of the kind `check`, and of checks of the type `rule`."""
    from evalflow.metrics.rulebook import Operation

    models: Sequence[type[BaseModel]] = get_args(get_args(Operation)[0])
    return [_explained(get_args(model.model_fields["op"].annotation), model) for model in models]


def _nodes() -> list[Explained]:
    """Explain a graph's nodes and branches; types and rules are explained with the kind `judge`."""
    from evalflow.metrics.branches import Branch
    from evalflow.metrics.graph_nodes import GraphNode

    return [_explained(["nodes"], GraphNode), _explained(["branches"], Branch)]


def _replies_and_rules() -> list[Explained]:
    """The types in a step's `returns`, and the score rules."""
    from evalflow.metrics.returns import Plain
    from evalflow.metrics.rules import Rule

    types: Sequence[type[BaseModel]] = get_args(Plain)
    rules: Sequence[type[BaseModel]] = get_args(get_args(Rule)[0])
    replies = [_explained(get_args(model.model_fields["type"].annotation), model) for model in types]
    return replies + [_explained(get_args(model.model_fields["op"].annotation), model) for model in rules]


def _checks_of_cases() -> list[Explained]:
    from evalflow.metrics.case_checks import PARAMS

    models: dict[type[BaseModel], list[str]] = {}
    for name, model in PARAMS.items():
        models.setdefault(model, []).append(name)
    return [_explained(names, model) for model, names in models.items()]


def _explained(names: Sequence[str], model: type[BaseModel]) -> Explained:
    from evalflow.config.explain import meanings_of

    meanings = meanings_of(model)
    keys = {field.alias or name: meanings[name] for name, field in model.model_fields.items() if name in meanings}
    keys.pop("root", None)  # for a rule, whose keys are those of an operation
    extra = cast("Mapping[str, Any]", model.model_config.get("json_schema_extra") or {})
    summary = " ".join((model.__doc__ or "").partition("\n\n")[0].split())
    return Explained(names, summary, keys, extra.get("examples", ()))


def _print_explained(parts: Sequence[Explained], console: Console) -> None:
    for part in parts:
        console.print(literal(", ".join(part.names), style="bold"))
        console.print(Padding(literal(part.meaning), (0, 0, 0, 2)))
        for key, meaning in part.keys.items():
            console.print(Padding(literal(f"{key}: {meaning}", style="dim"), (0, 0, 0, 4)))
        for example in part.examples:
            console.print(Padding(literal(json.dumps(example, ensure_ascii=False)), (0, 0, 0, 4)))


_OTHERS = "others"
_MODEL = {
    True: "no language model is needed, and no key: judge=embedded is the default",
    False: "a language model is needed: judge=NAME",
    None: "whether a language model is needed depends on the case",
}


def metric_facts(option: Option, catalogue: Catalogue) -> dict[str, Any]:
    """Return the facts in a metric's file, for `--json`; `calls` is None if its kind does not define it."""
    values, calls = option.values, calls_of(option.values)
    best_match = next(iter(catalogue.matches(option)), None)
    return {
        "family": _family(option),
        "kind": values.get("kind"),
        "needs": option.needs,
        "direction": values.get("direction", "higher_is_better"),
        "threshold": values.get("threshold"),
        "works_without_key": catalogue.keyless(option),
        "dataset": best_match.dataset if best_match else None,
        "generate": "demo" if best_match and best_match.demo else None,
        "calls": calls and {"low": calls.low, "high": calls.high, "once": calls.once},
    }


def metric_table(options: Iterable[Option], width: int = _UNCUT) -> Table:
    """Return a line for each metric, by family; what it measures and needs is cut if the width is too small."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("metric", overflow="fold", max_width=width * 3 // 8)
    table.add_column("what it measures")
    table.add_column("needs", max_width=width // 5)
    table.caption, table.caption_justify = f"more of one, and a command to try: {command('show', 'METRIC')}", "left"
    ordered = sorted(options, key=lambda option: (_family(option) == _OTHERS, _family(option), option.name))
    for family, members in groupby(ordered, key=_family):
        table.add_section()
        table.add_row(literal(family, style="italic"))
        for option in members:
            about, needs = literal(option.description), literal(", ".join(option.needs), style="dim")
            about.no_wrap = needs.no_wrap = True
            table.add_row(Padding(literal(option.name, style="bold"), (0, 0, 0, 1)), about, needs)
    return table


def _family(option: Option) -> str:
    return str(option.values.get("family") or _OTHERS)


def _taken(option: Option, catalogue: Catalogue) -> Text:
    """Return what a metric needs from a case and from a judge, and which dataset has it."""
    best_match = next(iter(catalogue.matches(option)), None)
    has_it = (
        f"dataset {best_match.dataset} has it{' with generate=demo' if best_match.demo else ''}"
        if best_match
        else "no dataset here has it"
    )
    needs = f"fields of a case: {', '.join(option.needs) or 'none'}; {has_it}"
    calls, model = calls_of(option.values), _MODEL[catalogue.keyless(option)]
    if calls and calls.high == 0:
        return literal(f"{needs}\nno judge is asked")
    return literal(f"{needs}\ncalls to a judge or an embedder for one score: {_in_words(calls)}\n{model}")


def _in_words(calls: Calls | None) -> str:
    if calls is None:
        return "unknown"
    if calls.high is None:
        return "by case"
    return str(calls.low) if calls.low == calls.high else f"{calls.low} or {calls.high}"


def print_list(group: str | None, config_dir: Path | None, console: Console, *, as_json: bool) -> int:
    """Print the options of one group or of all."""
    everything = options(config_dir)
    selected = [option for option in everything if group in (None, option.group)]
    if as_json:
        matches = Catalogue(everything, config_dir)
        return print_json(console, [_facts(option, matches) for option in selected])
    if not console.is_terminal:
        console.width = _UNCUT  # a file or a pipe has no width
    for name in [group] if group else GROUPS:
        listed = [option for option in selected if option.group == name]
        console.print(metric_table(listed, console.width) if name == "metric" else _table(name, listed))
    return 0


def print_option(name: str, config_dir: Path | None, console: Console, *, as_json: bool) -> int:
    """Print an option's YAML, the prompts it uses, and a command to try; for a kind of metric, its keys."""
    everything = options(config_dir)
    if name in METRIC_KINDS.names() and all(option.name != name for option in everything):
        members = [one for one in everything if one.group == "metric" and one.values.get("kind") == name]
        return print_kind(name, members, console, as_json=as_json)
    option = find_option(name, everything)
    from evalflow.paths import prompt_dirs
    from evalflow.prompts import Prompts  # imports Jinja, which `list` does not need
    from evalflow.report.graphs import drawing_of

    templates = Prompts(prompt_dirs(config_dir))
    named = [*option.prompts, *option.example_files]
    names = dict.fromkeys(part for prompt in named for part in templates.parts(prompt))
    prompts = {name: templates.source(name) for name in names}
    catalogue = Catalogue(everything, config_dir)
    suggested = catalogue.suggest(option)
    bases = bases_of(option, config_dir)
    if as_json:
        facts: dict[str, Any] = {"group": option.group, "name": option.name}
        facts |= {"file": str(option.file), "yaml": option.text}
        facts |= {"extends": {base.name: base.text for base in bases}}
        facts |= {"prompts": prompts, "example": suggested.command, "note": suggested.note}
        facts |= {"fixture": option.values.get("fixture")} if option.group == "metric" else {}
        if option.group == "metric" and (parts := _parts_of(option.values.get("kind"))):
            facts |= {"parts": [asdict(part) for part in parts]}
        if graph_lines := drawing_of(option.values):
            facts |= {"graph": graph_lines}
        return print_json(console, facts)
    console.print(literal(str(option.file), style="dim"), soft_wrap=True)
    _print_code(console, option.text, "yaml")
    _print_bases(bases, console)
    if graph_lines := drawing_of(option.values):
        console.rule(literal("the graph", style="dim"), align="left")
        console.print(literal("\n".join(graph_lines)), soft_wrap=True)
    for prompt, source in prompts.items():
        console.rule(literal(f"prompts/{prompt}", style="dim"), align="left")
        _print_code(console, source, "jinja")
    if option.group == "metric" and option.values.get("kind") == "checks":
        console.rule(literal("checks of a case, each with its params", style="dim"), align="left")
        _print_explained(_checks_of_cases(), console)
        console.print(literal(f"the operations of a rule: {command('show', 'check')}", style="dim"))
    if option.group == "metric":
        console.rule(literal("what it takes", style="dim"), align="left")
        console.print(_taken(option, catalogue), soft_wrap=True)
    console.rule(literal("try it", style="dim"), align="left")
    if suggested.command:
        console.print(literal(suggested.command), soft_wrap=True)
    if suggested.note:
        console.print(literal(suggested.note, style="dim"), soft_wrap=True)
    if fixture := option.values.get("fixture"):
        console.print(literal(f"compare with the scores that people give in {fixture}:", style="dim"), soft_wrap=True)
        console.print(literal(command("prove", option.name)), soft_wrap=True)
    return 0


def _print_bases(bases: Sequence[Option], console: Console) -> None:
    for base in bases:
        console.rule(literal(f"it extends {base.group}/{base.name}.yaml", style="dim"), align="left")
        _print_code(console, base.text, "yaml")


def _facts(option: Option, matches: Catalogue) -> dict[str, Any]:
    titled = {"title": option.title} if option.title != option.name else {}
    facts = {
        "group": option.group,
        "name": option.name,
        **titled,
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


def _print_code(console: Console, text: str, language: str) -> None:
    shown = literal(f"{text.rstrip()}\n")
    if console.color_system is not None:
        from rich.syntax import Syntax  # imports Pygments, which `list` does not need

        shown = Syntax("", language, background_color="default").highlight(shown.plain)
    # Lines are not wrapped, since the second half of a wrapped comment would not be a comment when copied.
    console.print(shown, soft_wrap=True, end="")
