"""Every kind of metric, judge, target and simulated user gives the scores of a run in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.addons.cluster.crew import LocalCluster
from tests.cli.conftest import Program, judge_arguments

CHECK = {"identifier": "string_matching", "params": {"keyword": "3"}}
ROWS = [
    {
        "id": f"c{i}",
        "question": f"Question {i}?",
        "answer": f"Answer {i}. It is so.",
        "reference": f"Answer {i // 2}.",
        "contexts": [f"Answer {i}."],
        "checks": [CHECK],
    }
    for i in range(6)
]
SCENARIO = {"scenario": "You need a permit.", "goal": "Get it.", "facts": ["You are new."]}
TONE = "{kind: g_eval, needs: [answer], criteria: It is polite., scale: {type: likert, min: 1, max: 5}}"


def both_sides(request: Request) -> Any:
    """A bot, the user that it talks with, and a judge whose verdicts depend on the text alone."""
    score = 1 + sum(map(ord, request.text)) % 5
    if request.schema_name == "UserTurn":
        state = "goal_reached" if request.text.count("User (you)") > 1 else "goes_on"
        return {"reason": "r", "state": state, "message": "Another question?"}
    if request.schema is None:
        return reply(f"Answer {score}.", as_text=True, usage=(50, 5))
    return None if "score" not in str(request.schema) else {"reason": "so it seems", "score": score}


def openai(group: str, url: str) -> list[str]:
    return [f"{group}=openai", f"{group}.model={group}", f"{group}.base_url={url}", f"{group}.api_key_env=null"]


def panel(kind: str, url: str) -> list[str]:
    words = [f"judge={kind}"]
    for member in ("first", "second"):
        own = f"judge.members.{member}"
        words += [f"{own}.model={member}", f"{own}.base_url={url}", f"{own}.api_key_env=null"]
    return words


def words_of(kind: str, url: str) -> Sequence[str]:
    judged, embedded = ["metric=coherence", *judge_arguments(url)], "judge=embedded"
    found: Mapping[str, Sequence[str]] = {
        "chain": ["metric=faithfulness", *judge_arguments(url)],
        "panel": ["metric=coherence", *panel("panel", url)],
        "cascade": ["metric=coherence", *panel("cascade", url)],
        "prepared steps": ["metric=coherence", f"+metric.tone={TONE}", *judge_arguments(url)],
        "graph": ["metric=answerability", *judge_arguments(url)],
        "pairwise": ["metric=preference", *judge_arguments(url)],
        "embedded judge": ["metric=[faithfulness,semantic_similarity]", embedded],
        "checks": ["metric=checks", embedded],
        "composite": ["metric=[faithfulness,relevance,rag_quality]", *judge_arguments(url)],
        "generated answers": [*judged, "generate=true", "repeats.target=2", *openai("target", url)],
        "simulated users": ["metric=answer_words", "generate=true", *openai("target", url), *openai("simulator", url)],
    }
    return found[kind]


KINDS = (
    "chain",
    "panel",
    "cascade",
    "prepared steps",
    "graph",
    "pairwise",
    "embedded judge",
    "checks",
    "composite",
    "generated answers",
    "simulated users",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_on_a_cluster_gives_the_scores_of_one_process(program: Program, cluster: LocalCluster, kind: str) -> None:
    rows = ROWS
    if kind == "simulated users":
        rows = [{"id": f"s{i}", **SCENARIO, "persona": f"Person {i}."} for i in range(4)]
    path = program.write("mine.jsonl", *rows)
    found: list[tuple[pl.DataFrame, dict[str, Any]]] = []
    for engine in ("local", "ray"):
        with Endpoint(both_sides) as endpoint:
            words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", f"engine={engine}"]
            done = program(*words, *words_of(kind, endpoint.url), f"cache.path={engine}.db", "max_error_rate=1")
            assert done.returncode == 0, done.stderr
        frame = pl.read_parquet(program.latest / "scores.parquet").drop("run_id", "finished_at", "latency_s")
        found.append((frame, {name: program.manifest[name] for name in ("requests", "scores", "input_tokens")}))
    (here, taken), (there, spread) = found
    assert there.equals(here)
    assert spread == taken
    assert here["status"].eq("scored").any(), here
    assert len(cluster.hired) > 1
