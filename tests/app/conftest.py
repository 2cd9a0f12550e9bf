"""Parts of a run out of plain values: no Hydra, no network, data in a folder of the test's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core.assemble import Parts, assemble, settings_of
from evalflow.app.core.inspect import Inspection, inspect
from evalflow.config.validate import Composed
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Problem, UserError

ROOT = Path(__file__).parents[2]
LLM = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}


@dataclass(frozen=True)
class Lab:
    """Makes runs over data that a test writes down."""

    folder: Path

    def data(self, *rows: Mapping[str, Any], name: str = "d.jsonl", **keys: Any) -> dict[str, Any]:
        """A dataset's configuration, with these rows in its file."""
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return {"path": str(path), **keys}

    def parts(self, dataset: Mapping[str, Any], metric: Sequence[str] | Mapping[str, Any], **values: Any) -> Parts:
        """The parts of a run; `metric` names shipped ones, or is their configuration."""
        if not isinstance(metric, Mapping):
            metric = {name: safe_yaml((ROOT / f"conf/metric/{name}.yaml").read_text()) for name in metric}
        groups = {"judge": {"kind": "embedded"}, "embedder": {"kind": "embedded"}, "target": {"kind": "recorded"}}
        composed = Composed(
            values={"dataset": dataset, "metric": metric, **groups, **values},
            choices={"judge": "judge", "embedder": "embedded", "target": "target"},
            sources={},
            overrides=(),
            conf_folders=(ROOT / "conf",),
            prompt_folders=(self.folder, ROOT / "prompts"),
        )
        return assemble(settings_of(composed))

    def inspect(self, dataset: Mapping[str, Any], metric: Any, **values: Any) -> Inspection:
        """What an inspection of these parts finds."""
        return inspect(self.parts(dataset, metric, **values))

    def refusal(self, dataset: Mapping[str, Any], metric: Any, **values: Any) -> Sequence[Problem]:
        """The problems for which these parts are refused."""
        with pytest.raises(UserError) as caught:
            self.inspect(dataset, metric, **values)
        return caught.value.problems


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def llm() -> dict[str, Any]:
    """A model behind an endpoint that nothing may be sent to."""
    return dict(LLM)
