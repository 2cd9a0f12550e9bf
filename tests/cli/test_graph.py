"""A decision graph from the command line: drawn, estimated, run, and its way told in the report."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program, judge_arguments

ROWS = [
    {"id": "known", "question": "When does it open?", "contexts": ["It opens at 9."], "answer": "At 9."},
    {"id": "unknown", "question": "What does it cost?", "contexts": ["It opens at 9."], "answer": "I do not know."},
]
WAYS = {
    "known": "answerable: fully → tries: answers → supported: all → 1; The context says so.",
    "unknown": "answerable: not at all → declines: declines → 1; It says: I do not know.",
}


def judge(request: Request) -> dict[str, Any]:
    """What is to be known is known from the question; what was asked from the first line of the prompt."""
    known = "When does it open?" in request.text
    if "Decide how much" in request.text:
        return {"reason": "By the contexts.", "answerable": "fully" if known else "not_at_all"}
    if "Decide how an assistant" in request.text:
        return {"reason": "It says: I do not know.", "reaction": "answers" if known else "declines"}
    return {"reason": "The context says so.", "supported": "all"}


def test_a_graph_is_estimated_by_its_longest_way_run_by_each_and_told(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS)
    with Endpoint(judge) as endpoint:
        data = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=answerability")
        checked = json.loads(program("check", *data, *judge_arguments(endpoint.url), "--json").stdout)
        assert checked["estimate"]["requests"] == 6
        assert 0 < checked["estimate"]["input_tokens_low"] < checked["estimate"]["input_tokens_high"]
        done = program(*data, *judge_arguments(endpoint.url))
        assert done.returncode == 0, done.stderr
        assert len(endpoint.requests) == 5
        again = program(*data, *judge_arguments(endpoint.url))
        assert again.returncode == 0, again.stderr
        assert len(endpoint.requests) == 5, "the second run is cached"
    scores = pl.read_parquet(program.latest / "scores.parquet")
    assert dict(scores.select("case_id", "reason").iter_rows()) == WAYS
    assert [len(json.loads(steps)) for steps in scores["steps"]] == [3, 2]
    results = (program.latest / "results.csv").read_text("utf-8")
    assert [way for way in WAYS.values() if way not in results] == []


def test_show_draws_a_graph_and_explains_its_nodes(program: Program) -> None:
    drawn = json.loads(program("show", "answerability", "--json").stdout)["graph"]
    assert drawn[:4] == [
        "answerable  asks answerability/answerable.jinja",
        "├─ fully → tries  asks answerability/reaction.jinja",
        "│  ├─ declines → 0",
        "│  └─ answers or answers_with_caveat → supported  asks answerability/supported.jinja",
    ]
    assert "│  ├─ answers_with_caveat → supported  (above)" in drawn
    assert drawn[-1] == "   └─ answers → 0"
    assert "\n".join(drawn) in program("show", "answerability").stdout
    explained = json.loads(program("show", "graph", "--json").stdout)["parts"]
    assert [part["names"] for part in explained] == [["nodes"], ["branches"]]
    types = {name for part in json.loads(program("show", "judge", "--json").stdout)["parts"] for name in part["names"]}
    assert types >= {"label", "list", "penalties", "lowest"}


def test_a_broken_graph_is_refused_with_all_that_is_wrong_and_nothing_is_sent(program: Program) -> None:
    conf = program.folder / "conf" / "metric"
    conf.mkdir(parents=True)
    (conf / "bad.yaml").write_text(
        "# @package metric.bad\nkind: graph\nneeds: [question, answer]\nstart: a\nnodes:\n"
        "  a: {prompt: answerability/reaction.jinja, returns: {ok: bool}, branches: [{equals: true, next: b}]}\n"
        "  b: {prompt: answerability/reaction.jinja, returns: {ok: bool}, next: a}\n"
        "  c: {rule: {op: value, of: a, field: ok}}\n",
        encoding="utf-8",
    )
    with Endpoint(judge) as endpoint:
        refused = program("dataset=rag", "metric=bad", *judge_arguments(endpoint.url))
        assert endpoint.requests == []
    assert refused.returncode == 2
    for what in (
        "metric.bad.nodes.a.branches: there is no branch for false",
        "metric.bad.nodes.b: the nodes lead in a circle: a -> b -> a",
        "metric.bad.nodes.c: no path leads to the node 'c'",
    ):
        assert what in refused.stderr
    assert "Traceback" not in refused.stderr
    assert program("show", "bad").returncode == 0
