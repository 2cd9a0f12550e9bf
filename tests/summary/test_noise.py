"""What the repeats of a run tell, from scores to the details of the summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evalflow.summary.summarise import summarise, summary_document

PUBLISHED = [[1, 1, 0], [0, 0, 0], [1, 1, 1], [1, 0, 1], [0, 1, 0], [1, 1, 1]]


@pytest.fixture
def noise(record, table, declare):
    """The detail of a run: its scores by case and repeat, which is the target's or the judge's."""

    def find(scores: Any, repeat: str = "target_repeat", **fields: Any) -> Any:
        records = [
            record(float(score), case, **{repeat: number}, **{name: value[case] for name, value in fields.items()})
            for case, repeats in enumerate(scores)
            for number, score in enumerate(repeats)
        ]
        summary = summarise(table(records, threshold=1.0), {"m": declare("m")})
        summary_document(summary)
        found = [detail for detail in summary.details if "noise" in detail]
        return found[0]["noise"] if found else None

    return find


def test_the_generators_noise_and_what_more_of_everything_buys(noise):
    found = noise(PUBLISHED)
    assert (found["answers_per_case"], found["judgements_per_answer"]) == (3, 1)
    assert found["case_spread"] == pytest.approx(0.0962962963, abs=1e-6)
    assert found["generator_noise"] == pytest.approx(1 / 6, abs=1e-6)
    assert found["judge_noise"] is None
    assert found["std_error"] == pytest.approx(0.1590869007, abs=1e-6)
    assert found["lowest_std_error"] == pytest.approx(0.1266861583, abs=1e-6)
    more = found["one_more"]
    assert more["judgement"] is None
    assert more["answer"]["std_error"] == pytest.approx(((0.0962962963 + 1 / 24) / 6) ** 0.5)
    as_many = 6 + more["answer"]["as_more_cases"]
    assert found["std_error"] * (6 / as_many) ** 0.5 == pytest.approx(more["answer"]["std_error"])
    assert more["case"]["std_error"] == pytest.approx(found["std_error"] * (6 / 7) ** 0.5)


def test_the_standard_error_is_that_of_the_row(record, table, declare):
    records = [
        record(float(score), case, target_repeat=number, group=f"g{case // 2}")
        for case, repeats in enumerate(PUBLISHED)
        for number, score in enumerate(repeats)
    ]
    summary = summarise(table(records), {"m": declare("m")})
    details: list[Any] = [detail for detail in summary.details if "noise" in detail]
    [detail] = details
    assert detail["noise"]["std_error"] == pytest.approx(summary.frame["std_error"][0])
    assert detail["n"] == 6


def test_stable_and_flaky_cases_and_draws_of_k_answers(noise):
    found = noise(PUBLISHED)
    stability = found["stability"]
    counts = [stability[name] for name in ("stable_pass", "flaky", "stable_fail", "judged_once")]
    assert counts == [2, 3, 1, 0]
    assert [case["case_id"] for case in stability["flaky_cases"]] == ["c0", "c3", "c4"]
    one, two, three = found["draws"]
    assert [one["pass_at_k"]["value"], one["pass_all_k"]["value"]] == pytest.approx([11 / 18, 11 / 18])
    assert two["pass_at_k"]["value"] == pytest.approx((1 + 0 + 1 + 1 + 2 / 3 + 1) / 6)
    assert two["pass_all_k"]["value"] == pytest.approx((1 / 3 + 0 + 1 + 1 / 3 + 0 + 1) / 6)
    assert (three["k"], three["pass_at_k"]["value"], three["pass_all_k"]["value"]) == (3, 5 / 6, 2 / 6)
    assert three["pass_at_k"]["ci_low"] < 5 / 6 < three["pass_at_k"]["ci_high"]
    assert three["pass_at_k"]["ci_method"] == "wilson"


def test_the_judges_repeats_are_no_answers(noise):
    found = noise(PUBLISHED, "repeat")
    assert (found["answers_per_case"], found["judgements_per_answer"]) == (1, 3)
    assert found["generator_noise"] is None
    assert found["judge_noise"] == pytest.approx(1 / 6)
    assert found["case_spread"] == pytest.approx(0.0962962963, abs=1e-6)
    assert found["one_more"]["answer"] is None
    assert found["one_more"]["judgement"]["as_more_cases"] > 0
    assert found["stability"]["flaky"] == 3
    assert found["draws"] is None


def test_few_cases_and_no_repeats(noise):
    assert noise([[1], [0]]) is None
    alone = noise([[1, 0]])
    assert alone["std_error"] is None
    assert alone["one_more"] is None
    assert alone["stability"]["flaky"] == 1
    assert noise([[1, 1], [1, 1]])["one_more"]["answer"] == {"std_error": 0.0, "as_more_cases": None}
    assert noise([[1, 1], [0, 0]], group=["g", "g"])["case_spread"] is None
    uneven = noise([[1, 0, 1], [1]])
    assert uneven["stability"]["judged_once"] == 1
    assert [draw["cases"] for draw in uneven["draws"]] == [2, 1, 1]


def test_each_tag_has_its_own(record, table, declare):
    tags = [("Hard > Very",), ("Hard",), ("Easy",), ("Easy",), (), ()]
    records = [
        record(float(score), case, target_repeat=number, tags=tags[case])
        for case, repeats in enumerate(PUBLISHED)
        for number, score in enumerate(repeats)
    ]
    details = summarise(table(records), {"m": declare("m")}).details
    found: dict[Any, Any] = {detail["tag"]: detail for detail in details if "noise" in detail}
    assert {tag: detail["n"] for tag, detail in found.items()} == {None: 6, "Easy": 2, "Hard": 2, "Hard > Very": 1}
    assert found["Easy"]["noise"]["generator_noise"] == pytest.approx(1 / 6)
    assert found["Hard > Very"]["noise"]["std_error"] is None


def test_repeats_have_pass_hat_k_and_the_share_of_cases_that_pass_most_of_them(
    record: Callable[..., Any], table: Callable[..., Any], declare: Callable[..., Any]
) -> None:
    """Four cases pass 3, 3, 2 and 1 of three answers."""
    passing = [3, 3, 2, 1]
    cells = [record(float(r < n), i, target_repeat=r) for i, n in enumerate(passing) for r in range(3)]
    [row] = summarise(table(cells, 0.5), {"m": declare()}).frame.to_dicts()
    assert (row["repeats"], row["pass_hat_k"], row["repeat_pass_share"]) == (3, 0.5, 0.75)
    assert row["pass_hat_k_low"] < 0.5 < row["pass_hat_k_high"]
    [strict] = summarise(table(cells, 0.5), {"m": declare()}, pass_share=1.0).frame.to_dicts()
    assert strict["repeat_pass_share"] == 0.5
    other = [record(1.0, i, metric="n", target_repeat=r) for i in range(4) for r in range(3)]
    both = summarise(table([*cells, *other], 0.5), {"m": declare(), "n": declare("n")}).frame
    [whole] = both.filter(metric="cases").to_dicts()
    assert (whole["repeats"], whole["pass_hat_k"], whole["repeat_pass_share"]) == (3, 0.5, 0.75)
    [once] = summarise(table(cells[::3], 0.5), {"m": declare()}).frame.to_dicts()
    assert (once["repeats"], once["pass_hat_k"]) == (None, None)
