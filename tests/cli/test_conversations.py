"""Conversations, generated turn by turn, from the command line to the files."""

from __future__ import annotations

import json

import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program

CHECK = """\
# @package metric.any_answer
kind: check
family: own
description: Whether there is an answer.
needs: [answer]
field: answer
checks: [{op: regex, pattern: '.'}]
combine: all
"""
TURNS = {
    "id": "lost-card",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "I lost my card."},
        {"role": "user", "content": "On the train."},
        {"role": "assistant", "content": "Which one?"},
        {"role": "user", "content": "The 8:15."},
    ],
}


@pytest.fixture
def asks(program: Program) -> tuple[str, ...]:
    folder = program.folder / "conf" / "metric"
    folder.mkdir(parents=True)
    (folder / "any_answer.yaml").write_text(CHECK)
    return ("dataset=conversations", "metric=any_answer", "generate=true", "target=vllm", "target.model=scripted")


def bot(request: Request) -> str:
    return f"reply {len(request.body['messages'])}"


def test_a_scripted_dialogue_is_played_and_kept_as_it_was_played(program: Program, asks: tuple[str, ...]) -> None:
    path = program.write("mine.jsonl", TURNS, {"id": "short", "question": "Hello?"})
    with Endpoint(bot) as endpoint:
        chosen = (*asks, f"dataset.conversations.path={path}", f"target.base_url={endpoint.url}")
        checked = json.loads(program("check", "--json", *chosen).stdout)
        assert checked["estimate"]["requests"] == 3
        done = program(*chosen)
        assert done.returncode == 0, done.stderr
        assert endpoint.count == 3
        sent = [[m["content"] for m in r.body["messages"]] for r in endpoint.requests if len(r.body["messages"]) > 1]
        assert program(*chosen).returncode == 0
        assert endpoint.count == 3  # every turn is remembered
    assert sent == [
        ["Be brief.", "I lost my card."],
        ["Be brief.", "I lost my card.", "reply 2", "On the train.", "Which one?", "The 8:15."],
    ]
    answer = json.loads((program.latest / "answers.jsonl").read_text().splitlines()[0])
    assert [m["content"] for m in answer["messages"]] == sent[1]
    case = json.loads((program.latest / "cases.jsonl").read_text().splitlines()[0])
    assert ([m["content"] for m in case["messages"]], case["answer"]) == (sent[1], "reply 6")
    assert program("report").returncode == 0


def test_a_file_that_is_one_conversation_is_played(program: Program, asks: tuple[str, ...]) -> None:
    path = program.write("mine.jsonl", {"question": "One?"}, {"question": "Two?"})
    chosen = (*asks, f"dataset.conversations.path={path}", "dataset.conversations.conversation=true")
    with Endpoint(bot) as endpoint:
        assert program(*chosen, f"target.base_url={endpoint.url}").returncode == 0
    sent = [[m["content"] for m in request.body["messages"]] for request in endpoint.requests]
    assert sent == [["One?"], ["One?", "reply 1", "Two?"]]


def test_the_shipped_conversations_can_be_answered(program: Program, asks: tuple[str, ...]) -> None:
    with Endpoint(bot) as endpoint:
        done = program(*asks, f"target.base_url={endpoint.url}")
    assert done.returncode == 0, done.stderr
    assert program.manifest["scores"]["scored"] == 12


def test_an_irregular_conversation_is_refused_before_anything_is_sent(program: Program, asks: tuple[str, ...]) -> None:
    ends_early = {"id": "early", "messages": TURNS["messages"][:4]}
    path = program.write("mine.jsonl", TURNS, ends_early)
    with Endpoint(bot) as endpoint:
        chosen = (*asks, f"dataset.conversations.path={path}", f"target.base_url={endpoint.url}")
        done = program(*chosen)
        assert (done.returncode, endpoint.count) == (2, 0)
        assert (
            "mine.jsonl:2: case 'early': messages: message 3 ends the conversation with the role 'assistant'"
            in done.stderr
        )
        allowed = program(*chosen, "dataset.conversations.allow_irregular=true")
        assert allowed.returncode == 0, allowed.stderr
        assert program("cases").returncode == 0


def test_what_a_conversation_cost_that_was_given_up_is_unknown_and_said_to_be(program: Program) -> None:
    """Its first turn was answered and paid for; what the second one took, nobody knows."""
    turns = [{"role": "user", "content": text} for text in ("one", "two")]
    path = program.write("mine.jsonl", {"id": "a", "messages": turns})
    with Endpoint(lambda request: reply("fine").after(30 * (len(request.body["messages"]) > 1))) as endpoint:
        done = program(
            "dataset=conversations",
            f"dataset.conversations.path={path}",
            "metric=relevance",
            "generate=true",
            "target=vllm",
            "target.model=bot",
            f"target.base_url={endpoint.url}",
            "case_timeout_s=1",
            "target.price={input_per_million: 1, output_per_million: 1}",
            "max_error_rate=1",
        )
    assert done.returncode == 0, done.stderr
    assert "cost unknown" in done.stdout
    assert (program.manifest["cost_usd"], program.manifest["answers"]["error"]) == (None, 1)
