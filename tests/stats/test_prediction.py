"""Judges corrected by labels: published numbers, the rule's cases, and what may not change the result."""

from __future__ import annotations

import itertools
import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalflow.labels.sheet import UnlabelledAnswer, draw, score_strata
from evalflow.stats.corrected_differences import corrected_difference
from evalflow.stats.labelled import sample
from evalflow.stats.prediction import (
    CorrectedMean,
    assumed_spread,
    corrected_mean,
    crossfitted,
    power_tuned,
    rectified,
)

pytestmark = pytest.mark.slow

Z = 1.959963985
BINARY = sample([1, 0, 1, 1, 0, 1, 1, 0, 1, 1], [1, 0, 1, 1, 1, 1, 1, 0, 1, 1], [1] * 21 + [0] * 9)
# Thousandths; the numbers on them were made with ppi-python 0.2.3.
LABELS = """
672 716 557 427 592 365 556 853 597 365 793 620 533 515 586 635 302 583 315 308 264 610 295 683 629 520 57 498 593
577 260 594 421 509 908 486 775 711 548 552 771 749 199 538 925 354 831 618 508 1000 746 442 434 766 480 813 568 662
918 392
"""
JUDGED = """
663 624 496 485 613 395 585 807 495 550 668 651 676 443 647 693 354 465 419 408 348 591 435 676 750 548 149 493 556
685 426 505 404 483 869 360 651 718 589 558 633 565 385 711 888 362 724 554 508 948 748 433 586 719 598 804 713 730
822 519
"""
UNLABELLED = """
632 519 647 388 568 593 786 804 382 455 722 284 568 614 763 744 511 540 575 770 566 589 679 589 580 403 615 531 821
674 638 744 569 776 657 640 446 698 374 324 549 473 688 972 507 454 690 767 652 609 665 760 457 491 655 387 607 461
849 642 658 623 691 305 437 625 255 787 370 757 544 716 648 421 859 914 639 571 623 424 724 572 619 518 445 407 801
562 672 615 564 597 510 631 608 444 403 528 929 608 518 700 870 437 570 527 394 845 618 639 520 770 542 681 404 426
834 588 729 549 514 566 698 506 658 658 843 715 743 528 464 736 742 618 682 789 776 731 561 855 476 736 687 830 1000
967 450 371 837 461 579 770 390 251 589 565 624 598 485 398 634 458 392 666 602 644 528 523 433 471 650 540 607 633
931 534 820 610 663 501 545 731 677 668 617 789 723 363 548 349 49 577 834 659 477 462 726 674 601 605 606 742 603
725 476 767 620 806 337 563 568 393 909 764 573 678 705 206 654 617 616 427 503 600 912 783 695 910 507 640 337 878
770 781 715 643 610 571 711 635 860 746 656 482 518 932 725 647 652 419 623 744 642 496 561 621 408 623 563 693 544
708 841 607 488 557 611 396 671 969 604 677 453 604 393 407 774 507 771 775 706 713 960 604 567 415 698 888 803 500
420 541 664 608 596 759 587 563 578 603 706 893 729 607 388 656 317 453 895 693 583 314 610 464 708 949 616 457 419
516 529 425 656 437 719 777 843 582 708 565 599 547 364 359 830 610 723 766 400 474 650 817 608 770 659 452 542 734
617 312 846 731 911 584 623 395 993 707 923 539 664 452 522 782 453 839 662 478 536 563 615 487 497 625 417 412 656
718 394 578 583 589 868 536 907 511 697 671 443 777 603 797 632 423 628 675 785 509 598 248
"""


def graded() -> tuple[Any, Any, Any]:
    labels, judged, unlabelled = (np.array(text.split(), float) / 1000 for text in (LABELS, JUDGED, UNLABELLED))
    return labels, judged, unlabelled


def drawn(seed: int, n: int, unlabelled: int = 400, *, binary: bool = True) -> tuple[Any, Any, Any]:
    """People's labels and those of a judge that is often too kind."""
    rng = np.random.default_rng(seed)
    size = n + unlabelled
    if binary:
        truth = (rng.random(size) < 0.6).astype(float)
        judged = np.where(rng.random(size) < 0.15, 1.0, truth)
    else:
        truth = rng.beta(2, 2, size)
        judged = np.clip(0.3 + 0.7 * truth + rng.normal(0, 0.1, size), 0, 1)
    return truth[:n], judged[:n], judged[n:]


