"""Two runs side by side: which cases enter, what is told of them, and in which direction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from evalflow.records import FigureSpec, ScoreRecord
from evalflow.summary.compare import ComparisonRow, adjusted, compare_cases, compare_samples, orders_used
from evalflow.summary.gates import Gate, evaluate_gates
from evalflow.summary.pairing import Traits, pair_scores
from evalflow.summary.rows import summary_schema
from evalflow.summary.verdicts import Condition

Make = Callable[..., ScoreRecord]
Table = Callable[..., pl.LazyFrame]


def frame(table: Table, records: Sequence[ScoreRecord], threshold: float | None = None) -> pl.LazyFrame:
    return table(records, threshold).collect().lazy()


@pytest.fixture
def rows(record: Make, table: Table) -> Callable[..., list[ComparisonRow]]:
    """Compares two lists of scores, case by case."""

    def make(a: Sequence[float], b: Sequence[float], **options: Any) -> list[ComparisonRow]:
        threshold, traits = options.pop("threshold", None), options.pop("traits", Traits(bounded=True))
        sides = [frame(table, [record(s, i) for i, s in enumerate(side)], threshold) for side in (a, b)]
        found = compare_cases(pair_scores(sides[0], sides[1]), ("a", "b"), {"m": traits}, **options)
        return adjusted(found, "holm")

    return make


def test_repeats_are_averaged_and_what_is_in_one_run_alone_is_counted(record: Make, table: Table):
    a = [record(0.0, 0, repeat=0), record(1.0, 0, repeat=1), record(0.2, 1), record(0.3, 2)]
    b = [record(0.4, 0), record(None, 1, status="error"), record(0.7, 3), record(0.9, 0, member_of="j", judge="k")]
    found = pair_scores(frame(table, a), frame(table, b))
    assert found.cases.select("case_id", "score_a", "score_b").rows() == [("c0", 0.5, 0.4)]
    assert found.counts.row(0, named=True) == {
        "dataset": "d",
        "metric": "m",
        "common": 1,
        "only_a": 1,
        "only_b": 1,
        "unscored": 1,
    }


def test_better_worse_and_cannot_tell(rows: Callable[..., list[ComparisonRow]]):
    low = [0.1 + 0.01 * (i % 7) for i in range(30)]
    high = [score + 0.3 + 0.02 * (i % 3) for i, score in enumerate(low)]
    mixed = [score + (0.1 if i % 2 else -0.1) for i, score in enumerate(low)]
    assert [rows(low, other)[0].verdict for other in (high, mixed)] == ["better", "cannot_tell"]
    assert rows(high, low)[0].verdict == "worse"
    lower = Traits(higher_is_better=False)
    assert rows(low, high, traits=lower)[0].verdict == "worse"
    assert rows(high, low, traits=lower)[0].verdict == "better"


def test_pass_rates_are_a_row_of_their_own_unless_they_are_the_scores(rows: Callable[..., list[ComparisonRow]]):
    a, b = [0.2, 0.4, 0.6, 0.9], [0.3, 0.7, 0.8, 1.0]
    found = rows(a, b, threshold=0.5)
    assert [(row.statistic, row.difference.method) for row in found] == [
        ("mean", "paired_t_rare_sign_flip"),
        ("pass_rate", "newcombe_mcnemar"),
    ]
    assert [row.statistic for row in rows([0.0, 1.0, 1.0], [1.0, 1.0, 0.0], threshold=0.5)] == ["mean"]
    assert [row.statistic for row in rows(a, b)] == ["mean"]


def test_a_family_is_adjusted_together_and_can_detect_less(rows: Callable[..., list[ComparisonRow]]):
    low = [0.1 * (i % 5) for i in range(12)]
    high = [s + 0.02 + 0.05 * (i % 4) for i, s in enumerate(low)]
    [alone] = rows(low, high)
    pair = adjusted([alone, alone], "holm")
    assert alone.difference.p_value is not None
    assert alone.p_adjusted == alone.difference.p_value
    assert pair[0].p_adjusted == pytest.approx(2 * alone.difference.p_value)
    assert (pair[0].detectable or 0) > (alone.detectable or 0) > 0


def test_tags_get_rows_of_their_own_on_request(record: Make, table: Table):
    tags = [("Safety > Jailbreak",), ("Safety",), (), ("Other",)]
    a, b = ([record(s, i, tags=tags[i]) for i, s in enumerate(side)] for side in ([0.1] * 4, [0.2, 0.3, 0.4, 0.5]))
    found = compare_cases(pair_scores(frame(table, a), frame(table, b)), ("a", "b"), {}, by_tag=True)
    assert [(row.tag, row.difference.n) for row in found] == [
        (None, 4),
        ("Other", 1),
        ("Safety", 2),
        ("Safety > Jailbreak", 1),
    ]


def test_a_tag_of_cases_that_have_a_row_already_is_no_test_of_its_own(record: Make, table: Table):
    """`All` equals the whole run, and `Safety` its only child: a family of 2, and not of 4."""
    tags = [("All", "Safety > Jailbreak"), ("All", "Safety > Jailbreak"), ("All",), ("All",)]
    sides = [[record(s, i, tags=tags[i]) for i, s in enumerate(side)] for side in ([0.1] * 4, [0.2, 0.3, 0.4, 0.5])]
    a, b = (frame(table, side) for side in sides)
    metrics = {"m": Traits(bounded=True)}
    found = compare_cases(pair_scores(a, b), ("a", "b"), metrics, by_tag=True)
    assert [(row.tag, row.also_tags) for row in found] == [(None, ["All"]), ("Safety", ["Safety > Jailbreak"])]
    samples, _ = compare_samples(a, b, ("a", "b"), metrics, by_tag=True)
    assert [(row.tag, row.also_tags) for row in samples] == [(row.tag, row.also_tags) for row in found]
    assert adjusted(found, "holm")[0].p_adjusted == pytest.approx(2 * (found[0].difference.p_value or 0))
    for tag in (None, "All", "Safety > Jailbreak"):
        gate = Gate("m", "mean", Condition(">=", -1.0), tag, baseline=True)
        assert len(evaluate_gates([gate], pl.DataFrame(schema=summary_schema()), found)[0].rows) == 1


def test_what_could_be_detected_is_no_more_than_the_scale_holds(rows: Callable[..., list[ComparisonRow]]):
    [few] = rows([1, 1], [1, 0])
    assert (few.difference.std_error, few.detectable) == (0.5, None)
    [unbounded] = rows([1, 1], [1, 0], traits=Traits())
    assert (unbounded.detectable or 0) > 1


def test_a_group_is_the_cluster(record: Make, table: Table):
    a, b = ([record(s, i, group=f"g{i // 3}") for i, s in enumerate(side)] for side in ([0.1] * 6, [0.2, 0.3, 0.1] * 2))
    found = compare_cases(pair_scores(frame(table, a), frame(table, b)), ("a", "b"), {})
    assert (found[0].difference.n, found[0].difference.clusters) == (6, 2)


def test_not_worse_by_more_than_a_margin(rows: Callable[..., list[ComparisonRow]]):
    base = [0.5 + 0.03 * (i % 5) for i in range(40)]
    [slightly] = rows(base, [s - 0.01 + 0.01 * (i % 2) for i, s in enumerate(base)])
    held = [slightly.not_worse(margin) for margin in (0.1, 0.05, 0.005, 0.001)]
    assert held == [True, None, None, False]  # 40 cases do not show that fewer than one in twenty collapses
    assert replace(slightly, higher_is_better=False).not_worse(0.001) is True
    document: Any = slightly.document(0.1)
    assert document["not_worse"] is True
    assert document["p_not_inferior"] < 0.025 < 1
    assert "not_worse" not in slightly.document()


@pytest.mark.parametrize("threshold", [None, 0.5])
@pytest.mark.parametrize("labelled", ["a", "b", "neither"])
def test_labels_of_one_run_alone_correct_nothing_and_the_row_says_so(
    record: Make, table: Table, labelled: str, threshold: float | None
):
    sides = [frame(table, [record(s, i) for i in range(30)], threshold) for s in (0.4, 0.6)]
    known = sides[0].select("dataset", "metric", "case_id", human=pl.lit(0.5), accepted=pl.lit(1.0)).collect()
    known = known.with_columns(human_undefined=pl.lit(value=False))
    people = tuple(known if side == labelled else None for side in "ab")
    pairing = pair_scores(sides[0], sides[1], people=(people[0], people[1]))
    found = compare_cases(pairing, ("a", "b"), {"m": Traits(bounded=True)})
    other = {"a": "no label is of b", "b": "no label is of a", "neither": ""}[labelled]
    assert {(row.uncorrected, row.labelled) for row in found} == {(other, 0)}


def test_nothing_in_common_is_no_row(record: Make, table: Table):
    pairing = pair_scores(frame(table, [record(1.0, 0)]), frame(table, [record(1.0, 1)]))
    assert compare_cases(pairing, ("a", "b"), {}) == []


def test_no_case_that_differs_shows_that_b_is_not_worse_where_there_are_enough(
    rows: Callable[..., list[ComparisonRow]],
):
    [enough], [few] = rows([0.5] * 149, [0.5] * 149), rows([0.5] * 148, [0.5] * 148)
    held = [row.not_worse(0.02) for row in (enough, few)]
    assert held == [True, None]
    assert [row.verdict for row in (enough, few)] == ["cannot_tell", "cannot_tell"]
    assert few.document(0.02)["cases_needed"] == 149
    assert few.document(0.5)["cases_needed"] is None


Said = list[tuple[Any, Any]]


@pytest.fixture
def figures(record: Make, table: Table) -> Callable[..., dict[str, ComparisonRow]]:
    """Compares what two runs predicted; each case's truth and prediction, and perhaps its confidence."""

    def make(a: Said, b: Said, spec: FigureSpec, by_class: bool = False, **fields: Any) -> dict[str, ComparisonRow]:
        sides = []
        for side in (a, b):
            values = [dict(zip(("truth", "prediction", "confidence"), said, strict=False)) for said in side]
            records = [
                record(float(v["truth"] == v["prediction"]), i, value=v, **{k: f(i) for k, f in fields.items()})
                for i, v in enumerate(values)
            ]
            sides.append(frame(table, records))
        found = compare_cases(
            pair_scores(sides[0], sides[1]), ("a", "b"), {"m": Traits(bounded=True, figures=spec)}, by_class=by_class
        )
        return {row.statistic: row for row in adjusted(found, "holm")}

    return make


