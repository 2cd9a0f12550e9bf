"""Simulated users as a user runs them: what is refused before the run, killed and resumed, replayed, counted."""

from __future__ import annotations

import itertools
import json
import os
import signal
from typing import Any

import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program
from tests.cli.test_resume import Gate
from tests.explorer import cases_in

SCENARIO = {"id": "permit", "scenario": "You need a permit.", "goal": "Get it.", "facts": ["You are new."]}


def two_sides(last: int) -> Any:
    """A user who is content after so many answers, and a bot that counts messages; a judge who finds all well."""

    def script(request: Request) -> Any:
        if request.schema_name == "UserTurn":
            asked = request.text.count("User (you)")
            state = "goal_reached" if asked >= last else "goes_on"
            return reply({"reason": "r", "state": state, "message": f"Question {asked}?"}, usage=(100, 10))
        return reply(f"Answer to {len(request.body['messages'])}.", as_text=True, usage=(50, 5))

    return script


def arguments(program: Program, url: str, *rows: dict[str, Any]) -> list[str]:
    path = program.write("mine.jsonl", *(rows or (SCENARIO,)))
    sides = [
        f"{side}{rest}"
        for side in ("target", "simulator")
        for rest in ("=openai", f".model={side}", f".base_url={url}", ".api_key_env=null", ".max_tokens=100")
    ]
    return ["dataset=scenarios", f"dataset.scenarios.path={path}", "metric=answer_words", "generate=true", *sides]


