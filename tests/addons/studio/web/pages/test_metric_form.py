"""The form of a metric and its YAML convert into each other without loss."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from nicegui import Client, ui
from nicegui.page import page

from evalflow.addons.studio.web.pages.metric_form import NEW, MetricForm, why_no_form
from evalflow.addons.studio.web.ui.metric_words import OTHERS, kind_in_words, purpose_of
from evalflow.addons.studio.work.bots import Bot
from evalflow.addons.studio.work.definitions import declared, declared_content
from evalflow.addons.studio.work.judges import StoredJudge
from evalflow.addons.studio.work.metric_yaml import metric_yaml, read_metric_yaml
from evalflow.config.load import compose
from evalflow.config.yaml_text import unescaped
from evalflow.errors import UserError

BOT = Bot(name="helper", description="", config={"kind": "openai", "model": "m"})
TEXT = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" \n:-#0e"), min_size=1).filter(str.strip)
NAMES = st.sampled_from(["question", "answer", "reference", "contexts", "vars.plan", "vars.my name", "metadata.page"])
FIELDS = st.lists(NAMES, min_size=1, unique=True)
UNIT = st.floats(0, 1) | st.integers(0, 1)
GRADES = st.tuples(st.integers(-5, 4), st.integers(5, 12))
ANCHORS = st.dictionaries(st.integers(1, 5).map(str), TEXT, max_size=3)
LIKERT = GRADES.map(lambda ends: {"type": "likert", "min": ends[0], "max": ends[1]})
SCALES = st.one_of(
    st.sampled_from(["boolean", {"type": "boolean"}, {"type": "percentage"}]),
    LIKERT,
    st.builds(lambda scale, anchors: {**scale, "min": 1, "anchors": anchors}, LIKERT, ANCHORS),
    st.dictionaries(TEXT, st.floats(0, 1), min_size=2, max_size=3).map(lambda it: {"type": "label", "values": it}),
)
BANDS = st.just(
    [
        {"score_range": [1, 4], "expected_outcome": "wrong: off\nthe point"},
        {"score_range": [9, 10], "expected_outcome": "right"},
    ]
)
SHARED: dict[str, st.SearchStrategy[Any]] = {
    "name": TEXT,
    "datasets": st.lists(TEXT, max_size=2),
    "family": TEXT,
    "version": st.integers(1, 9),
    "direction": st.sampled_from(["higher_is_better", "lower_is_better"]),
    "threshold": st.none() | UNIT,
    "judge": st.sampled_from(["mine", "gone", "written", None, {"logprobs": 5}, {"kind": "openai", "model": "gpt"}]),
    "gate": st.just({"mean": ">= 0.8"}),
    "test_order": st.just(["mean", "pass_rate"]),
    "weighting": st.just("probability"),
    "verbose": st.booleans(),
    "prompt": TEXT,
}
G_EVAL = st.fixed_dictionaries(
    {"kind": st.just("g_eval"), "criteria": TEXT, "needs": FIELDS},
    optional={
        **SHARED,
        "description": TEXT,
        "steps": st.none() | st.lists(TEXT, min_size=1, max_size=3),
        "steps_from": st.none() | TEXT,
        "optional": FIELDS,
        "scale": LIKERT,
        "rubric": st.none() | BANDS,
        "samples": st.integers(1, 20),
        "strict": st.booleans(),
        "steps_prompt": TEXT,
    },
).filter(lambda it: not {*it["needs"]} & {*it.get("optional", ())})
RUBRIC = st.fixed_dictionaries(
    {"kind": st.just("rubric"), "description": TEXT, "needs": FIELDS, "scale": SCALES}, optional=SHARED
)
CHANGES: Mapping[str, tuple[st.SearchStrategy[Any], set[str]]] = {
    "criterion": (TEXT, {"criteria", "description"}),
    "needs": (st.lists(st.sampled_from(["question", "answer"]), min_size=1, unique=True), {"needs", "optional"}),
    "threshold": (st.none() | st.floats(0, 1), {"threshold"}),
    "direction": (st.sampled_from(["higher_is_better", "lower_is_better"]), {"direction"}),
    "steps": (st.lists(TEXT, max_size=3).map("\n".join), {"steps", "steps_from"}),
    "scale.max": (st.integers(13, 20), {"scale"}),
    "judge": (st.sampled_from(["", "mine"]), {"judge"}),
}
"""What is entered into which field, and the keys that it may change."""

MINE = StoredJudge(name="mine", description="", config=BOT.config, used_by=[], runs=0, missing_key=None)
QUICK = settings(max_examples=30, phases=[Phase.generate])  # to shrink what a whole form shows takes minutes


class Shown:
    """A form with its fields, as a page has it."""

    def __init__(self, definition: Mapping[str, Any], prompts: Mapping[str, str] | None = None) -> None:
        self.fields: dict[str, Any] = {}
        self.client = Client(page("/"), request=None)
        with self.client:
            self.form = MetricForm(BOT, [MINE], definition, prompts or {}, self.fields, _no_steps, ui.element())
            self.fields["criterion"] = self.fields["criteria" if definition["kind"] == "g_eval" else "description"]

    def read(self) -> dict[str, Any]:
        try:
            return self.form.read()
        finally:
            self.client.delete()

    def values(self) -> dict[str, Any]:
        return {name: field.value for name, field in self.fields.items()}


@pytest.mark.slow
@QUICK
@given(G_EVAL | RUBRIC)
def test_what_the_form_shows_comes_back_as_it_was_written(definition: dict[str, Any]) -> None:
    assert why_no_form(definition, {}) == ""
    yaml = metric_yaml(definition)
    back = Shown(read_metric_yaml(yaml)).read()
    assert back == definition
    assert metric_yaml(back) == yaml


@pytest.mark.slow
@QUICK
@given(G_EVAL | RUBRIC | st.just({**NEW, "criteria": "Right."}), st.data())
def test_what_is_entered_comes_back_from_the_yaml(definition: dict[str, Any], data: st.DataObject) -> None:
    shown = Shown(definition)
    changed: set[str] = set()
    for name in data.draw(st.lists(st.sampled_from([name for name in CHANGES if name in shown.fields]), unique=True)):
        values, keys = CHANGES[name]
        shown.fields[name].value = data.draw(values)
        changed |= keys
    entered, seen = shown.form.read(), shown.values()
    assert {key: value for key, value in entered.items() if key not in changed} == {
        key: value for key, value in definition.items() if key not in changed
    }
    back = read_metric_yaml(metric_yaml(entered))
    assert back == entered
    again = Shown(back)
    if "optional" in seen and "needs" in changed:  # what is needed is shown in any case
        seen["optional"] = [name for name in seen["optional"] if name not in seen["needs"]]
    assert {name: _stripped(value) for name, value in again.values().items()} == {
        name: _stripped(value) for name, value in seen.items()
    }
    assert again.read() == shown.read() == entered


async def _no_steps(_: ui.button) -> None:
    return None


def _stripped(value: Any) -> Any:
    """Fields are read without blanks around them, and blank lines."""
    return [" ".join(line.split()) for line in value.splitlines() if line.strip()] if isinstance(value, str) else value


@pytest.mark.slow
def test_every_metric_that_ships_has_a_form_or_says_why_not() -> None:
    with_form: set[str] = set()
    every = compose([f"metric=[{','.join(declared('metric'))}]"], complete=False).storable["metric"]
    definitions = {name: json.loads(json.dumps(unescaped(values))) for name, values in every.items()}
    assert definitions["coherence"] == declared_content("metric", "coherence")
    for name, definition in definitions.items():
        why = why_no_form(definition, {})
        assert purpose_of(str(definition.get("family"))) != OTHERS, name
        read = read_metric_yaml(metric_yaml(definition))
        assert read == definition, "the field with the YAML loses nothing"
        if why:
            assert kind_in_words(definition["kind"]) in why or "several criteria" in why
            continue
        with_form.add(name)
        assert Shown(read).read() == definition
    assert {"coherence", "factual_accuracy"} <= with_form


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"kind": "exact_match"}, "of another kind: exact match"),
        ({"treshold": 0.5}, "unknown key 'treshold'; did you mean 'threshold'?"),
        ({"needs": "question"}, "value of needs"),
        ({"needs": [1]}, "value of needs.0"),
        ({"steps": "one"}, "value of steps"),
        ({"threshold": "high"}, "value of threshold"),
        ({"threshold": True}, "value of threshold"),
        ({"criteria": True}, "value of criteria"),
        ({"direction": "up"}, "value of direction"),
        ({"judge": 3}, "value of judge"),
        ({"scale": {"type": "likert", "min": 1, "max": 5, "step": 1}}, "value of scale.step"),
        ({"scale": {"type": "percentage"}}, "value of scale.type"),
        ({"rubric": [{"score_range": [1], "expected_outcome": "off"}]}, "value of rubric"),
    ],
)
def test_what_the_form_cannot_show_is_named(change: dict[str, Any], what: str) -> None:
    assert what in why_no_form({"kind": "g_eval", "criteria": "Right.", "needs": ["answer"], **change}, {})


def test_a_metric_of_no_threshold_keeps_none() -> None:
    definition = {"kind": "rubric", "description": "Polite.", "needs": ["answer"], "scale": "boolean"}
    shown = Shown(definition)
    assert shown.fields["threshold"].value is None
    assert shown.read() == definition


def test_a_needed_input_stays_needed_when_others_are_added() -> None:
    shown = Shown({"kind": "g_eval", "criteria": "Right.", "needs": ["answer", "vars.plan"]})
    shown.fields["vars"].value = "plan, my column"
    read = shown.read()
    assert read["needs"] == ["answer", "vars.plan"]
    assert read["optional"] == ["vars.my column"]


def test_another_kind_keeps_what_both_have() -> None:
    definition = {**NEW, "criteria": "Right.", "gate": {"mean": ">= 0.8"}, "samples": 3, "prompt": "mine/x.jinja"}
    shown = Shown({**definition, "datasets": ["faq"]})
    with shown.client:
        shown.form._choose("rubric")  # pyright: ignore[reportPrivateUsage]
    assert shown.read() == {
        "kind": "rubric",
        "description": "Right.",
        "needs": ["question", "answer"],
        "gate": {"mean": ">= 0.8"},
        "datasets": ["faq"],
        "scale": {"type": "likert", "min": 1, "max": 5},
        "threshold": 0.5,
    }


@pytest.mark.parametrize("value", ["", None])
def test_nothing_to_show_a_judge_is_refused_at_its_field(value: str | None) -> None:
    shown = Shown({**NEW, "criteria": "Right."})
    shown.fields["needs"].value = []
    with pytest.raises(UserError) as refused:
        shown.read()
    assert refused.value.problems[0].key == "needs"