BINARY = FigureSpec("classification", True)
BEFORE = [(True, True)] * 20 + [(True, False)] * 10 + [(False, True)] * 6 + [(False, False)] * 24
AFTER = [(True, True)] * 28 + [(True, False)] * 2 + [(False, True)] * 3 + [(False, False)] * 27


def test_figures_of_a_positive_label(figures: Callable[..., dict[str, ComparisonRow]]):
    found = figures(BEFORE, AFTER, BINARY)
    assert list(found) == ["mean", "precision", "recall", "f1", "mcc"]
    assert found["mean"].also == ["accuracy"]
    assert found["mean"].called == "accuracy"
    recall, f1, precision = (found[name].difference for name in ("recall", "f1", "precision"))
    # Recall is a share of the 30 cases that are true, the same in both runs.
    assert (recall.n, recall.value_a, recall.value_b, recall.method) == (30, 20 / 30, 28 / 30, "newcombe_mcnemar")
    assert recall.p_value == 2 / 2**8
    assert (f1.n, f1.value_a, f1.value_b) == (60, pytest.approx(40 / 56), pytest.approx(56 / 61))
    assert (precision.value_a, precision.value_b) == (pytest.approx(20 / 26), pytest.approx(28 / 31))
    assert f1.method == "paired_bootstrap_swaps"
    assert (f1.low or 0) > 0
    assert [row.verdict for row in found.values()] == ["better"] * 5


