"""What is remembered from run to run, and what a run may spend, as users see both."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program, faithful_judge, judge_arguments

ROWS = [
    {"id": f"c{i:02}", "question": f"Question {i}?", "answer": f"Answer {i}.", "contexts": [f"context {i}"]}
    for i in range(12)
]
PRICE = "judge.price={input_per_million: 1.0, output_per_million: 10.0}"
SCORES = ["case_id", "metric", "judge", "repeat", "status", "score", "value", "reason", "steps", "path"]


def verdicts(request: Request) -> Any:
    claims = {f"Answer {i}.": [(f"claim {i}", "supported" if i % 3 else "contradicted")] for i in range(12)}
    return reply(faithful_judge(claims)(request), usage=(100, 10))


def arguments(program: Program, url: str, *more: str) -> list[str]:
    path = program.write("mine.jsonl", *ROWS)
    return [
        "dataset=rag",
        f"dataset.rag.path={path}",
        "dataset.rag.fields=null",
        "metric=faithfulness",
        *judge_arguments(url),
        *more,
    ]


def scores(program: Program) -> list[tuple[Any, ...]]:
    return pl.read_parquet(program.latest / "scores.parquet").select(SCORES).rows()


def test_machines_share_replies(program: Program, postgres_url: str, tmp_path: Path) -> None:
    shared = f"cache.url={json.dumps(postgres_url)}"
    other = Program(tmp_path / "other")
    other.folder.mkdir()
    with Endpoint(verdicts) as endpoint:
        assert program(*arguments(program, endpoint.url, PRICE), shared).returncode == 0
        again = other(*arguments(other, endpoint.url, PRICE), shared)
        assert (again.returncode, endpoint.count) == (0, 24), again.stderr
        assert scores(other) == scores(program)
        assert (other.manifest["requests"], other.manifest["cached"]) == (0, 24)
        nowhere = arguments(other, endpoint.url, "cache.url=postgresql://nobody@127.0.0.1:9/none")
        refused = other(*nowhere)
        assert (refused.returncode, "cannot be opened" in refused.stderr) == (2, True), refused.stderr
        assert other("check", *nowhere).returncode == 0


def test_the_same_command_again_asks_nothing_and_says_the_same(program: Program) -> None:
    with Endpoint(verdicts) as endpoint:
        words = arguments(program, endpoint.url, PRICE)
        assert program(*words).returncode == 0
        first, manifest = scores(program), program.manifest
        assert (endpoint.count, manifest["requests"], manifest["cached"]) == (24, 24, 0)
        assert (manifest["cost_usd"], manifest["saved_usd"]) == (pytest.approx(24 * 0.0002), 0.0)

        again = program(*words, "metric.faithfulness.threshold=0.1", "gate={faithfulness: {mean: '>= 0.1'}}")
        assert again.returncode == 0, again.stderr
        assert endpoint.count == 24
        assert scores(program) == first
        manifest = program.manifest
        assert (manifest["requests"], manifest["cached"]) == (0, 24)
        assert (manifest["cost_usd"], manifest["saved_usd"]) == (0.0, pytest.approx(24 * 0.0002))
        assert "24 from the cache" in again.stdout
        table = pl.read_parquet(program.latest / "scores.parquet")
        assert table["cached"].to_list() == [True] * 12
        assert table["cost_usd"].to_list() == [0.0] * 12

        changed = program(*words, "judge.temperature=0.7", "limit=3")
        assert changed.returncode == 0, changed.stderr
        assert endpoint.count == 24 + 6
        refreshed = program(*words, "cache.mode=refresh", "limit=3")
        assert refreshed.returncode == 0, refreshed.stderr
        assert endpoint.count == 24 + 12


def test_an_unquoted_off_in_yaml_is_told(program: Program) -> None:
    local = program.folder / "mine" / "local" / "default.yaml"
    local.parent.mkdir(parents=True)
    local.write_text("# @package _global_\ncache:\n  mode: off\n", encoding="utf-8")
    done = program("dataset=rag", "metric=exact_match", "limit=1", "--config-dir", "mine")
    assert done.returncode == 2
    assert "put it in quotes" in done.stderr


def test_nothing_is_made_where_no_model_is_asked(program: Program) -> None:
    assert program("dataset=rag", "metric=exact_match", "limit=2").returncode == 0
    assert not (program.folder / ".evalflow" / "cache.db").exists()


def test_check_makes_no_cache_and_refuses_dollars_without_a_price(program: Program) -> None:
    words = arguments(program, "http://127.0.0.1:9/v1", "budget.usd=1")
    done = program("check", *words)
    assert done.returncode == 2
    assert "price of scripted is unknown" in done.stderr
    assert program("check", *words, "budget.allow_unpriced=true").returncode == 0
    assert program("check", *words, PRICE).returncode == 0
    assert not (program.folder / ".evalflow" / "cache.db").exists()


def test_a_damaged_cache_is_set_aside_and_said(program: Program) -> None:
    file = program.folder / ".evalflow" / "cache.db"
    file.parent.mkdir()
    file.write_bytes(b"no database" * 1000)
    with Endpoint(verdicts) as endpoint:
        assert program(*arguments(program, endpoint.url, "limit=2")).returncode == 0
    assert "is damaged" in (program.latest / "evalflow.log").read_text(encoding="utf-8")
    assert len(list(file.parent.glob("cache.db.corrupt-*"))) == 1


def test_a_run_ends_with_4_when_the_budget_does_and_goes_on_with_a_higher_one(program: Program) -> None:
    with Endpoint(verdicts) as endpoint:
        done = program(*arguments(program, endpoint.url, "budget.requests=10"))
        assert done.returncode == 4, done.stderr
        assert endpoint.count == 10
        assert "budget.requests=10" in done.stderr
        assert "budget.requests=10" in (program.latest / "evalflow.log").read_text(encoding="utf-8")
        manifest = program.manifest
        assert (manifest["exit_code"], manifest["requests"]) == (4, 10)
        finished = pl.read_parquet(program.latest / "scores.parquet")
        assert set(finished["status"]) <= {"scored"}

        same = program("resume")
        assert same.returncode == 4, same.stderr
        assert endpoint.count == 10
        wrong = program("resume", "budget.reqests=5")
        assert wrong.returncode == 2
        assert "did you mean 'requests'" in wrong.stderr

        more = program("resume", "budget.requests=24")
        assert more.returncode == 0, more.stderr
        assert endpoint.count == 24
    assert [row[4] for row in scores(program)] == ["scored"] * 12


class Holding:
    """Answers `free` requests, and holds all others until it is opened."""

    def __init__(self, free: int, script: Callable[[Request], Any] = verdicts) -> None:
        self.free = free
        self.script = script
        self.open = threading.Event()
        self.reached = threading.Event()

    async def __call__(self, request: Request) -> Any:
        import asyncio

        self.free -= 1
        if self.free < 0:
            self.reached.set()
            while not self.open.is_set():
                await asyncio.sleep(0.01)
        return self.script(request)


@pytest.mark.parametrize("mode", ["on", "off", "read", "refresh"])
def test_finished_calls_of_unfinished_scores_are_not_paid_twice(program: Program, mode: str) -> None:
    """The process is killed between the two steps of scores: only what was in flight is asked again."""
    script = Holding(free=6)
    with Endpoint(script) as endpoint:
        words = arguments(program, endpoint.url, f"cache.mode={mode}", "judge.concurrency={start: 4, max: 4}")
        process = program.begin(*words)
        assert script.reached.wait(60)
        program.wait_for_replies(6)
        process.kill()
        process.wait()
        in_flight = endpoint.count - 6
        assert 1 <= in_flight <= 4
        script.open.set()
        resumed = program("resume")
        assert resumed.returncode == 0, resumed.stderr
        assert endpoint.count <= 24 + 4
    assert [row[4] for row in scores(program)] == ["scored"] * 12


TOTALS = ("requests", "cached", "reasks", "input_tokens", "output_tokens", "cost_usd", "saved_usd", "answers")


@pytest.mark.parametrize("generate", ["false", "true"])
def test_a_resumed_run_costs_what_one_costs_that_was_not_stopped(
    program: Program, tmp_path: Path, generate: str
) -> None:
    """A reply of an unfinished score is paid for by the run that asked for it, and nobody else saved anything."""

    def answers(request: Request) -> Any:
        if request.model != "bot":
            return verdicts(request)
        return reply(f"Answer {request.text.split()[1].strip('?')}.", usage=(10, 5))

    script = Holding(17, answers)
    with Endpoint(script) as endpoint, Endpoint(answers) as steady:
        more = (PRICE, "judge.concurrency={start: 4, max: 4}", f"generate={generate}")
        bot = ("target=vllm", "target.model=bot", PRICE.replace("judge", "target")) if generate == "true" else ()
        words = arguments(program, endpoint.url, *more, *bot, *[f"target.base_url={endpoint.url}"][: len(bot)])
        process = program.begin(*words)
        assert script.reached.wait(60)
        program.wait_for_replies(17)
        process.kill()
        process.wait()
        script.open.set()
        resumed = program("resume")
        assert resumed.returncode == 0, resumed.stderr
        stopped = program.manifest
        again = program("resume")
        assert again.returncode == 0, again.stderr
        assert {name: program.manifest[name] for name in TOTALS} == {name: stopped[name] for name in TOTALS}

        (tmp_path / "other").mkdir()
        other = Program(tmp_path / "other")
        done = other(*[word.replace(endpoint.url, steady.url) for word in arguments(other, endpoint.url, *words[4:])])
        assert done.returncode == 0, done.stderr
        expected = other.manifest
    assert stopped["saved_usd"] == 0.0
    assert {name: stopped[name] for name in TOTALS} == {
        name: pytest.approx(expected[name]) if name == "cost_usd" else expected[name] for name in TOTALS
    }


def test_stats_and_prune(program: Program) -> None:
    empty = program("cache", "stats", "--json")
    assert empty.returncode == 0
    assert json.loads(empty.stdout)["entries"] == 0
    with Endpoint(verdicts) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 0
    stats = json.loads(program("cache", "stats", "--json").stdout)
    assert (stats["entries"], stats["runs"], stats["private"]) == (24, 1, 0)
    assert stats["file_bytes"] > stats["body_bytes"] > 0
    assert "24" in program("cache", "stats").stdout

    asked = program("cache", "prune")
    assert asked.returncode == 2
    assert "--older-than" in asked.stderr
    kept = program("cache", "prune", "--older-than", "1")
    assert (kept.returncode, kept.stdout.split(";")[0]) == (0, "0 removed")
    assert program("cache", "prune", "--to-size", "much").returncode == 2
    size = stats["file_bytes"] - 8192
    fewer = program("cache", "prune", "--to-size", f"{size / 1000}kB")
    assert fewer.returncode == 0, fewer.stderr
    left = json.loads(program("cache", "stats", "--json").stdout)
    assert 0 < left["entries"] < 24
    assert left["file_bytes"] <= size
    assert program("cache", "prune", "--all").returncode == 0
    assert json.loads(program("cache", "stats", "--json").stdout)["entries"] == 0
    assert program("cache", "stats", "--path", "nowhere.db").returncode == 2


def test_stats_of_what_is_no_cache(program: Program, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database" * 1000)
    done = program("cache", "stats", "--path", "x.db")
    assert done.returncode == 2
    assert "damaged" in done.stderr


def test_the_price_and_where_it_comes_from_are_said(program: Program) -> None:
    path = program.write("mine.jsonl", *ROWS)
    words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=faithfulness"]
    listed = program("check", *words, "judge=openai", "judge.model=gpt-4.1-mini", "budget.usd=1", OPENAI_API_KEY="k")
    assert listed.returncode == 0, listed.stderr
    assert f"by genai-prices {metadata.version('genai-prices')}" in " ".join(listed.stdout.split())
    assert "unknown" not in listed.stdout
    with Endpoint(verdicts) as endpoint:
        assert program(*arguments(program, endpoint.url, PRICE, "limit=1")).returncode == 0
        price = {"source": "yaml", "input_per_million": 1.0, "output_per_million": 10.0}
        assert program.manifest["prices"] == {"openai:scripted": price}
        assert program(*arguments(program, endpoint.url, "judge.temperature=1", "limit=1")).returncode == 0
        assert program.manifest["prices"] == {"openai:scripted": {"source": "none"}}
        assert program.manifest["cost_usd"] is None
