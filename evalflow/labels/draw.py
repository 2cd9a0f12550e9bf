"""Sample answers for people to label, at random, so that the labels are representative of all answers.

Every answer gets a pseudo-random number from the seed and its key, and the smallest are drawn. So a larger sample with
the same seed contains the smaller one, and a sample can be extended later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from evalflow.errors import Problem, UserError
from evalflow.frozen import record

Key = tuple[str, str, str, int]
"""dataset, case_id, target, target_repeat."""
_STRATA = 5


@record()
class UnlabelledAnswer:
    """An answer that may be sampled.

    Attributes:
        key: Its key.
        score: The judge's mean score; None if the judge gave none.
        tags: Tags of its case.
        group: Its case's group, else the case.
    """

    key: Key
    score: float | None
    tags: tuple[str, ...] = ()
    group: str = ""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sample of answers.

    Attributes:
        weights: Number of answers each sampled one represents, in random order, so that the first part of the sample
            is a random sample too.
        strata: Number of sampled and of all answers by stratum; a single stratum "all" without stratification.
        groups: Number of groups of the sampled answers, and of all groups.
    """

    weights: Mapping[Key, float]
    strata: Mapping[str, tuple[int, int]]
    groups: tuple[int, int]


def draw(
    candidates: Sequence[UnlabelledAnswer],
    size: int,
    seed: int,
    *,
    stratum: Callable[[UnlabelledAnswer], str] | None = None,
    already: Collection[Key] = (),
) -> Drawn:
    """Draw a sample of answers.

    Without strata every answer has the same chance and weight 1. With strata the sample is split equally between them,
    up to the size of each. An answer's weight is then the size of its stratum divided by the number drawn from it.

    Args:
        candidates: All answers.
        size: Sample size, including answers drawn before; all answers are drawn if there are fewer.
        seed: Seed of the random order; a larger sample with the same seed contains the smaller one.
        stratum: The stratum of an answer; None for no strata.
        already: Answers drawn before, with the same strata.

    Raises:
        UserError: There are more strata than answers to draw.
    """
    by_stratum: dict[str, list[UnlabelledAnswer]] = {}
    for one in candidates:
        by_stratum.setdefault(stratum(one) if stratum else "all", []).append(one)
    if len(by_stratum) > size:
        what = f"{size} answers cannot be drawn from {len(by_stratum)} strata"
        raise UserError(Problem(what, "--sample", "draw more, or leave --stratify out"))
    chosen: dict[Key, float] = {}
    strata: dict[str, tuple[int, int]] = {}
    shares = _shares({name: len(own) for name, own in by_stratum.items()}, size)
    for name, own in sorted(by_stratum.items()):
        first = sorted(own, key=lambda one: (one.key not in already, _ticket(one.key, seed)))
        taken = first[: max(shares[name], sum(one.key in already for one in own))]
        strata[name] = (len(taken), len(own))
        chosen |= {one.key: len(own) / len(taken) if stratum else 1.0 for one in taken}
    order = sorted(chosen, key=lambda key: _ticket(key, seed))
    return Drawn({key: chosen[key] for key in order}, strata, _groups_of(candidates, chosen))


def draw_groups(
    candidates: Sequence[UnlabelledAnswer], size: int, seed: int, *, already: Collection[Key] = ()
) -> Drawn:
    """Draw whole groups of answers, each with the same chance.

    The number of groups is fixed in advance from their mean size: drawing until there are enough answers would favour
    large groups. So there may be more or fewer answers than requested.

    Returns:
        Groups in random order, the answers of each together; every answer weighs 1.
    """
    groups: dict[tuple[str, str], list[Key]] = {}
    for one in candidates:
        groups.setdefault((one.key[0], one.group), []).append(one.key)
    before = {name for name, own in groups.items() if any(key in already for key in own)}
    wanted = max(1, len(before), min(len(groups), round(size * len(groups) / len(candidates))))
    order = sorted(groups, key=lambda name: (name not in before, _ticket((*name, "", 0), seed)))
    chosen = [key for name in order[:wanted] for key in groups[name]]
    return Drawn(dict.fromkeys(chosen, 1.0), {"all": (len(chosen), len(candidates))}, (wanted, len(groups)))


def _groups_of(candidates: Sequence[UnlabelledAnswer], chosen: Collection[Key]) -> tuple[int, int]:
    everything = {(one.key[0], one.group) for one in candidates}
    return len({(one.key[0], one.group) for one in candidates if one.key in chosen}), len(everything)


def score_strata(candidates: Iterable[UnlabelledAnswer]) -> Callable[[UnlabelledAnswer], str]:
    """Strata by the judge's score: one per value if there are few, else quintiles; one for no score."""
    scores = sorted(one.score for one in candidates if one.score is not None)
    few = len(set(scores)) <= _STRATA
    cuts = [scores[len(scores) * part // _STRATA] for part in range(1, _STRATA)] if scores else []

    def stratum(one: UnlabelledAnswer) -> str:
        score = one.score
        if score is None:
            return "without a score"
        return f"score {score:.3g}" if few else f"fifth {1 + sum(score >= cut for cut in cuts)} by score"

    return stratum


def tag_stratum(one: UnlabelledAnswer) -> str:
    """The stratum of an answer by its case's first tag."""
    return one.tags[0] if one.tags else "without a tag"


def _shares(sizes: Mapping[str, int], wanted: int) -> dict[str, int]:
    """Sample size of each stratum: equal, up to the size of the stratum."""
    shares: dict[str, int] = {}
    left = wanted
    for place, name in enumerate(sorted(sizes, key=lambda name: (sizes[name], name))):
        shares[name] = min(sizes[name], left // (len(sizes) - place))
        left -= shares[name]
    return shares


def _ticket(key: Key, seed: int) -> bytes:
    text = "\0".join(map(str, key)).encode("utf-8", "surrogatepass")
    salt = seed.to_bytes(16, "little", signed=True)
    return blake2b(text, digest_size=8, salt=salt, person=b"labels").digest()  # independent of the sampling of cases
