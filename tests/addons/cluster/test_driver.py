"""A run over several actors ends as a run in one process does, whatever happens to the actors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from evalflow.addons.cluster import worker
from evalflow.addons.cluster.shards import CaseWork
from evalflow.engine.bookkeeping import versions
from evalflow.testing import Endpoint, Request, status
from tests.addons.cluster.crew import LocalCluster
from tests.cli.conftest import Program, judge_arguments

ROWS = [
    {"id": f"c{i:02}", "question": f"Question {i}?", "answer": f"Answer {i // 2}.", "reference": f"Answer {i}."}
    for i in range(24)
]
TOTALS = ("requests", "cached", "reasks", "input_tokens", "output_tokens", "cost_usd", "saved_usd", "scores", "asked")


def grade(request: Request) -> Any:
    said = re.sub(r" id=[0-9a-f]+>", ">", request.text)  # another process may mark the same texts by another key
    return {"reason": "so it seems", "score": 1 + sum(map(ord, said)) % 5}


def arguments(program: Program, url: str) -> list[str]:
    path = program.write("mine.jsonl", *ROWS)
    return [
        "dataset=rag",
        f"dataset.rag.path={path}",
        "dataset.rag.fields=null",
        "metric=[coherence,token_f1,exact_match]",
        *judge_arguments(url),
        "judge.concurrency.max=6",
        "judge.price={input_per_million: 1, output_per_million: 2}",
    ]


def scores(program: Program) -> pl.DataFrame:
    return pl.read_parquet(program.latest / "scores.parquet").drop("run_id", "finished_at", "latency_s")


def totals(program: Program) -> dict[str, Any]:
    return {name: program.manifest[name] for name in TOTALS}


def locally(program: Program, url: str, *more: str) -> tuple[pl.DataFrame, dict[str, Any]]:
    done = program(*arguments(program, url), "cache.path=local.db", *more)
    assert done.returncode == 0, done.stderr
    return scores(program), totals(program)


def test_the_results_are_those_of_one_process(program: Program, cluster: LocalCluster) -> None:
    with Endpoint(grade) as endpoint:
        frame, taken = locally(program, endpoint.url, "repeats.judge=2")
        asked = endpoint.count
        done = program(*arguments(program, endpoint.url), "repeats.judge=2", "engine=ray")
        assert done.returncode == 0, done.stderr
        assert endpoint.count == 2 * asked
    assert scores(program).equals(frame)
    assert totals(program) == taken
    assert len(cluster.hired) == 3
    assert all(cluster.given.values())
    assert program.manifest["config"]["engine"]["kind"] == "ray"


def test_each_cell_is_there_once_whoever_is_lost(program: Program, cluster: LocalCluster) -> None:
    steps: Counter[str] = Counter()

    def fate(actor: str, _: Sequence[CaseWork]) -> bool:
        steps[actor] += 1
        return steps[actor] == 2 and len(cluster.lost) < 4

    cluster.fate = fate
    with Endpoint(grade) as endpoint:
        frame, taken = locally(program, endpoint.url)
        asked = endpoint.count
        done = program(*arguments(program, endpoint.url), "engine=ray")
        assert done.returncode == 0, done.stderr
        again = endpoint.count - 2 * asked
    assert len(cluster.lost) == 4
    assert scores(program).equals(frame)
    # What was in flight is paid twice; all else is billed once, whoever made the call.
    assert program.manifest.get("unaccounted_requests", 0) >= again >= 0
    assert totals(program)["requests"] == taken["requests"]
    assert "was lost with" in (program.latest / "evalflow.log").read_text(encoding="utf-8")


def test_a_case_that_ends_every_actor_is_found(program: Program, cluster: LocalCluster) -> None:
    cluster.fate = lambda _, cases: any(work.case.id == "c13" for work in cases)
    with Endpoint(grade) as endpoint:
        done = program(*arguments(program, endpoint.url), "engine=ray")
    assert done.returncode == 3, done.stderr
    rows = scores(program).filter(pl.col("status") == "error").select("case_id", "error_type", "metric").rows()
    assert sorted(rows) == [("c13", "worker", name) for name in ("coherence", "exact_match", "token_f1")]
    assert scores(program).height == 72


def test_a_cluster_that_loses_every_actor_ends_the_run(program: Program, cluster: LocalCluster) -> None:
    cluster.fate = lambda _, __: True
    with Endpoint(grade) as endpoint:
        done = program(*arguments(program, endpoint.url), "engine=ray")
    assert done.returncode == 5
    assert "actors were lost in a row" in done.stderr


@pytest.mark.parametrize("limit", [7, 24])
def test_the_budget_is_that_of_the_run(program: Program, cluster: LocalCluster, limit: int) -> None:
    with Endpoint(grade) as endpoint:
        done = program(*arguments(program, endpoint.url), "engine=ray", f"budget.requests={limit}")
        assert done.returncode == (4 if limit < 24 else 0), done.stderr
        assert endpoint.count == limit
    assert program.manifest["requests"] == limit


@pytest.mark.parametrize("unit", ["tokens", "usd"])
def test_tokens_and_dollars_of_all_actors_are_limited(program: Program, cluster: LocalCluster, unit: str) -> None:
    def spent() -> float:
        found = program.manifest
        return found["cost_usd"] if unit == "usd" else found["input_tokens"] + found["output_tokens"]

    with Endpoint(grade) as endpoint:
        locally(program, endpoint.url)
        limit = spent() / 2 if unit == "usd" else spent() // 2
        words = [*arguments(program, endpoint.url), "judge.max_tokens=40", f"budget.{unit}={limit}"]
        done = program(*words, "engine=ray", "cache.path=spread.db")
    assert done.returncode == 4, done.stderr
    assert 0 < spent() <= limit
    assert all(cluster.given.values())


def test_a_refused_key_ends_the_run(program: Program, cluster: LocalCluster) -> None:
    with Endpoint(lambda _: status(401)) as endpoint:
        done = program(*arguments(program, endpoint.url), "engine=ray")
    assert done.returncode == 5
    assert "401" in done.stderr


def test_a_run_goes_on_with_another_engine(program: Program, cluster: LocalCluster) -> None:
    with Endpoint(grade) as endpoint:
        frame, taken = locally(program, endpoint.url)
        for engines in (("engine=ray", "engine=local"), ("engine=local", "engine=ray")):
            before = endpoint.count
            begun = program(
                *arguments(program, endpoint.url),
                engines[0],
                "budget.requests=9",
                f"cache.path=begun-{engines[0][7:]}.db",
            )
            assert begun.returncode == 4, begun.stderr
            ended = program("resume", engines[1], "budget.requests=null")
            assert ended.returncode == 0, ended.stderr
            assert endpoint.count - before == taken["requests"]
            assert scores(program).equals(frame)
            assert totals(program) == taken


def test_nodes_need_no_files_of_the_driver(program: Program, cluster: LocalCluster) -> None:
    files = {
        "tables.sql": "CREATE TABLE bicycles (id INTEGER);",
        "data/rows.sql": "INSERT INTO bicycles VALUES (1), (2);",
        "prompts/mine/grade.jinja": "How good is {{ answer | fenced('answer') }}?",
        "conf/metric/mine.yaml": """# @package metric.mine