def close(a: CorrectedMean, b: CorrectedMean, scale: float = 1.0) -> None:
    for one, other in zip(astuple(a), astuple(b), strict=True):
        assert one == (pytest.approx(other, abs=1e-9 * scale) if isinstance(other, float | tuple) else other)


def test_binary_labels_agree_with_ppi_python():
    s = BINARY
    lambda_ = power_tuned(s.labels, s.judged, s.unlabelled)
    assert lambda_ == pytest.approx(0.5134796238, abs=1e-9)
    estimate, error = rectified(s, lambda_)
    assert estimate == pytest.approx(0.6486520376, abs=1e-9)
    assert (estimate - Z * error, estimate + Z * error) == pytest.approx((0.4171190126, 0.8801850626), abs=1e-8)
    assert [rectified(s, lam)[0] for lam in (1.0, 0.0)] == pytest.approx([0.6, 0.7])
    # ppi-python divides by n, and not n - 1, in each of the two variances.
    parts = [lambda_**2 * s.unlabelled.var() / 30, (s.labels - lambda_ * s.judged).var() / 10]
    assert sum(parts) ** 0.5 == pytest.approx(0.1126356115, abs=1e-9)
    assert error**2 == pytest.approx(parts[0] * 30 / 29 + parts[1] * 10 / 9)


def test_graded_labels_agree_with_ppi_python():
    labels, judged, unlabelled = graded()
    s = sample(labels, judged, unlabelled)
    lambda_ = power_tuned(labels, judged, unlabelled)
    estimate, error = rectified(s, lambda_)
    assert estimate == pytest.approx(0.5988751772, abs=1e-9)
    parts = [lambda_**2 * unlabelled.var() / 400, (labels - lambda_ * judged).var() / 60]
    half = Z * sum(parts) ** 0.5
    assert (estimate - half, estimate + half) == pytest.approx((0.5712980062, 0.6264523483), abs=1e-8)
    assert error**2 == pytest.approx(parts[0] * 400 / 399 + parts[1] * 60 / 59)


def test_lambda_comes_from_the_other_folds():
    s = sample(*graded())
    lambdas = crossfitted(s, np.arange(60) % 5)
    expected = [0.9620495974, 0.9600630718, 1.0, 1.0, 0.8858533652]
    assert lambdas[:5] == pytest.approx(expected, abs=1e-9)
    assert rectified(s, lambdas) == pytest.approx((0.6003879975, 0.01425351235), abs=1e-9)
    assert rectified(s, 1.0) == pytest.approx((0.6000958333, 0.01418448555), abs=1e-9)


def test_sixty_labels_are_cross_fitted_and_forty_nine_are_not():
    found = corrected_mean(*graded())
    assert found.method == "ppi_crossfit_t"
    assert found.estimate == pytest.approx(0.600, abs=0.002)
    assert found.std_error == pytest.approx(0.0143, abs=0.0004)
    assert found.judge_mean == pytest.approx(0.6090565217, abs=1e-9)
    labels, judged, unlabelled = graded()
    few = corrected_mean(labels[:49], judged[:49], unlabelled)
    share = unlabelled.size / (unlabelled.size + 49)
    assert (few.method, few.lambda_) == ("ppi_t: fewer than 50 labels", pytest.approx(share))
    off = labels[:49] - share * judged[:49]
    assert few.estimate == pytest.approx(share * unlabelled.mean() + off.mean())


def test_a_difference_is_corrected_like_a_mean_and_both_sides_with_it():
    labels, judged, unlabelled = graded()
    every = np.concatenate([judged, unlabelled])
    people = np.concatenate([labels, np.full(unlabelled.size, np.nan)])
    found = corrected_difference((every * 0, every), (people * 0, people))
    alone = corrected_mean(labels, judged, unlabelled)
    assert found is not None
    assert (found.difference, found.low, found.high) == pytest.approx((alone.estimate, alone.low, alone.high))
    assert (found.value_a, found.value_b, found.n) == (0, pytest.approx(alone.estimate), every.size)
    assert (found.p_value or 0) < 0.05
    mirrored = corrected_difference((1 - every, every), (1 - people, people))
    assert mirrored is not None
    assert mirrored.difference == pytest.approx((mirrored.value_b or 0) - (mirrored.value_a or 0))


