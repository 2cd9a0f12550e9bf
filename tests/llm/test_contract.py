"""Contracts send what Instructor sends. If an upgrade breaks this, change `evalflow.llm.contract`."""

from __future__ import annotations

from typing import Any, Literal, get_args

import instructor
import pytest
from openai.types.chat import ChatCompletion
from pydantic import BaseModel, ConfigDict, Field

from evalflow.llm.chat import ChatToolCall, Completion
from evalflow.llm.contract import Contract, ReplyMode
from evalflow.llm.reader import InvalidReply
from evalflow.records import Message

MODES: tuple[ReplyMode, ...] = get_args(ReplyMode)
PROMPTS = {
    "user": (Message("user", "Is it so?"),),
    "system, user": (Message("system", "You judge."), Message("user", "Is it so?")),
    "conversation": (
        Message("system", "You judge."),
        Message("user", "Hello"),
        Message("assistant", "Hello!"),
        Message("user", "{} %s \\ \x00 ```json"),
    ),
}


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reason: str
    verdict: Literal["yes", "no"]
    grade: int = Field(ge=1, le=5)


GOOD = '{"reason": "r", "verdict": "no", "grade": 4}'


def a_reply(mode: ReplyMode, text: str) -> Completion:
    if mode == "tools":
        return Completion(text=None, tool_calls=(ChatToolCall("call_1", "Verdict", text),))
    return Completion(text=f"Here you are:\n```json\n{text}\n```" if mode == "md_json" else text)


def sent_by_instructor(mode: ReplyMode, prompt: str, *replies: Completion) -> list[dict[str, Any]]:
    """The requests that Instructor's client sends to a model that gives these replies."""
    requests: list[dict[str, Any]] = []

    def create(**request: Any) -> ChatCompletion:
        requests.append({**request, "messages": list(request["messages"])})
        said = replies[len(requests) - 1]
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.tool_calls
        ]
        message = {"role": "assistant", "content": said.text, "tool_calls": calls or None}
        choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
        return ChatCompletion.model_validate(
            {"id": "", "object": "chat.completion", "created": 0, "model": "", "choices": [choice]}
        )

    ask: Any = instructor.patch(create=create, mode=instructor.Mode[mode.upper()])
    messages = [{"role": message.role, "content": message.content} for message in PROMPTS[prompt]]
    ask(response_model=Verdict, messages=messages, max_retries=len(replies))
    return requests


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("mode", MODES)
def test_a_request_is_the_one_that_instructor_sends_of_the_same_messages(mode: ReplyMode, prompt: str) -> None:
    (expected,) = sent_by_instructor(mode, prompt, a_reply(mode, GOOD))
    assert Contract(Verdict, mode).request(PROMPTS[prompt]) == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_reask_is_the_one_that_instructor_sends(mode: ReplyMode) -> None:
    wrong = a_reply(mode, GOOD.replace("no", "maybe"))
    _, expected = sent_by_instructor(mode, "conversation", wrong, a_reply(mode, GOOD))
    contract = Contract(Verdict, mode)
    again = contract.reask(contract.request(PROMPTS["conversation"]), wrong, InvalidReply("verdict: wrong label", ""))
    *before, complaint = again["messages"]
    *expected_before, expected_complaint = expected["messages"]
    assert before == expected_before
    begin, _, end = complaint["content"].partition("verdict: wrong label")
    assert begin
    assert expected_complaint["content"].startswith(begin)
    assert expected_complaint["content"].endswith(end)
    rest = {key: value for key, value in complaint.items() if key != "content"}
    assert rest == {key: value for key, value in expected_complaint.items() if key != "content"}


@pytest.mark.parametrize("mode", MODES)
def test_the_schema_is_sent_with_its_bounds_labels_and_order(mode: ReplyMode) -> None:
    sent = str(Contract(Verdict, mode).request(PROMPTS["user"]))
    assert "maximum" in sent
    assert "yes" in sent
    assert sent.index("reason") < sent.index("verdict") < sent.index("grade")


