from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalflow.calls.client import RetryPolicy
from evalflow.config.targets import OpenAITargetConfig
from evalflow.datasets import read_messages
from evalflow.errors import CallError, InfrastructureError, UserError
from evalflow.llm.chat import ChatClient
from evalflow.prompts import Prompts
from evalflow.records import Case, Context, Message, Spend, Usage
from evalflow.targets.openai import OpenAITarget, scalar
from evalflow.targets.recorded import MissingTarget
from evalflow.targets.reply import Form
from evalflow.testing import Endpoint, calls, html, refusal, reply, status

pytestmark = pytest.mark.anyio
QUICK = RetryPolicy(attempts=2, base_s=0.01, cap_s=0.02)
ROUTES = Form("actual", {"actual": {"outcome": "actual_outcome", "confidence": "confidence_score"}})
FORMS = {"d": Form("answer"), "guard": Form("actual"), "routes": ROUTES}
Build = Callable[..., OpenAITarget]
CASE = Case(
    dataset="d",
    index=0,
    id="c",
    messages=(Message("user", "Hi"), Message("assistant", "Hello!"), Message("user", "Why?")),
    reference="SECRET",
    expected="SECRET",
    answer="SECRET",
    contexts=(Context("The sky scatters light.", title="Sky"),),
    metadata={"channel": "web"},
    vars={"tone": "kind"},
)


@pytest.fixture
async def build(tmp_path: Path) -> AsyncIterator[Build]:
    (tmp_path / "bot.jinja").write_text("You are {{ vars.tone }}.")
    targets: list[OpenAITarget] = []

    def make(base_url: str = "http://127.0.0.1:9/v1", **keys: Any) -> OpenAITarget:
        values = {"kind": "openai", "model": "m", "base_url": base_url, "api_key_env": None, **keys}
        config = OpenAITargetConfig.model_validate(values)
        client = ChatClient(config, "target", policy=QUICK)
        targets.append(OpenAITarget(config, "bot", Prompts([tmp_path]), FORMS, client=client))
        return targets[-1]

    yield make
    for target in targets:
        await target.close()


async def test_sends_the_conversation_and_gives_the_reply_as_the_answer(build: Build) -> None:
    async with Endpoint([reply("Because.", usage=(10, 2))]) as endpoint:
        target = build(endpoint.url, price={"input_per_million": 1, "output_per_million": 10})
        answer = await target.answer(CASE, 1)
    assert [m["content"] for m in endpoint.requests[0].body["messages"]] == ["Hi", "Hello!", "Why?"]
    assert (answer.status, answer.answer, answer.target, answer.target_repeat) == ("answered", "Because.", "bot", 1)
    assert (answer.messages, answer.usage, answer.cost_usd) == (CASE.messages, Usage(10, 2), pytest.approx(3e-5))
    assert answer.latency_s is not None
    assert (answer.contexts, answer.metadata, answer.actual) == (None, None, None)


async def test_templates_see_what_is_asked_and_never_what_is_expected(build: Build) -> None:
    prompt = "{{ question }} {{ history|length }} {{ messages|length }} {{ contexts[0].text }} {{ metadata.channel }}"
    async with Endpoint() as endpoint:
        await build(endpoint.url, system_prompt="bot.jinja", prompt=prompt).answer(CASE, 0)
    sent = endpoint.requests[0].body["messages"]
    assert sent[0] == {"role": "system", "content": "You are kind."}
    assert [m["content"] for m in sent[1:]] == ["Hi", "Hello!", "Why? 2 3 The sky scatters light. web"]
    assert "SECRET" not in str(sent)


@pytest.mark.parametrize("name", ["reference", "expected", "answer", "actual", "demo_answer", "nonsense"])
@pytest.mark.parametrize("key", ["prompt", "system_prompt"])
async def test_a_template_that_uses_more_is_refused_before_the_run(name: str, key: str, build: Build) -> None:
    with pytest.raises(UserError, match=f"uses '{name}', which a target does not get") as failed:
        build(**{key: f"{{{{ {name} }}}} {{{{ question }}}}"})
    assert failed.value.problems[0].where == f"target.{key}"


async def test_a_template_that_is_missing_or_broken_is_refused_before_the_run(build: Build) -> None:
    with pytest.raises(UserError, match=r"nobot\.jinja"):
        build(system_prompt="nobot.jinja")
    with pytest.raises(UserError, match=r"target\.prompt"):
        build(prompt="{{ question")


