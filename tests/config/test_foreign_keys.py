"""No judge or target gets an address or a key that a file sets for another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core.assemble import composed_settings
from evalflow.config.foreign_keys import untaken
from evalflow.errors import UserError
from evalflow.testing import Endpoint
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

DESK = """# @package _global_
defaults:
  - override /dataset: rag
  - override /metric: [faithfulness]
  - override /judge: vllm
judge: {base_url: http://desk.example/v1, model: theirs, api_key_env: DESK_KEY, temperature: 0.5}
metric:
  faithfulness: {threshold: 0.4, judge: {model: larger}}
"""
VLLM = "http://127.0.0.1:8000/v1"


def files(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / "own" / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "own"


def judge(folder: Path, *overrides: str) -> Any:
    return composed_settings(overrides, folder).judges["faithfulness"]


@pytest.mark.parametrize("choice", ["vllm", "openai"])
def test_a_judge_chosen_on_the_command_line_takes_no_address_of_an_experiment(tmp_path: Path, choice: str) -> None:
    own = files(tmp_path, experiment__desk=DESK)
    of_file = judge(own, "experiment=desk")
    assert (of_file.base_url, of_file.model, of_file.api_key_env) == ("http://desk.example/v1", "larger", "DESK_KEY")
    chosen = judge(own, "experiment=desk", f"judge={choice}", "judge.model=mine")
    address, key = {"vllm": (VLLM, None), "openai": (None, "OPENAI_API_KEY")}[choice]
    assert (chosen.base_url, chosen.model, chosen.api_key_env) == (address, "mine", key)
    assert chosen.temperature == 0.5  # it says nothing of who is asked
    settings = composed_settings(["experiment=desk", f"judge={choice}", "judge.model=mine"], own)
    assert settings.run.metric["faithfulness"].threshold == 0.4
    assert [str(one) for one in settings.composed.untaken] == [
        f"judge={choice} does not take judge.base_url, judge.model, judge.api_key_env, "
        "metric.faithfulness.judge.model of experiment/desk, which are those of its own judge"
    ]


def test_keys_on_the_command_line_alone_change_the_judge_of_the_file(tmp_path: Path) -> None:
    own = files(tmp_path, experiment__desk=DESK)
    found = judge(own, "experiment=desk", "judge.base_url=http://other.example/v1")
    assert (found.base_url, found.api_key_env) == ("http://other.example/v1", "DESK_KEY")


def test_own_defaults_are_for_the_default_judge_and_not_for_that_of_an_experiment(tmp_path: Path) -> None:
    local = "# @package _global_\njudge: {base_url: http://mine.example/v1, api_key_env: null}\n"
    plain = "# @package _global_\ndefaults: [{override /dataset: rag}, {override /judge: openai}]\n"
    own = files(tmp_path, local__default=local, experiment__plain=plain)
    assert judge(own, "dataset=rag", "metric=faithfulness", "judge=openai").base_url is None
    assert judge(own, "experiment=plain", "metric=faithfulness").base_url is None
    chosen = local.replace("judge:", "defaults: [{override /judge: vllm}]\njudge:").replace("null", "null, model: m")
    own = files(tmp_path, local__default=chosen)
    assert judge(own, "dataset=rag", "metric=faithfulness").base_url == "http://mine.example/v1"


def test_a_target_takes_none_either_and_keeps_the_prompt(tmp_path: Path) -> None:
    text = """# @package _global_
defaults: [{override /dataset: rag}, {override /metric: faithfulness}, {override /target: openai}]
generate: true
target: {base_url: http://desk.example/v1, api_key_env: null, prompt: "Briefly: {{ question }}"}
"""
    own = files(tmp_path, experiment__desk=text)
    target: Any = composed_settings(["experiment=desk", "target=vllm", "target.model=m"], own).run.target
    assert (target.base_url, target.prompt) == (VLLM, "Briefly: {{ question }}")


def test_hydras_own_flags_do_not_lead_around_it(tmp_path: Path) -> None:
    own = files(tmp_path, experiment__desk=DESK)
    found = Program(tmp_path)(
        "--config-dir", str(own), "experiment=desk", "judge=vllm", "judge.model=m", "hydra.mode=RUN"
    )
    assert found.returncode == 2
    assert "judge=vllm does not take judge.base_url" in found.stderr


def test_the_chosen_judge_gets_the_requests_and_the_other_none(tmp_path: Path) -> None:
    program = Program(tmp_path)
    (tmp_path / "one.jsonl").write_text(json.dumps({"question": "When?", "llm_answer": "At nine."}) + "\n")
    reply = {"verdict": "relevant", "reason": "It says when."}
    with Endpoint([reply] * 9) as other, Endpoint([reply] * 9) as mine:
        text = f"# @package _global_\ndefaults: [{{override /judge: openai}}]\njudge: {{base_url: {other.url}}}\n"
        own = files(tmp_path, experiment__desk=text)
        words = ["dataset=rag", "dataset.rag.path=one.jsonl", "metric=relevance", "experiment=desk", "judge=vllm"]
        found = program("--config-dir", str(own), *words, "judge.model=m", f"judge.base_url={mine.url}")
        assert found.returncode != 2, found.stderr
        assert not other.requests
        assert mine.requests


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ("{base_url: 'http://other.example/v1'}", True),
        ("{base_url: 'http://other.example/v1', api_key_env: null}", False),
        ("{model: larger}", False),
        ("{kind: openai, model: m, base_url: 'http://other.example/v1'}", True),
    ],
)
@pytest.mark.parametrize("choice", ["openai", "embedded"])
def test_a_metric_that_names_an_address_is_not_lent_a_key(
    tmp_path: Path, changes: str, refused: bool, choice: str
) -> None:
    metric = (
        "# @package metric.mine\nkind: rubric\ndescription: Good?\nneeds: [question, answer]\n"
        f"scale: {{type: boolean}}\njudge: {changes}\n"
    )
    own = files(tmp_path, metric__mine=metric)
    try:
        composed_settings(["dataset=rag", "metric=mine", f"judge={choice}"], own)
    except UserError as error:
        lent = [one for one in error.problems if "the key in OPENAI_API_KEY would be sent there" in one.what]
        assert bool(lent) == (refused and (choice == "openai" or "kind" in changes))
        assert all("+metric.mine.judge.api_key_env=VARIABLE" in one.hint for one in lent)
    else:
        assert not refused


def test_what_decides_is_who_chose() -> None:
    desk = {"judge": {"base_url": "a", "thresholds": {"x": 1}}}
    local = {"judge": {"base_url": "b"}}
    both = {"experiment/desk": desk, "local/default": local}
    own = {"experiment/desk": {"judge": "openai"}, "local/default": {}}
    assert not list(untaken({"experiment/desk": desk}, own, [], {"judge": "openai"}))
    assert [one.file for one in untaken(both, own, [], {"judge": "openai"})] == ["local/default"]
    assert [one.keys for one in untaken(both, own, ["judge=vllm"], {"judge": "vllm"})] == [("judge.base_url",)] * 2
    assert not list(untaken({"local/default": local}, {"local/default": {}}, ["judge.model=m"], {"judge": "openai"}))
