"""What metrics read of an answer: of a model, a service, an agent, and of the data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evalflow.calls.cache import Cache
from evalflow.calls.client import CallSession, RetryPolicy
from evalflow.calls.single_flight import SingleFlight
from evalflow.config.extraction import Extraction
from evalflow.config.targets import AgentTargetConfig, HttpTargetConfig, OpenAITargetConfig
from evalflow.llm.chat import ChatClient
from evalflow.prompts import Prompts
from evalflow.protocols import Target
from evalflow.records import Answer, Case, Message
from evalflow.targets.agent import AgentTarget
from evalflow.targets.answer_step import AnswerStep
from evalflow.targets.conversation import ConversationTarget
from evalflow.targets.http import HttpConnector
from evalflow.targets.openai import OpenAITarget
from evalflow.targets.recorded import MissingTarget, RecordedTarget
from evalflow.targets.reply import Form
from evalflow.targets.service import ServiceTarget
from evalflow.testing import Endpoint, Request, calls, reply
from evalflow.testing.replies import Answering

pytestmark = pytest.mark.anyio
QUICK = RetryPolicy(attempts=1, base_s=0.01, cap_s=0.02)
FORMS = {"d": Form("answer"), "labels": Form("actual")}
THOUGHT = "Seven? The page says eight."
CHOICE = {"pattern": r"CHOICE: (\w)"}
EIGHT = ("Eight.", THOUGHT)


@dataclass(frozen=True, kw_only=True)
class Json(Answering):
    value: Any = field(default_factory=dict[str, Any])

    def body(self, request: Request) -> Mapping[str, Any]:
        return self.value


def completion(finish_reason: str = "stop", **message: Any) -> Json:
    message = {"role": "assistant", "content": "Eight.", **message}
    return Json(value={"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]})


def case(dataset: str = "d", **fields: Any) -> Case:
    fields = {"messages": (Message("user", "When?"),), **fields}
    return Case(dataset=dataset, index=0, id="c", **fields)


def model(url: str, session: CallSession | None = None, **keys: Any) -> OpenAITarget:
    config = OpenAITargetConfig.model_validate(
        {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None, **keys}
    )
    return OpenAITarget(config, "bot", Prompts(()), FORMS, client=ChatClient(config, "target", session, policy=QUICK))


def service(url: str, **keys: Any) -> ServiceTarget:
    config = HttpTargetConfig.model_validate({"kind": "http", "url": f"{url}/chat/completions", **keys})
    session = CallSession()
    return ServiceTarget(HttpConnector(config, Prompts(()), session, policy=QUICK), config, "bot", FORMS, session)


async def answered(target: Target, of: Case | None = None) -> Answer:
    try:
        return await target.answer(of or case(), 0)
    finally:
        await target.close()


@pytest.mark.parametrize(
    "message",
    [
        {"content": f"<think>{THOUGHT}</think>\n\nEight."},
        {"content": f"{THOUGHT}\n</think>\n\nEight."},
        {"reasoning_content": THOUGHT},
        {"reasoning": THOUGHT},
        {"thinking": THOUGHT},
        {"content": "Eight.", "thinking_blocks": [{"type": "thinking", "thinking": THOUGHT, "signature": "x"}]},
        {"content": [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": "Eight."}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}, {"text": "Eight."}]},
    ],
)
async def test_a_models_thoughts_are_kept_beside_its_answer(message: Any) -> None:
    async with Endpoint([completion(**message)]) as endpoint:
        answer = await answered(model(endpoint.url))
    assert (answer.answer, answer.thoughts, answer.full_answer) == (*EIGHT, None)


async def test_an_answer_stays_whole_if_thoughts_are_kept() -> None:
    whole = f"<think>{THOUGHT}</think>Eight."
    async with Endpoint([reply(whole)]) as endpoint:
        answer = await answered(model(endpoint.url, thoughts="keep"))
    assert (answer.answer, answer.thoughts) == (whole, None)


async def test_thoughts_are_not_sent_back_in_a_conversation() -> None:
    turns = (Message("user", "When?"), Message("user", "Sure?"))
    async with Endpoint([reply(f"<think>{THOUGHT}</think>Eight."), reply("Yes.")]) as endpoint:
        answer = await answered(ConversationTarget(model(endpoint.url)), case(messages=turns))
        sent = [one["content"] for one in endpoint.requests[1].body["messages"]]
    assert sent == ["When?", "Eight.", "Sure?"]
    assert answer.answer == "Yes."


async def test_a_prediction_is_read_without_thoughts() -> None:
    async with Endpoint([reply("<think>It asks for a secret.</think>\ntrue")]) as endpoint:
        answer = await answered(model(endpoint.url), case("labels"))
    assert (answer.actual, answer.thoughts) == (True, "It asks for a secret.")


async def test_thoughts_alone_are_no_answer() -> None:
    async with Endpoint([reply(f"<think>{THOUGHT}", finish_reason="length")]) as endpoint:
        answer = await answered(model(endpoint.url))
    assert (answer.status, answer.error_type, answer.finish_reason) == ("error", "empty", "length")
    assert "has thoughts, but no text (finish_reason: length)" in str(answer.error)
    assert "target.max_tokens" in str(answer.error)


@pytest.mark.parametrize(
    ("given", "kept"), [("length", "length"), ("MAX_TOKENS", "length"), ("end_turn", "stop"), ("weary", "weary")]
)
async def test_why_a_model_ended_is_kept_in_one_vocabulary(given: str, kept: str) -> None:
    async with Endpoint([completion(given)]) as endpoint:
        assert (await answered(model(endpoint.url))).finish_reason == kept


async def test_the_part_that_is_scored_is_the_answer_and_the_whole_is_kept() -> None:
    async with Endpoint([reply("A is wrong.\nCHOICE: B"), reply("I pass.")]) as endpoint:
        found = await answered(model(endpoint.url, extract=CHOICE))
        missed = await answered(model(endpoint.url, extract=CHOICE))
    assert (found.answer, found.full_answer, found.extracted) == ("B", "A is wrong.\nCHOICE: B", True)
    assert (missed.answer, missed.full_answer, missed.extracted, missed.status) == ("I pass.", None, False, "answered")


async def test_another_part_takes_no_further_call_and_is_another_identity(tmp_path: Path) -> None:
    session = CallSession(single_flight=SingleFlight(Cache(tmp_path / "cache.db")))
    async with Endpoint([reply("CHOICE: B\nBye.")]) as endpoint:
        first = model(endpoint.url, session, extract=CHOICE)
        second = model(endpoint.url, session, extract={"line": "last"})
        texts = [(await answered(one)).answer for one in (first, second)]
    session.close()
    assert len(endpoint.requests) == 1
    assert texts == ["B", "Bye."]
    assert len({first.identity, second.identity, model(endpoint.url).identity}) == 3


async def test_a_search_that_takes_too_long_is_an_error_that_names_the_key() -> None:
    async with Endpoint([reply("a" * 60 + "!")]) as endpoint:
        answer = await answered(model(endpoint.url, extract={"pattern": "(a|a)*$"}))
    assert (answer.status, answer.error_type) == ("error", "extract")
    assert str(answer.error).startswith("target.extract: the pattern takes too long")


@pytest.mark.parametrize(
    ("body", "keys"),
    [
        (f"<think>{THOUGHT}</think>Eight.", {}),
        ({"answer": f"<think>{THOUGHT}</think>Eight.", "finish_reason": "max_tokens"}, {}),
        ({"answer": "Eight.", "reasoning": THOUGHT, "done": "length"}, {"finish_reason": "$.done"}),
        (
            {"content": [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": "Eight."}]},
            {"answer": "$.content"},
        ),
    ],
)
async def test_a_service_likewise(body: Any, keys: dict[str, Any]) -> None:
    async with Endpoint([Json(value=body)]) as endpoint:
        answer = await answered(service(endpoint.url, **keys))
    assert (answer.answer, answer.thoughts) == EIGHT
    assert answer.finish_reason == ("length" if "finish_reason" in str(body) or keys.get("finish_reason") else None)


async def test_a_reply_of_a_service_without_an_answer_still_says_why_it_ended() -> None:
    async with Endpoint([Json(value={"answer": None, "finish_reason": "MAX_TOKENS"})]) as endpoint:
        answer = await answered(service(endpoint.url))
    assert (answer.status, answer.error_type, answer.finish_reason) == ("error", "malformed", "length")


async def test_an_agent_neither_sees_nor_answers_with_its_thoughts(tmp_path: Path) -> None:
    config = AgentTargetConfig.model_validate(
        {
            "kind": "agent",
            "model": "m",
            "api_key_env": None,
            "extract": CHOICE,
            "tools": {"look": {"argv": ["echo", "B is open"]}},
        }
    )
    script = [
        calls(("look", {}), text="<think>Better look.</think>Looking."),
        reply("<think>So B.</think>CHOICE: B", as_text=True),
    ]
    async with Endpoint(script) as endpoint:
        config = config.model_copy(update={"base_url": endpoint.url})
        answer = await answered(AgentTarget(config, "bot", Prompts(()), {"d": Form()}))
        sent = endpoint.requests[1].body["messages"][1]
    assert (sent["content"], "thoughts" in sent) == ("Looking.", False)
    assert (answer.answer, answer.full_answer, answer.thoughts) == ("B", "CHOICE: B", "So B.")
    steps: Any = answer.actual
    assert steps[0]["thoughts"] == "Better look."


Make = Callable[[AnswerStep], Target]
RECORDED: list[Make] = [
    lambda step: RecordedTarget("recorded", FORMS, step),
    lambda step: MissingTarget(RecordedTarget("never asked"), FORMS, step),
]


@pytest.mark.parametrize("make", RECORDED)
async def test_recorded_answers_likewise(make: Make) -> None:
    text = f"<think>{THOUGHT}</think>CHOICE: B"
    recorded = case(answer=text, vars={"finish_reason": "MAX_TOKENS"})
    answer = await make(AnswerStep()).answer(recorded, 0)
    assert (answer.answer, answer.thoughts, answer.finish_reason) == ("CHOICE: B", THOUGHT, "length")
    step = AnswerStep(extract=Extraction.model_validate(CHOICE))
    answer = await make(step).answer(recorded, 0)
    assert (answer.answer, answer.full_answer, answer.recorded) == ("B", "CHOICE: B", True)
    answer = await make(AnswerStep("keep")).answer(recorded, 0)
    assert (answer.answer, answer.thoughts) == (text, None)


async def test_recorded_predictions_that_are_no_text_stay_as_they_are() -> None:
    for actual in (True, 7, ["a"], {"a": "<think>x</think>b"}):
        answer = await RecordedTarget("recorded", FORMS, AnswerStep()).answer(case("labels", actual=actual), 0)
        assert (answer.actual, answer.extracted) == (actual, None)


def test_a_step_is_part_of_an_identity_only_if_declared() -> None:
    assert AnswerStep().identity("x") == "x"
    keys = [CHOICE, {"line": "last"}, {"path": "$.a"}]
    steps = [AnswerStep("keep"), *(AnswerStep(extract=Extraction.model_validate(one)) for one in keys)]
    assert len({json.dumps(step.identity("x")) for step in steps}) == 4


async def test_the_whole_answer_is_sent_back_in_a_conversation_and_a_cut_off_turn_marks_it() -> None:
    turns = (
        Message("user", "When?"),
        Message("assistant", "<think>Hm.</think>Soon."),
        Message("user", "A or B?"),
        Message("user", "Sure?"),
    )
    script = [reply("Both fit.\nCHOICE: B", finish_reason="length"), reply("Yes.\nCHOICE: B")]
    async with Endpoint(script) as endpoint:
        answer = await answered(ConversationTarget(model(endpoint.url, extract=CHOICE)), case(messages=turns))
        sent = [one["content"] for one in endpoint.requests[1].body["messages"]]
    assert sent == ["When?", "Soon.", "A or B?", "Both fit.\nCHOICE: B", "Sure?"]
    assert (answer.answer, answer.finish_reason) == ("B", "length")


async def test_earlier_turns_and_an_answer_beside_a_prediction_are_read_without_thoughts() -> None:
    turns = (Message("assistant", "<think>Hm.</think>Soon."), Message("user", "When?"))
    recorded = case("labels", messages=turns, answer="<think>x</think>At eight.", actual="late")
    answer = await RecordedTarget("recorded", FORMS, AnswerStep()).answer(recorded, 0)
    assert (answer.messages[0].content, answer.answer, answer.thoughts) == ("Soon.", "At eight.", "x")
    assert answer.actual == "late"
    kept = await RecordedTarget("recorded", FORMS, AnswerStep("keep")).answer(recorded, 0)
    assert kept.messages is turns
