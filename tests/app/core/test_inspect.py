"""What is refused before the first request, and what a run is said to be."""

from __future__ import annotations

import pytest

GRADE = {"grade": {"kind": "recorded", "field": "grade", "scale": "number"}}
EXACT = ["exact_match"]
GUARD = ["jailbreak_guardrails"]
ROWS = [{"id": str(i), "question": f"Why {i}?", "answer": "So.", "reference": "So.", "grade": i} for i in range(4)]


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


# --- recorded scores ------------------------------------------------------------------------------------------------


def test_recorded_scores_are_read_for_recorded_answers(lab):
    assert lab.inspect({"d": lab.data(*ROWS)}, GRADE).cells == 4


@pytest.mark.parametrize("generate", [True, "missing"])
def test_recorded_scores_are_refused_where_every_answer_is_generated(lab, llm, generate):
    rows = [without(row, "answer") for row in ROWS]
    (problem,) = lab.refusal({"d": lab.data(*rows)}, GRADE, generate=generate, target=llm)
    assert problem.what == "grade reads scores of recorded answers, but this run has no recorded answers of d"
    assert (problem.where, "generate=false" in problem.hint) == ("metric.grade", True)


def test_recorded_scores_are_refused_under_generate_though_answers_are_recorded_too(lab, llm):
    assert "reads scores" in lab.refusal({"d": lab.data(*ROWS)}, GRADE, generate=True, target=llm)[0].what


def test_recorded_scores_are_read_where_some_answers_are_recorded(lab, llm):
    rows = [ROWS[0], without(ROWS[1], "answer")]
    assert lab.inspect({"d": lab.data(*rows)}, GRADE, generate="missing", target=llm).cells == 2


def test_recorded_scores_are_refused_for_example_answers(lab):
    rows = [{**row, "demo_output": "An example."} for row in ROWS]
    assert "reads scores" in lab.refusal({"d": lab.data(*rows)}, GRADE, generate="demo")[0].what


# --- which cases are run ---------------------------------------------------------------------------------------------


def test_tags_choose_the_cases_before_the_limit_and_an_unknown_one_is_named(lab):
    tags = (["Fault > Swapped"], ["Plain"], ["Fault>Left out"], [])
    rows = [
        {"id": str(n), "question": "Why?", "answer": "So.", "reference": "So.", "tags": of} for n, of in enumerate(tags)
    ]
    data = lab.data(*rows)

    def chosen(*names: str, **run: object) -> list[str]:
        found = lab.inspect({"d": {**data, "tags": list(names)}}, EXACT, **run)
        return [case.id for case in found.selected()]

    assert chosen("Fault") == ["0", "2"]
    assert chosen("Fault > Left out", "Plain") == ["1", "2"]
    assert chosen("Fault", limit=1) == ["0"]
    (problem,) = lab.refusal({"d": {**data, "tags": ["Fault", "Plane"]}}, EXACT)
    assert (problem.what, problem.hint) == ("no case of d has the tag 'Plane'", "did you mean 'Plain'?")


def test_ids_choose_the_cases_and_unknown_ones_are_named(lab):
    data = lab.data(*({"id": f"c{n}", "question": "Why?", "answer": "So.", "reference": "So."} for n in range(9)))
    found = lab.inspect({"d": {**data, "ids": ["c7", "c2", "c7"]}}, EXACT)
    assert [case.id for case in found.selected()] == ["c2", "c7"]
    (problem,) = lab.refusal({"d": {**data, "ids": ["c1", "x"]}}, EXACT)
    assert (problem.what, problem.where) == ("no case of d has the id 'x'", "dataset.d.ids")
    (problem,) = lab.refusal({"d": {**data, "ids": ["c1", *(f"x{n}" for n in range(8))]}}, EXACT)
    assert problem.what.endswith("'x4' and 3 more")


# --- what a metric needs --------------------------------------------------------------------------------------------


def test_a_field_that_no_case_has_is_told_with_the_columns_there_are(lab):
    rows = [{"question": "Why?", "answer": "So.", "ideal": "So."}]
    (problem,) = lab.refusal({"d": lab.data(*rows)}, EXACT)
    assert problem.what == "exact_match needs reference, but no case of d has it; columns without a field: ideal"
    assert problem.hint == "map it: ++dataset.d.fields.reference=ideal"


def test_of_answers_that_are_not_recorded_it_is_said_how_to_generate_them(lab):
    rows = [without(row, "answer") for row in ROWS]
    (problem,) = lab.refusal({"d": lab.data(*rows)}, EXACT)
    assert problem.hint.startswith("have it generated: generate=true target=openai")
    assert problem.hint.endswith("or map it: ++dataset.d.fields.answer=grade")


