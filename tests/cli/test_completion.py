"""Completion: what evalflow answers, and the scripts in the shells that are there."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evalflow.cli import run_command
from evalflow.cli.completion import SCRIPTS, candidates
from evalflow.cli.verbs import VERBS, overview


def found(*words: str) -> list[str]:
    return candidates(words, VERBS)


def help_of(verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_command([verb, "--help"]) == 0
    return capsys.readouterr().out


def test_verbs_keys_and_names_are_completed() -> None:
    assert set(VERBS) <= set(found(""))
    assert found("comp") == ["compare", "completion"]
    assert found("met") == ["metric="]
    assert found("metric=faith") == ["metric=faithfulness", "metric=faithfulness_lenient"]
    assert found("check", "dataset=r") == ["dataset=rag", "dataset=retrieval"]
    assert found("dataset=rag", "metric=[exact_match,faith") == [
        "metric=[exact_match,faithfulness",
        "metric=[exact_match,faithfulness_lenient",
    ]
    assert found("-m", "judge=openai,emb") == ["judge=openai,embedded"]
    assert found("metric=exact_match", "metric.") == ["metric.exact_match."]
    assert found("compare", "--un") == ["--unpaired"]
    assert found("show", "exact") == ["exact_match"]
    assert "certificates" in found("list", "")
    assert "promptfoo" in found("import", "")
    assert found("cache", "prune", "--o") == ["--older-than"]
    assert found("users", "d") == ["disable", "delete"]
    assert found("compare", "") == [], "files may stand here"


def test_own_metrics_are_among_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf" / "metric").mkdir(parents=True)
    (tmp_path / "conf" / "metric" / "politeness.yaml").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert found("metric=pol") == ["metric=politeness"]


@pytest.mark.parametrize("verb", ["run", "cases", "serve"])
def test_the_options_are_those_of_the_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(verb, capsys)
    options = found(verb, "--")
    assert len(options) > 4
    assert all(f"  {option}" in text or f", {option}" in text for option in options)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_the_help_has_exit_codes_and_examples(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(verb, capsys)
    assert "exit codes: 0 " in text
    assert f"examples:\n  python -m evalflow {verb}" in text
    manual = VERBS.get(verb).manual
    for words, _ in manual.examples:
        assert words.split()[0] == verb
    page = manual.page.partition("#")[0]
    assert not page or (Path(__file__).parents[2] / "docs" / page).is_file()


def test_every_verb_is_in_the_overview() -> None:
    text = overview()
    assert all(f"\n  {verb} " in text for verb in VERBS if verb != "run")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_completes_in_its_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"NO {shell.upper()}: its completion is not tried; apt-get install {shell}")
    program = tmp_path / "evalflow"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m evalflow "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = tmp_path / "script"
    done = subprocess.run([program, "completion", shell], capture_output=True, text=True, check=True)
    script.write_text(done.stdout, encoding="utf-8")
    line = "evalflow dataset=rag metric=faithfulness_"
    asked = {
        "bash": f"source {script}; COMP_LINE='{line}'; COMP_POINT={len(line)}; _evalflow; echo \"${{COMPREPLY[@]}}\"",
        "zsh": f"compdef() {{ }}; source {script}; compadd() {{ print -r -- $@ }};"
        f" words=({line}); CURRENT=3; _evalflow",
        "fish": f"source {script}; complete -C '{line}'",
    }[shell]
    path = f"{tmp_path}:/usr/bin:/bin"
    done = subprocess.run(
        [shell, "-c", asked], capture_output=True, text=True, env={"PATH": path, "HOME": str(tmp_path)}
    )
    assert "faithfulness_lenient" in done.stdout or done.stdout.strip().endswith("lenient"), done
