import re
from dataclasses import replace

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
    assert "2 runs: recorded" in words
    assert "python -m evalflow -m judge=a,b" in words
    assert words.count("judge: a (nature of a), uncalibrated judge: b (nature of b), uncalibrated") == 1
    assert "judge=a a not an LLM not calibrated 0.500 0.460 to 0.540 67 % 62 % to 72 % 3 " in words
    assert "judge=b b not an LLM not calibrated 0.467 0.427 to 0.507 33 % 28 % to 38 % 3 " in words
    assert "faithfulness a and b 3 67 % 1.00" in words
    assert re.findall(r"<h3>(.*?) · faithfulness</h3>", text) == ["Same pass or fail", "Rank correlation"]
    assert "on faithfulness, and below it the number of answers. Highest: a and b (67 %)." in words
    assert "0_judge=a done 3 – – $0.2500" in words
    assert "1_judge=b done 6 – – unknown" in words
    assert 'href="0_judge%3Da/report.html"' in text


def test_titles_stand_for_names(page, make_run, make_case):
    titled = {"config": {"metric": {"faithfulness": {"title": "True to the source"}}}, "metrics": {"faithfulness": {}}}
    runs = [
        (f"{i}_judge={judge}", run_of(make_run, make_case, judge, scores, **titled))
        for i, (judge, scores) in enumerate({"a": [0.1, 0.5, 0.9], "b": [0.2, 0.4, 0.8]}.items())
    ]
    _, words = page(runs)
    assert "True to the source a and b 3 67 % 1.00" in words
    assert "on True to the source, and below it" in words
    assert "faithfulness" not in words.replace("metric=faithfulness", "")


def test_runs_of_one_judge_have_rows_of_their_own(page, make_run, make_case):
    runs = [(name, run_of(make_run, make_case, "a", [0.1, 0.5])) for name in ("0_limit=1", "1_limit=2")]
    _, words = page(runs)
    assert "limit=1 a not an LLM" in words
    assert "limit=2 a not an LLM" in words
    assert "No two judges of this sweep scored the same answers" in words


def two_metrics(make_run, make_case, judge, *metrics):
    cells = [{"case_id": f"case-{i}", "judge": judge, "metric": name, "score": 0.5} for i in (0, 1) for name in metrics]
    about = manifest_of(judges={judge: {"nature": "LLM m"}}, metrics={name: {"judge": judge} for name in metrics})
    return make_run([make_case(0), make_case(1)], cells, manifest=about)


def test_several_metrics_stand_side_by_side_with_intervals(page, make_run, make_case):
    runs = [(name, two_metrics(make_run, make_case, name, "faithfulness", "tone")) for name in ("a", "b")]
    _, words = page(runs)
    assert "Run faithfulness tone a 0.500 0.460 to 0.540 0.500 0.460 to 0.540 b 0.500" in words
    assert "not run" not in words


def test_runs_of_other_metrics_have_tables_without_gaps(page, make_run, make_case):
    runs = [(name, two_metrics(make_run, make_case, name, f"metric_of_{name}")) for name in ("a", "b", "c", "d")]
    _, words = page(runs)
    assert "not run" not in words
    assert [words.count(f"metric_of_{name} Run Judge Score") for name in "abcd"] == [1, 1, 1, 1]


def test_a_judge_is_named_with_its_kind_and_its_calibration(page, make_run, make_case):
    agreement = {"kappa": {"value": 0.6, "ci_low": 0.4, "ci_high": 0.8}}
    certificate = {"stale": [], "n_labels": 40, "agreement": agreement, "dataset": "rag", "bias": {"value": None}}
    certificate["run_id"] = "before"
    run = run_of(make_run, make_case, "a", [0.1, 0.5])
    judge = {"nature": "LLM m", "judges_itself": True}
    facts = {"judge": "a", "certificate": certificate}
    about = manifest_of(judges={"a": judge}, metrics={"faithfulness": facts})
    _, words = page([("0", replace(run, manifest=about))])
    assert "0 a LLM calibrated by 40 labels judges its own answers 0.300" in words
    assert (
        "judge: a (LLM m), the model that it judges, and models tend to prefer their own answers, calibrated" in words
    )


def test_names_are_escaped(page, make_run, make_case):
    evil = "<img src=x onerror=alert(1)>"
    text, _ = page([(evil, run_of(make_run, make_case, evil, [0.5]))], sweep_of(run_id=evil))
    assert "<img" not in text
