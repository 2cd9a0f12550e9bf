"""How often the corrected interval of a biased judge holds what people would say, by simulation.

    python -m bench calibration [--runs 2000] [--rare | --by-score | --differences | --these]

Labels are drawn at random from answers that a judge has scored, 500 of which stay without one. Wanted are 90 % or more
with 15 to 49 labels, and 93 to 97 % from 50 on; two standard errors of the simulation are not miss, and what is outside
is bold. Behind each share is how wide the interval is, against that of the same labels without the judge. What does not
hold is listed at the end.

`--rare` has judges whose mistakes are so rare that most draws of labels show none or few of them, all of one kind, and
10,000 answers without a label: alone, in groups of five of which the judge mistakes all or none, and the corrected
difference of two runs that are equal in truth, where the judge mistakes only the second one's answers.

`--differences` compares runs that are equal in truth, with a judge that favours one, and says how often the corrected
difference, and in brackets that of the judge alone, is significant: of means and pass rates, of the same cases and of
other ones, and in the ranks of five runs. One judge knows nothing. With a margin, the second run is worse by as much,
and must not pass.

`--these` draws labels out of 1,000 answers, and says how often the interval for exactly these answers holds their mean,
and how wide it is against that for answers like them.

`--by-score` draws labels as `calibrate --sample N --stratify score` does, out of 500 answers of which most pass, and
says how often the interval holds the mean of these answers, and how often that of all answers like them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _lab import print_cells
from numpy.typing import NDArray

from evalflow.labels.sheet import UnlabelledAnswer, draw, score_strata
from evalflow.stats.corrected_differences import corrected_apart, corrected_difference, corrected_means
from evalflow.stats.paired import paired_difference
from evalflow.stats.prediction import CorrectedMean, corrected_mean
from evalflow.stats.ranks import mean_covariance, rank_intervals
from evalflow.stats.unpaired import unpaired_difference
from evalflow.summary.verdicts import not_worse

Floats = NDArray[np.float64]
Random = np.random.Generator
People = Callable[[Random, int], Floats]
Judge = Callable[[Random, Floats], Floats]

SIZES = (15, 20, 30, 49, 50, 100, 200)
UNLABELLED = 500
GROUP = 5
FEW, LEAST, WANTED = 50, 0.90, (0.93, 0.97)
_CORRELATION = 0.2
_CONCENTRATION = 4.0
# Share of the cases that two runs answer alike, before chance.
_SAME = 0.8


def passes(p: float) -> People:
    """Answers that people pass with probability p."""
    return lambda rng, n: (rng.random(n) < p).astype(float)


def passes_in_groups(p: float) -> People:
    """The same, where the answers of a group of five have a chance in common."""
    spread = (1 - _CORRELATION) / _CORRELATION

    def draw(rng: Random, n: int) -> Floats:
        chance = rng.beta(p * spread, (1 - p) * spread, n // GROUP).repeat(GROUP)
        return (rng.random(n) < chance).astype(float)

    return draw


def graded(p: float) -> People:
    """Scores of 0..1 whose mean is p, as spread out as grades of answers are."""
    return lambda rng, n: rng.beta(p * _CONCENTRATION, (1 - p) * _CONCENTRATION, n)


def graded_in_groups(p: float) -> People:
    """The same, where the answers of a group of five often share a score."""

    def draw(rng: Random, n: int) -> Floats:
        own, shared = graded(p)(rng, n), graded(p)(rng, n // GROUP).repeat(GROUP)
        return np.where(rng.random(n) < _CORRELATION**0.5, shared, own)

    return draw


def verdicts(sensitivity: float, specificity: float) -> Judge:
    """A judge that passes and fails, with these rates of being right."""
    return lambda rng, truth: (rng.random(truth.size) < np.where(truth == 1, sensitivity, 1 - specificity)).astype(
        float
    )


def scores(shift: float, slope: float, noise: float) -> Judge:
    """A judge whose scores are a line of people's, with noise, within 0..1."""
    return lambda rng, truth: np.clip(shift + slope * truth + rng.normal(0, noise, truth.size), 0, 1)