@pytest.mark.parametrize("mode", MODES)
def test_a_contract_is_not_changed_by_its_use(mode: ReplyMode) -> None:
    contract = Contract(Verdict, mode)
    first = contract.request(PROMPTS["system, user"])
    for prompt in PROMPTS.values():
        request = contract.request(prompt)
        contract.reask(request, a_reply(mode, "{}"), InvalidReply("wrong", "{}"))
    assert contract.request(PROMPTS["system, user"]) == first


@pytest.mark.parametrize("mode", MODES)
def test_a_good_reply_is_parsed(mode: ReplyMode) -> None:
    text = '{"reason": "r", "verdict": "no", "grade": 4}'
    found = Contract(Verdict, mode).parse(a_reply(mode, text))
    assert found.parsed == Verdict(reason="r", verdict="no", grade=4)
    assert text in found.raw


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"reason": "r", "verdict": "maybe", "grade": 4}', "verdict: Input should be 'yes' or 'no'"),
        ('{"reason": "r", "verdict": "no", "grade": 9}', "grade: Input should be less than or equal to 5"),
        ('{"reason": "r", "verdict": "no"}', "grade: Field required"),
        ('{"reason": "r", "verdict": "no", "grade": 0, "more": 1}', "more: Extra inputs are not permitted"),
        ("no idea", "reply: Invalid JSON"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_a_bad_reply_says_what_is_wrong_and_no_more(mode: ReplyMode, text: str, complaint: str) -> None:
    with pytest.raises(InvalidReply) as invalid:
        Contract(Verdict, mode).parse(a_reply(mode, text))
    assert complaint in str(invalid.value)
    assert "pydantic.dev" not in str(invalid.value)
    assert text in invalid.value.raw


@pytest.mark.parametrize("mode", MODES)
def test_a_reask_shows_the_reply_and_the_complaint_and_keeps_the_rest(mode: ReplyMode) -> None:
    contract = Contract(Verdict, mode)
    request = {**contract.request(PROMPTS["user"]), "logprobs": True}
    before = len(request["messages"])
    again = contract.reask(request, a_reply(mode, '{"verdict": "maybe"}'), InvalidReply("verdict: wrong label", ""))
    assert len(request["messages"]) == before
    assert again["messages"][:before] == request["messages"]
    assert again["logprobs"] is True
    said, complaint = again["messages"][before:]
    assert said["role"] == "assistant"
    assert "maybe" in str(said)
    assert "verdict: wrong label" in complaint["content"]
    assert complaint["role"] == ("tool" if mode == "tools" else "user")
    assert {k: v for k, v in again.items() if k != "messages"} == {k: v for k, v in request.items() if k != "messages"}


@pytest.mark.parametrize("calls", [0, 2])
def test_a_tool_must_be_called_exactly_once(calls: int) -> None:
    texts = [f'{{"reason": "", "verdict": "no", "grade": {grade}}}' for grade in range(1, calls + 1)]
    said = Completion(text="hm", tool_calls=tuple(ChatToolCall("c", "Verdict", text) for text in texts))
    contract = Contract(Verdict, "tools")
    with pytest.raises(InvalidReply, match=f"called {calls} times") as invalid:
        contract.parse(said)
    again = contract.reask(contract.request(PROMPTS["user"]), said, invalid.value)
    assert "exactly once" in str(again["messages"][-1])


@pytest.mark.parametrize(("mode", "where"), [("json_schema", "response_format"), ("tools", "tools")])
def test_strict_is_sent_where_the_endpoint_enforces_schemas(mode: ReplyMode, where: str) -> None:
    assert "'strict': True" in str(Contract(Verdict, mode, strict=True).request(PROMPTS["user"])[where])
    assert "strict" not in str(Contract(Verdict, mode).request(PROMPTS["user"]))
