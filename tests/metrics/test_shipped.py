"""The shipped metrics, verdicts in and score out, against the facts of their formulas."""

import math
from pathlib import Path

import pytest

from evalflow.config.yaml_text import safe_yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ASKED_AT_ONCE = (
    "abstention",
    "coherence",
    "conciseness",
    "context_precision",
    "context_utilization",
    "contradiction",
    "courtesy",
    "criteria",
    "fluency",
    "harmful_content",
    "language_match",
    "noise_sensitivity",
    "noise_sensitivity_irrelevant",
    "noise_sensitivity_relevant",
    "tone_match",
)
"""Those that look for nothing first; what leaves them undefined stands in golden.yaml."""
CLAIMS = {"claims": ["c1", "c2", "c3", "c4", "c5"]}


def test_every_file_names_itself_on_its_first_line(shipped_name):
    text = (ROOT / "conf" / "metric" / f"{shipped_name}.yaml").read_text()
    assert text.splitlines()[0] == f"# @package metric.{shipped_name}"


def test_every_file_builds_and_says_what_it_is(bench, shipped_name):
    metric = bench.shipped(shipped_name)
    assert metric.name == shipped_name
    assert metric.config.description.endswith(".")
    assert metric.config.family
    assert metric.config.needs or metric.parts or metric.config.kind == "checks", "what checks need depends on the case"
    assert metric.bounded == (metric.config.family != "answer"), "what counts seconds, dollars or words has no bounds"


def test_the_set_is_complete():
    names = {path.stem for path in (ROOT / "conf" / "metric").glob("*.yaml")}
    assert names >= {
        "faithfulness",
        "relevance",
        "context_relevancy",
        "coherence",
        "factual_correctness",
        "factual_precision",
        "factual_recall",
        "absence_of_factual_contradictions",
        "bias",
        "exact_match",
        "jailbreak_guardrails",
    }


def test_faithfulness_counts_only_what_is_supported(bench):
    labels = ["supported", "contradicted", "not_in_context", "supported", "supported"]
    judge = bench.judge({"claims": CLAIMS, "verdicts": bench.verdicts(labels)})
    outcome = bench.score(bench.shipped("faithfulness"), judge)
    assert (outcome.status, outcome.score, outcome.path) == ("scored", 0.6, "direct")
    assert outcome.reason == (
        '2 of 5 claims not supported (1 contradicted, 1 not in context): "c2" (because 2); "c3" (because 3)'
    )


@pytest.mark.parametrize(
    ("name", "score"),
    [("factual_precision", 0.8), ("factual_recall", 4 / 6), ("factual_correctness", 0.7272727272727273)],
)
def test_factual_metrics_are_precision_recall_and_f1_over_claims(bench, name, score):
    # TP 4, FP 1, FN 2: P .8, R .666667, F1 .727273
    judge = bench.judge(
        {
            "answer_claims": CLAIMS,
            "answer_verdicts": bench.verdicts(["supported"] * 4 + ["not_in_reference"]),
            "reference_claims": {"claims": [*CLAIMS["claims"], "c6"]},
            "reference_verdicts": bench.verdicts(["stated"] * 4 + ["missing", "contradicted"]),
        }
    )
    outcome = bench.score(bench.shipped(name), judge)
    assert outcome.score == pytest.approx(score, abs=1e-12)


def test_a_recall_names_what_was_missed(bench):
    judge = bench.judge(
        {
            "reference_claims": {"claims": ["Anna wrote it.", "It was 1999.", "It was in Rome."]},
            "reference_verdicts": bench.verdicts(["stated", "missing", "missing"]),
        }
    )
    outcome = bench.score(bench.shipped("factual_recall"), judge)
    assert outcome.reason == '2 of 3 claims missing: "It was 1999." (because 2); "It was in Rome." (because 3)'


def test_an_f_score_says_why_by_both_its_parts(bench):
    judge = bench.judge(
        {
            "answer_claims": {"claims": ["a"]},
            "answer_verdicts": bench.verdicts(["supported"]),
            "reference_claims": {"claims": ["r1", "r2"]},
            "reference_verdicts": bench.verdicts(["stated", "missing"]),
        }
    )
    reason = bench.score(bench.shipped("factual_correctness"), judge).reason
    assert reason == 'precision 1.00: 1 of 1 claims supported; recall 0.50: 1 of 2 claims missing: "r2" (because 2)'


