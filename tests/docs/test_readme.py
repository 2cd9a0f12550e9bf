"""Every command and every YAML of the README is run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from evalflow.metrics.registry import METRIC_KINDS
from evalflow.testing import Endpoint
from tests.cli.conftest import Program

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OWN_METRICS = (ROOT / "docs" / "own-metrics.md").read_text(encoding="utf-8")
PAGES = ("README.md", "docs/index.md", "docs/judges.md", "docs/own-metrics.md", "docs/results.md", "docs/sceptic.md")
ADDRESS = "http://127.0.0.1:8000/v1"


def blocks(language: str, text: str = README) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    return [line for block in blocks("bash", text) for line in block.splitlines() if line.strip()]


def named_files(text: str = README) -> list[tuple[str, str]]:
    """The YAML blocks of a page that say which file they are."""
    found = [(re.match(r"(?:# @package \S+\n)?# (conf/\S+)\n", block), block) for block in blocks("yaml", text)]
    return [(name[1], block) for name, block in found if name]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a page in this process."""
    python, flag, package, *words = shlex.split(command)
    assert (python, flag, package) == ("python", "-m", "evalflow"), command
    return Program(folder)(*words)


def test_the_two_commands_come_first() -> None:
    before = README[: README.index("```")]
    assert "make demo" in before
    assert "make test" in before


def test_it_is_read_in_a_few_minutes() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_command_works_in_the_order_of_the_page(page: str, tmp_path: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    with Endpoint(models=["my-model"]) as endpoint:
        for name, content in named_files(text):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content.replace(ADDRESS, endpoint.url), encoding="utf-8")
        for command in commands(text):
            done = run(command.replace(ADDRESS, endpoint.url), tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr, command


def test_its_python_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    [text] = blocks("python")
    exec(text, {})
    assert capsys.readouterr().out.endswith("None\n"), "the run has no gate"


@pytest.mark.slow
def test_the_metric_of_the_page_on_own_metrics_passes_the_check(tmp_path: Path) -> None:
    [text] = [text for text in blocks("yaml", OWN_METRICS) if text.startswith("# @package")]
    assert run("python -m evalflow new metric politeness", tmp_path).returncode == 0
    (tmp_path / "conf" / "metric" / "politeness.yaml").write_text(text, encoding="utf-8")
    judge = "judge=vllm judge.model=m judge.base_url=http://127.0.0.1:9/v1"
    done = run(f"python -m evalflow check dataset=rag metric=politeness limit=3 {judge}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(text)["kind"] == "rubric"


@pytest.mark.slow
def test_the_pipeline_runs_and_leaves_its_summary(tmp_path: Path) -> None:
    results = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    [text] = [text for text in blocks("yaml", results) if text.startswith("# .github")]
    steps = [step["run"] for step in yaml.safe_load(text)["jobs"]["evaluate"]["steps"] if "run" in step]
    assert run(steps[1], tmp_path).returncode == 0
    page = tmp_path / "step.md"
    shown = subprocess.run(["bash", "-c", steps[2]], cwd=tmp_path, env={**os.environ, "GITHUB_STEP_SUMMARY": str(page)})
    assert shown.returncode == 0
    assert "| passed |" in page.read_text(encoding="utf-8")


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", README)
    assert links
    for link in links:
        assert (ROOT / link).is_file(), link


@pytest.mark.slow
def test_the_shown_output_is_the_programs(tmp_path: Path) -> None:
    [shown] = blocks("text")
    for name, text in named_files():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = run("python -m evalflow experiment=release", tmp_path)
    real = " ".join((done.stderr + done.stdout).split())
    told = [" ".join(line.split()).removesuffix(" (...)") for line in shown.splitlines() if "───" not in line]
    assert len(told) > 12
    for line in told:
        assert line in real, line


def test_the_list_of_kinds_has_every_kind_and_no_other() -> None:
    listed = OWN_METRICS.partition("The kinds: ")[2].partition("The YAML declares")[0]
    assert set(re.findall(r"`([a-z_]+)`", listed)) == set(METRIC_KINDS.names())
