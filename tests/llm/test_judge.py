from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.errors import JudgeError, UserError
from evalflow.llm.judge import OpenAIJudge
from evalflow.metrics.returns import Returns, reply_model
from evalflow.notes import NOTE
from evalflow.records import Ask, Message, Usage
from evalflow.testing import Endpoint, Request, auto, malformed, numbered_results, refusal, reply, status
from evalflow.testing.replies import Computed
from tests.llm.conftest import Build

pytestmark = pytest.mark.anyio
PRICE = {"input_per_million": 1.0, "output_per_million": 10.0}


class Verdict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reason: str
    verdict: Literal["yes", "no"]
    grade: int = Field(ge=1, le=5)


RETURNS = TypeAdapter(Returns).validate_python(
    {
        "reason": "str",
        "verdict": {"type": "label", "labels": ["yes", "no"]},
        "grade": {"type": "int", "min": 1, "max": 5},
    }
)
Verdicts = reply_model("verdicts", RETURNS, one_per=True)
ASK = Ask(metric="m", step="s", task=None, messages=(Message("user", "Is it so?"),), reply_model=Verdict, variables={})
GOOD = {"reason": "because", "verdict": "yes", "grade": 4}


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json", "md_json"])
async def test_every_mode_gives_a_typed_reply(mode: str, build: Build) -> None:
    async with Endpoint([reply(GOOD, usage=(100, 10))]) as endpoint:
        got = await build(endpoint.url, mode=mode, price=PRICE).ask(ASK)
    assert got.parsed == Verdict(**GOOD)
    assert '"because"' in got.raw
    assert (got.reasks, got.usage, got.cost_usd) == (0, Usage(100, 10), pytest.approx(0.0002))
    assert got.latency_s is not None
    assert got.latency_s > 0
    sent = endpoint.requests[0]
    assert sent.body["model"] == "m"
    assert sent.body["temperature"] == 0.0
    assert "Is it so?" in sent.user
    assert sent.schema is not None
    assert sent.schema["properties"]["grade"]["maximum"] == 5


@pytest.mark.parametrize("mode", ["json_schema", "tools", "json", "md_json"])
async def test_an_invalid_reply_is_asked_again_with_the_complaint_and_counted(mode: str, build: Build) -> None:
    bad = reply({**GOOD, "grade": 9}, usage=(100, 10))
    async with Endpoint([bad, reply(GOOD, usage=(150, 20))]) as endpoint:
        got = await build(endpoint.url, mode=mode, price=PRICE).ask(ASK)
    assert (got.reasks, got.usage, got.cost_usd) == (1, Usage(250, 30), pytest.approx(0.00055))
    assert "less than or equal to 5" in endpoint.requests[1].text


async def test_after_the_last_reask_the_raw_reply_is_kept_and_what_was_paid_is_said(build: Build) -> None:
    bad = reply({**GOOD, "grade": 9}, usage=(100, 10))
    async with Endpoint([bad] * 3) as endpoint:
        with pytest.raises(JudgeError, match="no valid reply in 3 replies; the last: grade:") as failed:
            await build(endpoint.url, reasks=2, price=PRICE).ask(ASK)
    error = failed.value
    assert error.error_type == "schema"
    assert '"grade": 9' in (error.raw or "")
    assert error.spend
    assert (error.spend.requests, error.spend.usage, error.spend.cost_usd) == (3, Usage(300, 30), pytest.approx(0.0006))


async def test_no_reasks_means_none(build: Build) -> None:
    async with Endpoint([malformed()]) as endpoint:
        with pytest.raises(JudgeError, match="no valid reply in 1 reply"):
            await build(endpoint.url, reasks=0).ask(ASK)


async def test_a_wrong_number_of_results_is_asked_again_never_taken(build: Build) -> None:
    ask = replace(ASK, reply_model=Verdicts, items=("a", "b", "c"))
    async with Endpoint([numbered_results([GOOD]), numbered_results([GOOD] * 3)]) as endpoint:
        got = await build(endpoint.url).ask(ask)
    assert len(got.parsed.results) == 3  # pyright: ignore[reportAttributeAccessIssue]
    assert got.reasks == 1
    assert (
        "results: no result for item 2, 3; give exactly one result for each of the numbers 1 to 3"
        in endpoint.requests[1].text
    )


