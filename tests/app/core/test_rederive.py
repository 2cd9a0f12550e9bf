"""What the database is told of a finished run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalflow.app.core.rederive import facts_of_run
from evalflow.cli import run_command
from evalflow.engine.folder import RunFolder


def test_what_providers_caches_saved_is_told_if_they_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["dataset=rag", "metric=exact_match"]) == 0
    folder = RunFolder((tmp_path / "outputs" / "latest").resolve())
    assert facts_of_run(folder)["provider_savings"] is None
    manifest = json.loads(folder.manifest.read_text(encoding="utf-8"))
    folder.manifest.write_text(json.dumps(manifest | {"provider_cached": 1600, "provider_saved_usd": 0.5}))
    assert facts_of_run(folder)["provider_savings"] == "saved by the provider's cache: 1,600 input tokens, $0.5000"


def test_errors_that_a_run_allows_do_not_make_it_inconclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["dataset=rag", "metric=exact_match"]) == 0
    folder = RunFolder((tmp_path / "outputs" / "latest").resolve())
    manifest = json.loads(folder.manifest.read_text(encoding="utf-8"))

    def is_told(allowed: float) -> bool:
        changed = {"scores": {"scored": 9, "error": 1}, "config": manifest["config"] | {"max_error_rate": allowed}}
        folder.manifest.write_text(json.dumps(manifest | changed), encoding="utf-8")
        return facts_of_run(folder)["too_many_errors"]

    assert is_told(0.05)
    assert not is_told(0.1)
