"""What a run will send, by the cases it will send it for."""

from __future__ import annotations

import pytest

from evalflow.app.core.inspect import SAMPLE

ROWS = [{"id": str(i), "question": "Why is that so?", "answer": "It is.", "contexts": ["It is."]} for i in range(3)]
PRICE = {"input_per_million": 1.0, "output_per_million": 10.0}
CHECKED = ["exact_match"]


def estimate(lab, metric, *rows, **values):
    keys = values.pop("keys", {})
    return lab.inspect({"d": lab.data(*rows, **keys)}, metric, **values).estimate


def test_a_judge_that_sends_nothing_costs_nothing(lab):
    found = estimate(lab, ["faithfulness"], *ROWS)
    assert (found.requests, found.input_tokens_high, found.cost_usd_high) == (0, 0, 0.0)


def test_each_step_of_each_case_is_a_request(lab, llm):
    assert estimate(lab, ["faithfulness"], *ROWS, judge=llm).requests == 2 * 3
    assert estimate(lab, ["faithfulness"], *ROWS, judge=llm, repeats={"judge": 2}).requests == 2 * 3 * 2


def test_a_case_that_will_be_skipped_is_not_asked_about(lab, llm):
    rows = [ROWS[0], {"id": "x", "question": "Why?", "contexts": ["It is."]}]
    assert estimate(lab, ["faithfulness"], *rows, judge=llm).requests == 2


def test_generate_asks_the_target_for_every_case_and_repeat(lab, llm):
    rows = [{**row, "reference": "So."} for row in ROWS]
    found = estimate(lab, CHECKED, *rows, target=llm, generate=True, repeats={"target": 2})
    assert found.requests == 6


def test_a_thread_is_opened_once_for_each_conversation_and_each_turn_is_polled(lab):
    turns = [{"role": "user", "content": text} for text in ("Why?", "And then?")]
    rows = [{"id": "a", "question": "Why?", "reference": "So."}, {"id": "b", "messages": turns, "reference": "So."}]
    bot = {"kind": "http", "url": "http://127.0.0.1:9/{{ opened.id }}", "open": {"url": "/threads"}}
    assert estimate(lab, CHECKED, *rows, target=bot, generate=True, repeats={"target": 2}).requests == (2 + 3) * 2
    polled = {**bot, "poll": {"url": "/state", "until": {"$.done": True}}}
    assert estimate(lab, CHECKED, *rows, target=polled, generate=True).requests == 2 + 3 + 3


@pytest.mark.parametrize(("generates", "requests"), [("answer", 2), ("actual", 1)])
def test_missing_asks_for_the_field_that_the_dataset_generates(lab, llm, generates, requests):
    rows = [
        {"id": "1", "question": "a", "reference": "r", "expected": "r", "answer": "r", "actual": "r"},
        {"id": "2", "question": "a", "reference": "r", "expected": "r", "actual": "r"},
        {"id": "3", "question": "a", "reference": "r", "expected": "r", "answer": "r"},
        {"id": "4", "question": "a", "reference": "r", "expected": "r", "actual": "r"},
    ]
    found = estimate(lab, CHECKED, *rows, target=llm, generate="missing", keys={"generates": generates})
    assert found.requests == requests


def test_the_price_bounds_the_cost_and_no_price_leaves_it_unknown(lab, llm):
    known = estimate(lab, ["faithfulness"], *ROWS, judge={**llm, "price": PRICE})
    assert known.cost_usd_low == pytest.approx((known.input_tokens_low + 10 * known.output_tokens_low) / 1e6)
    assert known.cost_usd_high == pytest.approx((known.input_tokens_high + 10 * known.output_tokens_high) / 1e6)
    assert known.cost_usd_low < known.cost_usd_high
    unknown = estimate(lab, ["faithfulness"], *ROWS, judge=llm)
    assert (unknown.cost_usd_low, unknown.cost_usd_high) == (None, None)


def test_a_reply_is_never_longer_than_max_tokens(lab, llm):
    free = estimate(lab, ["faithfulness"], *ROWS, judge=llm)
    bounded = estimate(lab, ["faithfulness"], *ROWS, judge={**llm, "max_tokens": 20})
    assert free.output_tokens_high > 20 * free.requests
    assert bounded.output_tokens_high == 20 * bounded.requests
    assert bounded.output_tokens_low <= bounded.output_tokens_high


def test_more_cases_than_are_rendered_are_scaled_up(lab, llm):
    rows = [{**ROWS[0], "id": str(i)} for i in range(3 * SAMPLE)]
    whole, part = (
        estimate(lab, ["faithfulness"], *rows, judge=llm),
        estimate(lab, ["faithfulness"], *rows[:SAMPLE], judge=llm),
    )
    assert (whole.requests, whole.input_tokens_low) == (3 * part.requests, 3 * part.input_tokens_low)


def test_every_dataset_is_estimated_by_its_own_cases(lab, llm):
    short = [{**ROWS[0], "id": str(i)} for i in range(2 * SAMPLE)]
    long = [{**row, "answer": "It is. " * 400} for row in short]
    data = {"short": lab.data(*short, name="short.jsonl"), "long": lab.data(*long, name="long.jsonl")}
    alone = [lab.inspect({name: data[name]}, ["faithfulness"], judge=llm).estimate for name in data]
    both = lab.inspect(data, ["faithfulness"], judge=llm).estimate
    assert both.input_tokens_low == sum(one.input_tokens_low for one in alone)


def test_a_prompt_that_cannot_be_rendered_is_told_once(lab, llm, tmp_path):
    steps = [{"id": "say", "prompt": "own.jinja", "returns": {"grade": {"type": "float", "min": 0, "max": 1}}}]
    score = {"op": "value", "of": "say", "field": "grade"}
    metric = {"own": {"kind": "judge", "needs": ["answer", "vars"], "steps": steps, "score": score}}
    rows = [{**row, "tone": "dry"} for row in ROWS]
    (tmp_path / "own.jinja").write_text("{{ answer }} {{ vars.color }}")
    problems = lab.refusal({"d": lab.data(*rows)}, metric, judge=llm)
    assert len(problems) == 1
    assert "color" in problems[0].what
