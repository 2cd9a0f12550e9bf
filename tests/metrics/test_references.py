"""Several references of a case: the best one counts, and the reason names it."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalflow.metrics.references import ANY_IS_RIGHT
from evalflow.records import JudgeInfo, Reply, numbered_results

RIVERS = ("the river Aare", "Aare", "the Aare in Berne")
COMPARING = ("exact_match", "levenshtein", "token_f1", "rouge_1", "rouge_2", "rouge_l", "chrf", "meteor")


@pytest.fixture
def against(bench):
    """Score an answer against one reference or several; `name` is a shipped metric's."""

    def score(name, answer, reference, judge=None, **changed):
        case = bench.case(reference=reference)
        return bench.score(bench.shipped(name, **changed), judge, case=case, answer=bench.answer(answer=answer))

    return score


@pytest.mark.parametrize("name", COMPARING)
def test_a_comparing_metric_takes_the_best_reference(against, name):
    answer = "It is the river Aare"
    alone = [against(name, answer, one).score or 0 for one in RIVERS]
    found = against(name, answer, RIVERS)
    assert (found.status, found.score) == ("scored", max(alone))
    if name == "chrf":
        assert found.reason.endswith("; 3 references")
    elif name != "exact_match":  # here none is right
        assert 'the best of 3 references: "the river Aare"' in found.reason


words = st.text("xb c", min_size=1, max_size=8).filter(str.strip)


@given(answer=words, references=st.lists(words, min_size=1, max_size=4, unique=True))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=30)
def test_more_references_never_lower_a_score_and_their_order_does_not_matter(against, answer, references):
    for name in ("exact_match", "token_f1", "levenshtein", "chrf"):
        found = against(name, answer, tuple(references))
        assert found.score == against(name, answer, tuple(reversed(references))).score
        assert found.score == pytest.approx(max(against(name, answer, one).score for one in references))


def test_bleu_counts_all_references_together_as_sacrebleu_does(against):
    import sacrebleu

    answer = "the river that flows through Berne is the Aare"
    wanted = ("the Aare is the river that flows through Berne", "in Berne it is the Aare")
    found = against("bleu", answer, wanted)
    expected = sacrebleu.sentence_bleu(answer, list(wanted), use_effective_order=True).score / 100
    assert found.score == pytest.approx(expected)
    assert found.reason.endswith("; 2 references")


@pytest.mark.parametrize(
    ("op", "answer", "passed", "reason"),
    [
        ("equals", "Aare", True, 'the answer equals the reference "Aare", 2 of 3'),
        (
            "equals",
            "Rhine",
            False,
            'the answer does not equal any reference: "the river Aare", "Aare", "the Aare in Berne"',
        ),
        ("not_equals", "Aare", False, 'the answer equals the reference "Aare", 2 of 3'),
        ("not_equals", "Rhine", True, None),
        ("contains", "I think, Aare.", True, 'the answer contains the reference "Aare", 2 of 3'),
        ("not_contains", "I think, Aare.", False, 'the answer contains the reference "Aare", 2 of 3'),
        ("starts_with", "Aare, says the map", True, 'the answer starts with the reference "Aare", 2 of 3'),
        ("ends_with", "the Aare in Berne", True, 'the answer ends with the reference "the Aare in Berne", 3 of 3'),
    ],
)
def test_rules_on_texts_take_any_reference(bench, op, answer, passed, reason):
    checks = [{"op": op, "against": "reference"}]
    metric = bench.build("mine", {"kind": "check", "needs": ["answer", "reference"], "checks": checks})
    found = bench.score(metric, case=bench.case(reference=RIVERS), answer=bench.answer(answer=answer))
    assert found.score == float(passed)
    assert reason is None or found.reason == reason


@pytest.mark.parametrize(
    ("rule", "answer", "passed"),
    [
        ({"op": "close_to", "tolerance": 0.5}, "12.4", True),
        ({"op": "close_to", "tolerance": 0.1}, "12.4", False),
        ({"op": "close_to", "relative": 0.1}, "29", True),
        ({"op": "less_than"}, "25", True),
        ({"op": "greater_than"}, "11", False),
    ],
)
def test_rules_on_numbers_take_any_reference_that_is_a_number(bench, rule, answer, passed):
    metric = bench.build(
        "mine", {"kind": "check", "needs": ["answer", "reference"], "checks": [{**rule, "against": "reference"}]}
    )
    found = bench.score(metric, case=bench.case(reference=("12", "a dozen", "30")), answer=bench.answer(answer=answer))
    assert found.score == float(passed), found.reason
    found = bench.score(metric, case=bench.case(reference=("a", "b")), answer=bench.answer(answer=answer))
    assert (found.score, found.reason) == (0.0, 'the reference is not a number: "a", "b"')


def test_a_list_is_compared_with_a_list_as_a_whole(bench):
    values = {"kind": "check", "needs": ["actual", "expected"], "field": "actual"}
    metric = bench.build("mine", {**values, "checks": [{"op": "equals", "against": "expected"}]})
    for actual, score in ((["a", "b"], 1.0), (["a"], 0.0), ("a", 1.0), ("c", 0.0)):
        case, answer = bench.case(expected=["a", "b"]), bench.answer(actual=actual)
        assert bench.score(metric, case=case, answer=answer).score == score


class Embedder:
    """Gives each text the vector that a test wrote down for it."""

    info = JudgeInfo(name="vectors", nature="", identity="")

    def __init__(self, **vectors):
        self.vectors = vectors

    async def ask(self, ask):
        return Reply(parsed=ask.reply_model(results=[self.vectors[text] for text in ask.items]), raw="")


