"""The files that `new` writes are good as they stand."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from evalflow.app.new import new_metric
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.records import Answer, Case, Message


def test_the_prompt_of_a_new_metric_asks_for_what_is_replied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert new_metric("politeness", None, Console(file=StringIO())) == 0
    values = yaml.safe_load(Path("conf/metric/politeness.yaml").read_text(encoding="utf-8"))
    config = METRIC_KINDS.config(values["kind"]).model_validate(values)
    metric = build_metric("politeness", config, Prompts([tmp_path / "prompts"]))
    case = Case(dataset="d", index=0, id="c", messages=(Message("user", "Why?"),))
    [ask] = metric.preview(case, Answer(dataset="d", index=0, case_id="c", target="t", answer="So."))
    prompt = ask.messages[0].content
    assert list(ask.reply_model.model_fields) == ["reason", "score"]
    assert "Write the reason first" in prompt
    assert "Then give the score, a whole\nnumber from 1 to 5:\n1: does not do it at all\n" in prompt
    assert "grade," not in prompt
