"""Write conf/, data/ and prompts/ of a folder that the command line can use with `--config-dir FOLDER/conf`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from evalflow.config.foreign_keys import MULTI_SELECT
from evalflow.config.yaml_text import yaml_of
from evalflow.paths import shown


def write_option(folder: Path, group: str, name: str, values: Mapping[str, object], description: str = "") -> None:
    """Write an option; its texts are already escaped."""
    package = f"# @package {group}.{name}\n" if group in MULTI_SELECT else ""
    comment = f"# {description}\n" if description else ""
    _write(folder / "conf" / group / f"{name}.yaml", f"{package}{comment}{yaml_of(values)}")


def write_root_keys(folder: Path, values: Mapping[str, object]) -> None:
    """Write root keys of the configuration, for all runs with this folder; their texts are already escaped."""
    _write(folder / "conf" / "local" / "default.yaml", f"# @package _global_\n{yaml_of(values)}")


def json_line(row: Mapping[str, object]) -> str:
    """A case's row as a line of JSON."""
    return json.dumps(row, ensure_ascii=True, allow_nan=False)


def write_cases(folder: Path, dataset: str, lines: Iterable[str]) -> None:
    """Write the rows of a dataset, given as JSON lines."""
    data = _data(folder, dataset)
    data.parent.mkdir(parents=True, exist_ok=True)
    with data.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def data_keys(folder: Path, dataset: str) -> dict[str, object]:
    """The keys of a dataset that make its rows be read exactly as written."""
    return {"path": shown(_data(folder, dataset)), "format": "jsonl", "allow_irregular": True}


def write_prompts(folder: Path, prompts: Mapping[str, str]) -> None:
    """Write templates as files of prompts/ below a folder."""
    for name, text in prompts.items():
        _write(folder / "prompts" / name, text)


def _data(folder: Path, dataset: str) -> Path:
    return folder / "data" / f"{dataset}.jsonl"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