def test_a_judge_that_favours_one_side_misleads_no_longer():
    rng, wrong = np.random.default_rng(11), 0
    for _ in range(200):
        people_a, people_b = np.clip(rng.beta(4, 2, 300) + rng.normal(0, 0.15, (2, 300)), 0, 1)
        judged_a, judged_b = (0.15 + 0.7 * side + rng.normal(0, 0.12, 300) for side in (people_a, people_b))
        unseen = np.arange(300) >= 100
        seen_a, seen_b = (np.where(unseen, np.nan, side) for side in (people_a, people_b))
        found = corrected_difference((judged_a, judged_b + 0.06), (seen_a, seen_b))
        assert found is not None
        wrong += (found.p_value or 0) < 0.05
    assert wrong <= 22  # 11 %: the level and four standard errors of the simulation


def test_too_few_labelled_cases_correct_no_difference():
    people = np.where(np.arange(40) < 14, 0.5, np.nan)
    assert corrected_difference((np.zeros(40), np.ones(40)), (people, people)) is None


def test_runs_that_nobody_tells_apart_keep_their_own_bound():
    people = np.where(np.arange(40) < 20, 0.5, np.nan)
    assert corrected_difference((np.ones(40), np.ones(40)), (people, people), bounded=True) is None
    judged = np.linspace(0, 1, 20)
    every = corrected_difference((judged, judged**2), (people[:20], people[:20]), bounded=True)
    assert every is not None
    assert (every.difference, every.low) == (0, -(every.high or 0))
    assert every.method == "rule_of_three: 20 of 20 cases alike, labels alone, every answer has one"


def test_a_judge_that_sees_no_difference_leaves_it_to_the_labels():
    people = np.where(np.arange(40) < 15, np.linspace(0, 1, 40), np.nan)
    found = corrected_difference((np.ones(40), np.ones(40)), (people, people**2))
    assert found is not None
    assert found.n == 15
    assert found.method.endswith(", labels alone, the judge gives all answers one score")


def test_fewer_than_fifteen_labels_give_no_estimate_but_their_own_mean():
    found = corrected_mean(*drawn(1, 14))
    assert (found.estimate, found.low, found.lambda_, found.labels_saved) == (None, None, None, None)
    assert found.method == "none: fewer than 15 labels"
    assert found.human_mean is not None
    assert found.human_low is not None
    assert found.bias is not None
    assert corrected_mean(*drawn(1, 15)).estimate is not None


def test_no_labels_leave_the_judge_alone():
    found = corrected_mean([], [], [1.0, 0.0])
    assert (found.judge_mean, found.human_mean, found.bias, found.estimate) == (0.5, None, None, None)
    assert corrected_mean([], [], []).judge_mean is None


def test_a_judge_without_a_mistake_on_the_labels_still_may_make_some():
    """The judge's scores of the other answers count, and two pseudo-labels stand for mistakes that none has shown."""
    labels, _, unlabelled = drawn(3, 80, 20_000)
    found = corrected_mean(labels, labels, unlabelled)
    assert found.method == "ppi_crossfit_t: no mistake on the labels"
    assert found.estimate == pytest.approx(unlabelled.mean(), abs=0.01)
    assert found.std_error is not None
    assert found.std_error**2 == pytest.approx(2 / 82**2 + 0.25 / 20_000, rel=0.05)
    assert (found.labels_saved or 0) > 400
    assert found.bias_low is not None
    assert found.bias_low < 0
    few = corrected_mean(labels[:30], labels[:30], unlabelled)
    assert few.method == "ppi_t: fewer than 50 labels, no mistake on the labels"
    shifted = corrected_mean(graded()[0], graded()[0] + 0.1, graded()[2])
    assert shifted.method == "t: labels alone, no narrower with the scores"


@pytest.mark.parametrize("in_groups", [False, True])
def test_a_mistake_more_widens_the_interval_step_by_step(in_groups: bool):
    labels, unlabelled = np.tile([1.0, 0.0, 1.0, 1.0], 75), np.tile([1.0, 0.0, 1.0, 1.0], 25_000)
    group, errors = np.arange(300) // (3 if in_groups else 1), list[float]()
    for mistakes in range(6):
        judged = labels.copy()
        judged[[4, 50, 102, 154, 206][:mistakes]] = 0.0
        found = corrected_mean(labels, judged, unlabelled, clusters=group, unlabelled_clusters=300 + np.arange(100_000))
        errors.append(found.std_error or 0.0)
    assert all(1.02 < after / before < 1.35 for before, after in itertools.pairwise(errors))


