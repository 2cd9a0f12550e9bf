"""What the repeats of a run tell, in words."""

import pytest

from evalflow.report.findings import cases_in, noise_findings, panel_findings
from evalflow.report.wording import number
from tests.manifests import manifest_of

MEAN = {"value": 0.75, "ci_low": 0.5, "ci_high": 0.9, "ci_method": "t"}
NOISE = {
    "answers_per_case": 3.0,
    "judgements_per_answer": 1.0,
    "case_spread": 0.04,
    "generator_noise": 0.01,
    "judge_noise": None,
    "std_error": 0.05,
    "lowest_std_error": 0.04,
    "one_more": {
        "answer": {"std_error": 0.048, "as_more_cases": 1.7},
        "judgement": None,
        "case": {"std_error": 0.0476},
    },
    "stability": {
        "stable_pass": 3,
        "flaky": 1,
        "stable_fail": 2,
        "judged_once": 0,
        "flaky_cases": [{"case_id": "c1", "passes": 1, "verdicts": 3}],
    },
    "repeats": None,
    "draws": [{"k": k, "cases": 6, "pass_at_k": MEAN, "pass_all_k": MEAN} for k in (1, 3)],
}


def detail(**noise):
    key = {"dataset": "d", "target": "t", "metric": "m", "judge": "j", "tag": None, "statistic": "mean", "n": 6}
    return {**key, "noise": {**NOISE, **noise}}


def test_every_part_is_said():
    [text] = noise_findings([detail(), {"metric": "m", "statistic": "mean"}])
    assert text.title == "m: 6 cases, 3 answers each, 1 judgement of each answer"
    assert list(text.lines) == [
        "cases differ by 0.200, answers to one case by 0.100",
        "standard error 0.0500; one more answer 0.0480 (as 1.7 more cases would), one more case 0.0476",
        "more repeats of these cases cannot take it below 0.0400",
        "3 stable pass, 1 flaky, 2 stable fail: c1 (1 of 3)",
        "of 3 answers at least one passes in 75 % (50 % to 90 %) (pass@3), all pass in 75 % (50 % to 90 %) (pass^3)",
    ]


def test_what_is_not_known_is_not_said():
    [text] = noise_findings([detail(std_error=None, stability=None, draws=None)])
    assert list(text.lines) == ["a single case, or group of cases: the noise of cases is unknown"]


def test_a_spread_of_cases_that_noise_hides_is_not_said_to_be_zero():
    [text] = noise_findings([detail(case_spread=0.0, lowest_std_error=0.0)])
    assert text.lines[0] == "cases differ by no more than noise would, answers to one case by 0.100"
    assert not any("take it below" in line for line in text.lines)


@pytest.mark.parametrize("judge", ["second", None])
def test_what_tells_them_apart_is_in_the_title(judge):
    texts = noise_findings([detail(), {**detail(), "judge": "other"}, {**detail(), "judge": judge}])
    assert texts[1].title.startswith("m · other: ")
    assert noise_findings([]) == []


def test_each_tag_has_a_line_the_largest_first():
    tags = [{**detail(), "tag": f"t{i}", "n": 10 - i} for i in range(10)]
    tags[1] = {**detail(std_error=None, stability=None), "tag": "t1", "n": 9}
    other = {**detail(), "judge": "other", "tag": "t0"}
    [text] = noise_findings([detail(), *tags, other])
    assert text.lines[5] == "t0, 10 cases: cases differ by 0.200, answers to one case by 0.100; 1 flaky"
    assert text.lines[6] == "t1, 9 cases: too few cases"
    assert text.lines[-1] == "2 more tags in summary.json"
    assert len(text.lines) == 5 + 8 + 1


def test_cases_without_ids_are_named_by_their_question():
    made, other = "0123456789abcdef", "fedcba9876543210"
    stability = {**NOISE["stability"], "flaky_cases": [{"case_id": made, "passes": 1, "verdicts": 3}]}
    widest = [{"case_id": other, "scores": {"a": 1.0}}, {"case_id": "own", "scores": {"a": 0.5}}]
    alpha = {"value": None, "method": "none: one case"}
    panel = {**detail(), "panel": {"members": [], "alpha": alpha, "mean_range": 0.5, "widest": widest}}
    del panel["noise"]
    details = [detail(stability=stability), panel, {"metric": "m", "statistic": "mean"}]
    assert [*cases_in(details)] == [("d", made), ("d", other), ("d", "own")]
    questions = {("d", made): "When does it open?", ("d", other): "Why?", ("d", "own"): "No?"}
    [text] = noise_findings(details, questions)
    assert '3 stable pass, 1 flaky, 2 stable fail: "When does it open?" (1 of 3)' in text.lines
    [text] = panel_findings(details, manifest_of(), questions)
    assert text.lines[-1] == 'largest differences: "Why?" (a 1.000); own (a 0.500)'


def test_different_cases_with_the_same_question_are_all_listed():
    ids = ["0123456789abcdef", "fedcba9876543210", "00112233445566ff"]
    widest = [{"case_id": one, "scores": {"a": 1.0, "b": place / 4}} for place, one in enumerate([*ids, ids[0]])]
    panel = {"members": [], "alpha": {"value": None, "method": "none: one case"}, "mean_range": 0.5, "widest": widest}
    of_panel = {"metric": "m", "dataset": "d", "target": "t", "judge": "p", "n": 4, "panel": panel}
    questions = dict.fromkeys((("d", one) for one in ids), "When does it open?")
    [found] = panel_findings([of_panel], manifest_of(), questions)
    assert found.lines[-1] == "largest differences: " + "; ".join(
        f'"When does it open?" (a 1.000, b {number(place / 4)})' for place in range(3)
    )