BINARY: dict[str, Judge] = {
    "too kind": verdicts(0.98, 0.7),
    "too strict": verdicts(0.7, 0.98),
    "nearly right": verdicts(0.98, 0.98),
    "knows nothing": verdicts(0.7, 0.3),
}
GRADED: dict[str, Judge] = {
    "too kind": scores(0.35, 0.6, 0.1),
    "too strict": scores(-0.2, 1.0, 0.15),
    "nearly right": scores(0.0, 1.0, 0.03),
    "knows nothing": scores(0.6, 0.0, 0.2),
}


def simulated(rng: Random, people: People, judge: Judge, n: int, clusters: str) -> CorrectedMean:
    """One run's corrected mean.

    Args:
        rng: Of everything.
        people: What people would say.
        judge: What the judge makes of it.
        n: Labels.
        clusters: alone; whole (groups labelled as a whole); cut (labels drawn answer by answer out of groups).
    """
    size = -(-(n + UNLABELLED) // GROUP) * GROUP
    truth = people(rng, size)
    judged = judge(rng, truth)
    order = rng.permutation(size) if clusters == "cut" else np.arange(size)
    labelled, rest = order[:n], order[n:]
    if clusters == "alone":
        return corrected_mean(truth[labelled], judged[labelled], judged[rest], bounded=True)
    group = np.arange(size) // GROUP
    return corrected_mean(
        truth[labelled],
        judged[labelled],
        judged[rest],
        clusters=group[labelled],
        unlabelled_clusters=group[rest],
        bounded=True,
    )


def cell(people: People, judge: Judge, p: float, n: int, clusters: str, runs: int) -> tuple[str, bool]:
    """A cell of the table, and whether it holds."""
    rng = np.random.default_rng([n, runs])
    held, given, ratios = 0, 0, []
    for _ in range(runs):
        found = simulated(rng, people, judge, n, clusters)
        if found.low is None or found.high is None:
            continue
        given += 1
        held += found.low <= p <= found.high
        if found.human_low is not None and found.human_high is not None:
            ratios.append((found.high - found.low) / (found.human_high - found.human_low))
    if not given:
        return "none", True
    share, noise = held / given, 2 * (0.95 * 0.05 / given) ** 0.5
    holds = share >= LEAST - noise if n < FEW else WANTED[0] - noise <= share <= WANTED[1] + noise
    width = f" × {np.median(ratios):.2f}" if ratios else ""
    none = f", none in {1 - given / runs:.0%}" if given < 0.995 * runs else ""
    mark = "" if holds else "**"
    return f"{mark}{share:.1%}{mark}{width}{none}", holds


MANY = 10_000
MISTAKES = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05)
"""Shares of all answers that a judge mistakes."""
RARE: dict[str, Callable[[float, float], tuple[float, float]]] = {
    "too kind": lambda p, mistakes: (1.0, 1 - mistakes / (1 - p)),
    "too strict": lambda p, mistakes: (1 - mistakes / p, 1.0),
}
"""Sensitivity and specificity of a judge with so many mistakes, of answers of which people pass the share p."""