async def test_a_failed_generation_is_an_answer_in_state_error(build: Build) -> None:
    async with Endpoint([status(500), status(500), status(400, message="too long"), "Because."]) as endpoint:
        target = build(endpoint.url)
        first, second, third = [await target.answer(CASE, 0) for _ in range(3)]
    assert (first.status, first.error_type, first.answer) == ("error", "server", None)
    assert "after 2 tries" in (first.error or "")
    assert (second.status, second.error_type) == ("error", "bad_request")
    assert third.status == "answered"


async def test_an_answer_says_how_many_requests_it_took(build: Build) -> None:
    async with Endpoint(["Because.", ""]) as endpoint:
        target = build(endpoint.url)
        said, empty = [await target.answer(CASE, 0) for _ in range(2)]
        unrendered = await build(endpoint.url, prompt="{{ vars.color }}").answer(CASE, 0)
    assert (said.requests, empty.requests, unrendered.requests) == (1, 1, 0)
    assert (empty.status, unrendered.status, unrendered.latency_s) == ("error", "error", None)


async def test_a_call_that_fails_was_a_request_and_a_refused_one_is_free(build: Build) -> None:
    async with Endpoint(["Because.", status(400), status(500), status(500), html(), html()]) as endpoint:
        target = build(endpoint.url, price={"input_per_million": 1.0, "output_per_million": 1.0})
        _, refused, broken, unheard = [await target.answer(CASE, 0) for _ in range(4)]
    assert [answer.error_type for answer in (refused, broken, unheard)] == ["bad_request", "server", "malformed"]
    assert [answer.requests for answer in (refused, broken, unheard)] == [1, 1, 1]
    assert [answer.cost_usd for answer in (refused, broken, unheard)] == [0.0, 0.0, None]
    assert refused.latency_s


class Failing(ChatClient):
    """Its calls fail after replies that were paid for."""

    async def complete(self, body: Any, kind: str = "") -> Any:
        raise CallError(
            "malformed", "not JSON", spend=Spend(requests=2, usage=Usage(10, 3), cost_usd=0.5, latency_s=1.5)
        )


async def test_a_failed_generation_keeps_what_it_took(tmp_path: Path) -> None:
    config = OpenAITargetConfig(kind="openai", model="m", base_url="http://127.0.0.1:9/v1", api_key_env=None)
    target = OpenAITarget(config, "bot", Prompts([tmp_path]), FORMS, client=Failing(config, "target"))
    answer = await target.answer(CASE, 0)
    await target.close()
    assert (answer.status, answer.error_type) == ("error", "malformed")
    assert (answer.requests, answer.usage, answer.cost_usd, answer.latency_s) == (2, Usage(10, 3), 0.5, 1.5)


async def test_what_every_call_would_meet_is_raised(build: Build) -> None:
    async with Endpoint([status(401)]) as endpoint:
        with pytest.raises(InfrastructureError):
            await build(endpoint.url).answer(CASE, 0)


async def test_a_template_that_one_case_cannot_fill_fails_that_case_only(build: Build) -> None:
    async with Endpoint() as endpoint:
        answer = await build(endpoint.url, prompt="{{ vars.color }}").answer(CASE, 0)
    assert (answer.status, answer.error_type) == ("error", "prompt")
    assert endpoint.count == 0


async def test_a_case_with_nothing_to_send_is_an_error(build: Build) -> None:
    answer = await build().answer(Case(dataset="d", index=0, id="c"), 0)
    assert (answer.status, answer.error_type) == ("error", "no_question")


async def test_a_refusal_is_an_answer_and_an_empty_or_filtered_reply_is_none(build: Build) -> None:
    async with Endpoint([refusal("I will not."), "", reply("x", finish_reason="content_filter")]) as endpoint:
        target = build(endpoint.url)
        said, empty, filtered = [await target.answer(CASE, 0) for _ in range(3)]
    assert (said.status, said.answer) == ("answered", "I will not.")
    assert (empty.status, empty.error_type) == ("error", "empty")
    assert (filtered.status, filtered.error_type, filtered.answer) == ("error", "refused", None)
    assert empty.usage is not None


