import pytest

from evalflow.report.wording import (
    caveat,
    caveat_lines,
    cost,
    method,
    not_scored,
    number,
    percent,
    plain,
    series_name,
    varying,
)
from tests.summary_rows import summary_row


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.12345, "0.123"), (-0.5, "-0.500"), (99.9999, "100.000"), (1234.56, "1,234.6")]
)
def test_numbers(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.004, "0.4 %"),
        (0.996, "99.6 %"),
        (0.9999, ">99.9 %"),
        (0.0001, "<0.1 %"),
        (0.25, "25 %"),
    ],
)
def test_a_share_is_never_rounded_to_all_or_nothing(value, text):
    assert percent(value) == text


@pytest.mark.parametrize(
    ("usd", "text"), [(None, "unknown"), (0.0, "$0.00"), (0.00123, "$0.0012"), (1234.5, "$1,234.50")]
)
def test_an_unknown_cost_is_not_zero(usd, text):
    assert cost(usd) == text


def test_methods_in_words():
    assert [
        method(code) for code in ("t", "wilson", "cr2_t: fewer than 10 clusters", "none: one case", "new", None)
    ] == [
        "t",
        "Wilson",
        "t, clustered: fewer than 10 clusters",
        "none: one case",
        "new",
        "–",
    ]


def test_unscored_counts():
    assert not_scored(1, 0, 0) == "1 not scored (1 undefined, 0 error, 0 skipped)"
    assert not_scored(0, 0, 0) == "All cases scored"


def test_only_what_varies_names_a_series():
    rows = [summary_row(), summary_row(target="u", judge="j")]
    assert varying(rows) == ("target",)
    assert series_name(rows[0], ("target", "judge")) == "t"
    assert series_name(rows[1], ("target", "judge")) == "u · j"


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (None, ""),
        ("plus_two_t", ""),
        ("none: one case", "no interval, one case"),
        ("wilson: 3 of 3 cases, by the rule of three at least 0", "3 of 3 cases, by the rule of three at least 0"),
        ("plus_two_cr2_t: clusters of very unequal size", "a rough interval, clusters of very unequal size"),
        ("dirichlet: 3 in the rarest class", "a rough interval, 3 in the rarest class"),
        ("ppi_t: labels alone, every answer has one", ""),
        (
            "rule_of_three: 20 of 20 cases alike, labels alone, every answer has one",
            "a rough interval, 20 of 20 cases alike",
        ),
    ],
)
def test_caveats_stand_beside_the_number(method: str | None, text: str):
    assert caveat(method) == text


def test_one_line_for_all_rows_with_the_same_caveat():
    rough = "dirichlet: 3 in the rarest class"
    rows = [summary_row(metric=f"m{i}", statistic="f1", ci_method=rough) for i in range(5)]
    rows += [summary_row(metric="x", n_scored=0, ci_method="none: no scores")]
    assert caveat_lines(rows) == ["m0 f1, m1 f1, m2 f1 and 2 more: a rough interval, 3 in the rarest class"]


@pytest.mark.parametrize("mark", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
def test_no_text_turns_the_line_that_it_stands_in(mark: str) -> None:
    assert plain(f"cost{mark} 5 $") == "cost 5 $"


def test_marks_inside_words_stay() -> None:
    assert plain("\u0645\u200c\u0646 \u05d0\u200f") == "\u0645\u200c\u0646 \u05d0\u200f"


def test_few_cases_are_named_in_one_line() -> None:
    three, many = "wilson: 0 of 3 cases, too few for the rule of three", "t: fewer than 30 cases"
    facts = [("a", 3, three), ("b", 6, None), ("c", 6, many), ("d", 25, many), ("e", 40, None), ("f", 0, three)]
    rows = [summary_row(metric=name, n_scored=n, ci_method=why) for name, n, why in facts]
    assert caveat_lines(rows) == [
        "too few cases to say much: 3 for a; 6 for b, c",
        "d: a rough interval, fewer than 30 cases",
    ]
    assert caveat(three) == "0 of 3 cases, too few to say much"


@pytest.mark.parametrize(
    ("n", "why", "line"),
    [
        (8, "none: one cluster", "m: no interval, one cluster"),
        (8, "none: all scores equal", "m: no interval, all scores equal"),
        (8, "none: clusters do not differ", "m: no interval, clusters do not differ"),
        (8, "plus_two_cr2_t: clusters of very unequal size", "m: a rough interval, clusters of very unequal size"),
        (8, "none: too skewed for 8 cases", "m: no interval, too skewed for 8 cases"),
        (40, "wilson_clusters: 2 of 2 groups, too few for the rule of three", "m: 2 of 2 groups, too few to say much"),
        (1, "none: one case", "too few cases to say much: 1 for m"),
        (8, "none: fewer than 10 cases of a score without fixed ends", "too few cases to say much: 8 for m"),
        (8, "wilson: 8 of 8 cases, by the rule of three at least 0.625", "too few cases to say much: 8 for m"),
    ],
)
def test_few_cases_hide_no_other_reason(n: int, why: str, line: str) -> None:
    assert caveat_lines([summary_row(metric="m", n_scored=n, ci_method=why)]) == [line]
