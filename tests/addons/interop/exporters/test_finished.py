"""What trackers of experiments are told of a run: settings without secrets, numbers without made-up zeros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.addons.interop.exporters.finished import FinishedRun
from evalflow.config.surroundings import TextToSend
from evalflow.engine.folder import RunFolder
from tests.manifests import manifest_of

ROW: dict[str, Any] = {
    "dataset": "d",
    "target": "t",
    "metric": "m",
    "statistic": "mean",
    "judge": None,
    "tag": None,
    "n": 4,
    "n_scored": 2,
    "n_undefined": 1,
    "n_error": 1,
    "n_skipped": 0,
    "value": 0.5,
    "ci_low": 0.25,
    "ci_high": None,
    "pass_rate": 0.5,
    "pass_rate_low": None,
    "pass_rate_high": None,
}
CONFIG = {
    "generate": True,
    "limit": None,
    "judge": {"model": "m", "base_url": "http://user:secret-1@127.0.0.1/v1?key=secret-2", "api_key_env": "SECRET_3"},
    "target": {
        "kind": "http",
        "headers": {"X": "secret-4"},
        "body": "secret-5",
        "argv": ["secret-6"],
        "system_prompt": "Be kind: see http://a/?b",
    },
    "metric": {"m": {"kind": "check", "threshold": 0.7}},
}


def finished(folder: Path, *rows: dict[str, Any], text: TextToSend = "all") -> FinishedRun:
    pl.DataFrame([ROW | row for row in rows], infer_schema_length=None).write_parquet(folder / "summary.parquet")
    facts: dict[str, Any] = {"datasets": {"d": {"cases": 4, "sha256": "abc"}}, "metrics": {"m": {}}}
    manifest = manifest_of(**facts, config=CONFIG, cost_usd=None, seconds=2.5, requests=0)
    return FinishedRun(manifest, RunFolder(folder), text, lambda: iter(()))


def test_a_number_that_is_unknown_is_left_out(tmp_path: Path) -> None:
    found = finished(tmp_path, {}, {"tag": "x"}, {"statistic": "f1[yes]", "value": None, "ci_low": None}).numbers()
    counts = {"n": 4, "n_scored": 2, "n_undefined": 1, "n_error": 1, "n_skipped": 0}
    assert found == {
        "m": 0.5,
        "m/ci_low": 0.25,
        "m/pass_rate": 0.5,
        **{f"m/{key}": value for key, value in counts.items()},
        **{f"m/f1_yes_/{key}": value for key, value in counts.items()},
        "run/seconds": 2.5,
        "run/requests": 0,
    }


def test_numbers_of_several_judges_are_told_apart(tmp_path: Path) -> None:
    found = finished(tmp_path, {"judge": "a:1"}, {"judge": "b:1", "value": 0.75}).numbers()
    assert (found["a:1/m"], found["b:1/m"]) == (0.5, 0.75)


@pytest.mark.parametrize("text", ["all", "reasons", "none"])
def test_settings_have_no_secrets_and_prompts_only_if_asked_for(tmp_path: Path, text: TextToSend) -> None:
    found = finished(tmp_path, {}, text=text).settings()
    prompt = {"target.system_prompt": "Be kind: see http://a/?b"} if text == "all" else {}
    assert found == {
        "generate": "True",
        "judge.model": "m",
        "judge.base_url": "http://127.0.0.1/v1",
        "target.kind": "http",
        "dataset.d.cases": "4",
        "dataset.d.sha256": "abc",
        "metric.m.kind": "check",
        "metric.m.version": "1",
        "metric.m.threshold": "0.7",
        **prompt,
    }
