"""Runs whose calls go by batch: they end while they wait, and go on with the replies."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from evalflow.calls import batches
from evalflow.llm import batch_services
from evalflow.testing import Batches, Endpoint, Request, malformed, status
from tests.cli.conftest import Program, faithful_judge, judge_arguments

ROWS = [
    {"id": f"c{i}", "question": f"Question {i}?", "answer": f"Answer {i}.", "contexts": ["It is so."]} for i in range(4)
]
PRICE = "judge.price={input_per_million: 1000, output_per_million: 0}"
WAIT = ("batch.wait_s=60", "batch.poll_s=0.01")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LINGER_S", 0.05)
    monkeypatch.setattr(batch_services, "_PAUSE_S", 0.01)


def grade(request: Request) -> Any:
    return {"reason": "so it seems", "score": 1 + int(request.text.count("1")) % 5}


def arguments(program: Program, url: str, *more: str, metric: str = "coherence") -> list[str]:
    path = program.write("mine.jsonl", *ROWS)
    data = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", f"metric={metric}"]
    return [*data, *judge_arguments(url), "judge.batch=true", *more]


def scores(program: Program) -> list[tuple[Any, ...]]:
    frame = pl.read_parquet(program.latest / "scores.parquet")
    return frame.select("case_id", "metric", "status", "score", "reason").rows()


def direct(endpoint: Endpoint) -> int:
    return sum(request.path == "/chat/completions" for request in endpoint.requests)


def sizes(scripted: Batches) -> list[int]:
    return [len(batch.rows) for batch in scripted.submitted]


def test_a_run_ends_while_it_waits_and_goes_on_when_its_batch_has_ended(program: Program) -> None:
    scripted = Batches(looks=3)
    with Endpoint(grade, batches=scripted) as endpoint:
        begun = program(*arguments(program, endpoint.url, PRICE))
        assert begun.returncode == 6, begun.stderr
        assert "0 of 4 requests are done (batch_0)" in begun.stderr
        assert program.manifest["status"] == "waiting"
        hint = begun.stdout.split("go on  python -m evalflow ")[1].split()
        assert program(*hint).returncode == 6  # it is not done yet
        done = program(*hint)
        assert done.returncode == 0, done.stderr
        assert (direct(endpoint), sizes(scripted)) == (0, [4])
        manifest, by_batch = program.manifest, scores(program)
        assert manifest["requests"] == 4
        assert manifest["cost_usd"] == pytest.approx(manifest["input_tokens"] / 1000 / 2)
        assert manifest["prices"]["openai:scripted"]["batch"] == 0.5
        assert "ended_before" not in manifest
        assert program("resume").returncode == 0
        assert sizes(scripted) == [4]

        directly = program(*arguments(program, endpoint.url, "judge.batch=false", "cache.mode=off"))
        assert directly.returncode == 0
        assert (direct(endpoint), scores(program)) == (4, by_batch)


@pytest.mark.parametrize("first", [True, False])
def test_runs_by_batch_and_direct_runs_share_replies(program: Program, first: bool) -> None:
    with Endpoint(grade, batches=Batches()) as endpoint:
        for by_batch in (first, not first):
            words = arguments(program, endpoint.url, f"judge.batch={by_batch}", *WAIT)
            assert program(*words).returncode == 0
        assert program.manifest["cached"] == 4
        assert direct(endpoint) == (0 if first else 4)


def test_each_step_of_a_metric_is_a_round(program: Program) -> None:
    claims = {f"Answer {i}": [(f"claim {i}", "supported")] for i in range(4)}
    scripted = Batches()
    with Endpoint(faithful_judge(claims), batches=scripted) as endpoint:
        words = arguments(program, endpoint.url, *WAIT, metric="faithfulness")
        done = program(*words)
        assert done.returncode == 0, done.stderr
        assert sizes(scripted) == [4, 4]
        assert "2 rounds of batches" in program("check", *words).stdout.replace("\n", " ")


def test_what_is_invalid_or_refused_for_a_while_is_asked_again_in_the_next_round(program: Program) -> None:
    asked: list[str] = []

    def script(request: Request) -> Any:
        asked.append(request.text)
        if "Question 0?" in request.text and len(asked) <= 4:
            return malformed()
        if "Question 1?" in request.text and len(asked) <= 4:
            return status(429)
        return status(400) if "Question 2?" in request.text else grade(request)

    scripted = Batches(looks=2)
    with Endpoint(script, batches=scripted) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 6
        assert program("resume").returncode == 6
        assert sizes(scripted) == [4, 2]
        done = program("resume")
        assert done.returncode == 3, done.stderr  # one case is in state error
    assert [row[2] for row in scores(program)] == ["scored", "scored", "error", "scored"]
    assert (program.manifest["reasks"], program.manifest["requests"]) == (1, 5)


def test_errors_of_a_finished_run_are_asked_again_when_told_to(program: Program) -> None:
    broken = {"now": True}
    scripted = Batches()
    with Endpoint(lambda request: status(400) if broken["now"] else grade(request), batches=scripted) as endpoint:
        assert program(*arguments(program, endpoint.url, *WAIT)).returncode == 3
        broken["now"] = False
        assert program("resume", "--retry-errors").returncode == 0
    assert sizes(scripted) == [4, 4]


def test_the_requests_that_an_expired_batch_has_left_go_into_another_one(program: Program) -> None:
    scripted = Batches(ends=("expired", "completed"))
    with Endpoint(grade, batches=scripted) as endpoint:
        assert program(*arguments(program, endpoint.url, *WAIT)).returncode == 0
    assert sizes(scripted) == [4, 2]
    assert program.manifest["requests"] == 4


@pytest.mark.parametrize(("end", "again"), [("failed", 4), ("cancelled", 2)])
def test_a_batch_that_comes_to_nothing_ends_the_run_and_resume_submits_the_rest(
    program: Program, end: str, again: int
) -> None:
    scripted = Batches(ends=(end, "completed"))
    with Endpoint(grade, batches=scripted) as endpoint:
        failed = program(*arguments(program, endpoint.url, *WAIT))
        assert failed.returncode == 5
        assert ("too large for this account" if end == "failed" else "cancelled after 2 of 4") in failed.stderr
        done = program("resume")
        assert done.returncode == 0, done.stderr
    assert sizes(scripted) == [4, again]


def test_replies_without_a_request_and_second_ones_are_left_out_and_missing_ones_asked_again(program: Program) -> None:
    stranger = {"custom_id": "0" * 64, "response": {"status_code": 200, "body": {}}, "error": None}
    scripted = Batches(lose=0, twice=1, extra=[stranger])
    with Endpoint(grade, batches=scripted) as endpoint:
        begun = program(*arguments(program, endpoint.url, "judge.attempts=2", *WAIT))
        assert begun.returncode == 3, begun.stderr
    assert sizes(scripted) == [4, 1]  # the only request of the second one is lost too
    errors = [row for row in scores(program) if row[2] == "error"]
    assert [row[0] for row in errors] == ["c0"]
    log = (program.latest / "evalflow.log").read_text(encoding="utf-8")
    assert "1 replies to requests that are not its own and 1 second replies, all unused" in log


@pytest.mark.parametrize("unheard", [0, 1])
def test_a_batch_whose_receipt_is_not_recorded_is_found_again_by_its_name(program: Program, unheard: int) -> None:
    scripted = Batches(looks=2, unheard=unheard)
    with Endpoint(grade, batches=scripted) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 6
        record = program.latest / "batches.jsonl"
        lines = record.read_bytes().splitlines(keepends=True)
        record.write_bytes(lines[0] + lines[1][:20])  # as a kill leaves it
        assert program("resume").returncode == 0
        assert sizes(scripted) == [4]


def test_a_batch_that_was_never_created_is_submitted(program: Program) -> None:
    scripted = Batches(looks=2)
    with Endpoint(grade, batches=scripted) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 6
        record = program.latest / "batches.jsonl"
        record.write_bytes(record.read_bytes().splitlines(keepends=True)[0])
        scripted.submitted.clear()
        assert program("resume").returncode == 6
        assert program("resume").returncode == 0
        assert sizes(scripted) == [4]


def test_a_damaged_record_is_refused(program: Program) -> None:
    with Endpoint(grade, batches=Batches(looks=2)) as endpoint:
        assert program(*arguments(program, endpoint.url)).returncode == 6
        (program.latest / "batches.jsonl").write_text("{}\n", encoding="utf-8")
        refused = program("resume")
    assert refused.returncode == 5
    assert "batches.jsonl, line 1, is damaged" in refused.stderr


def test_requests_beyond_the_limits_of_a_batch_go_into_several(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_services.OpenAIBatches, "most_requests", 3)
    scripted = Batches()
    with Endpoint(grade, batches=scripted) as endpoint:
        assert program(*arguments(program, endpoint.url, *WAIT)).returncode == 0
        monkeypatch.setattr(batch_services.OpenAIBatches, "most_bytes", 2000)
        assert program(*arguments(program, endpoint.url, *WAIT, "cache.mode=off")).returncode == 0
    assert sizes(scripted) == [3, 1, 1, 1, 1, 1]


def test_a_budget_is_held_before_requests_are_submitted(program: Program) -> None:
    scripted = Batches()
    with Endpoint(grade, batches=scripted) as endpoint:
        ended = program(*arguments(program, endpoint.url, "budget.requests=3", *WAIT))
        assert ended.returncode == 4, ended.stderr
        assert sizes(scripted) == [3]
        done = program("resume", "budget.requests=4")
        assert done.returncode == 0, done.stderr
    assert sizes(scripted) == [3, 1]


def test_a_target_by_batch_is_a_round_before_the_judge(program: Program) -> None:
    def script(request: Request) -> Any:
        return grade(request) if request.schema else "It is so."

    scripted = Batches()
    target = ["generate=true", "target=openai", "target.model=bot", "target.api_key_env=null", "target.batch=true"]
    with Endpoint(script, batches=scripted) as endpoint:
        target.append(f"target.base_url={endpoint.url}")
        done = program(*arguments(program, endpoint.url, *target, *WAIT, metric="[coherence,latency]"))
        assert done.returncode == 0, done.stderr
    assert [row[2] for row in scores(program) if row[1] == "latency"] == 4 * ["skipped"]
    assert [batch.rows[0]["body"]["model"] for batch in scripted.submitted] == ["bot", "scripted"]
    answers = pl.read_ndjson(program.latest / "answers.jsonl")
    assert answers.height == 4
    assert "latency_s" not in answers.columns


def test_a_panel_may_have_members_by_batch_and_others(program: Program) -> None:
    scripted = Batches()
    with Endpoint(grade, batches=scripted) as endpoint:
        one = f"{{kind: openai, name: one, model: m1, base_url: '{endpoint.url}', api_key_env: null, batch: true}}"
        two = f"{{kind: openai, name: two, model: m2, base_url: '{endpoint.url}', api_key_env: null}}"
        words = arguments(program, endpoint.url, *WAIT)[:4]
        panel = ["judge=panel", "~judge.members", f"+judge.members={{one: {one}, two: {two}}}"]
        done = program(*words, *panel, *WAIT)
        assert done.returncode == 0, done.stderr
        assert (direct(endpoint), sizes(scripted)) == (4, [4])


@pytest.mark.parametrize("lost", [False, True])
def test_anthropics_batches(program: Program, monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    asked: list[str] = []

    def script(request: Request) -> Any:
        asked.append(request.text)
        if "Question 1?" in request.text and len(asked) <= 2:
            return {"unexpected": True}
        return status(429) if "Question 0?" in request.text and len(asked) <= 2 else grade(request)

    scripted = Batches(looks=2, ends=("expired", "completed"))
    with Endpoint(script, batches=scripted) as endpoint:
        own = ["judge=anthropic", f"judge.base_url={endpoint.url}", "judge.batch=anthropic"]
        words = arguments(program, endpoint.url)[:4]
        assert program(*words, *own).returncode == 6
        if lost:
            record = program.latest / "batches.jsonl"
            record.write_bytes(record.read_bytes().splitlines(keepends=True)[0])
            unsure = program("resume")  # which only looks at the list of batches
            assert unsure.returncode == 5
            assert "may be that of" in unsure.stderr
            end(endpoint)
        assert program("resume").returncode == 6
        done = program("resume")
        assert done.returncode == 0, done.stderr
        keys = {request.headers.get("x-api-key") for request in endpoint.requests}
    assert keys - {None} == {"sk-secret"}
    assert sizes(scripted) == [4, 4]
    assert "sk-secret" not in "".join(
        path.read_text(encoding="utf-8", errors="replace") for path in program.latest.rglob("*.jsonl")
    )


GEMINI = {"GEMINI_API_KEY": "sk-secret"}


def gemini(program: Program, url: str, *more: str) -> list[str]:
    own = ["judge=gemini", f"judge.base_url={url}/openai", "judge.batch=gemini"]
    return [*arguments(program, url)[:4], *own, *more]


@pytest.mark.parametrize("mode", ["json_schema", "tools"])
@pytest.mark.parametrize("unheard", [0, 1])
def test_geminis_batches(program: Program, mode: str, unheard: int) -> None:
    asked: list[str] = []

    def script(request: Request) -> Any:
        asked.append(request.text)
        if "Question 1?" in request.text and len(asked) <= 4:
            return {"unexpected": True}
        return status(429) if "Question 0?" in request.text and len(asked) <= 4 else grade(request)

    scripted = Batches(looks=2, unheard=unheard)
    with Endpoint(script, batches=scripted) as endpoint:
        words = gemini(program, endpoint.url, f"judge.mode={mode}")
        assert program(*words, **GEMINI).returncode == 6
        record = program.latest / "batches.jsonl"
        record.write_bytes(record.read_bytes().splitlines(keepends=True)[0])  # as if killed before it had the id
        assert program("resume", **GEMINI).returncode == 6
        done = program("resume", **GEMINI)
        assert done.returncode == 0, done.stderr
        by_batch = scores(program)
        assert {request.headers.get("x-goog-api-key") for request in endpoint.requests} == {"sk-secret"}
        assert direct(endpoint) == 0
        again = program(*gemini(program, endpoint.url, f"judge.mode={mode}", "judge.batch=false"), **GEMINI)
        assert again.returncode == 0, again.stderr
        assert (direct(endpoint), scores(program)) == (0, by_batch)  # the cache has them all
    assert sizes(scripted) == [4, 2]
    assert (program.manifest["cached"], program.manifest["input_tokens"]) == (4, 0)
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in program.latest.parent.rglob("*.jsonl")]
    assert "sk-secret" not in "".join(texts)


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [("expired", 0, ""), ("failed", 5, "too large for this account"), ("cancelled", 5, "cancelled after 2 of 4")],
)
def test_geminis_batches_that_end_otherwise(program: Program, end: str, code: int, said: str) -> None:
    stranger = {"metadata": {"key": "0" * 64}, "error": {"code": 3, "message": "whose?"}}
    scripted = Batches(ends=(end, "completed"), extra=[stranger])
    with Endpoint(grade, batches=scripted) as endpoint:
        ended = program(*gemini(program, endpoint.url, *WAIT), **GEMINI)
        assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr
        if code:
            assert program("resume", **GEMINI).returncode == 0
    assert sizes(scripted) == [4, 4 if end == "failed" else 2]
    assert [row[2] for row in scores(program)] == 4 * ["scored"]


def test_a_refused_key_of_gemini_ends_the_run(program: Program) -> None:
    with Endpoint(lambda _: status(401), batches=Batches()) as endpoint:
        ended = program(*gemini(program, endpoint.url, *WAIT), **GEMINI)
    assert (ended.returncode, "$GEMINI_API_KEY" in ended.stderr) == (5, True), ended.stderr


def test_the_runs_of_a_sweep_share_a_batch_of_answers(program: Program) -> None:
    def script(request: Request) -> Any:
        return grade(request) if request.schema else "It is so."

    scripted = Batches(looks=3)
    target = ["generate=true", "target=openai", "target.model=bot", "target.api_key_env=null", "target.batch=true"]
    with Endpoint(script, batches=scripted) as endpoint:
        words = [*arguments(program, endpoint.url, "judge.batch=false"), *target, f"target.base_url={endpoint.url}"]
        swept = program("-m", *words, "judge.temperature=0,1")
        assert swept.returncode == 6, swept.stderr
        for folder in sorted(path.parent for path in program.latest.glob("*/run.json")):
            resumed = program("resume", str(folder))
            assert resumed.returncode == 0, resumed.stderr
    assert sizes(scripted) == [4]


def test_a_race_is_not_by_batch(program: Program) -> None:
    words = arguments(program, "http://127.0.0.1:9/v1", "generate=true", "target=openai", "target.api_key_env=null")
    refused = program("race", *words, "target.model=a,b")
    assert refused.returncode == 2
    assert "judge.batch=false" in refused.stderr


def end(endpoint: Endpoint) -> None:
    """Look at the first batch until it has ended, as somebody else may."""
    import urllib.request

    for _ in range(2):
        urllib.request.urlopen(f"{endpoint.url}/messages/batches/batch_0").read()


def test_what_prepares_a_metric_is_sent_directly_at_full_price(program: Program) -> None:
    def script(request: Request) -> Any:
        return {"steps": ["Read it."]} if request.schema_name != "Grade" and "steps" in str(request.schema) else None

    scripted = Batches()
    metric = (
        "+metric.tone={kind: g_eval, needs: [answer], criteria: It is polite., scale: {type: likert, min: 1, max: 5}}"
    )
    with Endpoint(script, batches=scripted) as endpoint:
        words = [*arguments(program, endpoint.url, PRICE, *WAIT, metric="coherence"), metric]
        notice = program("check", *words).stdout.replace("\n", " ")
        assert "and not by batch: what prepares metrics" in notice
        done = program(*words)
        assert done.returncode == 0, done.stderr
    assert (direct(endpoint), sizes(scripted)) == (1, [8])
    prepared = json.loads((program.latest / "prepared.json").read_text(encoding="utf-8"))
    (entry,) = prepared.values()
    assert entry["cost_usd"] == pytest.approx(entry["bill"]["input_tokens"] / 1000)