def test_few_labels_leave_out_a_judge_that_would_widen_the_interval():
    rng = np.random.default_rng(12)
    labels, useless = (rng.random(500) < 0.7).astype(float), (rng.random(500) < 0.7).astype(float)
    found = corrected_mean(labels[:40], useless[:40], useless[40:])
    assert found.method == "wilson: labels alone, no narrower with the scores"
    assert (found.lambda_, found.labels_saved) == (0.0, 0)
    assert (found.low, found.high) == (found.human_low, found.human_high)


def test_all_labels_equal_have_an_interval_only_where_they_are_shares():
    unlabelled = drawn(4, 20)[2]
    assert corrected_mean(np.ones(20), np.ones(20), unlabelled).high == 1.0
    graded_scores = corrected_mean(np.full(20, 0.5), np.full(20, 0.5), unlabelled)
    assert (graded_scores.estimate, graded_scores.low, graded_scores.method) == (0.5, None, "none: all scores equal")


def test_every_answer_labelled_leaves_nothing_to_predict():
    labels, judged, _ = drawn(5, 60)
    found = corrected_mean(labels, judged, [])
    assert found.method == "wilson: labels alone, every answer has one"
    assert found.estimate == labels.mean()
    assert corrected_mean(labels, judged, [1.0]).method.endswith("all answers but one have one")


def test_labels_in_one_cluster_say_nothing_of_others():
    found = corrected_mean(*drawn(6, 20), clusters=["a"] * 20)
    assert (found.estimate, found.method) == (None, "none: labels in one cluster only")


def test_clusters_widen_the_interval_also_where_they_hold_labelled_and_unlabelled():
    rng = np.random.default_rng(7)
    group = np.repeat(np.arange(120), 5)
    level = np.repeat(rng.normal(0, 0.3, 120), 5)
    truth = level + rng.normal(0, 0.1, 600)
    judged = 0.2 + truth + np.repeat(rng.normal(0, 0.1, 120), 5)
    chosen = rng.random(600) < 0.5
    parts = truth[chosen], judged[chosen], judged[~chosen]
    alone = corrected_mean(*parts)
    by_group = corrected_mean(*parts, clusters=group[chosen], unlabelled_clusters=group[~chosen])
    assert by_group.method == "ppi_crossfit_cr1_t"
    assert alone.std_error is not None
    assert by_group.std_error is not None
    assert by_group.std_error > 1.5 * alone.std_error
    first = [x[:20] for x in parts]
    few = corrected_mean(*first, clusters=group[chosen][:20])
    assert few.method == "none: fewer than 10 clusters of a score without fixed ends"
    few = corrected_mean(*(np.clip(x, 0, 1) for x in first), clusters=group[chosen][:20], bounded=True)
    assert few.method == "ppi_cr1_t: fewer than 10 clusters"


def test_whole_clusters_labelled_have_cr1_over_cluster_sums():
    labels, judged, unlabelled = graded()
    clusters, others = np.arange(60) // 3, 1000 + np.arange(400) // 4
    _, error = rectified(sample(labels, judged, unlabelled, clusters=clusters, unlabelled_clusters=others), 1.0)
    sums = (labels - judged - (labels - judged).mean()).reshape(20, 3).sum(axis=1)
    sums_unlabelled = (unlabelled - unlabelled.mean()).reshape(100, 4).sum(axis=1)
    expected = 20 / 19 * (sums**2).sum() / 60**2 + 100 / 99 * (sums_unlabelled**2).sum() / 400**2
    assert error**2 == pytest.approx(expected)


def test_weights_undo_that_rare_answers_were_drawn_more_often():
    rng = np.random.default_rng(8)
    truth = (rng.random(40_000) < 0.3).astype(float)
    judged = np.where(rng.random(40_000) < 0.3, 1.0, truth)
    chance = np.where(judged == 1, 0.02, 0.1)
    chosen = rng.random(40_000) < chance
    parts = truth[chosen], judged[chosen], judged[~chosen]
    found = corrected_mean(*parts, weights=1 / chance[chosen])
    assert found.estimate == pytest.approx(truth.mean(), abs=0.04)
    assert found.human_mean == pytest.approx(truth.mean(), abs=0.04)
    assert found.low is not None
    assert found.high is not None
    assert found.low < truth.mean() < found.high
    unweighted = corrected_mean(*parts)
    assert unweighted.estimate is not None
    assert abs(unweighted.estimate - truth.mean()) > 0.05