async def test_a_reply_that_only_calls_tools_names_them(build: Build) -> None:
    async with Endpoint([calls(("weather", {"city": "Oslo"}))]) as endpoint:
        answer = await build(endpoint.url).answer(CASE, 0)
    assert (answer.status, answer.error_type) == ("error", "empty")
    assert "it calls weather: a target of the kind agent has tools that answer" in str(answer.error)


async def test_a_reply_may_be_the_prediction(build: Build) -> None:
    async with Endpoint(["True"]) as endpoint:
        answer = await build(endpoint.url).answer(Case(dataset="guard", index=0, id="c", messages=CASE.messages), 0)
    assert (answer.actual, answer.answer) == (True, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        (" False\n", False),
        ("1", 1),
        ("0.5", 0.5),
        ("250.10", "250.10"),
        ("3.0", "3.0"),
        ("1e5", "1e5"),
        ('"jailbreak"', "jailbreak"),
        ("jailbreak", "jailbreak"),
        ("null", "null"),
        ("[1]", "[1]"),
        ("It is true.", "It is true."),
    ],
)
def test_a_prediction_is_read_as_a_json_scalar_where_it_is_one(text: str, value: Any) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


async def test_the_identity_changes_with_what_decides_answers_only(build: Build, tmp_path: Path) -> None:
    first = build(system_prompt="bot.jinja").identity
    assert build(system_prompt="bot.jinja", timeout_s=5, attempts=1, name="other").identity == first
    assert build(system_prompt="bot.jinja", model="o").identity != first
    assert build(system_prompt="bot.jinja", prompt="{{ question }}!").identity != first
    (tmp_path / "bot.jinja").write_text("You are {{ vars.tone }}!")
    assert build(system_prompt="bot.jinja").identity != first


async def test_missing_asks_only_for_what_the_data_lack(build: Build) -> None:
    async with Endpoint(["New."]) as endpoint:
        target = MissingTarget(build(endpoint.url), FORMS)
        old = await target.answer(CASE, 0)
        new = await target.answer(Case(dataset="d", index=1, id="e", messages=CASE.messages), 0)
    assert (old.answer, new.answer) == ("SECRET", "New.")
    assert old.target == new.target == target.name == "recorded+bot"
    assert endpoint.count == 1


def test_an_answer_that_looks_like_json_nested_without_end_is_text() -> None:
    text = "[" * 100_000
    assert scalar(text) == text


@pytest.mark.parametrize(
    ("text", "prediction"),
    [
        ('{"outcome": "greetings", "confidence": 0.9}', {"outcome": "greetings", "confidence": 0.9}),
        ('```json\n{"outcome": "greetings"}\n```', {"outcome": "greetings"}),
        ('{"actual_outcome": "greetings", "confidence_score": 0.9}', {"outcome": "greetings", "confidence": 0.9}),
    ],
)
async def test_a_prediction_of_several_parts_is_a_json_object(build: Build, text: str, prediction: Any) -> None:
    async with Endpoint([reply(text)]) as endpoint:
        answer = await build(endpoint.url).answer(replace(CASE, dataset="routes"), 0)
    assert (answer.status, answer.actual, answer.answer) == ("answered", prediction, None)


async def test_a_prediction_without_its_parts_is_an_error(build: Build) -> None:
    async with Endpoint([reply("greetings")]) as endpoint:
        answer = await build(endpoint.url).answer(replace(CASE, dataset="routes"), 0)
    assert (answer.status, answer.error_type, answer.requests) == ("error", "malformed", 1)
    assert answer.error == "actual: expected an object with outcome, confidence, got text: greetings"


TOOL_TURNS: list[Any] = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "Rain?"}, {"type": "input_image", "image_url": "http://a/b"}],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "12 mm"},
]


async def test_calls_of_tools_their_results_and_images_are_sent_as_chat_completions_take_them(build: Build) -> None:
    case = replace(CASE, messages=read_messages([*TOOL_TURNS, {"role": "user", "content": "And tomorrow?"}]))
    async with Endpoint() as endpoint:
        await build(endpoint.url).answer(case, 0)
    asked, called, result, last = endpoint.requests[0].body["messages"]
    assert asked["content"][1] == {"type": "image_url", "image_url": {"url": "http://a/b"}}
    assert [called, result] == TOOL_TURNS[1:]
    assert last == {"role": "user", "content": "And tomorrow?"}