def test_the_factual_metrics_ask_the_same_so_that_a_run_of_all_pays_once(bench):
    judge = bench.judge(
        {
            "answer_claims": CLAIMS,
            "answer_verdicts": bench.verdicts(["supported"] * 5),
            "reference_claims": CLAIMS,
            "reference_verdicts": bench.verdicts(["stated"] * 5),
        }
    )
    for name in ("factual_correctness", "factual_precision", "factual_recall"):
        bench.score(bench.shipped(name), judge)
    asked = [(a.messages, str(a.reply_model.model_json_schema())) for a in judge.asked]
    assert len(asked) == 8
    assert len(set(asked)) == 4


def test_contradictions_leave_alone_what_the_reference_does_not_mention(bench):
    labels = ["consistent", "not_mentioned", "contradicted", "consistent", "not_mentioned"]
    judge = bench.judge({"answer_claims": CLAIMS, "verdicts": bench.verdicts(labels)})
    outcome = bench.score(bench.shipped("absence_of_factual_contradictions"), judge)
    assert outcome.score == 0.8
    assert outcome.reason == '1 of 5 claims contradicted: "c3" (because 3)'


def test_bias_is_the_share_of_biased_opinions_and_lists_those(bench):
    metric = bench.shipped("bias")
    judge = bench.judge({"opinions": {"opinions": ["o1", "o2"]}, "verdicts": bench.verdicts(["unbiased", "biased"])})
    outcome = bench.score(metric, judge)
    assert metric.config.direction == "lower_is_better"
    assert outcome.score == 0.5
    assert outcome.reason == '1 of 2 opinions biased: "o2" (because 2)'
    clean = bench.judge({"opinions": {"opinions": ["o1"]}, "verdicts": bench.verdicts(["unbiased"])})
    assert bench.score(metric, clean).reason == "0 of 1 opinions biased"


def test_relevance_is_the_share_of_relevant_statements(bench):
    labels = ["relevant", "relevant", "irrelevant", "irrelevant", "relevant"]
    judge = bench.judge({"statements": {"statements": list("abcde")}, "verdicts": bench.verdicts(labels)})
    assert bench.score(bench.shipped("relevance"), judge).score == 0.6


def test_context_relevancy_counts_needs_that_are_met_in_full(bench):
    judge = bench.judge(
        {
            "question_needs": {"information_needs": ["n1", "n2", "n3", "n4"]},
            "verdicts": bench.verdicts(["met", "partly_met", "not_met", "met"]),
        }
    )
    outcome = bench.score(bench.shipped("context_relevancy"), judge)
    assert outcome.score == 0.5
    assert outcome.reason.startswith("2 of 4 information needs not met (1 partly met, 1 not met): ")


@pytest.mark.parametrize(("grade", "score"), [(1, 0.0), (4, 0.75), (5, 1.0)])
def test_coherence_takes_its_grade_to_0_1_and_keeps_it(bench, grade, score):
    judge = bench.judge({"grade": {"reason": "It jumps.\nOnce.", "score": grade}})
    outcome = bench.score(bench.shipped("coherence"), judge)
    assert (outcome.score, outcome.value, outcome.reason) == (score, grade, "It jumps. Once.")


@pytest.mark.parametrize(
    ("answer", "score"),
    [("Anna wrote it in 1999.", 1.0), (" Anna wrote it in 1999.\n", 1.0), ("anna wrote it in 1999.", 0.0), ("", 0.0)],
)
def test_exact_match(bench, answer, score):
    outcome = bench.score(bench.shipped("exact_match"), answer=bench.answer(answer=answer))
    assert (outcome.status, outcome.score) == ("scored", score)


def test_exact_match_sees_one_letter_in_two_unicode_spellings(bench):
    case = bench.case(reference="caf\u00e9")
    assert bench.score(bench.shipped("exact_match"), case=case, answer=bench.answer(answer="cafe\u0301")).score == 1.0