def test_a_field_that_some_case_has_is_there(lab):
    rows = [ROWS[0], without(ROWS[1], "reference")]
    assert lab.inspect({"d": lab.data(*rows)}, EXACT).cells == 2


@pytest.mark.parametrize("generate", [True, "missing"])
def test_a_prediction_that_the_live_target_does_not_fill_is_absent(lab, llm, generate):
    rows = [{"question": "Hack?", "expected": True, "actual": True}]
    data = {"g": lab.data(*rows, generates="answer")}
    (problem,) = lab.refusal(data, GUARD, generate=generate, target=llm)
    assert problem.what == "jailbreak_guardrails needs actual, but the target's reply to g fills answer"
    assert problem.hint == "dataset.g.generates=actual"


def test_a_program_may_return_a_prediction_or_a_trace_beside_its_answer(lab):
    data = {"g": lab.data({"question": "Hack?", "expected": True, "actual": True}, generates="answer")}
    bot = {"kind": "command", "argv": ["true"]}
    (problem,) = lab.refusal(data, GUARD, generate=True, target=bot)
    assert problem.hint.startswith("dataset.g.generates=actual; or beside the answer: target.actual=$.PATH")
    for key in ("actual", "trace"):
        assert lab.inspect(data, GUARD, generate=True, target={**bot, key: "$.found"}).cells == 1


def test_a_prediction_that_the_live_target_fills_is_there(lab, llm):
    rows = [{"question": "Hack?", "expected": True}]
    assert lab.inspect({"g": lab.data(*rows, generates="actual")}, GUARD, generate=True, target=llm).cells == 1


def test_an_example_answer_has_no_prediction(lab):
    rows = [{"question": "Hack?", "expected": True, "actual": True, "demo_output": "No."}]
    (problem,) = lab.refusal({"g": lab.data(*rows)}, GUARD, generate="demo")
    assert problem.what == "jailbreak_guardrails needs actual, which an example answer does not have"


def test_an_example_answer_has_its_own_metadata(lab):
    check = {"kind": "check", "needs": ["metadata.topic"], "field": "metadata.topic"}
    metric = {"topic": {**check, "checks": [{"op": "equals", "value": "rain"}]}}
    example = {"role": "assistant", "content": "No.", "metadata": {"tone": "dry"}}
    rows = [{"question": "Rain?", "answer": "Yes.", "metadata": {"topic": "rain"}, "demo_output": example}]
    assert lab.inspect({"d": lab.data(*rows)}, metric).cells == 1
    (problem,) = lab.refusal({"d": lab.data(*rows)}, metric, generate="demo")
    assert "needs metadata.topic, but no case of d has it" in problem.what


def test_examples_that_are_missing_are_asked_for_by_their_own_name(lab):
    (problem,) = lab.refusal({"d": lab.data(*ROWS)}, EXACT, generate="demo")
    assert "++dataset.d.fields.demo_answer=grade" in problem.hint


# --- groups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [{"group": "grde"}, {"fields": {"group": "grde"}}])
def test_a_group_that_no_record_has_is_refused(lab, keys):
    (problem,) = lab.refusal({"d": lab.data(*ROWS, **keys)}, EXACT)
    assert problem.what == "no case of d has anything at 'grde' to form groups by"
    assert problem.where == ("dataset.d.group" if "group" in keys else "dataset.d.fields.group")
    assert problem.hint == "did you mean 'grade'?"


def test_a_path_to_a_group_that_leads_nowhere_is_refused(lab):
    (problem,) = lab.refusal({"d": lab.data(*ROWS, group="$.source.name")}, EXACT)
    assert "'$.source.name'" in problem.what


@pytest.mark.parametrize("group", [None, "group", "grade", "question", "$.grade"])
def test_a_group_that_is_there_or_is_the_fields_own_name_is_fine(lab, group):
    assert lab.inspect({"d": lab.data(*ROWS, group=group)}, EXACT).cells == 4


def test_a_group_column_that_begins_after_the_limit_is_there(lab):
    rows = [ROWS[0], {**ROWS[1], "source": "a"}]
    assert lab.inspect({"d": lab.data(*rows, group="source")}, EXACT, limit=1).cells == 1


# --- ids, judges, selection -----------------------------------------------------------------------------------------


def test_an_id_that_comes_twice_is_refused(lab):
    (problem,) = lab.refusal({"d": lab.data(ROWS[0], ROWS[1], ROWS[0])}, EXACT)
    assert problem.what.startswith("the id '0' is also that of ")
    assert problem.what.endswith("d.jsonl:1")
    assert problem.where.endswith("d.jsonl:3")