def rare(how: str, p: float, rates: tuple[float, float], n: int, runs: int) -> str:
    """How often the interval holds the truth, and its median width against that of the labels alone.

    `how` is alone, groups (of five, labelled whole; the judge mistakes all of those that it may, or none), or two runs.
    """
    rng, held, given, ratios = np.random.default_rng([n, runs]), 0, 0, list[float]()
    size = -(-(n + MANY) // GROUP) * GROUP
    group = np.arange(size) // GROUP if how == "groups" else np.arange(size)
    for _ in range(runs):
        truth = (passes_in_groups if how == "groups" else passes)(p)(rng, size)
        right = rng.random(size)[group] < np.where(truth == 1, *rates)
        judged = np.where(right, truth, 1 - truth)
        if how == "two runs":
            first = np.where(rng.random(size) < _SAME, truth, passes(p)(rng, size))
            seen = np.where(np.arange(size) < n, (first, truth), np.nan)
            found, human = (
                corrected_difference((first, judged), (seen[0], seen[1]), bounded=True),
                paired_difference(first[:n], truth[:n]),
            )
            assert found is not None
            ends, alone, true = (found.low, found.high), (human.low, human.high), 0.0
        else:
            units = (group[:n], group[n:]) if how == "groups" else (None, None)
            scores = truth[:n], judged[:n], judged[n:]
            mean = corrected_mean(*scores, clusters=units[0], unlabelled_clusters=units[1], bounded=True)
            ends, alone, true = (mean.low, mean.high), (mean.human_low, mean.human_high), p
        if ends[0] is not None and ends[1] is not None:
            held += ends[0] <= true <= ends[1]
            if alone[0] is not None and alone[1] is not None:
                ratios.append((ends[1] - ends[0]) / (alone[1] - alone[0]))
            given += 1
    none = f", none in {1 - given / runs:.0%}" if given < 0.995 * runs else ""
    return f"{held / max(1, given):.1%} × {np.median(ratios):.2f}{none}"


RATES = ((0.95, 0.98, 0.7), (0.95, 0.99, 0.5), (0.95, 0.95, 0.8), (0.95, 0.999, 0.3), (0.8, 0.9, 0.9), (0.5, 0.9, 0.9))
"""What people pass, and a judge's sensitivity and specificity."""


def by_score(rates: tuple[float, float, float], n: int, runs: int) -> str:
    """How often the interval holds the mean of the answers, and that of all like them, and its median width."""
    p, sensitivity, specificity = rates
    rng, widths, own, like = np.random.default_rng([n, runs]), list[float](), 0, 0
    for seed in range(runs):
        truth = passes(p)(rng, UNLABELLED)
        judged = verdicts(sensitivity, specificity)(rng, truth)
        answers = [UnlabelledAnswer(("d", str(i), "t", 0), float(score)) for i, score in enumerate(judged)]
        drawn = draw(answers, n, seed, stratum=score_strata(answers)).weights
        chosen = np.array([int(key[1]) for key in drawn])
        rest = np.setdiff1d(np.arange(UNLABELLED), chosen)
        found = corrected_mean(truth[chosen], judged[chosen], judged[rest], weights=list(drawn.values()), bounded=True)
        if found.low is not None and found.high is not None:
            own, like = own + (found.low <= truth.mean() <= found.high), like + (found.low <= p <= found.high)
            widths.append(found.high - found.low)
    return f"{own / len(widths):.1%}, {like / len(widths):.1%} × {np.median(widths):.2f}"


ANSWERS = 1000


def these(people: People, judge: Judge, n: int, how: str, runs: int) -> str:
    """How often the interval for exactly these answers holds their mean, and its width against the other's."""
    rng, held, ratios = np.random.default_rng([n, runs]), 0, list[float]()
    group = np.arange(ANSWERS) // GROUP
    for _ in range(runs):
        truth = people(rng, ANSWERS)
        judged = judge(rng, truth)
        order = rng.permutation(ANSWERS)
        if how == "whole":
            order = (rng.permutation(ANSWERS // GROUP)[:, None] * GROUP + np.arange(GROUP)).ravel()
        own, rest = order[:n], order[n:]
        units = (None, None) if how == "alone" else (group[own], group[rest])
        scores = (truth[own], judged[own], judged[rest])
        found = corrected_mean(*scores, clusters=units[0], unlabelled_clusters=units[1], bounded=True)
        if found.finite_low is None or found.finite_high is None or found.low is None or found.high is None:
            continue
        held += found.finite_low <= truth.mean() <= found.finite_high
        ratios.append((found.finite_high - found.finite_low) / (found.high - found.low))
    return f"{held / len(ratios):.1%} × {np.median(ratios):.2f}" if ratios else "none"


FAVOURS = (0.0, 0.03, 0.06, 0.1, None)
"""By how much the judge favours the second run; None: it knows nothing of any answer."""
LEVEL = 0.05


COMPARED = (
    "means",
    "pass rates",
    "pass rates, margin",
    "means, other cases",
    "pass rates, other cases",
    "ranks of five",
)
"""What of two runs is compared; `margin` asks how often `not_worse_by: 0.02` passes a run that is worse by as much."""
MARGIN, THRESHOLD, RANKED = 0.02, 0.6, 5


def differences(what: str, favour: float | None, n: int, runs: int) -> str:
    """How often equal runs differ significantly, or a worse one passes: by n labels, and by the judge alone."""
    rng, found = np.random.default_rng([n, runs]), np.zeros(2)
    for _ in range(runs):
        found += _false(what, *_drawn(what, favour, rng), n)
    shares = found / runs
    error = np.sqrt(shares[0] * (1 - shares[0]) / runs)
    return f"{shares[0]:.1%} ± {error:.1%} ({shares[1]:.1%})"


def _drawn(what: str, favour: float | None, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """What people and the judge say, by run and case."""
    size = RANKED if what.startswith("ranks") else 2
    level = rng.beta(4, 2, (1 if "other" not in what else size, UNLABELLED))
    truth = np.clip(level + rng.normal(0, 0.15, (size, UNLABELLED)), 0, 1)
    judged = 0.15 + 0.7 * truth + rng.normal(0, 0.12, truth.shape)
    judged[-1] += favour or 0.0
    judged = np.clip(judged, 0, 1)
    if what.startswith("pass"):
        levels = (truth, THRESHOLD), (judged, 0.15 + 0.7 * THRESHOLD)
        truth, judged = (np.asarray(side >= level, dtype=np.float64) for side, level in levels)
    if "margin" in what:  # people fail some more of the second run's answers, and the judge sees it
        fail = (truth[1] == 1) & (rng.random(UNLABELLED) < MARGIN / truth[1].mean())
        truth[1, fail] = judged[1, fail] = 0
    if favour is None:
        judged = rng.beta(4, 2, truth.shape) if "pass" not in what else (rng.random(truth.shape) < 0.7).astype(float)
    return truth, judged


def _false(what: str, truth: Floats, judged: Floats, n: int) -> tuple[bool, bool]:
    seen = np.where(np.arange(UNLABELLED) < n, truth, np.nan)
    if what.startswith("ranks"):
        means = corrected_means(judged.T, seen.T, bounded=True)
        assert not isinstance(means, str)
        ranks = rank_intervals(means.values, means.covariance, means.df, means.parts)
        alone = rank_intervals(*mean_covariance(judged.T))
        return bool(ranks.better.any()), bool(alone.better.any())
    sides, labels, names = (judged[0], judged[1]), (seen[0], seen[1]), np.arange(UNLABELLED)
    if "other" in what:
        found = corrected_apart(sides, labels, (names, names + UNLABELLED), bounded=True)
        judge = unpaired_difference(*sides, bounded=True)
    else:
        found = corrected_difference(sides, labels, bounded=True)
        judge = paired_difference(*sides, bounded=True, draws=999)
    assert found is not None
    if "margin" in what:
        both = [not_worse(one, MARGIN, higher_is_better=True) is True for one in (found, judge)]
    else:
        both = [one.p_value is not None and one.p_value < LEVEL for one in (found, judge)]
    return both[0], both[1]


def print_rare(runs: int) -> None:
    """The table of judges with few mistakes."""
    print(f"{runs} simulations a cell\n\n| people pass, judge | mistakes | holds |\n|---|---:|---|")
    for how, way in (("alone", "too kind"), ("alone", "too strict"), ("groups", "too kind"), ("two runs", "too kind")):
        for p in (0.8, 0.95):
            for n in (20, 50, 100, 300):
                cells = (rare(how, p, RARE[way](p, m), n, runs) for m in MISTAKES)
                print_cells(f"{how}, {p}, {way}, {n} labels", (f"{m:.1%}" for m in MISTAKES), cells)


def print_these(runs: int) -> None:
    """The table of intervals for exactly these answers."""
    sizes = (50, 100, 300, 800)
    print(f"{runs} simulations a cell\n\n| people, judge | labels | holds |\n|---|---:|---|")
    for name, people, judges, how in (
        ("pass or fail, 0.8", passes(0.8), BINARY, "alone"),
        ("pass or fail, 0.95", passes(0.95), BINARY, "alone"),
        ("graded, 0.8", graded(0.8), GRADED, "alone"),
        ("graded, groups of five, whole", graded_in_groups(0.8), GRADED, "whole"),
        ("graded, groups of five, cut", graded_in_groups(0.8), GRADED, "cut"),
    ):
        for kind, judge in judges.items():
            cells = (these(people, judge, n, how, runs) for n in sizes)
            print_cells(f"{name}, {kind}", sizes, cells)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="simulations of a cell")
    parser.add_argument("--rare", action="store_true", help="judges with few mistakes")
    parser.add_argument("--by-score", action="store_true", help="labels drawn by strata of the judge's score")
    parser.add_argument("--differences", action="store_true", help="two runs, and a judge that favours one")
    parser.add_argument("--compared", choices=COMPARED, help="with --differences: of one kind alone")
    parser.add_argument("--these", action="store_true", help="intervals for exactly these answers")
    options = parser.parse_args()
    runs = options.runs
    if options.rare:
        print_rare(runs)
        return
    if options.differences:
        sizes = (30, 100)
        print(f"{runs} simulations a cell\n\n| compared, favours | labels | found, by the judge |\n|---|---:|---|")
        for what in COMPARED if options.compared is None else (options.compared,):
            for favour in FAVOURS:
                cells = (differences(what, favour, n, runs) for n in sizes)
                how = "knows nothing" if favour is None else f"{favour:g}"
                print_cells(f"{what}, {how}", sizes, cells)
        return
    if options.these:
        print_these(runs)
        return
    if options.by_score:
        print(
            f"{runs} simulations a cell\n\n| people pass, sensitivity, specificity | labels | holds |\n|---|---:|---|"
        )
        for rates in RATES:
            print_cells(str(rates), (30, 60, 150), (by_score(rates, n, runs) for n in (30, 60, 150)))
        return
    print(f"{runs} simulations a cell\n\n| people, judge | labels | holds |\n|---|---:|---|")
    missed: list[str] = []
    for p in (0.5, 0.8):
        for name, people, judges, clusters in (
            ("pass or fail", passes(p), BINARY, "alone"),
            ("graded", graded(p), GRADED, "alone"),
            ("pass or fail, groups of five", passes_in_groups(p), BINARY, "whole"),
            ("graded, groups of five", graded_in_groups(p), GRADED, "whole"),
            ("pass or fail, groups cut", passes_in_groups(p), BINARY, "cut"),
            ("graded, groups cut", graded_in_groups(p), GRADED, "cut"),
        ):
            for kind, judge in judges.items():
                cells = {n: cell(people, judge, p, n, clusters, runs) for n in SIZES}
                missed += [f"{name}, mean {p}, {kind}, n = {n}: {c[0]}" for n, c in cells.items() if not c[1]]
                print_cells(f"{name}, {p}, {kind}", SIZES, (c[0] for c in cells.values()))
    print("\ndoes not hold:\n  " + "\n  ".join(missed) if missed else "\nall cells hold")


if __name__ == "__main__":
    main()
