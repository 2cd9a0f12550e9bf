"""Imports a configuration of promptfoo with files beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.promptfoo.read import read_promptfoo

Read = Callable[..., ImportedConfig]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Import a configuration, with other files beside it."""

    def run(config: str, **files: str) -> ImportedConfig:
        scratch = Path(mkdtemp(dir=tmp_path))
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (tmp_path / "promptfooconfig.yaml").write_text(config, encoding="utf-8")
        found = read_promptfoo(ImportSource(tmp_path / "promptfooconfig.yaml", "pool", scratch))
        found.ledger.expect_balanced()
        return found

    return run


def rows(found: ImportedConfig, name: str = "pool") -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data[f"{name}.jsonl"].read_text(encoding="utf-8").splitlines()]


def left(found: ImportedConfig) -> list[str]:
    return [f"{entry.what}: {entry.reason}" for entry in found.ledger.left_out]


BASE = "prompts: ['{{question}}']\nproviders: [openai:gpt-4.1]\n"
