import pytest

from evalflow.config.schema import MetricConfig
from evalflow.report.cases import most_informative

METRICS = {"faithfulness": MetricConfig(kind="judge"), "bias": MetricConfig(kind="judge", direction="lower_is_better")}
SCORED = {"threshold": 0.5, "passed": True}
CELLS = [
    {"case_id": "good", "score": 0.9, **SCORED},
    {"case_id": "error", "status": "error"},
    {"case_id": "low", "score": 0.6, **SCORED},
    {"case_id": "skipped", "status": "skipped"},
    {"case_id": "biased", "metric": "bias", "score": 0.4},
    {"case_id": "failed", "score": 0.4, "threshold": 0.5, "passed": False},
    {"case_id": "failed", "metric": "bias", "score": 0.0},
    {"case_id": "good too", "score": 0.9, **SCORED},
    {"case_id": "member", "score": 0.95, **SCORED},
    {"case_id": "member", "member_of": "panel", "score": 0.0, "threshold": 0.5, "passed": False},
]


@pytest.mark.parametrize(
    ("count", "last"),
    [(1, "failed"), (2, "error"), (3, "biased"), (4, "low"), (5, "good"), (6, "good too"), (7, "member")],
)
def test_failed_first_then_errors_then_the_worst_scores_then_what_has_none(make_scores, count, last):
    found, before = (most_informative(make_scores(CELLS), METRICS, n) or set() for n in (count, count - 1))
    assert set(found) - set(before) == {("rag", last)}


def test_a_run_with_too_many_cases_lists_fewer_than_would_fit(make_scores, monkeypatch):
    monkeypatch.setattr("evalflow.report.cases.LISTED", 1)
    assert most_informative(make_scores(CELLS), METRICS, 7) == {("rag", "failed")}


def test_nothing_is_chosen_where_all_cases_fit(make_scores):
    assert most_informative(make_scores(CELLS), METRICS, 8) is None
    assert most_informative(make_scores([]), METRICS) is None
