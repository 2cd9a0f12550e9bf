import re

import pytest

from evalflow.config.schema import MetricConfig
from evalflow.report.charts import confusions, distributions, interval_pictures, matrix_of
from tests.summary_rows import summary_row

METRICS = {
    "faithfulness": MetricConfig(kind="judge", threshold=0.5),
    "bias": MetricConfig(kind="judge", direction="lower_is_better"),
}


def row(**fields):
    return summary_row(**{"judge": "j", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, **fields})


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_distribution_counts_every_score_once(make_scores):
    cells = [{"case_id": f"{i}", "score": i / 10, "threshold": 0.5, "passed": i >= 5} for i in range(11)]
    cells += [{"case_id": "u", "status": "undefined"}, {"case_id": "e", "status": "error"}]
    (picture,) = distributions(make_scores(cells), METRICS)
    assert picture.title == "Distribution of faithfulness"
    assert picture.sentence == (
        "The median of 11 scores is 0.500; 6 pass (at least 0.5). 2 not scored (1 undefined, 1 error, 0 skipped)."
    )
    assert picture.svg.count("var(--fail)") == 5
    # 0.95 .. 1 holds 1.0, and nothing else shares a bin of a twentieth.
    assert picture.svg.count("var(--pass)") == 6
    assert 'role="img" aria-label="Distribution of faithfulness. The median of 11' in picture.svg


def test_lower_is_better_is_said(make_scores):
    cells = [{"case_id": "a", "metric": "bias", "score": 0.1, "threshold": 0.2, "passed": True}]
    (picture,) = distributions(make_scores(cells), METRICS)
    assert "1 pass (at most 0.2)" in picture.sentence


def test_judges_are_drawn_apart(make_scores):
    cells = [{"case_id": "a", "judge": judge, "score": 0.5} for judge in ("first", "second")]
    (picture,) = distributions(make_scores(cells), METRICS)
    assert {"first", "second"} <= set(texts(picture.svg))


def test_a_scale_of_its_own_keeps_its_range(make_scores):
    cells = [{"case_id": str(i), "score": float(score)} for i, score in enumerate((-10, 0, 40))]
    (picture,) = distributions(make_scores(cells), METRICS)
    assert picture.svg.count("var(--accent)") == 3
    assert "−10" in texts(picture.svg)


@pytest.mark.parametrize(
    ("scores", "sentence", "counts"),
    [
        ([0, 1, 1], "1 of 3 scores is 0, 2 are 1; 2 pass (at least 0.5). All cases scored.", ["1", "2"]),
        ([0, 0], "2 of 2 scores are 0, 0 are 1; 0 pass (at least 0.5). All cases scored.", ["2", "0"]),
    ],
)
def test_a_score_that_is_0_or_1_has_two_bars_with_their_counts(make_scores, scores, sentence, counts):
    cells = [{"case_id": f"{i}", "score": float(s), "threshold": 0.5, "passed": s >= 0.5} for i, s in enumerate(scores)]
    (picture,) = distributions(make_scores(cells), METRICS)
    assert picture.sentence == sentence
    assert [text for text in texts(picture.svg) if text.isdigit()] == ["0", "1", *counts]


def test_two_bars_are_drawn_for_each_judge(make_scores):
    cells = [{"case_id": "a", "judge": "first", "score": 0.0}, {"case_id": "a", "judge": "second", "score": 1.0}]
    (picture,) = distributions(make_scores(cells), METRICS)
    assert {"first", "second"} <= set(texts(picture.svg))
    assert picture.svg.count("<rect") == 2
    assert sorted(text for text in texts(picture.svg) if text.isdigit()) == ["0", "0", "0", "1", "1", "1"]


def test_a_label_keeps_away_from_a_dot_at_the_end_of_the_scale():
    (picture,) = interval_pictures([row(value=0.0, ci_low=0.0, ci_high=0.2)])
    label = re.search(r'<text x="(-[\d.]+)"[^>]* text-anchor="end"[^>]*>m</text>', picture.svg)
    assert label
    assert float(label[1]) <= -10


def test_where_nothing_is_scored_there_is_no_picture_but_a_sentence(make_scores):
    (picture,) = distributions(make_scores([{"case_id": "a", "status": "skipped"}]), METRICS)
    assert picture.svg == ""
    assert "No case is scored. 1 not scored (0 undefined, 0 error, 1 skipped)" in picture.sentence


def test_intervals_and_pass_rates():
    rows = [
        row(metric="a", n_error=2, pass_rate=0.999, pass_rate_low=0.9, pass_rate_high=1.0),
        row(metric="b", pass_rate=0.25, pass_rate_low=0.1, pass_rate_high=0.5),
    ]
    means, rates = interval_pictures(rows)
    assert "2 not scored (0 undefined, 2 error, 0 skipped)" in means.sentence
    assert {"a", "b"} <= set(texts(means.svg))
    assert "lowest: b, 25 %" in rates.sentence


def test_a_metrics_figures_count_their_unscored_cases_once():
    rows = [row(statistic=name, n_undefined=3) for name in ("precision", "recall", "f1")]
    (picture,) = interval_pictures(rows)
    assert "3 not scored" in picture.sentence
    assert {"m precision", "m recall", "m f1"} <= set(texts(picture.svg))


def test_natural_scales_have_a_picture_of_their_own():
    titles = [
        p.title for p in interval_pictures([row(metric="a"), row(metric="b", value=12.0, ci_low=8.0, ci_high=16.0)])
    ]
    assert titles == ["Means and figures", "Means and figures of b"]


def test_a_value_without_interval_is_a_dot():
    (picture,) = interval_pictures([row(ci_low=None, ci_high=None)])
    assert picture.svg.count("<circle") == 1
    assert "stroke-linecap" not in picture.svg


def test_rows_that_differ_by_judge_are_headed_by_their_metric():
    (picture,) = interval_pictures([row(judge="first"), row(judge="second")])
    assert {"m", "first", "second"} <= set(texts(picture.svg))


MATRIX = {"labels": ["no", "yes"], "rows": [[3, 1], [0, 4]]}


@pytest.mark.parametrize("detail", [MATRIX, {"matrix": MATRIX}, {"labels": ["no", "yes"], "matrix": MATRIX["rows"]}])
def test_a_matrix_is_found_wherever_it_stands(detail):
    assert matrix_of(detail) == (MATRIX["labels"], MATRIX["rows"])


@pytest.mark.parametrize("detail", [{}, {"labels": ["a"]}, {"labels": ["a"], "rows": [[1, 2]]}, {"rows": [[1]]}])
def test_what_is_no_square_matrix_is_none(detail):
    assert matrix_of(detail) is None


def test_a_confusion_matrix_shows_its_counts():
    detail = {"dataset": "d", "target": "t", "metric": "m", "judge": "j", "tag": None, **MATRIX}
    (picture,) = confusions([detail, {**detail, "tag": "x"}], [row(n_skipped=2)])
    assert picture.sentence.startswith("In 7 of 8 cases the actual label is the expected one. 2 not scored")
    assert [text for text in texts(picture.svg) if text.isdigit()] == ["3", "1", "0", "4"]
