"""What the database is told of a finished run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from evalflow.app.core.rederive import facts_of_run, rewrite
from evalflow.cli import run_command
from evalflow.engine.folder import RunFolder
from evalflow.report.cases import most_informative


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


def test_a_report_keeps_the_cases_unless_an_answer_is_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["dataset=rag", "metric=exact_match"]) == 0
    folder = RunFolder((tmp_path / "outputs" / "latest").resolve())
    written = folder.cases.stat()
    rewrite(folder)
    assert folder.cases.stat().st_ino == written.st_ino
    folder.answers.write_text("{}\n", encoding="utf-8")
    os.utime(folder.answers, ns=(written.st_mtime_ns + 1, written.st_mtime_ns + 1))
    text = folder.cases.read_text(encoding="utf-8")
    rewrite(folder)
    assert folder.cases.stat().st_ino != written.st_ino
    assert folder.cases.read_text(encoding="utf-8") == text


def test_the_end_of_a_large_run_names_the_file_with_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(most_informative, "__defaults__", (2, None))
    assert run_command(["dataset=rag", "metric=exact_match"]) == 0
    assert "cases.jsonl (results.csv of a run this large has none)" in capsys.readouterr().out
    names = ("results.csv", "cases.jsonl", "report.html", "junit.xml")
    written = {name: Path("outputs", "latest", name).read_bytes() for name in names}
    assert run_command(["report"]) == 0
    assert written == {name: Path("outputs", "latest", name).read_bytes() for name in written}