def answers(program: Program) -> list[dict[str, Any]]:
    lines = (program.latest / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("mode", ["on", "off"])
def test_a_run_killed_in_the_middle_of_a_conversation_pays_no_turn_twice(program: Program, mode: str) -> None:
    gate = Gate(5, two_sides(3))
    with Endpoint(gate) as endpoint:
        process = program.begin(*arguments(program, endpoint.url), f"cache.mode={mode}")
        assert gate.reached.wait(300)
        program.wait_for_replies(5)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -9
        gate.open.set()
        assert answers(program) == []
        before = endpoint.count
        resumed = program("resume")
        assert resumed.returncode == 0, resumed.stderr
        assert (before, endpoint.count) == (6, 8)  # the sixth was never answered, and so is sent again
    (answer,) = answers(program)
    said = [message["content"] for message in answer["messages"]]
    assert said == ["Question 0?", "Answer to 1.", "Question 1?", "Answer to 3.", "Question 2?"]
    assert answer["answer"] == "Answer to 5."
    manifest = program.manifest
    assert (manifest["requests"], manifest["input_tokens"]) == (7, 4 * 100 + 3 * 50)
    assert manifest["endings"] == {"goal_reached": 1}
    assert "simulated users: of 1 conversation 1 reached the goal" in resumed.stdout


def test_a_finished_run_is_a_dataset_that_asks_nobody(program: Program) -> None:
    with Endpoint(two_sides(2)) as endpoint:
        done = program(*arguments(program, endpoint.url))
        assert done.returncode == 0, done.stderr
        asked = endpoint.count
    first = program.latest
    page = cases_in((first / "report.html").read_text(encoding="utf-8"))
    assert '"messages":[["user","Question 0?"],["assistant","Answer to 1."],["user","Question 1?"]]' in page
    assert '"brief":"Situation: You need a permit.' in page
    (case,) = [json.loads(line) for line in (first / "cases.jsonl").read_text(encoding="utf-8").splitlines()]
    assert (case["scenario"], case["facts"], case["answer"]) == ("You need a permit.", ["You are new."], "Answer to 3.")
    assert [message["role"] for message in case["messages"]] == ["user", "assistant", "user"]
    again = program("dataset=scenarios", f"dataset.scenarios.path={first}/cases.jsonl", "metric=answer_words")
    assert again.returncode == 0, again.stderr
    assert (program.manifest["requests"], endpoint.count) == (0, asked)
    assert program.manifest["endings"] == {"goal_reached": 1}
    shown = program("cases")
    assert "reached the goal: r" in shown.stdout
    for page in ("summary.md", "report.html"):
        assert "of 1 conversation 1 reached the goal" in (program.latest / page).read_text(encoding="utf-8")


def test_the_estimate_is_what_a_user_takes_who_never_ends(program: Program) -> None:
    opened = {**SCENARIO, "id": "opened", "messages": [{"role": "user", "content": "Hello?"}]}
    with Endpoint(two_sides(100)) as endpoint:
        words = [*arguments(program, endpoint.url, SCENARIO, opened), "simulator.limits.turns=3"]
        words += [f"{side}.price={{input_per_million: 1, output_per_million: 1}}" for side in ("target", "simulator")]
        checked = program("check", "--json", *words)
        assert checked.returncode == 0, checked.stderr
        found = json.loads(checked.stdout)
        assert endpoint.count == 0
        assert found["simulator"] == "openai:simulator · up to 3 turns in each of 2 conversations"
        assert program(*words).returncode == 0
        assert endpoint.count == found["estimate"]["requests"] == 3 + 4 + 3 + 3
    assert program.manifest["endings"] == {"turns": 2}
    assert program.manifest["cost_usd"] < found["estimate"]["cost_usd_high"]
    assert {row["metadata"]["simulation"]["turns"] for row in answers(program)} == {3}


def test_a_plan_counts_the_users_turns_with_the_answer_and_not_with_its_judgements(program: Program) -> None:
    rows = [{**SCENARIO, "id": f"c{number}", "scenario": f"You need {number} permits."} for number in range(6)]
    price = "price={input_per_million: 1, output_per_million: 2}"
    user, bot = 100 + 2 * 10, 50 + 2 * 5
    judged = two_sides(2)
    grades = itertools.cycle([1, 5])

    def script(request: Request) -> Any:
        if request.model == "judge":
            return reply({"reason": "r", "score": next(grades)}, usage=(70, 10))
        return judged(request)

    with Endpoint(script) as endpoint:
        words = [word for word in arguments(program, endpoint.url, *rows) if not word.startswith("metric")]
        words += [f"{side}.{price}" for side in ("target", "simulator", "judge")]
        words += ["judge=openai", "judge.model=judge", f"judge.base_url={endpoint.url}", "judge.api_key_env=null"]
        done = program("metric=coherence", "repeats.judge=2", *words)
        assert done.returncode == 0, done.stderr
    planned = program("plan", "--cases", "10", "--json")
    document = json.loads(planned.stdout)
    answer, judgement = (3 * user + 2 * bot) / 1e6, (70 + 2 * 10) / 1e6
    for row in document["rows"]:
        assert row["cost_usd"] == pytest.approx(10 * row["answers"] * (answer + row["judgements"] * judgement))
    assert {row["judgements"] for row in document["rows"]} > {1, 2}
    talk = document["conversations"]
    assert talk.pop("seconds") > 0
    assert talk == {
        "count": 6,
        "turns": 2,
        "user_calls": 3,
        "tokens": 3 * 110 + 2 * 55,
        "cost_usd": pytest.approx(answer),
    }
    assert "a conversation took 2 answers, 3 calls for the user, 440 tokens" in " ".join(
        program("plan", "--cases", "10").stdout.split()
    )


def test_both_sides_count_in_the_budget_and_a_larger_one_goes_on(program: Program) -> None:
    with Endpoint(two_sides(3)) as endpoint:
        stopped = program(*arguments(program, endpoint.url), "budget.requests=4")
        assert (stopped.returncode, endpoint.count) == (4, 4)
        resumed = program("resume", str(program.latest), "budget.requests=7")
        assert (resumed.returncode, endpoint.count) == (0, 7), resumed.stderr


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["simulator=none"], "1 of 1 cases of scenarios have a scenario, but no simulator plays the user"),
        (["generate=false", "target=recorded"], "nobody would talk to the simulated user"),
        (["++dataset.scenarios.fields.scenario=unused"], "case 'permit' has goal but no scenario"),
        (["dataset.scenarios.generates=actual"], "with which a user cannot converse"),
        (["simulator.limits.usd=1"], "the price of the target is unknown"),
        (["simulator.limits.turns=0"], "simulator.limits.turns"),
        (["simulator.prompt=rubric/grade.jinja"], "which a simulator does not get"),
        (["simulator.api_key_env=NO_SUCH_KEY"], "NO_SUCH_KEY is not set"),
        (["simulator.modle=m"], "simulator.modle"),
        (["budget.usd=1"], "price"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_sent(program: Program, changes: list[str], told: str) -> None:
    with Endpoint() as endpoint:
        given = arguments(program, endpoint.url)
        if changes[-1] in ("simulator=none", "target=recorded"):
            group = changes[-1].partition("=")[0]
            given = [word for word in given if not word.startswith(group)]
        keys = {change.partition("=")[0] for change in changes}
        given = [word for word in given if word.partition("=")[0] not in keys]
        refused = program(*given, *changes)
    assert (refused.returncode, endpoint.count) == (2, 0), refused.stderr
    assert told in " ".join(refused.stderr.split())
    assert not list((program.folder / "outputs").glob("runs/*"))


def test_a_service_that_is_never_told_the_earlier_turns_is_refused(program: Program) -> None:
    given = [word for word in arguments(program, "http://127.0.0.1:9/v1") if not word.startswith("target")]
    service = ["target=http", "target.url=http://127.0.0.1:9/ask"]
    refused = program("check", *given, *service, "target.body={input: '{{ question }}'}")
    assert refused.returncode == 2
    assert "the service cannot hold a conversation" in " ".join(refused.stderr.split())
    allowed = program("check", *given, *service, "target.body={input: '{{ question }}', before: '{{ history }}'}")
    assert allowed.returncode == 0, allowed.stderr
    opened = program("check", *given, *service, "target.body={q: '{{ question }}'}", "target.open={url: /threads}")
    assert opened.returncode == 0, opened.stderr


def test_a_command_holds_a_conversation_with_a_script(program: Program) -> None:
    bot = "import json, sys\ncase = json.load(sys.stdin)\nprint(json.dumps({'answer': str(sorted(case))}))\n"
    (program.folder / "bot.py").write_text(bot, encoding="utf-8")
    path = program.write("mine.jsonl", SCENARIO)
    done = program(
        "dataset=scenarios",
        f"dataset.scenarios.path={path}",
        "metric=answer_words",
        "generate=true",
        "target=command",
        "target.argv=[python3,bot.py]",
        "simulator=scripted",
        "simulator.replies=[One?,Two?]",
    )
    assert done.returncode == 0, done.stderr
    (answer,) = answers(program)
    assert answer["answer"] == "['contexts', 'id', 'messages', 'metadata', 'question', 'vars']"
    assert [one["content"] for one in answer["messages"] if one["role"] == "user"] == ["One?", "Two?"]
    assert not {"You need a permit.", "You are new."} & set(json.dumps(answer).split('"'))
    assert program.manifest["endings"] == {"script_over": 1}