def test_figures_of_several_classes(figures: Callable[..., dict[str, ComparisonRow]]):
    a = [("x", "x")] * 10 + [("y", "x")] * 10 + [("z", "z")] * 10
    b = [("x", "x")] * 10 + [("y", "y")] * 9 + [("y", "z")] + [("z", "z")] * 10
    found = figures(a, b, FigureSpec("classification"))
    assert list(found) == [
        "mean",
        "macro_precision",
        "macro_recall",
        "macro_f1",
        "weighted_precision",
        "weighted_f1",
        "weighted_f2",
        "mcc",
    ]
    assert found["mean"].also == ["accuracy", "weighted_recall"]
    assert found["macro_precision"].difference.method == "none: undefined in a run"
    assert found["macro_f1"].verdict == "better"


def test_figures_of_each_class_on_request(figures: Callable[..., dict[str, ComparisonRow]]):
    a = [("x", "x")] * 10 + [("y", "x")] * 10 + [("z", "z")] * 10
    b = [("x", "x")] * 10 + [("y", "y")] * 9 + [("y", "z")] + [("z", "z")] * 10
    found = figures(a, b, FigureSpec("classification"), by_class=True)
    assert [name for name in found if name.endswith("[y]")] == ["precision[y]", "recall[y]", "f1[y]", "f2[y]"]
    recall = found["recall[y]"].difference
    assert (recall.n, recall.value_a, recall.value_b, recall.method) == (10, 0, 0.9, "newcombe_mcnemar")
    assert found["recall[z]"].difference.method == "rule_of_three: 10 of 10 cases alike"
    assert found["precision[y]"].difference.method == "none: undefined in a run"
    assert (found["f1[x]"].difference.value_a, found["f1[x]"].difference.value_b) == (pytest.approx(20 / 30), 1)
    assert (found["f1[x]"].difference.low or 0) > 0


