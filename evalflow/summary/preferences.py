"""Which of two runs' answers people prefer, from labels that they gave without knowing whose an answer is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalflow.stats.arrays import Estimated
from evalflow.stats.intervals import mean_estimate
from evalflow.summary.verdicts import Preference, of_preference

_TIE = 0.5


@dataclass(frozen=True, slots=True)
class PeoplePreference:
    """People's preferences between the answers of run A and run B to the same cases.

    Attributes:
        pair: The names of A and B.
        wins, losses, ties: Labelled pairs in which people prefer B's answer, A's, and neither. Several people's labels
            of a pair are merged into their mean.
        unsure: Pairs without a label of which somebody said that they cannot tell.
        outdated: Pairs that were labelled by older guidelines only; these labels no longer count.
        declined: Other pairs that people were shown and declined.
        population: Pairs with two different answers, from which the labelled ones were drawn at random.
        same: Pairs whose answers are the same text. Nobody is asked about them, and they are not in the share.
        share: The mean preference for B, from 0 to 1, where a tie counts half, with its 95 % interval. The interval
            holds for a number of labels that is fixed in advance, so the result is provisional while people may still
            label.
        unfinished: The names of the reviews in which people may still label.
    """

    pair: tuple[str, str]
    wins: int
    losses: int
    ties: int
    unsure: int
    outdated: int
    declined: int
    population: int
    same: int
    share: Estimated
    unfinished: Sequence[str] = ()

    @property
    def n(self) -> int:
        return self.wins + self.losses + self.ties

    @property
    def verdict(self) -> Preference:
        """Whether people prefer one run's answers."""
        return of_preference(self.share)

    @property
    def is_provisional(self) -> bool:
        """Whether people may still label in one of the reviews."""
        return bool(self.unfinished)

    def document(self) -> dict[str, object]:
        names = ("wins", "losses", "ties", "unsure", "outdated", "declined", "population", "same")
        return {
            "run_a": self.pair[0],
            "run_b": self.pair[1],
            "n": self.n,
            **{name: getattr(self, name) for name in names},
            "share_b": self.share.value,
            "ci_low": self.share.low,
            "ci_high": self.share.high,
            "method": self.share.method,
            "verdict": self.verdict,
            "is_provisional": self.is_provisional,
        }


def preference_of(
    pair: tuple[str, str],
    values: Sequence[float],
    clusters: Sequence[str],
    *,
    unsure: int = 0,
    outdated: int = 0,
    declined: int = 0,
    population: int = 0,
    same: int = 0,
    unfinished: Sequence[str] = (),
) -> PeoplePreference:
    """Sum up people's preferences: for each labelled pair from 0 (A's answer) to 1 (B's), and its cluster.

    Example:
        >>> preference_of(("a", "b"), [1.0, 1.0, 0.5, 0.0], ["c1", "c2", "c3", "c4"]).wins
        2
    """
    own = None if len(set(clusters)) == len(clusters) else list(clusters)
    wins, losses = (sum(value > _TIE for value in values), sum(value < _TIE for value in values))
    share = mean_estimate(list(values), own, bounded=True)
    return PeoplePreference(
        pair, wins, losses, len(values) - wins - losses, unsure, outdated, declined, population, same, share, unfinished
    )