@pytest.mark.parametrize("n", [30, 60])
def test_strata_without_an_error_seen_do_not_make_the_interval_too_narrow(n: int):
    """Of 95 % that pass, as many labels of those that the judge passes as of the others: 40 to 70 % before."""
    rng = np.random.default_rng(13)
    runs, held = 100, 0
    for seed in range(runs):
        truth = (rng.random(500) < 0.95).astype(float)
        judged = (rng.random(500) < np.where(truth == 1, 0.99, 0.5)).astype(float)
        answers = [UnlabelledAnswer(("d", str(i), "t", 0), float(score)) for i, score in enumerate(judged)]
        drawn = draw(answers, n, seed, stratum=score_strata(answers)).weights
        chosen = np.array([int(key[1]) for key in drawn])
        rest = np.setdiff1d(np.arange(500), chosen)
        found = corrected_mean(truth[chosen], judged[chosen], judged[rest], weights=list(drawn.values()))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth.mean() <= found.high
    assert held >= 0.93 * runs


def test_equal_weights_are_none():
    parts = drawn(9, 60)
    close(corrected_mean(*parts), corrected_mean(*parts, weights=np.full(60, 7.5)))


def test_labels_saved_are_those_that_alone_would_be_as_precise():
    parts = drawn(10, 100, 5000)
    found = corrected_mean(*parts)
    assert found.labels_saved is not None
    assert found.labels_saved > 50
    n = 100 + found.labels_saved
    rng = np.random.default_rng(10)
    more = corrected_mean((rng.permutation(n) < n * parts[0].mean()).astype(float), np.ones(n), [1.0, 1.0])
    assert found.high is not None
    assert found.low is not None
    assert more.high is not None
    assert more.low is not None
    assert more.high - more.low == pytest.approx(found.high - found.low, rel=0.02)


def test_of_clusters_labels_are_saved_exactly_where_the_interval_is_narrower():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        level = np.repeat(rng.normal(size=60), 5)
        labels, judged = (level + rng.normal(scale=noise, size=300) for noise in (1, 0.5 + seed / 5))
        groups, n = np.repeat(np.arange(60), 5), 100
        found = corrected_mean(labels[:n], judged[:n], judged[n:], clusters=groups[:n], unlabelled_clusters=groups[n:])
        if found.low is None or found.high is None or found.human_low is None or found.human_high is None:
            assert found.labels_saved is None  # too skewed, in one or two of the seeds
            continue
        share = (found.human_high - found.human_low) / (found.high - found.low)
        assert found.labels_saved == pytest.approx(n * share**2 - n, abs=0.5)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(15, 90), st.booleans())
def test_no_order_matters(seed: int, n: int, binary: bool):
    labels, judged, unlabelled = drawn(seed, n, 60, binary=binary)
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    found = corrected_mean(labels, judged, unlabelled)
    close(found, corrected_mean(labels[order], judged[order], rng.permutation(unlabelled)))
    groups, others = rng.integers(0, 70, n), rng.integers(0, 70, 60)
    found = corrected_mean(labels, judged, unlabelled, clusters=groups, unlabelled_clusters=others)
    again = corrected_mean(labels[order], judged[order], unlabelled, clusters=groups[order], unlabelled_clusters=others)
    close(found, again)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(15, 90), st.floats(-5, 5), st.floats(0.1, 10))
def test_a_scale_that_is_moved_or_stretched_moves_and_stretches_the_estimate(
    seed: int, n: int, by: float, times: float
):
    parts = drawn(seed, n, 60, binary=False)
    found, moved = corrected_mean(*parts), corrected_mean(*(by + times * x for x in parts))
    assert moved.lambda_ == pytest.approx(found.lambda_)
    for name in ("estimate", "low", "high", "judge_mean", "human_mean", "human_low", "human_high"):
        own = getattr(found, name)
        assert getattr(moved, name) == (own and pytest.approx(by + times * own))
    for name in ("std_error", "bias", "bias_low", "bias_high"):
        own = getattr(found, name)
        assert getattr(moved, name) == (own and pytest.approx(times * own, abs=1e-9))
    assert moved.labels_saved == found.labels_saved


