"""What a run uses, frozen: an ordinary config folder with data and prompts, which repeats the run by itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from evalflow import datasets as readers
from evalflow.app.setup.assemble import assemble
from evalflow.app.setup.inspect import Inspection, inspect
from evalflow.app.setup.settings import settings_of
from evalflow.app.workspace.validate import write_prompts
from evalflow.config.literal import escaped, escaped_but_environment, yaml_of
from evalflow.config.load import Composed, compose
from evalflow.config.schema import DatasetConfig
from evalflow.config.validate import Settings
from evalflow.errors import command
from evalflow.paths import private_folder, prompt_dirs

GROUPS = ("dataset", "metric", "target", "judge", "embedder")
BASES = MappingProxyType({"openai": ["_openai", "_self_"], "http": ["_service", "_self_"]})
"""What a bot of a kind starts from, so that it has every key with the value that conf/ gives it."""
ASKING = ("prompt", "steps_prompt", "system_prompt")


@dataclass(frozen=True, slots=True)
class Own:
    """What is defined in the workspace and is to be used; all else comes from conf/.

    Attributes:
        targets: Configurations by name.
        metrics: Definitions and prompts by name.
        datasets: What generates what (`generates`), description and rows, by name.
        descriptions: Of targets, for people.
    """

    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    metrics: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]] = field(
        default_factory=dict[str, tuple[Mapping[str, Any], Mapping[str, str]]]
    )
    datasets: Mapping[str, tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]] = field(
        default_factory=dict[str, tuple[Mapping[str, Any], Iterable[Mapping[str, Any]]]]
    )
    descriptions: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Choice:
    """What is combined, by name, and values that differ.

    Attributes:
        target, datasets, metrics, judge, embedder: Names in conf/ or of what is one's own.
        values: Configuration to lay over what these say: root keys, and maps under judge, metric, ...
    """

    target: str
    datasets: Sequence[str]
    metrics: Sequence[str]
    judge: str
    embedder: str = "embedded"
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def words(self) -> list[str]:
        """The overrides that choose all of it."""
        return [
            f"dataset=[{','.join(self.datasets)}]",
            f"metric=[{','.join(self.metrics)}]",
            f"target={self.target}",
            f"judge={self.judge}",
            f"embedder={self.embedder}",
        ]


def write_own(folder: Path, own: Own) -> None:
    """Write what is one's own as files of conf/, prompts/ and data/ below a folder."""
    for name, config in own.targets.items():
        inherited = {"defaults": BASES[config["kind"]]} if config["kind"] in BASES else {}
        said = own.descriptions.get(name)
        text = f"# {said}\n" if said else ""
        text += yaml_of({**inherited, **escaped_but_environment(config)})
        _write(folder / "conf" / "target" / f"{name}.yaml", text)
    for name, (definition, prompts) in own.metrics.items():
        text = yaml_of(escaped(definition))
        _write(folder / "conf" / "metric" / f"{name}.yaml", f"# @package metric.{name}\n{text}")
        write_prompts(folder / "prompts", prompts)
    for name, (options, rows) in own.datasets.items():
        _write_dataset(folder, name, options, rows)


def freeze(folder: Path, own: Own, choice: Choice) -> list[str]:
    """Write a snapshot; the caller removes it where that fails.

    Args:
        folder: Where; it is made.
        own: What the workspace defines.
        choice: What is combined.

    Returns:
        The command line that repeats it, without the program.

    Raises:
        UserError: Something in it is wrong.
    """
    private_folder(folder)
    write_own(folder, own)
    conf = folder / "conf"
    for group in GROUPS:
        (conf / group).mkdir(parents=True, exist_ok=True)
    drafted = compose(choice.words(), conf, complete=False)
    config = _laid_over(drafted.storable, escaped(choice.values))
    _flatten(folder, config, drafted, choice, own)
    return ["--config-dir", shown(conf), *choice.words()]


def inspected(arguments: Sequence[str]) -> Inspection:
    """All that `check` looks at, for the command line of a snapshot.

    Raises:
        UserError: With every problem that was found.
    """
    return inspect(assemble(settings_for(arguments)))


def settings_for(arguments: Sequence[str]) -> Settings:
    """The settings of a snapshot's command line; no program of this machine may be in them.

    Raises:
        UserError: With every problem that was found.
    """
    _, conf, *words = arguments

    def check(composed: Composed) -> Settings:
        return settings_of(composed, programs=False)

    return check(compose(words, Path(conf).absolute(), check=check))


def command_line(arguments: Sequence[str]) -> str:
    """The command line for a shell."""
    return command(*arguments)


def shown(path: Path) -> str:
    """The path as commands name it: relative where it lies below the working directory, so that both can be moved."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def remove(folder: Path) -> None:
    """Remove the folder of a run that never began."""
    shutil.rmtree(folder, ignore_errors=True)


def _flatten(folder: Path, config: dict[str, Any], drafted: Composed, choice: Choice, own: Own) -> None:
    """Write every part whole, so that nothing outside of the snapshot decides anything any more."""
    conf = folder / "conf"
    for name, values in config["metric"].items():
        if values.get("kind") == "g_eval":
            values.setdefault("steps_from", None)  # so that a repeat can be told where the steps are
        _write(conf / "metric" / f"{name}.yaml", f"# @package metric.{name}\n{yaml_of(values)}")
    for name in config["dataset"]:
        if name not in own.datasets:
            plain = DatasetConfig.model_validate(drafted.values["dataset"][name])
            options = {"name": plain.name, "description": plain.description, "generates": plain.generates}
            rows = (readers.case_to_row(case) for case in readers.read(name, plain))
            _write_dataset(folder, name, options, rows)
    for group, name in (("target", choice.target), ("judge", choice.judge), ("embedder", choice.embedder)):
        _write(conf / group / f"{name}.yaml", yaml_of(config[group]))
    root = {key: value for key, value in config.items() if key not in GROUPS}
    _write(conf / "local" / "default.yaml", f"# @package _global_\n{yaml_of(root)}")
    _copy_prompts(folder, config)


def _copy_prompts(folder: Path, config: Mapping[str, Any]) -> None:
    """Copy every template that could be used, with what it includes."""
    from evalflow.metrics.registry import build_metric, metric_config_model
    from evalflow.prompts import Prompts

    prompts = Prompts(prompt_dirs(folder / "conf"))
    named = _templates(config["target"])
    for name, values in config["metric"].items():
        model = metric_config_model(values["kind"]).model_validate(values)
        named += build_metric(name, model, prompts).prompts
        named += _templates(values)
    parts = dict.fromkeys(part for name in named for part in prompts.parts(name))
    write_prompts(folder / "prompts", {part: prompts.source(part) for part in parts})


def _templates(values: Mapping[str, Any]) -> list[str]:
    return [text for key in ASKING if isinstance(text := values.get(key), str) and text.endswith(".jinja")]


def _laid_over(config: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with other values; maps are merged."""
    merged = dict(config)
    for key, value in changes.items():
        there = merged.get(key)
        both = isinstance(there, dict) and isinstance(value, Mapping)
        merged[key] = _laid_over(there, cast("Mapping[str, Any]", value)) if both else value  # pyright: ignore
    return merged


def _write_dataset(folder: Path, name: str, options: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    data = folder / "data" / f"{name}.jsonl"
    data.parent.mkdir(parents=True, exist_ok=True)
    with data.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n")
    values = {**escaped(dict(options)), "path": escaped(shown(data)), "format": "jsonl", "allow_irregular": True}
    _write(folder / "conf" / "dataset" / f"{name}.yaml", f"# @package dataset.{name}\n{yaml_of(values)}")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