kind: rubric
needs: [answer]
prompt: mine/grade.jinja
scale: {type: likert, min: 1, max: 5, anchors: {1: bad, 5: good}}
""",
        "conf/metric/rows.yaml": """# @package metric.rows
kind: sql
needs: [answer, reference]
setup: tables.sql
fillings: [rows.sql]
""",
    }
    for name, text in files.items():
        file = program.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    queries = [{"id": f"q{i}", "answer": f"SELECT {i}", "reference": "SELECT count(*) FROM bicycles"} for i in range(6)]
    program.write("queries.jsonl", *queries)
    cluster.away = True
    with Endpoint(grade) as endpoint:
        words = ["dataset=rag", "dataset.rag.path=queries.jsonl", "dataset.rag.fields=null", "metric=[mine,rows]"]
        judged = (*words, *judge_arguments(endpoint.url))
        assert program(*judged, "cache.path=local.db").returncode == 0
        frame = scores(program)
        done = program(*judged, "engine=ray")
        assert done.returncode == 0, done.stderr
    assert scores(program).equals(frame)
    assert frame.filter(pl.col("metric") == "rows")["score"].sum() == 1


def test_a_node_with_other_versions_cannot_take_part(
    program: Program, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "versions", lambda: {**versions(), "evalflow": "0.0.1"})
    with Endpoint(grade) as endpoint:
        done = program(*arguments(program, endpoint.url), "engine=ray")
        assert endpoint.count == 0
    assert done.returncode == 5
    assert "has evalflow 0.0.1 instead of" in done.stderr
