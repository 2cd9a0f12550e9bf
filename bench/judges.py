"""What calibrate says of panels and cascades, by simulation: who is right, false findings, and the advised threshold.

    python bench/judges.py [RUNS]

Panels: three members, 600 answers, of which some are labelled. How often each way to combine them is right on 2,000 new
answers; how often the cross-validated interval of the weights' accuracy holds that; in how many runs weights are said
to be better than majority, and pairs to make the same mistakes. Cascades: the first member errs where its confidence is
low; agreement and cost of the advised threshold on 20,000 new answers, and how often the interval holds it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from evalflow.stats.dawid_skene import MISSING, dawid_skene
from evalflow.summary.members import MemberScores, cascade_advice, panel_advice

ANSWERS = 600
NEW = 2_000
LABELS = (20, 50, 200)
PANELS: dict[str, tuple[tuple[float, float, float], float]] = {
    "0.9, 0.8, 0.65": ((0.9, 0.8, 0.65), 0.0),
    "0.8, 0.8, 0.8": ((0.8, 0.8, 0.8), 0.0),
    "0.85, 0.7, 0.7; the last share 80 %": ((0.85, 0.7, 0.7), 0.8),
}


def judged(rng: np.random.Generator, rates: tuple[float, ...], shared: float, n: int) -> tuple[Any, Any]:
    """Truth and verdicts; the last member copies whether the one before errs in a share of the answers."""
    truth = (rng.random(n) < 0.7).astype(np.int64)
    wrong = rng.random((n, len(rates))) > rates
    copied = rng.random(n) < shared
    wrong[copied, -1] = wrong[copied, -2]
    return truth, np.where(wrong, 1 - truth[:, None], truth[:, None])


def scores_of(votes: Any, human: Any, **more: Any) -> MemberScores:
    """Verdicts as scores of members."""
    scores = votes.astype(float)
    given = {
        "names": [f"m{at}" for at in range(scores.shape[1])],
        "scores": scores,
        "costs": np.ones(scores.shape),
        "confidence": np.full(scores.shape, np.nan),
        "human": human,
        "units": np.arange(human.size),
        "levels": np.array([0.0, 1.0]),
        "threshold": None,
        "higher_is_better": True,
    }
    return MemberScores(**(given | more))


def panel(rng: np.random.Generator, rates: tuple[float, ...], shared: float, labels: int, runs: int) -> str:
    """One row of the table."""
    right, held, better, alike, pairs, made = np.zeros(4), 0, 0, np.zeros(2), np.zeros(2), 0
    for seed in range(runs):
        truth, votes = judged(rng, rates, shared, ANSWERS + NEW)
        new, known = slice(ANSWERS, None), np.arange(ANSWERS) < labels
        human = np.where(known, truth[:ANSWERS], np.nan)
        found = panel_advice(scores_of(votes[:ANSWERS], human), seed)
        if found is None:
            continue
        made += 1
        weights = np.array(list(found.weights.values()))
        best = int((votes[:labels] == truth[:labels, None]).mean(axis=0).argmax())
        given = np.concatenate([np.where(known, truth[:ANSWERS], MISSING), np.full(NEW, MISSING)])
        model = dawid_skene(votes, given, 2).truth[new].argmax(axis=1)
        said = [votes[new].sum(axis=1) > len(rates) / 2, votes[new, best], votes[new] @ weights >= 0.5, model]
        own = np.array([(one == truth[new]).mean() for one in said])
        right += own
        span = found.ways["weighted"]
        held += (span.low or 0) <= own[2] <= (span.high or 1)
        better += (found.gain.low or 0) > 0
        for at, (_, _, excess) in enumerate(found.shared):
            related = int(at == 2)  # the last pair
            alike[related] += (excess.low or 0) > 0
            pairs[related] += 1
    cells = [f"{one / made:.1%}" for one in (*right, held, better)]
    return " | ".join([str(labels), *cells, f"{alike[0] / pairs[0]:.1%}", f"{alike[1] / pairs[1]:.1%}"])


def doubtful(rng: np.random.Generator, n: int) -> tuple[Any, Any, Any]:
    """Truth, verdicts of both members, and the first one's confidence, of which its errors depend."""
    truth = (rng.random(n) < 0.6).astype(np.int64)
    sure = 0.5 + 0.5 * rng.beta(3, 1, n)
    wrong = np.stack([rng.random(n) > np.minimum(0.97, sure + 0.02), rng.random(n) < 0.05], axis=1)
    return truth, np.where(wrong, 1 - truth[:, None], truth[:, None]), sure


def cascade(rng: np.random.Generator, labels: int, runs: int) -> str:
    """One row of the table."""
    truth, votes, sure = doubtful(rng, 20_000)
    held, agreed, cost, all_agreed = 0, 0.0, 0.0, float((votes[:, 1] == truth).mean())
    for seed in range(runs):
        own_truth, own_votes, own_sure = doubtful(rng, ANSWERS)
        human = np.where(np.arange(ANSWERS) < labels, own_truth, np.nan)
        confidence = np.stack([own_sure, np.full(ANSWERS, np.nan)], axis=1)
        costs = np.tile([1.0, 10.0], (ANSWERS, 1))
        found = cascade_advice(scores_of(own_votes, human, confidence=confidence, costs=costs), 1.0, seed)
        assert found is not None
        asked = sure < found.advised.threshold
        own = float((np.where(asked, votes[:, 1], votes[:, 0]) == truth).mean())
        agreed, cost = agreed + own, cost + 1 + 10 * float(asked.mean())
        span = found.validated
        held += (span.low or 0) <= own <= (span.high or 1)
    cells = [f"{agreed / runs:.1%}", f"{all_agreed:.1%}", f"{cost / runs / 11:.0%}", f"{held / runs:.1%}"]
    return " | ".join([str(labels), *cells])


def main() -> None:
    """Print both tables."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = np.random.default_rng(5)
    heads = "members | labels | majority | best member | weighted | Dawid-Skene | held | weights said better | "
    print(f"| {heads}independent pairs said alike | last pair said alike |\n|---|" + "---:|" * 9)
    for name, (rates, shared) in PANELS.items():
        for labels in LABELS:
            print(f"| {name} | {panel(rng, rates, shared, labels, runs)} |", flush=True)
    print("\n| labels | agreement as advised | escalating all | cost of escalating all | held |\n|" + "---:|" * 5)
    for labels in LABELS:
        print(f"| {cascade(rng, labels, runs)} |", flush=True)


if __name__ == "__main__":
    main()