def test_what_reading_left_out_is_noted(lab):
    row = {"question": "q", "answer": "a", "reference": "a"}
    found = lab.inspect({"d": lab.data(row, {}, row, {"question": " ", "answer": None})}, EXACT)
    assert found.cells == 2
    empty, equal = found.reading
    assert empty == "d: 2 empty rows are left out"
    assert equal.startswith(
        "d: 1 row without an id asks the same as an earlier one; each is a separate case, whose id has a second part"
    )
    assert set(found.reading) <= set(found.notices())


def test_the_same_id_may_stand_in_two_datasets(lab):
    data = {"a": lab.data(*ROWS, name="a.jsonl"), "b": lab.data(*ROWS, name="b.jsonl")}
    assert lab.inspect(data, EXACT).cases == {"a": 4, "b": 4}


def test_a_judge_that_cannot_answer_is_refused(lab):
    (problem,) = lab.refusal({"d": lab.data(*ROWS)}, ["coherence"])
    assert "the embedded judge is not a language model" in problem.what


def test_all_problems_are_told_at_once(lab):
    rows = [without(row, "reference") for row in (ROWS[0], ROWS[0])]
    problems = lab.refusal({"d": lab.data(*rows, group="nobody")}, ["coherence", "exact_match"])
    assert len(problems) == 4


def test_a_sample_is_drawn_of_each_dataset(lab):
    many = [{**ROWS[0], "id": str(i)} for i in range(50)]
    data = {"many": lab.data(*many, name="many.jsonl"), "few": lab.data(*ROWS[:2], name="few.jsonl")}
    found = lab.inspect(data, EXACT, sample=3)
    assert (found.cases, found.cells) == ({"many": 3, "few": 2}, 5)
    assert len(list(found.selected())) == 5


def test_cells_are_cases_times_repeats(lab, llm):
    judged = lab.inspect(
        {"d": lab.data(*ROWS)},
        ["exact_match", "coherence"],
        judge=llm,
        target=llm,
        generate=True,
        repeats={"target": 3, "judge": 2},
    )
    assert judged.cells == 4 * 3 * (1 + 2)


# --- thresholds of a judge ------------------------------------------------------------------------------------------


def test_a_threshold_for_what_is_no_metric_is_refused(lab):
    judge = {"kind": "embedded", "thresholds": {"exact_mach": 0.5}}
    (problem,) = lab.refusal({"d": lab.data(*ROWS)}, EXACT, judge=judge)
    assert (problem.what, problem.where) == ("there is no metric 'exact_mach'", "judge.thresholds.exact_mach")
    assert problem.hint == "did you mean 'exact_match'?"


def test_a_threshold_in_a_metrics_own_judge_is_looked_at_too(lab):
    metric = {"grade": {**GRADE["grade"], "judge": {"thresholds": {"grad": 1}}}}
    (problem,) = lab.refusal({"d": lab.data(*ROWS)}, metric)
    assert problem.where == "metric.grade.judge.thresholds.grad"


@pytest.mark.parametrize("value", [7, -0.1, float("nan")])
def test_a_threshold_of_a_judge_lies_where_scores_do(lab, value):
    judge = {"kind": "embedded", "thresholds": {"exact_match": value}}
    [problem] = lab.refusal({"d": lab.data(*ROWS)}, EXACT, judge=judge)
    assert problem.what == f"{value:g} is not a threshold of exact_match"
    assert (problem.where, problem.hint) == ("judge.thresholds.exact_match", "its scores lie in 0..1")


def test_thresholds_of_own_and_of_other_shipped_metrics_are_fine(lab):
    judge = {"kind": "embedded", "thresholds": {"grade": 0.5, "faithfulness": 0.7}}
    assert lab.inspect({"d": lab.data(*ROWS)}, GRADE, judge=judge).cells == 4
    on_a_scale_of_its_own = {"kind": "embedded", "thresholds": {"grade": 7}}
    assert lab.inspect({"d": lab.data(*ROWS)}, GRADE, judge=on_a_scale_of_its_own).cells == 4


def test_a_prompt_that_shows_what_is_judged_without_delimiters_is_noticed(lab):
    (lab.folder / "bare.jinja").write_text("Is it polite?\n{{ question | fenced('question') }}\n{{ answer }}")
    judge = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}
    needs = ["question", "answer"]
    metric = {"kind": "rubric", "needs": needs, "prompt": "bare.jinja", "scale": "boolean", "description": "Polite?"}
    found = lab.inspect({"d": lab.data(*ROWS)}, {"polite": metric}, judge=judge)
    [notice] = found.notices()
    assert notice.startswith("metric polite: its prompt bare.jinja shows answer without `fenced`")