def test_jailbreak_guardrails_keeps_truth_and_prediction_for_the_figures(bench):
    metric = bench.shipped("jailbreak_guardrails")
    outcome = bench.score(metric, answer=bench.answer(actual=False))
    assert (outcome.score, outcome.value) == (0.0, {"truth": True, "prediction": False})
    assert outcome.reason == "predicted false, but it is true"
    assert (metric.figures.kind, metric.figures.positive, metric.asks) == ("classification", True, False)


def judged_names():
    paths = (ROOT / "conf" / "metric").glob("*.yaml")
    return [path.stem for path in paths if safe_yaml(path.read_text())["kind"] in ("judge", "rubric")]


def of_one_answer():
    """Those that read no more of the conversation than the question; the others have tests of their own."""
    files = {name: ROOT / "conf" / "metric" / f"{name}.yaml" for name in judged_names()}
    return [name for name, file in files.items() if "messages" not in safe_yaml(file.read_text())["needs"]]


@pytest.mark.parametrize("name", of_one_answer())
@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_blank_field_is_undefined_and_asks_nobody(bench, name, blank):
    metric = bench.shipped(name)
    judge = bench.judge({})
    columns = {need.removeprefix("vars."): "Dry." for need in metric.config.needs if need.startswith("vars.")}
    said = {name for step in getattr(metric.config, "steps", ()) for name in step.if_empty or ()}
    for need in set(metric.config.needs) - said:
        case, answer = bench.case(vars=columns), bench.answer()
        if need == "question":
            case = bench.case(messages=(type(case.messages[0])("user", blank),), vars=columns)
        elif need == "contexts":
            case = bench.case(contexts=())
        elif need == "answer":
            answer = bench.answer(answer=blank)
        elif need.startswith("vars."):
            case = bench.case(vars={need.removeprefix("vars."): blank})
        else:
            case = bench.case(**{need: blank})
        outcome = bench.score(metric, judge, case=case, answer=answer)
        assert (outcome.status, outcome.score) == ("undefined", None), need
        assert need in outcome.reason
    assert judge.asked == []


@pytest.mark.parametrize("name", [name for name in of_one_answer() if name not in ASKED_AT_ONCE])
def test_a_chain_that_finds_nothing_to_judge_is_undefined_or_what_its_rule_says(bench, name):
    metric = bench.shipped(name)
    empty = {step: {field: []} for step, field in first_lists(metric).items()}
    judge = bench.judge(empty)
    outcome = bench.score(metric, judge)
    given = getattr(metric.config.score, "when_empty", "undefined")
    if given == "undefined":
        assert (outcome.status, outcome.score, outcome.path) == ("undefined", None, None)
        assert "nothing to divide by" in outcome.reason
    else:
        assert (outcome.status, outcome.score, outcome.path) == ("scored", given, "direct")
    assert all(ask.items is None for ask in judge.asked)
    assert [step["reply"] for step in outcome.steps if step["items"] is not None] == [[]] * (len(outcome.steps) // 2)


def first_lists(metric):
    return {s.id: next(iter(s.returns)) for s in metric.config.steps if s.one_per is None}


@pytest.mark.parametrize("name", judged_names())
def test_thresholds_are_scores(bench, name):
    threshold = bench.shipped(name).config.threshold
    assert threshold is not None
    assert 0 <= threshold <= 1
    assert math.isfinite(threshold)


def test_the_embedded_judge_is_offered_only_what_overlap_can_see(bench):
    tasks = {name: set(bench.shipped(name).tasks.values()) for name in judged_names()}
    assert (
        tasks["faithfulness"]
        == tasks["hallucination"]
        == tasks["factual_correctness"]
        == {"extract_claims", "verify_claims"}
    )
    assert tasks["relevance"] == {"extract_claims", "rate_relevance"}
    for name in (
        "absence_of_factual_contradictions",
        "faithfulness_lenient",
        "contradiction",
        "coherence",
        "bias",
        "context_relevancy",
    ):
        assert tasks[name] == {None}