def test_the_nearest_reference_counts(bench, against):
    judge = Embedder(no=[1, 0], far=[0, 1], near=[3, 4], blank=[1, 1])
    found = against("semantic_similarity", "no", ("far", " ", "near"), judge)
    assert found.score == pytest.approx(0.6)
    assert found.reason.endswith('; the best of 2 references: "near"')
    check = {"identifier": "semantic_similarity", "params": {"reference": ["far", "near"], "threshold": 0.5}}
    (bound,) = bench.shipped("checks").bind(bench.case(checks=(check,)))
    found = bench.score(bound, judge, answer=bench.answer(answer="no"))
    assert (found.score, found.value) == (1.0, pytest.approx(0.6))
    assert found.reason.endswith('; the best of 2 references: "near"')


def test_a_judge_reads_all_references_with_the_word_that_one_is_enough(bench, against):
    judge = bench.judge({"steps": {"steps": ["compare"]}, "score": {"reason": "so", "score": 9}})
    metric = bench.prepare(bench.shipped("factual_accuracy", samples=1), judge)
    bench.score(metric, judge, case=bench.case(reference=("in 1999", "1999", "in 1999")))
    prompt = judge.asked[-1].text
    assert f"{ANY_IS_RIGHT}\n1. in 1999\n2. 1999\n" in prompt
    bench.score(metric, judge, case=bench.case(reference="in 1999"))
    assert ANY_IS_RIGHT not in judge.asked[-1].text


def test_a_check_of_correctness_takes_several_references(bench):
    judge = bench.judge({"verdict": {"reason": "so", "passed": True}})
    check = {"identifier": "correctness", "params": {"reference": ["in 1999", "1999"]}}
    (bound,) = bench.shipped("checks").bind(bench.case(checks=(check,)))
    assert bench.score(bound, judge).score == 1
    assert f"{ANY_IS_RIGHT}\n1. in 1999\n2. 1999\n" in judge.asked[-1].text


class Sorter:
    """Takes each text for one claim, and finds it where the other text has it."""

    info = JudgeInfo(name="sorter", nature="", identity="")

    def __init__(self):
        self.asked = []

    async def ask(self, ask):
        self.asked.append(ask)
        if ask.items is None:
            reply = {"claims": ask.variables["source"].split(" and ")}
        else:
            there = ask.variables.get("against", "")
            positive, *_, negative = ask.reply_model.model_json_schema()["$defs"].popitem()[1]["properties"]["verdict"][
                "enum"
            ]
            reply = numbered_results(
                {"reason": "r", "verdict": positive if one in there else negative} for one in ask.items
            )
        return Reply(parsed=ask.reply_model.model_validate(reply), raw="")


def test_a_reference_that_is_taken_apart_is_one_reference_at_a_time(bench):
    judge = Sorter()
    metric = bench.shipped("factual_correctness")
    case = bench.case(reference=("red and blue and green", "red and blue"))
    found = bench.score(metric, judge, case=case, answer=bench.answer(answer="red and blue"))
    assert found.score == 1
    assert found.reason.endswith('the best of 2 references: "red and blue"')
    assert [ask.variables["source"] for ask in judge.asked if ask.step == "reference_claims"] == [*case.references]
    assert len(metric.preview(case, bench.answer(answer="red and blue"))) == 8
    worse = bench.score(
        metric, judge, case=bench.case(reference=case.references[0]), answer=bench.answer(answer="red and blue")
    )
    assert worse.score == pytest.approx(0.8)


def test_an_error_by_one_reference_leaves_the_best_unknown(bench):
    judge = Sorter()
    answered, broken = judge.ask, "blue"

    async def fail(ask):
        if ask.variables.get("source") == broken:
            raise bench.error("timeout", "too slow")
        return await answered(ask)

    judge.ask = fail
    case = bench.case(reference=("red", broken))
    found = bench.score(bench.shipped("factual_recall"), judge, case=case, answer=bench.answer(answer="red"))
    assert (found.status, found.error_type, found.score) == ("error", "timeout", None)


def test_a_preference_is_over_the_first_reference(bench):
    judge = bench.judge(
        {"answer_first": {"reason": "r", "better": "first"}, "answer_second": {"reason": "r", "better": "second"}}
    )
    found = bench.score(bench.shipped("preference"), judge, case=bench.case(reference=("one", "two")))
    assert found.score == 1
    assert [ask.variables["against"] for ask in judge.asked] == ["one", "Anna, in 1998."]


def test_a_query_is_right_by_one_of_several(against):
    pytest.importorskip("sqlite3")
    wanted = ("SELECT name FROM town WHERE size > 5", "SELECT name FROM town WHERE size > 1 ORDER BY size")
    setup = "CREATE TABLE town (name, size); INSERT INTO town VALUES ('Bern', 3), ('Thun', 2)"
    found = against(
        "sql_equivalence", "SELECT name FROM town ORDER BY size", wanted, setup=setup, needs=["answer", "reference"]
    )
    assert found.score == 1
    assert 'the best of 2 references: "SELECT name FROM town WHERE size > 1' in found.reason


def test_references_that_are_all_blank_leave_nothing_to_compare_with(against):
    for name in ("token_f1", "levenshtein", "bleu"):
        assert against(name, "a", ("", " ")).status == "undefined"
    assert against("semantic_similarity", "a", ("", " "), Embedder()).status == "undefined"
    assert not math.isnan(against("token_f1", "a", ("", "b")).score)
