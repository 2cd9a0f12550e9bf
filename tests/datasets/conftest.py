from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalflow.config.schema import DatasetConfig
from evalflow.datasets import read
from evalflow.errors import Problem, UserError
from evalflow.records import Case

Load = Callable[..., list[Case]]
Refused = Callable[..., Sequence[Problem]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tests stand in their own folder, so that messages name files by their bare names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _write(content: str | bytes | Sequence[Any], name: str) -> None:
    if isinstance(content, bytes):
        Path(name).write_bytes(content)
    elif isinstance(content, str):
        Path(name).write_text(content, encoding="utf-8")
    else:
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")


@pytest.fixture
def load() -> Load:
    """Write a file (text, or rows for JSON lines) and read it as the dataset `mine`."""

    def load(content: str | bytes | Sequence[Any], name: str = "mine.jsonl", **config: Any) -> list[Case]:
        _write(content, name)
        return list(read("mine", DatasetConfig(path=config.pop("path", name), **config)))

    return load


@pytest.fixture
def refused(load: Load) -> Refused:
    """The same for a file that must be refused; gives the problems."""

    def refused(content: str | bytes | Sequence[Any], name: str = "mine.jsonl", **config: Any) -> Sequence[Problem]:
        with pytest.raises(UserError) as error:
            load(content, name, **config)
        return error.value.problems

    return refused