def test_figures_of_each_label_on_request(figures: Callable[..., dict[str, ComparisonRow]]):
    a = [({"spam": True, "rude": i % 2 == 0}, {"spam": i < 5, "rude": True}) for i in range(20)]
    b = [({"spam": True, "rude": i % 2 == 0}, {"spam": i < 17}) for i in range(20)]
    spec = FigureSpec("classification", per_label=True)
    assert list(figures(a, b, spec)) == ["mean"]
    found = figures(a, b, spec, by_class=True)
    assert list(found) == [
        "mean",
        *(f"{name}[{label}]" for label in ("rude", "spam") for name in ("precision", "recall", "f1")),
    ]
    assert (found["recall[spam]"].difference.value_a, found["recall[spam]"].difference.value_b) == (0.25, 0.85)
    assert found["recall[spam]"].verdict == "better"
    assert found["recall[rude]"].verdict == "worse"
    assert found["precision[rude]"].difference.method == "none: undefined in a run"


def test_figures_of_groups_draw_them_whole(figures: Callable[..., dict[str, ComparisonRow]]):
    found = figures(BEFORE, AFTER, BINARY, group=lambda i: f"g{i // 4}")
    assert (found["f1"].difference.clusters, found["f1"].difference.n) == (15, 60)
    assert found["f1"].difference.method == "paired_cluster_bootstrap_swaps: fewer than 30 clusters"
    assert found["recall"].difference.method.startswith("paired_cr2_t")


def test_less_is_better_of_stated_confidence(figures: Callable[..., dict[str, ComparisonRow]]):
    spec = FigureSpec("classification", True, confidence=True)
    a = [(i % 2 == 0, i % 4 < 2, 0.99) for i in range(60)]
    b = [(i % 2 == 0, i % 4 < 2, 0.51 + 0.01 * (i % 2)) for i in range(60)]
    found = figures(a, b, spec)
    assert (found["brier"].higher_is_better, found["ece"].higher_is_better) == (False, False)
    assert found["brier"].verdict == "better"
    assert found["ece"].difference.value_a == pytest.approx(0.49)
    assert found["ece"].difference.value_b == pytest.approx(0.015)
    assert found["ece"].verdict == "better"
    assert found["f1"].difference.method == "rule_of_three: the 45 that count of 60 cases alike"