async def test_blank_items_are_asked_again(build: Build) -> None:
    returns = TypeAdapter(Returns).validate_python({"claims": {"type": "list", "items": "str"}})
    ask = replace(ASK, reply_model=reply_model("claims", returns, one_per=False))
    async with Endpoint([{"claims": ["", "", " "]}, {"claims": ["The sky is blue."]}]) as endpoint:
        got = await build(endpoint.url).ask(ask)
    assert (got.parsed.model_dump(), got.reasks) == ({"claims": ["The sky is blue."]}, 1)
    assert "claims.0: an item must not be blank; leave it out" in endpoint.requests[1].text


async def test_the_contract_is_prepared_once_per_reply_model(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Endpoint(lambda _: GOOD) as endpoint:
        judge = build(endpoint.url)
        await judge.ask(ASK)
        monkeypatch.setattr("evalflow.llm.judge.Contract", None)
        assert (await judge.ask(ASK)).parsed == Verdict(**GOOD)


async def test_a_refusal_is_no_score_and_is_not_asked_again(build: Build) -> None:
    async with Endpoint([refusal("I cannot judge this.")]) as endpoint:
        with pytest.raises(JudgeError, match=r"I cannot judge this\.") as failed:
            await build(endpoint.url).ask(ASK)
    assert failed.value.error_type == "refused"
    assert failed.value.raw == "I cannot judge this."


async def test_a_filtered_reply_is_refused(build: Build) -> None:
    async with Endpoint([reply("", finish_reason="content_filter")]) as endpoint:
        with pytest.raises(JudgeError) as failed:
            await build(endpoint.url).ask(ASK)
    assert failed.value.error_type == "refused"


async def test_a_reply_that_was_cut_off_is_not_paid_for_twice(build: Build) -> None:
    async with Endpoint([reply('{"reason": "be', finish_reason="length")]) as endpoint:
        with pytest.raises(JudgeError, match="cut off") as failed:
            await build(endpoint.url).ask(ASK)
    assert failed.value.error_type == "truncated"
    assert failed.value.raw == '{"reason": "be'


async def test_a_whole_reply_counts_even_if_it_reached_the_limit(build: Build) -> None:
    async with Endpoint([reply(GOOD, finish_reason="length")]) as endpoint:
        assert (await build(endpoint.url).ask(ASK)).parsed == Verdict(**GOOD)


async def test_a_fault_during_a_reask_says_what_was_sent_and_paid_before(build: Build) -> None:
    async with Endpoint([reply("no", usage=(7, 1)), *[status(500)] * 3]) as endpoint:
        with pytest.raises(JudgeError) as failed:
            await build(endpoint.url).ask(ASK)
    error = failed.value
    assert error.spend
    assert (error.error_type, error.spend.requests, error.spend.usage) == ("server", 2, Usage(7, 1))
    assert error.spend.cost_usd is None


async def test_unknown_usage_and_price_stay_unknown(build: Build) -> None:
    async with Endpoint([reply(GOOD, usage=None), reply(GOOD)]) as endpoint:
        judge = build(endpoint.url)
        first, second = await judge.ask(ASK), await judge.ask(ASK)
    assert (first.usage, first.cost_usd) == (None, None)
    assert second.usage is not None
    assert second.cost_usd is None


async def test_what_is_null_is_left_out_and_max_tokens_is_sent(build: Build) -> None:
    async with Endpoint() as endpoint:
        await build(endpoint.url, temperature=None, max_tokens=50).ask(ASK)
    assert endpoint.requests[0].body["max_tokens"] == 50
    assert "temperature" not in endpoint.requests[0].body


def ignoring_n(content: object, **keys: Any) -> Computed:
    """One choice, whatever `n` is, as endpoints give that do not know it."""
    return Computed(make=lambda got: reply(content, **keys).body(replace(got, body={**got.body, "n": 1})))


async def test_samples_come_with_one_request_and_become_frequencies(build: Build) -> None:
    each = [{**GOOD, "grade": grade} for grade in (4, 5, 4, 4)]
    async with Endpoint([reply(*each, usage=(10, 4))]) as endpoint:
        got = await build(endpoint.url, price=PRICE).ask(replace(ASK, samples=4))
    assert [request.body["n"] for request in endpoint.requests] == [4]
    assert (got.samples, got.requests, got.usage, got.cost_usd) == (4, 1, Usage(10, 4), pytest.approx(50e-6))
    assert got.probabilities is not None
    assert got.probabilities[0] == {"verdict": {"yes": 1.0}, "grade": {4: 0.75, 5: 0.25}}
    assert got.parsed.grade == 4  # pyright: ignore[reportAttributeAccessIssue]


async def test_where_one_request_gives_one_sample_the_others_are_drawn_one_by_one(build: Build) -> None:
    grades = iter([4, 5, 4, 4, 1, 1])
    async with Endpoint(lambda _: ignoring_n({**GOOD, "grade": next(grades)}, usage=(10, 1))) as endpoint:
        judge = build(endpoint.url)
        got = await judge.ask(replace(ASK, samples=4))
        await judge.ask(replace(ASK, samples=2, repeat=1))
    assert [request.body.get("n") for request in endpoint.requests] == [4, None, None, None, None, None]
    assert (got.samples, got.usage) == (4, Usage(40, 4))
    assert got.probabilities is not None
    assert got.probabilities[0]["grade"] == {4: 0.75, 5: 0.25}


async def test_where_several_replies_are_refused_each_is_asked_for(build: Build) -> None:
    async with Endpoint(lambda got: status(400) if "n" in got.body else reply(GOOD)) as endpoint:
        judge = build(endpoint.url)
        assert (await judge.ask(replace(ASK, samples=3))).samples == 3
        assert endpoint.count == 4
        assert (await judge.ask(replace(ASK, samples=3, repeat=1))).samples == 3
    assert endpoint.count == 7


async def test_an_invalid_sample_is_drawn_again_by_itself(build: Build) -> None:
    async with Endpoint([reply(GOOD, "no", usage=(10, 2)), reply(GOOD, usage=(10, 1))]) as endpoint:
        got = await build(endpoint.url).ask(replace(ASK, samples=2))
    assert (got.samples, got.failed, got.requests, got.usage) == (2, 0, 2, Usage(20, 3))


async def test_samples_are_drawn_warm_where_the_judge_is_cold_and_as_configured_elsewhere(build: Build) -> None:
    async with Endpoint(lambda _: reply(GOOD)) as endpoint:
        await build(endpoint.url).ask(replace(ASK, samples=2))
        await build(endpoint.url, temperature=0.3).ask(replace(ASK, samples=2))
        await build(endpoint.url, temperature=None).ask(replace(ASK, samples=2))
    assert [request.body.get("temperature") for request in endpoint.requests] == [1.0, 0.3, None]


async def test_no_samples_are_drawn_where_token_probabilities_come(build: Build) -> None:
    grades = {"4": {"4": 0.6, "5": 0.3, "The": 0.1}}
    async with Endpoint([reply(GOOD, alternatives=grades)]) as endpoint:
        got = await build(endpoint.url, logprobs=True).ask(replace(ASK, logprobs=True, samples=5))
    assert (got.samples, got.mass, got.requests) == (1, {"verdict": 1.0, "grade": pytest.approx(0.9)}, 1)
    assert endpoint.requests[0].body["temperature"] == 0.0


@pytest.mark.parametrize(("promised", "requests"), [(True, 2), (False, 1)])
async def test_samples_are_drawn_where_no_token_probabilities_can_be_read(
    promised: bool, requests: int, build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    # Half of the probability is on a token that could have become anything.
    open_ended = {token: {token: 0.5, "": 0.5} for token in ("yes", "4")}
    async with Endpoint(lambda _: reply(GOOD, usage=(10, 1), alternatives=open_ended)) as endpoint:
        judge = build(endpoint.url, logprobs=promised, price=PRICE)
        got = await judge.ask(replace(ASK, logprobs=True, samples=3))
        await judge.ask(replace(ASK, logprobs=True, samples=3, repeat=1))
    assert endpoint.count == 2 * requests
    assert (got.samples, got.mass, got.requests) == (3, None, requests)
    assert got.probabilities is not None
    assert got.probabilities[0]["grade"] == {4: 1.0}
    assert got.usage == Usage(10 * requests, requests)
    assert got.cost_usd == pytest.approx(requests * 20e-6)
    notes = [record.getMessage() for record in caplog.records if record.levelno == NOTE]
    said = "samples 3 replies and pays for each, in one request if the endpoint takes n=3, else in 3"
    assert len(notes) == 1
    assert said in notes[0]
    assert ("after one for the probabilities, which judge.logprobs=false saves" in notes[0]) == promised


async def test_a_call_of_a_tool_has_no_token_probabilities_which_is_noted(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    async with Endpoint(lambda _: reply(GOOD)) as endpoint:
        await build(endpoint.url, logprobs=True, mode="tools").ask(replace(ASK, logprobs=True, samples=3))
        await build(endpoint.url, logprobs=False, mode="tools").ask(replace(ASK, logprobs=True, samples=3))
    first, second = [record.getMessage() for record in caplog.records if record.levelno == NOTE]
    assert "judge.mode=tools; such a score samples 3 replies" in first
    assert "gives no token probabilities (judge.logprobs is false); such a score samples 3 replies" in second


async def test_a_grade_that_cannot_be_weighted_is_noted_too(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    async with Endpoint(lambda _: reply(GOOD, as_text=True)) as endpoint:
        judge = build(endpoint.url, logprobs=True, mode="json")
        open_ended = replace(ASK, logprobs=True)
        assert (await judge.ask(open_ended)).probabilities is not None
    assert not caplog.records
    bare = {"choices": [{"message": {"content": json.dumps(GOOD)}}]}
    async with Endpoint(lambda _: Computed(make=lambda _: bare)) as endpoint:
        judge = build(endpoint.url, logprobs=True, mode="json")
        for repeat in (0, 1):
            assert (await judge.ask(replace(open_ended, repeat=repeat))).probabilities is None
    [one] = [record for record in caplog.records if record.levelno == NOTE]
    assert "scores that would be weighted by them are not" in one.getMessage()


async def test_samples_of_a_list_become_frequencies_per_item(build: Build) -> None:
    ask = replace(ASK, reply_model=Verdicts, items=("a", "b"), samples=2)
    no = {**GOOD, "verdict": "no"}
    replies = iter([numbered_results([GOOD, no]), numbered_results([GOOD, GOOD])])
    async with Endpoint(lambda _: reply(*replies)) as endpoint:
        got = await build(endpoint.url).ask(ask)
    assert got.probabilities is not None
    assert [each["verdict"] for each in got.probabilities] == [{"yes": 1.0}, {"no": 0.5, "yes": 0.5}]


async def test_a_failed_sample_leaves_the_others_and_counts_what_it_took(build: Build) -> None:
    # One is refused, which is free, and one is answered with what is not a grade, which is paid.
    script = {3: status(400), 5: reply({"grade": "none"}, usage=(10, 1))}
    async with Endpoint(lambda request: script.get(request.number, ignoring_n(GOOD, usage=(10, 1)))) as endpoint:
        got = await build(endpoint.url, price=PRICE, reasks=0).ask(replace(ASK, samples=10))
    assert (got.samples, got.failed, got.requests, len(got.paid)) == (8, 2, 10, 8)
    assert (got.usage, got.cost_usd, got.cached) == (Usage(90, 9), pytest.approx(9 * 20e-6), False)
    assert got.probabilities is not None
    assert got.probabilities[0]["grade"] == {4: 1.0}


@pytest.mark.parametrize("promised", [False, True])
async def test_where_half_of_the_samples_fail_the_ask_fails_and_tells_what_all_took(
    build: Build, promised: bool
) -> None:
    open_ended = {token: {token: 0.5, "": 0.5} for token in ("yes", "4")}  # no probabilities can be read of these

    def script(request: Request) -> object:
        good = ignoring_n(GOOD, usage=(10, 1), alternatives=open_ended)
        return status(400) if request.number >= promised + 2 else good

    async with Endpoint(script) as endpoint:
        judge = build(endpoint.url, logprobs=promised, price=PRICE, concurrency={"start": 1, "max": 1})
        with pytest.raises(JudgeError) as failed:
            await judge.ask(replace(ASK, logprobs=promised, samples=4))
    error, paid = failed.value, 2 + promised
    assert error.spend
    assert (error.error_type, error.spend.requests, len(error.spend.paid)) == ("bad_request", paid + 2, paid)
    assert (error.spend.usage, error.spend.cost_usd) == (Usage(10 * paid, paid), pytest.approx(paid * 20e-6))
    assert str(error).startswith("2 of 4 samples failed; the first: HTTP 400")


async def test_logprobs_become_a_distribution(build: Build) -> None:
    grades = {"4": {"4": 0.6, "5": 0.3, "3": 0.1}, "yes": {"yes": 0.9, "no": 0.1}}
    async with Endpoint([reply(GOOD, alternatives=grades)]) as endpoint:
        got = await build(endpoint.url, logprobs=True).ask(replace(ASK, logprobs=True))
    assert got.probabilities is not None
    assert got.probabilities[0]["grade"] == pytest.approx({4: 0.6, 5: 0.3, 3: 0.1})
    assert got.probabilities[0]["verdict"] == pytest.approx({"yes": 0.9, "no": 0.1})


@pytest.mark.parametrize("keys", [{"logprobs": False}, {"logprobs": True, "mode": "tools"}])
async def test_no_logprobs_are_asked_for_where_there_are_none(keys: dict[str, Any], build: Build) -> None:
    async with Endpoint() as endpoint:
        got = await build(endpoint.url, **keys).ask(replace(ASK, logprobs=True))
    assert got.probabilities is None
    assert "logprobs" not in endpoint.requests[0].body


def _judge(**keys: Any) -> OpenAIJudge:
    return OpenAIJudge(
        OpenAIJudgeConfig.model_validate({"kind": "openai", "model": "m", "api_key_env": None, **keys}), "n"
    )


def test_the_identity_changes_with_what_decides_replies_only() -> None:
    same = [
        _judge(),
        _judge(name="x"),
        _judge(timeout_s=1),
        _judge(attempts=9),
        _judge(price=PRICE),
        _judge(thresholds={"a": 1}),
    ]
    assert len({judge.info.identity for judge in same}) == 1
    other = [
        _judge(model="o"),
        _judge(base_url="http://127.0.0.1/v1"),
        _judge(mode="tools"),
        _judge(temperature=1.0),
        _judge(max_tokens=9),
        _judge(strict=True),
    ]
    assert len({judge.info.identity for judge in [same[0], *other]}) == 7


def test_it_says_what_it_is() -> None:
    judge = _judge(calibrated=False)
    assert (judge.info.name, judge.info.nature, judge.info.calibrated, judge.info.weighted, judge.info.tasks) == (
        "n",
        "LLM m",
        False,
        False,
        None,
    )


def test_strict_without_a_schema_that_is_enforced_is_refused() -> None:
    with pytest.raises(UserError, match="strict has no effect in mode md_json"):
        _judge(mode="md_json", strict=True)


async def test_calls_in_flight_are_bounded(build: Build) -> None:
    import asyncio

    def slowly(_: Request) -> Any:
        return auto().after(0.01)

    async with Endpoint(slowly) as endpoint:
        judge = build(endpoint.url, concurrency={"start": 2, "max": 5})
        async with asyncio.TaskGroup() as group:
            for repeat in range(40):
                group.create_task(judge.ask(replace(ASK, repeat=repeat)))
    assert endpoint.count == 40
    assert 2 < endpoint.in_flight_max <= 5


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (["The pool opens."], r"the reply \(step s\) was cut off after 1 claims at the model's .* allows more$"),
        (
            ["The pool opens."] * 40,
            "after 40 claims, 1 of them different, at the .*; it repeats itself, so ask another",
        ),
        ([], "was cut off at the model's or judge.max_tokens' limit"),
    ],
)
async def test_a_list_that_was_cut_off_says_how_far_it_came(build: Build, listed: list[str], said: str) -> None:
    returns = TypeAdapter(Returns).validate_python({"claims": {"type": "list", "items": "str"}})
    ask = replace(ASK, reply_model=reply_model("claims", returns, one_per=False))
    text = json.dumps({"claims": [*listed, "The po"]})[:-3]
    async with Endpoint([reply(text, finish_reason="length")]) as endpoint:
        with pytest.raises(JudgeError, match=said) as failed:
            await build(endpoint.url).ask(ask)
    assert failed.value.error_type == "truncated"


async def test_what_the_providers_cache_saved_is_read_and_priced(build: Build) -> None:
    async with Endpoint([reply(GOOD, usage=(1000, 10), cached_tokens=800), reply(GOOD, usage=(1000, 10))]) as endpoint:
        judge = build(endpoint.url, price={**PRICE, "cached_input_per_million": 0.25})
        cached, other = await judge.ask(ASK), await judge.ask(replace(ASK, repeat=1))
    assert cached.usage is not None
    assert other.usage is not None
    assert (cached.usage.provider_cached, cached.usage.provider_saved_usd) == (800, pytest.approx(0.6e-3))
    assert cached.cost_usd == pytest.approx(0.5e-3)
    assert (other.usage.provider_cached, other.usage.provider_saved_usd) == (None, None)
    assert other.cost_usd == pytest.approx(1.1e-3)
    assert (cached.usage + other.usage).provider_cached == 800


async def test_tokens_from_the_cache_without_a_price_of_their_own_cost_as_others(build: Build) -> None:
    async with Endpoint([reply(GOOD, usage=(1000, 10), cached_tokens=800)]) as endpoint:
        got = await build(endpoint.url, price=PRICE).ask(ASK)
    assert (got.usage, got.cost_usd) == (Usage(1000, 10, 800), pytest.approx(1.1e-3))