@pytest.mark.parametrize(("generate", "said"), [(False, True), ("demo", True), ("missing", False)])
def test_answers_that_are_the_same_at_each_repeat_are_noticed(lab, generate, said):
    dataset = {"d": {**lab.data(*({**row, "demo_answer": "So."} for row in ROWS)), "generates": "answer"}}
    target = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}
    asking = {"target": target} if generate == "missing" else {}
    found = lab.inspect(dataset, EXACT, generate=generate, repeats={"target": 3, "judge": 1}, **asking)
    assert [notice[:43] for notice in found.notices()] == ["repeats.target=3 takes each answer of the d"] * said


# --- the checks of cases --------------------------------------------------------------------------------------------

SURE = {"identifier": "rule", "params": {"op": "contains", "value": "So"}}
ALIKE = {"identifier": "semantic_similarity", "params": {"reference": "So."}}


def checked(*checks):
    return [{**row, "checks": [check]} for row, check in zip(ROWS, checks, strict=False)]


def test_checks_of_one_name_with_and_without_a_judge_are_refused(lab):
    rows = checked({**SURE, "name": "tone"}, {**ALIKE, "name": "tone"})
    (problem,) = lab.refusal({"d": lab.data(*rows)}, ["checks"])
    assert problem.what == (
        "the checks called 'tone' of case '1' need minilm, and those of earlier cases need no judge"
    )
    assert problem.hint == "give them different names: a row of the summary has one judge"


def test_a_check_that_is_off_has_the_judge_of_those_that_are_on(lab):
    found = lab.inspect({"d": lab.data(*checked({**ALIKE, "enabled": False}, ALIKE))}, ["checks"])
    assert found.scored["semantic_similarity"].judge is not None
    assert [(one.metric, one.judge) for one in found.rules().thresholds()] == [("semantic_similarity", "minilm")]


def test_a_group_is_named_by_whether_it_has_a_judge(lab):
    groups = [{"identifier": "group", "params": {"checks": [check]}} for check in (SURE, ALIKE)]
    found = lab.inspect({"d": lab.data(*checked(*groups))}, ["checks"])
    assert {name: one.judge is None for name, one in found.scored.items()} == {"group": True, "judged_group": False}


def test_scores_of_two_metrics_never_share_a_name(lab):
    rows = checked({**SURE, "name": "exact_match"})
    (problem,) = lab.refusal({"d": lab.data(*rows)}, [*EXACT, "checks"])
    assert problem.what == "exact_match and checks would both give scores called 'exact_match'"
    assert problem.where == "metric.checks"


def test_a_time_that_no_case_has_stops_no_run_and_any_other_missing_field_does(lab):
    late = {"identifier": "rule", "params": {"field": "latency_s", "op": "less_than", "value": 2}}
    assert lab.inspect({"d": lab.data(*checked(late))}, ["checks"]).cells == 1
    odd = {"identifier": "rule", "params": {"field": "metadata.finish_reason", "op": "equals", "value": "stop"}}
    (problem,) = lab.refusal({"d": lab.data(*checked(odd))}, ["checks"])
    assert problem.what.startswith("checks needs metadata.finish_reason, but no case of d has it")


def test_the_way_around_a_judge_names_checks_that_need_none(lab):
    judged = {"identifier": "conformity", "params": {"rules": ["Be brief."]}}
    word = {"identifier": "string_matching", "params": {"keyword": "So"}}
    group = {"identifier": "group", "params": {"checks": [SURE]}}
    rows = checked(judged, word, {**SURE, "name": "tone"}, group)
    (problem,) = lab.refusal({"d": lab.data(*rows)}, ["checks"])
    assert "'metric.checks.only=[string_matching]'" in problem.hint


def test_a_variable_within_the_text_of_a_column_gets_the_line_that_reads_it(lab):
    own = {"kind": "number", "description": "d", "needs": ["vars.meta.words"], "field": "vars.meta.words"}
    rows = [{**ROWS[0], "meta": '{"words": "3"}'}]
    (problem,) = lab.refusal({"d": lab.data(*rows)}, {"own": own})
    assert problem.hint == "if meta holds JSON as text, read it: '++dataset.d.fields.meta={type: json}'"
    assert lab.inspect({"d": lab.data(*rows, fields={"meta": {"type": "json"}})}, {"own": own}).cells == 1
