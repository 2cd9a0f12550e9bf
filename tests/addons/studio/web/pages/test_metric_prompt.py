"""A metric with its own prompt, written in the form beside what the judge reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from evalflow.addons.studio.web.pages.metric_form import why_no_form
from evalflow.addons.studio.web.pages.metric_prompt import mentioned, start_of
from evalflow.addons.studio.work.metrics import get_library, own_prompts
from evalflow.addons.studio.work.space import open_workspace
from evalflow.testing import Endpoint
from tests.addons.studio.web.conftest import Server
from tests.addons.studio.web.pages.test_metric_form import Shown
from tests.addons.studio.web.pages.test_metrics import define, field, press, seen

CASE = {"question": "What does it cost?", "answer": "Forty pounds.", "reference": "40 pounds"}


@pytest.mark.parametrize(
    ("prompt", "fields", "columns"),
    [
        ("{{ answer }} and question", ["answer"], []),
        ("{% if reference %}{{ reference }}{% endif %}", ["reference"], []),
        ('{{ field("contexts", messages) }} {{ vars.plan }} {{ vars["my plan"] }}', ["messages"], ["plan", "my plan"]),
        ("{{ scale.answer }} {{ one.vars.plan }}", [], []),
        ("{{ answer }} {{ reference", ["answer"], []),
        ("{{" * 100_000, [], []),
        ('{{ vars.get("fee") }} {{ vars.plan }}', [], ["fee?", "plan"]),
        ("{% if vars.fee is defined %}{{ vars.fee }}{% endif %}", [], ["fee?"]),
        ('{{ vars.get("fee") }} {{ vars.plan }} {{ vars', [], ["plan"]),
        ("{# {{ metadata }} {{ vars.fee }} #}{{ answer }}", ["answer"], []),
        ("{# {{ metadata }} {{ vars.fee }} #}{{ answer }} {{ reference", ["answer"], []),
        ("{% set question = 1 %}{{ question }} {% set vars = answer %}{{ vars.fee }}", ["answer"], []),
        ("{% raw %}{{ question }} {{ vars.fee }}{% endraw %}", [], []),
    ],
)
def test_what_a_prompt_shows_is_known_while_it_is_typed(prompt: str, fields: list[str], columns: list[str]) -> None:
    names, found = mentioned(prompt)
    assert (names, [name if needed else f"{name}?" for name, needed in found.items()]) == (fields, columns)


def test_a_column_that_the_prompt_does_without_is_optional_and_one_that_it_needs_is_not() -> None:
    definition = {"kind": "rubric", "description": "Right.", "needs": ["answer", "vars.plan"], "scale": "boolean"}
    shown = Shown({**definition, "prompt": "m/grade.jinja"}, {"m/grade.jinja": "{{ answer }} {{ vars.plan }}"})
    guarded = "{% if vars.plan is defined %}{{ vars.plan }}{% endif %}"
    shown.fields["prompt"].value = f"{{{{ answer }}}} {guarded} {{{{ vars.fee }}}}"
    read = shown.read()
    assert (read["needs"], read["optional"]) == (["answer", "vars.fee"], ["vars.plan"])


def test_a_column_that_a_file_needs_stays_needed_though_the_prompt_does_without_it() -> None:
    definition = {"kind": "rubric", "description": "Right.", "needs": ["answer", "vars.plan"], "scale": "boolean"}
    definition["prompt"] = "m/grade.jinja"
    assert Shown(definition, {"m/grade.jinja": "{{ answer }} {{ vars.plan | default('') }}"}).read() == definition


@pytest.mark.parametrize(
    ("typed", "imports"),
    [
        ('Judge the import field.\n{{ field("answer", answer) }}', True),
        ('{# import field #}{{ field("import field", answer) }}', True),
        ('{{ field("answer", answer) }} {{ answer', True),
        ('{% from "mine.jinja" import field %}{{ field("answer", answer) }}', False),
        ('{% from "mine.jinja" import field %}{{ field("answer", answer) }} {{ answer', False),
        ("Say field(1). {{ answer }} {# field(2) #}", False),
    ],
)
def test_a_prompt_that_shows_a_field_gets_what_it_needs_for_that(typed: str, imports: bool) -> None:
    definition = {"kind": "rubric", "description": "Right.", "needs": ["answer"], "scale": "boolean"}
    shown = Shown({**definition, "prompt": "m/grade.jinja"}, {"m/grade.jinja": start_of(["answer"])})
    shown.fields["prompt"].value = typed
    macro = '{% from "_shared/material.jinja" import field %}'
    assert shown.form.prompts() == {"m/grade.jinja": f"{macro}{typed}" if imports else typed}


def test_a_field_that_the_prompt_only_comments_on_is_not_needed_again() -> None:
    definition = {"kind": "rubric", "description": "Right.", "needs": ["answer"], "scale": "boolean"}
    shown = Shown({**definition, "prompt": "m/grade.jinja"}, {"m/grade.jinja": "{{ answer }}"})
    shown.fields["prompt"].value = "{{ answer }} {# {{ metadata }} #} {{ vars.get('plan') }}"
    assert shown.read()["needs"] == ["answer"]


def test_what_the_prompt_shows_is_needed_and_what_it_showed_is_not() -> None:
    definition = {"kind": "rubric", "description": "Right.", "needs": ["question", "answer"], "scale": "boolean"}
    shown = Shown({**definition, "prompt": "m/grade.jinja"}, {"m/grade.jinja": start_of(["question", "answer"])})
    shown.fields["prompt"].value = "{{ answer }} {{ reference }} {{ vars.plan }}"
    assert shown.fields["vars"].value == "plan"
    shown.fields["needs"].value = ["answer"]  # what is taken away is needed anyway
    prompts = shown.form.prompts()
    assert shown.read() == {
        **definition,
        "prompt": "m/grade.jinja",
        "needs": ["answer", "reference", "vars.plan"],
    }
    assert prompts == {"m/grade.jinja": "{{ answer }} {{ reference }} {{ vars.plan }}"}


def test_another_kind_has_no_prompt_of_its_own_and_the_typed_one_comes_back() -> None:
    definition = {"kind": "rubric", "description": "Right.", "needs": ["answer"], "scale": "boolean"}
    shown = Shown({**definition, "prompt": "m/grade.jinja"}, {"m/grade.jinja": "{{ answer }}"})
    with shown.client:
        shown.fields["prompt"].value = "Typed: {{ answer }}"
        shown.form._choose("rubric")  # pyright: ignore[reportPrivateUsage]
        assert (shown.form.read(), shown.form.prompts()) == (definition, {})
        shown.form._choose("own_prompt")  # pyright: ignore[reportPrivateUsage]
    assert shown.form.prompts() == {"m/grade.jinja": "Typed: {{ answer }}"}
    assert shown.read()["prompt"] == "m/grade.jinja"


@pytest.mark.parametrize("name", ["coherence", "conciseness", "courtesy", "fluency", "tone_match"])
def test_rubrics_of_the_library_have_the_form_and_come_back_as_they_were(name: str) -> None:
    definition, prompts = own_prompts(name, get_library(open_workspace(), name).definition)
    assert why_no_form(definition, prompts) == ""
    shown = Shown(definition, prompts)
    assert shown.form.prompts() == prompts
    assert shown.read() == definition


@pytest.mark.browser
def test_a_prompt_is_written_beside_what_the_judge_reads(visit: Callable[..., Any], pages: Server) -> None:
    with Endpoint(lambda _: {"reason": "It names it.", "score": 4}) as endpoint:
        define(pages, "prompted", endpoint.url)
        page = visit("/bots/prompted/metrics/new")
        field(page, "Name").fill("Names the price")
        field(page, "Criteria").fill("The answer names the price.")
        page.get_by_text("Kind: G-Eval").click()
        page.get_by_label("Own prompt").click()
        prompt = field(page, "Prompt")
        prompt.wait_for()
        assert "import" not in prompt.input_value()
        for name, value in (("Question", CASE["question"]), ("Answer", CASE["answer"])):
            field(page, name).fill(value)
        page.get_by_text("Shared texts that it includes").click()
        page.locator("pre", has_text="The score is a whole number from").wait_for()
        prompt.fill(f"Typed meanwhile.\n{prompt.input_value()}")
        page.get_by_role("button", name="Write it into the prompt").click()
        page.get_by_text("Shared texts that it includes").wait_for(state="hidden")
        assert "The score is a whole number from {{ scale.min }}" in prompt.input_value()
        assert prompt.input_value().startswith("Typed meanwhile.")
        page.get_by_text("Take a case, or add").click()
        field(page, "Expected answer").fill(CASE["reference"])
        press(page, "Show the prompt")
        read = page.locator(".prompt pre", has_text="The answer names the price.").first
        read.wait_for()
        assert "40 pounds" not in read.inner_text()

        prompt.evaluate("it => it.setSelectionRange(0, 0)")
        page.get_by_role("group", name="Insert into the prompt").get_by_role("button", name="Expected answer").click()
        page.locator(".prompt pre", has_text="40 pounds").first.wait_for()
        seen(page, "The judge sees: question, answer, expected answer")
        right = prompt.input_value()
        prompt.fill(f"{right}\n\n{{{{ criterion }}}}")
        fault = "the prompt uses 'criterion', which it does not get"
        page.get_by_role("status").get_by_text(f"Line {right.count(chr(10)) + 3}: {fault}").wait_for()
        page.locator(".prompt pre", has_text="40 pounds").first.wait_for()
        press(page, "Save")
        page.locator(".field", has_text="All that the judge reads").get_by_text(fault).wait_for()
        prompt.fill(right)
        press(page, "Save")
        page.wait_for_url(re.compile("/bots/prompted/metrics$"))
        seen(page, "own prompt")
        (kept,) = pages.ask("GET", "/api/v1/bots/prompted/metrics").json["items"]
        (file,) = kept["prompts"]
        assert file == kept["definition"]["prompt"] == "names_the_price/grade.jinja"

        page.get_by_role("link", name="Names the price").click()
        prompt = field(page, "Prompt")
        prompt.wait_for()
        assert prompt.input_value() == right
        for name, value in (("Question", CASE["question"]), ("Answer", CASE["answer"])):
            field(page, name).fill(value)
        page.get_by_text("Take a case, or add").click()
        field(page, "Expected answer").fill(CASE["reference"])
        press(page, "Try it")
        page.locator(".score-line .sign.pass").wait_for()
        panes = page.locator(".tried .pane").evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())")
        answer, expected = panes  # at once: the page scrolls to them
        assert answer["y"] == expected["y"]
        assert answer["x"] + answer["width"] < expected["x"]
        assert "40 pounds" in endpoint.requests[-1].text


WORKER = True


@pytest.mark.browser
def test_the_prompt_of_a_judge_is_changed_and_measured_in_two_clicks(visit: Callable[..., Any], pages: Server) -> None:
    with Endpoint(lambda _: {"reason": "It is short.", "score": 4}) as endpoint:
        define(pages, "measured", endpoint.url)
        scale = {"type": "likert", "min": 1, "max": 5}
        shown = {"kind": "rubric", "description": "Short.", "needs": ["answer"], "scale": scale}
        metric: dict[str, Any] = {
            "name": "is_short",
            "title": "Is short",
            "definition": {**shown, "prompt": "is_short/grade.jinja"},
        }
        metric["prompts"] = {"is_short/grade.jinja": "Is this short? {{ answer }}"}
        there = pages.ask("GET", "/api/v1/bots/measured/metrics").headers["ETag"]
        body = {"items": [metric]}
        assert pages.ask("PUT", "/api/v1/bots/measured/metrics", body, If_Match=there).status == 200
        run = {"bot": "measured", "datasets": ["rag"], "metrics": ["is_short", "fluency"], "options": {"limit": 2}}
        made = pages.ask("POST", "/api/v1/runs", run).json["run_id"]
        page = visit(f"/runs/{made}")
        page.get_by_role("link", name="Change it and grade again").first.click()
        prompt = field(page, "Prompt")
        prompt.fill(f"{prompt.input_value()} Say why.")
        press(page, "Save, grade again and compare")
        page.wait_for_url(re.compile("/compare"))
        seen(page, "Same answers, another prompt of the judge")
        seen(page, "the prompts of metric Is short differ")
        page.goto(f"{pages.address.url}/runs/{made}")
        page.get_by_role("link", name="Change it and grade again").nth(1).click()
        assert "fluency" in field(page, "Name").input_value()
        press(page, "Save, grade again and compare")
        page.wait_for_url(re.compile("/compare"))
    names = [one["name"] for one in pages.ask("GET", "/api/v1/bots/measured/metrics").json["items"]]
    assert names == ["fluency", "is_short"]


@pytest.mark.browser
def test_a_metric_whose_run_cannot_be_started_is_saved_and_can_be_changed_again(
    visit: Callable[..., Any], pages: Server
) -> None:
    define(pages, "stopped")
    assert pages.ask("POST", "/api/v1/datasets", {"name": "gone"}).status == 201
    case = {"id": "c", "question": "q?", "answer": "a", "reference": "a"}
    assert pages.ask("POST", "/api/v1/datasets/gone/cases", {"items": [case]}).status in (200, 201)
    run = {"bot": "stopped", "datasets": ["gone"], "metrics": ["coherence"], "options": {"cache": {"mode": "off"}}}
    uncached = pages.ask("POST", "/api/v1/runs", run).json["run_id"]
    made = pages.ask("POST", "/api/v1/runs", {**run, "options": {}}).json["run_id"]

    page = visit(f"/bots/stopped/metrics/new?source=coherence&run={uncached}")
    seen(page, "This run does without saved replies.")
    field(page, "Name").fill("Paid again")
    press(page, "Save and see the estimate")
    page.wait_for_url(re.compile("/runs/new"))
    seen(page, "Paid again")
    page.get_by_role("complementary", name="Estimate").get_by_text("Price").wait_for()

    page = visit(f"/bots/stopped/metrics/new?source=coherence&run={made}")
    field(page, "Name").wait_for()
    press(page, "YAML")
    page.wait_for_url(re.compile(f"source=coherence&run={made}&view=yaml"))
    press(page, "Form")
    page.wait_for_url(re.compile(f"source=coherence&run={made}$"))
    there = pages.ask("GET", "/api/v1/datasets/gone").headers["ETag"]
    assert pages.ask("DELETE", "/api/v1/datasets/gone", {}, If_Match=there).status == 204
    for criterion in ("It is clear.", "It is very clear."):
        field(page, "Criteria|Criterion").first.fill(criterion)
        press(page, "Save, grade again and compare")
        unstarted = page.locator(".message.warn:not([data-seen])", has_text="The metric is saved; the run could not be")
        unstarted.evaluate("it => it.dataset.seen = true")
        page.get_by_role("link", name="Back to the run").wait_for()
    stored = pages.ask("GET", "/api/v1/bots/stopped/metrics").json["items"]
    kept = {one["name"]: one for one in stored}
    assert kept["coherence"]["version"] == 2
    assert "very clear" in str(kept["coherence"]["definition"])
    page.get_by_role("button", name="Save", exact=True).click()
    page.wait_for_url(re.compile("/bots/stopped/metrics$"))
    response = pages.ask("GET", f"/bots/stopped/metrics/paid_again?run={made}")
    assert response.status == 422
    assert "cannot be graded again" in response.body.decode()
