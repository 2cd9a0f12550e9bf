"""The page on CI, and the commands of the GitHub action, with a stand-in for GitHub's own program."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_readme import ROOT, blocks, run
from tests.test_pytest_plugin import pytest_in

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GH = """#!/usr/bin/env python3
import json, pathlib, sys
words = sys.argv[1:]
bodies = [pathlib.Path(word.partition("@")[2]).read_text() for word in words if word.startswith("body=@")]
with open(pathlib.Path(__file__).with_name("calls.jsonl"), "a") as file:
    file.write(json.dumps({"words": words, "bodies": bodies}) + "\\n")
if (refused := pathlib.Path(__file__).with_name("refused")).exists() and "POST" in words:
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
if "--jq" in words:
    print(pathlib.Path(__file__).with_name("known").read_text(), end="")
"""


class Runner:
    """Runs the steps of the action as GitHub does, except those that are actions of their own."""

    def __init__(self, folder: Path, known: str = "") -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "gh").write_text(GH, encoding="utf-8")
        (self.bin / "gh").chmod(0o755)
        (self.bin / "known").write_text(known, encoding="utf-8")
        (self.bin / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
        (self.bin / "python").chmod(0o755)
        self.outputs: dict[str, dict[str, str]] = {}
        self.log = ""

    def __call__(self, event: str, words: str, fail_on: str = "failed") -> int:
        """Run the action; returns the exit code of its last step."""
        code = 0
        self.outputs["install"] = {"python": sys.executable}
        inputs = {"run": words, "name": "mine", "token": "t", "fail-on": fail_on}
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or step["name"] == "Install evalflow":
                continue
            if f"'{'push' if event == 'pull_request' else 'pull_request'}'" in step.get("if", ""):
                continue
            code = self.step(step, inputs)
        return code

    def step(self, step: Mapping[str, Any], inputs: Mapping[str, str], *, may_fail: bool = False) -> int:
        """Run one step; returns its exit code, which must be 0 unless it concludes."""
        output = self.folder / "output"
        output.write_text("", encoding="utf-8")
        variables = {
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.folder / "page.md"),
            "GITHUB_RUN_ID": "7",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_REPOSITORY": "us/bot",
        }
        variables |= {name: self._filled(str(text), inputs) for name, text in step.get("env", {}).items()}
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, **variables, "PATH": path, "PYTHONPATH": str(ROOT)}
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(shell, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300)
        self.log += done.stdout + done.stderr
        lines = output.read_text(encoding="utf-8").splitlines()
        self.outputs[step.get("id", step["name"])] = dict(line.split("=", 1) for line in lines)
        if step["name"] != "Conclude" and not may_fail:
            assert done.returncode == 0, (step["name"], done.stdout, done.stderr)
        return done.returncode

    def _filled(self, text: str, inputs: Mapping[str, str]) -> str:
        known = {f"inputs.{name}": value for name, value in inputs.items()}
        known |= {
            f"steps.{step}.outputs.{name}": value for step, own in self.outputs.items() for name, value in own.items()
        }
        known |= {"github.event.pull_request.number": "12", "github.event.pull_request.head.sha || github.sha": "abc"}
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], text)

    @property
    def calls(self) -> list[dict[str, Any]]:
        file = self.bin / "calls.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


@pytest.mark.slow
def test_a_pull_request_is_compared_with_the_base_branch(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    assert runner("push", "dataset=rag\nmetric=exact_match\n") == 0
    assert (tmp_path / ".evalflow" / "base" / "mine" / "scores.parquet").is_file()
    assert runner.calls == []
    (tmp_path / "outputs" / "runs" / "7-1-mine").rename(tmp_path / "before")
    assert runner("pull_request", "  dataset=rag\n\n  metric=exact_match  \n") == 0
    asked, posted = runner.calls
    assert asked["words"][:2] == ["api", "--paginate"]
    assert posted["words"][:4] == ["api", "--method", "POST", "repos/us/bot/issues/12/comments"]
    [body] = posted["bodies"]
    assert body.startswith("<!-- evalflow: mine -->\n## exact\\_match on rag")
    assert "| exact\\_match | 0.000 | 0.000 | +0.000 |" in body
    assert "no case flipped between pass and fail" in body
    assert body in (tmp_path / "page.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gate", "code", "conclusion"), [(">= 0.8", 1, None), (">= 0.1", 0, "neutral")], ids=["failed", "undecided"]
)
def test_a_gate_decides_and_the_comment_is_updated(
    gate: str, code: int, conclusion: str | None, tmp_path: Path
) -> None:
    runner = Runner(tmp_path, known="99\n100\n")
    words = f'dataset=rag\nmetric=exact_match\ngate={{exact_match: {{mean: "{gate}"}}}}\n'
    assert runner("pull_request", words) == code
    _, patched, *rest = runner.calls
    assert patched["words"][:4] == ["api", "--method", "PATCH", "repos/us/bot/issues/comments/99"]
    assert "There is no run of the base branch to compare with." in patched["bodies"][0]
    assert [f"conclusion={conclusion}" in call["words"] for call in rest] == ([True] if conclusion else [])


@pytest.mark.slow
def test_what_cannot_be_compared_with_the_base_branch_is_told(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    assert runner("push", "dataset=rag\nmetric=exact_match\nlimit=3\n") == 0
    (tmp_path / "outputs" / "runs" / "7-1-mine").rename(tmp_path / "before")
    assert runner("pull_request", "dataset=rag metric=answer_words limit=3") == 0
    [body] = runner.calls[-1]["bodies"]
    assert "## answer\\_words on rag" in body
    assert "Not compared with the base branch:" in body
    assert "the runs have no metric in common" in body


PYTHON = """#!/bin/sh
echo "$0 $*" >> "$CALLED"
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi
"""


@pytest.mark.parametrize(("environment", "extras"), [("own", "lexical,sql"), ("current", ""), ("mine", "")])
def test_it_is_installed_beside_the_packages_of_the_job_or_with_them(
    environment: str, extras: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [install] = [step for step in ACTION["runs"]["steps"] if step["name"] == "Install evalflow"]
    runner, called, action = Runner(tmp_path), tmp_path / "called", tmp_path / "the action"
    for name, value in (("CALLED", called), ("GITHUB_ACTION_PATH", action), ("RUNNER_TEMP", tmp_path / "temp")):
        monkeypatch.setenv(name, str(value))
    (runner.bin / "python").write_text(PYTHON, encoding="utf-8")
    code = runner.step(install, {"environment": environment, "extras": extras}, may_fail=True)
    if environment == "mine":
        assert code == 2
        assert "::error::environment is mine; write own or current" in runner.log
        return
    own = f"{tmp_path}/temp/evalflow/bin/python"
    python = own if environment == "own" else "python"
    assert (code, runner.outputs["install"]) == (0, {"python": python})
    *made, pip = called.read_text(encoding="utf-8").splitlines()
    if environment == "own":
        assert made == [f"{runner.bin}/python -m venv {tmp_path}/temp/evalflow"]
        assert pip == f"{own} -m pip install --quiet {action}[lexical,sql] --constraint {action}/constraints.txt"
    else:
        assert (made, pip) == ([], f"{runner.bin}/python -m pip install --quiet {action}")


@pytest.mark.slow
def test_a_mistake_is_told_in_the_comment(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    assert runner("pull_request", "dataset=rga\nmetric=exact_match") == 2
    body = runner.calls[-1]["bodies"][0]
    assert "**mine** ended before its first result:" in body
    for said in (body, runner.log):
        assert "there is no dataset 'rga'" in said
        assert "did you mean 'rag'?" in said


@pytest.mark.slow
def test_a_fork_may_not_comment_and_is_not_failed_for_it(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    (runner.bin / "refused").touch()
    gate = """'gate={exact_match: {mean: ">= 0.1"}}'"""
    words = f"# what the bot says\ndataset=rag metric=exact_match   # both\n{gate}  # quoted as for a shell\n"
    assert runner("pull_request", words) == 0
    assert "::warning title=mine::the token may not comment here" in runner.log
    assert "::warning title=mine::inconclusive" in runner.log
    assert "::warning title=mine::the check could not be shown as neutral" in runner.log
    assert "## exact\\_match on rag" in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_what_fails_the_job_is_chosen(tmp_path: Path) -> None:
    [conclude] = [step for step in ACTION["runs"]["steps"] if step["name"] == "Conclude"]
    runner = Runner(tmp_path)
    found = {}
    for fail_on in ("failed", "inconclusive", "never"):
        for code in (0, 1, 2, 3, 5):
            runner.outputs["evaluate"] = {"exit-code": str(code)}
            found[fail_on, code] = runner.step(conclude, {"name": "mine", "token": "t", "fail-on": fail_on})
    assert {key: code for key, code in found.items() if code != key[1]} == {
        ("failed", 3): 0,
        ("never", 1): 0,
        ("never", 3): 0,
    }
    runner.outputs["install"] = {"python": sys.executable}
    [evaluate] = [step for step in ACTION["runs"]["steps"] if step["name"] == "Evaluate"]
    assert runner.step(evaluate, {"name": "mine", "run": "dataset=rag", "fail-on": "always"}, may_fail=True) == 2
    assert "fail-on is always; write failed, inconclusive or never" in runner.log


def test_the_action_has_the_form_that_github_reads() -> None:
    assert (
        {"name", "description", "runs"}
        <= set(ACTION)
        <= {"name", "description", "inputs", "outputs", "runs", "branding"}
    )
    for own in ACTION["inputs"].values():
        assert {"description"} <= set(own) <= {"description", "required", "default"}
    assert all(set(own) == {"description", "value"} for own in ACTION["outputs"].values())
    assert set(ACTION["runs"]) == {"using", "steps"}
    assert ACTION["runs"]["using"] == "composite"
    written: set[str] = set()
    for step in ACTION["runs"]["steps"]:
        kind = {"run", "shell"} if "run" in step else {"uses"}
        assert {"name", *kind} <= set(step) <= {"name", "id", "if", "env", "with", *kind}
        named = set(re.findall(r"(?:inputs|steps\.[a-z]+\.outputs)\.[a-z-]+", yaml.safe_dump(step)))
        assert named <= {f"inputs.{name}" for name in ACTION["inputs"]} | written, step["name"]
        outputs = re.findall(r'"([a-z-]+)=', step.get("run", "")) if "id" in step else []
        written |= {f"steps.{step['id']}.outputs.{name}" for name in outputs}
    for own in ACTION["outputs"].values():
        assert own["value"].strip("${ }") in written


@pytest.mark.parametrize(
    "step", [step for step in ACTION["runs"]["steps"] if "run" in step], ids=lambda step: step["name"]
)
def test_bash_can_read_each_step(step: Mapping[str, Any]) -> None:
    done = subprocess.run(["bash", "-n"], input=step["run"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_workflow_of_the_page_evaluates(tmp_path: Path) -> None:
    step = yaml.safe_load(blocks("yaml", PAGE)[0])["jobs"]["evaluate"]["steps"][-1]["with"]
    assert Runner(tmp_path)("pull_request", step["run"], step["fail-on"]) == 0
    assert "## jailbreak\\_guardrails on" in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_actions_are_pinned() -> None:
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    workflow = yaml.safe_load(blocks("yaml", PAGE)[0])
    used += [step["uses"] for step in workflow["jobs"]["evaluate"]["steps"][:-1]]
    assert len(used) == 4
    assert all(re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40}", one) for one in used)


def test_the_workflow_of_the_page_gives_what_the_action_takes() -> None:
    workflow, gitlab = (yaml.safe_load(text) for text in blocks("yaml", PAGE))
    step = workflow["jobs"]["evaluate"]["steps"][-1]
    assert set(step["with"]) <= set(ACTION["inputs"])
    assert workflow["permissions"]["pull-requests"] == "write"
    assert "experiment=guardrail_gate" in gitlab["evaluate"]["script"][1]
    for name in ACTION["outputs"]:
        assert f"`{name}`" in PAGE


@pytest.mark.slow
def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    for text in blocks("python", PAGE):
        (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    done = pytest_in(tmp_path, "-q")
    assert done.code == 0, done.stdout
    assert run("python -m evalflow experiment=guardrail_gate", tmp_path).returncode == 0
    assert list(tmp_path.glob("outputs/runs/*/junit.xml"))
