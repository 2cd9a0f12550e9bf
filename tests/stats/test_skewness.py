import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from evalflow.stats.corrected_differences import corrected_apart, corrected_difference, corrected_means
from evalflow.stats.intervals import interval
from evalflow.stats.paired import paired_difference
from evalflow.stats.prediction import corrected_mean
from evalflow.stats.ranks import rank_intervals, unsure_pairs
from evalflow.stats.skewness import MOST, mean_skewness, unseen_outliers
from evalflow.stats.unpaired import unpaired_difference

SECONDS = np.random.default_rng(3).lognormal(0, 1.5, 60)
SKEWED = "none: too skewed for 60 cases"


def test_the_skewness_of_a_mean_is_that_of_the_scores_over_the_root_of_their_number():
    scores = SECONDS - SECONDS.mean()
    assert mean_skewness(scores) == pytest.approx(stats.skew(SECONDS) / 60**0.5)
    assert mean_skewness(np.zeros(5)) == 0


@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=10, max_size=60),
    st.floats(0.1, 10),
    st.floats(-100, 100),
)
def test_there_is_an_interval_by_cochrans_rule(scores: list[float], times: float, by: float):
    assume(not set(scores) <= {0.0, 1.0})  # they pass or fail, and have an interval of their own
    found = interval(scores)
    needed = 25 * float(stats.skew(scores)) ** 2 if np.ptp(scores) > 1e-6 else np.inf
    if not np.isclose(len(scores), needed, rtol=1e-6):
        assert (found.low is not None) == (len(scores) > needed)
    if found.low is not None and abs(mean_skewness(np.subtract(scores, np.mean(scores))) - MOST) > 1e-6:
        assert interval([by + times * x for x in scores]).low is not None


def test_skewed_scores_without_fixed_ends_have_no_interval():
    assert interval(SECONDS).method == SKEWED
    assert interval(SECONDS / 1000, bounded=True).method == "plus_two_t"
    assert interval(np.log(SECONDS)).low is not None
    grouped = interval(SECONDS, np.arange(60) // 3)
    assert grouped.method == "none: too skewed for 20 clusters"
    assert interval(SECONDS[:9]).method == "none: fewer than 10 cases of a score without fixed ends"


def test_a_skewed_difference_has_neither_interval_nor_test():
    paired, unpaired = paired_difference(np.zeros(60), SECONDS), unpaired_difference(np.arange(60) / 60, SECONDS)
    assert (paired.method, unpaired.method) == (SKEWED, f"{SKEWED} in a run")
    for found in (paired, unpaired):
        assert (found.low, found.high, found.p_value, found.std_error) == (None,) * 4
        assert found.difference is not None
    other = np.random.default_rng(4).permutation(SECONDS)
    assert unpaired_difference(SECONDS, other).low is not None, "as skewed as each other"


def test_labels_leave_skewed_scores_without_an_interval():
    people = np.where(np.arange(60) < 20, SECONDS, np.nan)
    judged = SECONDS * np.linspace(0.5, 1.5, 60)
    mean = corrected_mean(SECONDS[:20], judged[:20], judged[20:])
    assert (mean.low, mean.human_low, mean.finite_low, mean.labels_saved) == (None,) * 4
    none = np.zeros(60), np.where(np.arange(60) < 20, 0.0, np.nan)
    found = corrected_difference((none[0], judged), (none[1], people))
    apart = corrected_apart((none[0], judged), (none[1], people), (np.arange(60), np.arange(60, 120)))
    for one in (found, apart):
        assert one is not None
        assert (one.low, one.p_value, one.method.split(":")[0]) == (None, None, "none")
    ranked = corrected_means(np.column_stack([none[0], judged]), np.column_stack([none[1], people]))
    assert not isinstance(ranked, str)
    assert ranked.unsure is not None
    assert ranked.unsure[0, 1]


def test_runs_that_differ_by_skewed_scores_share_their_ranks():
    scores = np.column_stack([np.zeros(60), SECONDS, SECONDS + 5 + 0.1 * np.arange(60) % 2])
    unsure = unsure_pairs(scores - scores.mean(axis=0))
    assert unsure[0, 1]
    assert unsure[1, 0]
    assert not unsure[1, 2]
    ranks = rank_intervals(scores.mean(axis=0), np.eye(3) * 1e-6, 59, unsure=unsure)
    assert ranks.better[2].tolist() == [False, True, False]


def test_small_samples_say_how_rare_the_outliers_are_that_they_miss():
    assert unseen_outliers(100) == "outliers in up to 3 % of cases may be missing"
    assert unseen_outliers(300) == ""
    wide = np.random.default_rng(1).normal(size=400)
    assert interval(wide[:100]).method.endswith(": outliers in up to 3 % of cases may be missing")
    assert interval(wide).method == "t"
