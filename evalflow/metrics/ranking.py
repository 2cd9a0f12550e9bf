"""Measures of a ranked list of ids against the set that should be in it; relevance is yes or no.

    precision     hits / retrieved                      nothing retrieved: undefined
    recall        hits / relevant                       nothing relevant: undefined
    f1, f2        (1 + b) hits / (b relevant + retrieved), b = 1, 4; undefined where both are empty
    mrr           1 / rank of the first hit, 0 without one (reciprocal rank; its mean is the MRR)
    ndcg          DCG / ideal DCG, DCG = sum over hits of 1 / log2(rank + 1)
    hit           1 with any hit, else 0
    ...@k         the same of the first k; precision@k divides by k, however few were retrieved

mrr, ndcg and hit are undefined where nothing is relevant, and 0 where nothing is retrieved: something was to be found.
Manning, Raghavan & Schuetze 2008, ch. 8; Jarvelin & Kekalainen 2002 (ACM TOIS 20:422) for nDCG.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from evalflow.jsonvalues import kind

_WHOLE = ("precision", "recall", "f1", "f2", "mrr", "ndcg", "hit")
_CUT = ("precision", "recall", "hit", "ndcg")


@dataclass(frozen=True)
class Ranking:
    """What should be retrieved, and what was, best first; no id twice."""

    relevant: tuple[str, ...]
    retrieved: tuple[str, ...]

    @cached_property
    def gains(self) -> list[bool]:
        """Whether each retrieved id is relevant."""
        wanted = set(self.relevant)
        return [one in wanted for one in self.retrieved]

    @property
    def hits(self) -> list[str]:
        """Relevant ids that were retrieved."""
        return [one for one, gain in zip(self.retrieved, self.gains, strict=True) if gain]

    @property
    def missed(self) -> list[str]:
        """Relevant ids that were not."""
        found = set(self.retrieved)
        return [one for one in self.relevant if one not in found]

    @property
    def others(self) -> list[str]:
        """Retrieved ids that are not relevant."""
        return [one for one, gain in zip(self.retrieved, self.gains, strict=True) if not gain]

    @property
    def undefined(self) -> str:
        """Why measures may have no value."""
        empty = ["expected"] * (not self.relevant) + ["retrieved"] * (not self.retrieved)
        return f"nothing is {' and nothing '.join(empty)}"


def measure_names(at: Sequence[int]) -> tuple[str, ...]:
    """All measures, in the order in which tables show them."""
    return (*_WHOLE, *(f"{name}@{k}" for k in dict.fromkeys(at) for name in _CUT))


def measures(ranking: Ranking, at: Sequence[int]) -> dict[str, float | None]:
    """Every measure of one case; None where it is undefined.

    Args:
        ranking: The case.
        at: The ranks to cut at.
    """
    gains = ranking.gains
    relevant, retrieved, hits = len(ranking.relevant), len(gains), sum(gains)
    first = next((rank for rank, gain in enumerate(gains, start=1) if gain), None)
    found: dict[str, float | None] = {
        "precision": _ratio(hits, retrieved),
        "recall": _ratio(hits, relevant),
        "f1": _ratio(2 * hits, relevant + retrieved),
        "f2": _ratio(5 * hits, 4 * relevant + retrieved),
        "mrr": None if not relevant else 1 / first if first else 0.0,
        "ndcg": _ndcg(gains, relevant),
        "hit": float(hits > 0) if relevant else None,
    }
    for k in dict.fromkeys(at):
        top = gains[:k]
        found |= {
            f"precision@{k}": sum(top) / k if retrieved else None,
            f"recall@{k}": _ratio(sum(top), relevant),
            f"hit@{k}": float(any(top)) if relevant else None,
            f"ndcg@{k}": _ndcg(top, min(k, relevant)),
        }
    return found


def ids_of(value: Any, key: str | None) -> tuple[str, ...]:
    """The ids in a list, each at its first place; a single item stands for a list of it.

    Args:
        value: Ids, or objects that hold one.
        key: The key of the id in an object; None where there are no objects.

    Raises:
        ValueError: An item is no id and holds none.
    """
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(_id(item, key, place) for place, item in enumerate(items)))


def _id(item: Any, key: str | None, place: int) -> str:
    found = cast("Mapping[str, Any]", item).get(key) if key and isinstance(item, Mapping) else item
    if isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)):
        return str(found)
    if found is None and key:
        raise ValueError(f"item {place} has no {key}")
    hint = "; name the key of its id: `id`" if isinstance(item, Mapping) and not key else ""
    raise ValueError(f"item {place}: expected an id, got {kind(cast('object', found))}{hint}")


def _ratio(above: int, below: int) -> float | None:
    return above / below if below else None


def _ndcg(gains: Sequence[bool], relevant: int) -> float | None:
    """Of gains in rank order, where `relevant` of them could be true at best."""
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, relevant + 1))
    return sum(1 / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1) if gain) / ideal if ideal else None
