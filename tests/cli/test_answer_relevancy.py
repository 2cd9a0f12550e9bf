"""A metric that takes a judge and an embedder for one score, as a user runs it, with one endpoint for both."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, embeddings, reply
from tests.cli.conftest import Program, judge_arguments

ROWS = [
    {"id": "said", "question": "Who wrote it?", "answer": "Anna wrote it."},
    {"id": "evaded", "question": "When?", "answer": "Hard to say."},
    {"id": "silent", "question": "Where?", "answer": ""},
    {"id": "unasked", "messages": [], "answer": "Yes."},
]
VECTORS = {"Who wrote it?": [1, 2, 2], "a": [1, 2, 2], "b": [2, 1, 2], "c": [0, 3, 4]}
PRICES = (
    "judge.price={input_per_million: 1.0, output_per_million: 10.0}",
    "embedder.price={input_per_million: 100.0, output_per_million: 0.0}",
)


def judge(request: Request) -> Any:
    evaded = "Hard to say." in request.text
    questions = [{"question": text, "reason": "r", "noncommittal": evaded or text == "c"} for text in "abc"]
    return reply({"questions": questions}, usage=(100, 10))


def vectors(request: Request) -> Any:
    return embeddings([VECTORS[text] for text in request.inputs])


def arguments(program: Program, url: str, *more: str) -> list[str]:
    path = program.write("mine.jsonl", *ROWS)
    data = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "dataset.rag.allow_irregular=true"]
    embedder = ["embedder=openai", "embedder.model=e", f"embedder.base_url={url}", "embedder.api_key_env=null"]
    return [*data, "metric=answer_relevancy", *judge_arguments(url), *embedder, *PRICES, *more]


def test_both_are_asked_counted_paid_and_named(program: Program) -> None:
    with Endpoint(judge, embed=vectors) as endpoint:
        words = arguments(program, endpoint.url)
        checked = json.loads(program("check", *words, "--json").stdout)
        # Three cases have an answer and a question to it; of one the answer is blank, so that nobody is asked.
        assert checked["estimate"]["requests"] == 4
        assert endpoint.count == 0

        done = program(*words)
        assert done.returncode == 0, done.stderr
        assert sorted(request.path for request in endpoint.requests) == ["/chat/completions"] * 2 + ["/embeddings"]
    frame = pl.read_parquet(program.latest / "scores.parquet")
    states = dict(frame.select("case_id", "status").iter_rows())
    assert states == {"said": "scored", "evaded": "scored", "silent": "undefined", "unasked": "skipped"}
    scores = dict(frame.drop_nulls("score").select("case_id", "score").iter_rows())
    assert scores == {"said": pytest.approx(0.9407407407), "evaded": 0.0}
    name = "openai:scripted + openai:e"
    assert set(frame["judge"]) == {name}
    manifest = program.manifest
    assert manifest["judges"][name]["nature"] == "LLM scripted; embeddings of e"
    embedded = sum(len(text) for text in VECTORS) // 4
    assert manifest["cost_usd"] == pytest.approx((2 * (100 + 10 * 10) + 100 * embedded) / 1e6)


def test_another_embedder_is_another_identity_and_a_resumed_run_pays_nothing_twice(program: Program) -> None:
    with Endpoint(judge, embed=vectors) as endpoint:
        identities: set[str] = set()
        for dimensions in ("null", "3"):
            done = program(*arguments(program, endpoint.url, f"embedder.dimensions={dimensions}"))
            assert done.returncode == 0, done.stderr
            identities |= {facts["identity"] for facts in program.manifest["judges"].values()}
        assert len(identities) == 2
        sent = endpoint.count
        journal = program.latest / "scores.jsonl"
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
        assert program("resume").returncode == 0
        assert endpoint.count == sent


def test_repeats_are_the_judges(program: Program) -> None:
    with Endpoint(judge, embed=vectors) as endpoint:
        done = program(*arguments(program, endpoint.url, "repeats.judge=2"))
        assert done.returncode == 0, done.stderr
        assert [request.path for request in endpoint.requests].count("/chat/completions") == 4


def test_a_judge_without_language_is_refused_before_the_run(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS[:1])
    data = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null"]
    done = program("check", *data, "metric=answer_relevancy", "judge=embedded")
    assert done.returncode == 2
    assert "answer_relevancy, step writing" in done.stderr
    assert "judge=openai" in done.stderr