def test_repeats_of_a_case_share_its_weight(record: Make, table: Table):
    def cell(truth: bool, prediction: bool, case: int, repeat: int) -> ScoreRecord:
        value = {"truth": truth, "prediction": prediction}
        return record(float(truth == prediction), case, repeat=repeat, value=value)

    once = [cell(True, True, 0, 0), cell(False, True, 1, 0)]
    thrice = [cell(True, True, 0, k) for k in range(3)] + [cell(False, k == 0, 1, k) for k in range(4)]
    pairing = pair_scores(frame(table, once), frame(table, thrice))
    found = {row.statistic: row.difference for row in compare_cases(pairing, ("a", "b"), {"m": Traits(figures=BINARY)})}
    assert (found["precision"].value_a, found["precision"].value_b) == (0.5, pytest.approx(1 / 1.25))


def test_a_measure_of_retrieval_is_a_mean_over_the_cases_that_have_it(record: Make, table: Table):
    values = [{"f1": i / 20, "mrr": None if i == 3 else 0.5} for i in range(12)]
    better = [{"f1": i / 20 + 0.01 * (i % 3), "mrr": 1.0} for i in range(12)]
    sides = [frame(table, [record(v["f1"], i, value=v) for i, v in enumerate(side)]) for side in (values, better)]
    spec = FigureSpec("retrieval", measures=("f1", "mrr"))
    found = compare_cases(pair_scores(sides[0], sides[1]), ("a", "b"), {"m": Traits(bounded=True, figures=spec)})
    assert [(row.statistic, list(row.also), row.difference.n) for row in found] == [
        ("mean", ["f1"], 12),
        ("mrr", [], 11),
    ]
    assert found[1].difference.difference == 0.5


def test_of_pairs_the_win_rate_is_the_mean_and_what_the_judge_leans_to_is_not_compared(record: Make, table: Table):
    def pair(verdict: str, lean: int) -> dict[str, Any]:
        return {"verdict": verdict, "lean": lean, "longer": None}

    a, b = [pair("loss", 0), pair("tie", 1), pair("tie", 0)], [pair("win", 0), pair("tie", -1), pair("win", 0)]
    score = {"win": 1.0, "tie": 0.5, "loss": 0.0}
    sides = [frame(table, [record(score[v["verdict"]], i, value=v) for i, v in enumerate(side)]) for side in (a, b)]
    traits = Traits(bounded=True, figures=FigureSpec("pairwise"))
    [row] = compare_cases(pair_scores(sides[0], sides[1]), ("a", "b"), {"m": traits})
    assert (row.statistic, list(row.also)) == ("mean", ["win_rate"])


def test_a_declared_order_takes_over_the_level_and_stops_at_the_first_that_is_not_clear(
    rows: Callable[..., list[ComparisonRow]],
):
    """The mean is clear and the pass rate nearly; then the mean is not clear, whatever the pass rate is."""
    low = [0.4 + 0.01 * (i % 9) for i in range(40)]
    high = [score + (0.3 if i < 7 else 0.02 * (i % 3)) for i, score in enumerate(low)]
    mean, rate = rows(low, high, threshold=0.6)
    assert (mean.statistic, rate.statistic) == ("mean", "pass_rate")
    assert mean.difference.p_value is not None
    assert rate.difference.p_value is not None
    assert rate.p_adjusted == pytest.approx(max(rate.difference.p_value, 2 * mean.difference.p_value))
    first, second = adjusted([mean, rate], "holm", {"m": ("mean", "pass_rate")})
    assert (first.p_adjusted, second.p_adjusted) == (
        mean.difference.p_value,
        max(mean.difference.p_value, rate.difference.p_value),
    )
    assert (first.detectable or 0) < (mean.detectable or 0)
    second, first = adjusted([rate, mean], "holm", {"m": ("pass_rate", "mean")})
    assert first.p_adjusted == pytest.approx(max(rate.difference.p_value, mean.difference.p_value))
    assert [row.p_adjusted for row in adjusted([mean, rate], "bh", {"m": ("mean", "pass_rate")})] == [
        row.p_adjusted for row in adjusted([mean, rate], "bh")
    ]
    assert orders_used([mean, rate], {"m": ("mean", "pass_rate"), "n": ()}) == {"m": ("mean", "pass_rate")}
    assert orders_used([mean], {"m": ("mean", "pass_rate")}) == {}