@given(st.integers(0, 10_000), st.integers(15, 90), st.floats(0, 1), st.booleans())
def test_a_constant_judge_leaves_the_labels(seed: int, n: int, score: float, binary: bool):
    labels, _, _ = drawn(seed, n, 60, binary=binary)
    found = corrected_mean(labels, np.full(n, score), np.full(60, score), bounded=True)
    assert found.method.endswith("labels alone, the judge gives all answers one score")
    assert (found.estimate, found.low, found.high) == (found.human_mean, found.human_low, found.human_high)
    assert found.labels_saved == 0


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(50, 90))
def test_swapping_pass_and_fail_mirrors_the_estimate(seed: int, n: int):
    parts = drawn(seed, n, 60)
    found, mirrored = corrected_mean(*parts), corrected_mean(*(1 - x for x in parts))
    # The folds differ: they go by the answers' values.
    assert mirrored.estimate == pytest.approx(1 - (found.estimate or 0), abs=0.03)
    assert mirrored.judge_mean == pytest.approx(1 - (found.judge_mean or 0))
    assert mirrored.bias == pytest.approx(-(found.bias or 0))


def test_planned_labels_find_the_difference_as_often_as_planned():
    rng, difference, cases = np.random.default_rng(8), 0.1, 600
    spread = assumed_spread(0.16, 0.5)
    n = spread.labels_to_detect(difference, cases)
    assert n is not None
    found = 0
    for _ in range(400):
        people, judge = rng.multivariate_normal([difference, 0.3], 0.16 * np.array([[1, 0.5], [0.5, 1]]), cases).T
        seen = np.where(np.arange(cases) < n, people, np.nan)
        made = corrected_difference((np.zeros(cases), judge), (np.zeros(cases), seen))
        assert made is not None
        found += (made.p_value or 0.0) < 0.05
    assert 0.74 < found / 400 < 0.88
    assert spread.labels_to_detect(difference, 30) is None
    more = spread.labels_to_detect(difference, cases, power=0.95)
    assert more is not None
    assert more > n


@pytest.mark.parametrize("in_groups", [False, True])
def test_the_interval_for_exactly_these_answers_holds_their_mean(in_groups: bool):
    rng, size, n = np.random.default_rng(4), 400, 200
    truth = np.clip(rng.beta(4, 1, size) + np.repeat(rng.normal(0, 0.1, size // 2), 2) * in_groups, 0, 1)
    judged = np.clip(0.3 + 0.6 * truth + rng.normal(0, 0.15, size), 0, 1)
    group, held, narrower = np.arange(size) // 2, 0, list[float]()
    for _ in range(200):
        order = (rng.permutation(size // 2)[:, None] * 2 + np.arange(2)).ravel() if in_groups else rng.permutation(size)
        own, rest = order[:n], order[n:]
        units = (group[own], group[rest]) if in_groups else (None, None)
        scores = (truth[own], judged[own], judged[rest])
        found = corrected_mean(*scores, clusters=units[0], unlabelled_clusters=units[1])
        assert found.finite_low is not None
        assert found.finite_high is not None
        assert found.low is not None
        assert found.high is not None
        held += found.finite_low <= truth.mean() <= found.finite_high
        narrower.append((found.finite_high - found.finite_low) / (found.high - found.low))
    assert 0.9 <= held / 200 <= 0.99
    assert np.mean(narrower) < 0.75


def test_what_is_uncertain_of_exactly_these_answers_shrinks_to_nothing_as_all_are_labelled():
    labels = np.repeat([1.0, 0.0], [80, 20])
    everything = corrected_mean(labels, labels, [])
    assert (everything.finite_low, everything.finite_high) == (0.8, 0.8)
    some = corrected_mean(labels, np.full(100, 0.5), np.full(300, 0.5))  # a judge that says nothing: Wilson's interval
    assert some.low is not None
    assert some.finite_low == pytest.approx(0.8 - math.sqrt(0.75) * (0.8 - some.low))
    assert corrected_mean(labels[:49], labels[:49], np.ones(300)).finite_low is None
    weights = np.repeat([1.0, 2.0], 50)
    assert corrected_mean(labels, np.full(100, 0.5), np.full(300, 0.5), weights=weights).finite_low is None
