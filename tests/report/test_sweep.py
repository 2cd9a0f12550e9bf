import re

import pytest

from evalflow.report.sweep import agreement, write_sweep_report
from tests.manifests import manifest_of, sweep_of


@pytest.fixture(name="page")
def _page(tmp_path):
    def write(runs, manifest=None):
        agreed = agreement([run.scores for _, run in runs])
        write_sweep_report(
            tmp_path / "report.html",
            manifest=manifest or sweep_of(run_id="sweep", overrides=["judge=a,b"]),
            runs=[(name, run.manifest, run.summary) for name, run in runs],
            agreement=agreed,
            boards=[],
        )
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        body = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", text, flags=re.DOTALL)
        return text, re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))

    return write


def run_of(make_run, make_case, judge, scores, **manifest):
    cells = [{"case_id": f"case-{i}", "judge": judge, "score": s, "passed": s >= 0.5} for i, s in enumerate(scores)]
    about = manifest_of(run_id=judge, judges={judge: {"nature": f"nature of {judge}"}}, **manifest)
    return make_run([make_case(i) for i in range(len(scores))], cells, manifest=about)


def test_metrics_by_judge_agreement_and_cost(page, make_run, make_case):
    runs = [
        ("0_judge=a", run_of(make_run, make_case, "a", [0.1, 0.5, 0.9], requests=3, cost_usd=0.25)),
        ("1_judge=b", run_of(make_run, make_case, "b", [0.2, 0.4, 0.8], requests=6, cost_usd=None)),
    ]
    text, words = page(runs)
    assert "Sweep of 2 runs" in words
    assert "python -m evalflow -m judge=a,b" in words
    assert words.count("judge: a (nature of a), uncalibrated judge: b (nature of b), uncalibrated") == 1
    assert "Metric a b faithfulness mean 0.500 0.460 to 0.540" in words
    assert "n 3: 3 scored, 0 undefined, 0 error, 0 skipped" in words
    assert "faithfulness a and b 3 67 % 1.00" in words
    assert re.findall(r"<h3>(.*?) · faithfulness</h3>", text) == ["Same pass or fail", "Rank correlation"]
    assert "on faithfulness, and below it the number of answers. Highest: a and b (67 %)." in words
    assert "0_judge=a done 3 – – $0.2500" in words
    assert "1_judge=b done 6 – – unknown" in words
    assert 'href="0_judge%3Da/report.html"' in text


def test_runs_that_only_their_names_tell_apart_have_columns_of_their_own(page, make_run, make_case):
    runs = [(name, run_of(make_run, make_case, "a", [0.1, 0.5])) for name in ("0_limit=1", "1_limit=2")]
    _, words = page(runs)
    assert "Metric 0_limit=1 1_limit=2 faithfulness" in words
    assert "No two judges of this sweep scored the same answers" in words


def test_a_metric_that_one_run_lacks_is_not_run(page, make_run, make_case):
    first = run_of(make_run, make_case, "a", [0.1])
    second = make_run([make_case(0)], [{"case_id": "case-0", "judge": "b", "metric": "other", "score": 0.5}])
    _, words = page([("0", first), ("1", second)])
    assert words.count("not run") == 2


def test_a_sweep_over_metrics_has_one_column(page, make_run, make_case):
    first = run_of(make_run, make_case, "a", [0.1])
    second = make_run([make_case(0)], [{"case_id": "case-0", "judge": "a", "metric": "other", "score": 0.5}])
    _, words = page([("0", first), ("1", second)])
    assert "Metric a faithfulness mean 0.100" in words
    assert "not run" not in words


def test_names_are_escaped(page, make_run, make_case):
    evil = "<img src=x onerror=alert(1)>"
    text, _ = page([(evil, run_of(make_run, make_case, evil, [0.5]))], sweep_of(run_id=evil))
    assert "<img" not in text
