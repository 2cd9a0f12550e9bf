"""The kind `retrieval`: compares retrieved ids, best first, with the relevant ones; relevance is binary.

    precision     hits / retrieved                      nothing retrieved: undefined
    recall        hits / relevant                       nothing relevant: undefined
    f1, f2        (1 + b) hits / (b relevant + retrieved), b = 1, 4; undefined where both are empty
    mrr           1 / rank of the first hit, 0 without one (reciprocal rank; its mean is the MRR)
    ndcg          DCG / ideal DCG, DCG = sum over hits of 1 / log2(rank + 1)
    hit           1 with any hit, else 0
    ...@k         the same for the first k; precision@k divides by k even if fewer were retrieved

mrr, ndcg and hit are undefined if nothing is relevant, and 0 if nothing is retrieved but something is relevant.
Manning, Raghavan & Schuetze 2008, ch. 8; Jarvelin & Kekalainen 2002 (ACM TOIS 20:422) for nDCG.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field

from evalflow.config.schema import Word
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.base import FieldMetric, UnitMetricConfig, read_field, scored
from evalflow.prompts import Prompts
from evalflow.records import FigureSpec, Outcome
from evalflow.values.cells import list_in, opened, split
from evalflow.values.jsonvalues import is_list, is_mapping, is_object, kind
from evalflow.values.label_names import is_number, label_name
from evalflow.values.trajectories import listed

_WHOLE = ("precision", "recall", "f1", "f2", "mrr", "ndcg", "hit")
_CUT = ("precision", "recall", "hit", "ndcg")


class RetrievalMetricConfig(UnitMetricConfig):
    """The ids to compare, and the measures.

    Attributes:
        relevant: The field with the relevant items.
        retrieved: The field with the retrieved items, best first.
        id: The key of the id in the items of both lists; null: the items are the ids.
        at: The cutoffs k of the measures `precision@k`, `recall@k`, `hit@k` and `ndcg@k`.
        score: The measure used as the case's score; the others are figures over the run.
    """

    kind: Literal["retrieval"]  # pyright: ignore[reportIncompatibleVariableOverride]
    relevant: Word = "expected"
    retrieved: Word = "actual"
    id: Word | None = None
    at: list[Annotated[int, Field(ge=1)]] = Field(default=[1, 3, 5, 10])
    score: Word = "f1"


class RetrievalMetric(FieldMetric[RetrievalMetricConfig]):
    """Computes retrieval measures for each case, without a judge."""

    Config = RetrievalMetricConfig
    names_fields = ("relevant", "retrieved")

    def __init__(self, name: str, config: RetrievalMetricConfig) -> None:
        super().__init__(name, config)
        self.figures = FigureSpec("retrieval", measures=measure_names(config.at))

    @classmethod
    def build(cls, name: str, config: RetrievalMetricConfig, prompts: Prompts) -> Self:
        known = measure_names(config.at)
        if config.score not in known:
            what = f"there is no measure {config.score!r}"
            raise UserError(Problem(what, f"metric.{name}.score", did_you_mean(config.score, known)))
        return super().build(name, config, prompts)

    async def compare(self, fields: dict[str, object]) -> Outcome:
        config = self.config
        ranked = RankedIds(
            *(
                read_field(at, fields, lambda value: ids_of(value, config.id))
                for at in (config.relevant, config.retrieved)
            )
        )
        figures = measures(ranked, config.at)
        score = figures[config.score]
        if score is None:
            return Outcome(status="undefined", reason=f"no {config.score}: {ranked.undefined}")
        return scored(score, figures, _reason(ranked, figures))


def _reason(ranked: RankedIds, figures: Mapping[str, float | None]) -> str:
    retrieved = set(ranked.retrieved)
    missed = [one for one in ranked.relevant if one not in retrieved]
    others = [one for one, gain in zip(ranked.retrieved, ranked.gains, strict=True) if not gain]
    parts = [f"found {sum(ranked.gains)} of {len(ranked.relevant)} expected in {len(ranked.retrieved)} retrieved"]
    parts += [f"{word}: {listed(ids, len(ids))}" for word, ids in (("missed", missed), ("not expected", others)) if ids]
    undefined = [name for name, value in figures.items() if value is None and "@" not in name]
    if undefined:
        parts.append(f"no {', '.join(undefined)}: {ranked.undefined}")
    return "; ".join(parts)


@dataclass(frozen=True)
class RankedIds:
    """The relevant ids and the retrieved ids, best first, without duplicates."""

    relevant: tuple[str, ...]
    retrieved: tuple[str, ...]

    @cached_property
    def gains(self) -> list[bool]:
        wanted = set(self.relevant)
        return [one in wanted for one in self.retrieved]

    @property
    def undefined(self) -> str:
        empty = ["expected"] * (not self.relevant) + ["retrieved"] * (not self.retrieved)
        return f"nothing is {' and nothing '.join(empty)}"


def measure_names(at: Sequence[int]) -> tuple[str, ...]:
    """All measures, in the order of tables."""
    return (*_WHOLE, *(f"{name}@{k}" for k in dict.fromkeys(at) for name in _CUT))


def measures(ranked: RankedIds, at: Sequence[int]) -> dict[str, float | None]:
    """Every measure of one case, including those at the cutoffs `at`; None if undefined."""
    gains = ranked.gains
    relevant, retrieved, hits = len(ranked.relevant), len(gains), sum(gains)
    first = next((rank for rank, gain in enumerate(gains, start=1) if gain), None)
    figures: dict[str, float | None] = {
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
        figures |= {
            f"precision@{k}": sum(top) / k if retrieved else None,
            f"recall@{k}": _ratio(sum(top), relevant),
            f"hit@{k}": float(any(top)) if relevant else None,
            f"ndcg@{k}": _ndcg(top, min(k, relevant)),
        }
    return figures


def ids_of(value: object, key: str | None) -> tuple[str, ...]:
    """The distinct ids in a list, or in a single item, in order. `key` is the key of the id, if items are objects.

    A text may be a list in JSON or Python, ids separated by |, semicolons or lines, or a single id.
    """
    if isinstance(value, str):
        value = _in_text(value)
    items = value if is_list(value) else [value]
    return tuple(dict.fromkeys(_id(item, key, place) for place, item in enumerate(items)))


def _in_text(text: str) -> list[object]:
    if is_object(item := opened(text)):
        return [item]
    elements = list_in(text)
    ids: list[object] = [*split(text)] if elements is None else elements
    if elements is None and len(ids) == 1 and "," in text.strip(" ,"):
        first = text.partition(",")[0].strip()
        what = f"{text!r} may be one id or several"
        raise ValueError(f'{what}; separate ids by |, or write JSON: ["{first}", …], or ["{text}"] for one')
    return ids


def _id(item: object, key: str | None, place: int) -> str:
    value = item.get(key) if key and is_mapping(item) else item
    if isinstance(value, str):
        return value
    if is_number(value):
        return label_name(value)
    if value is None and key:
        raise ValueError(f"item {place} has no {key}")
    hint = "; name the key of its id: `id`" if is_mapping(item) and not key else ""
    raise ValueError(f"item {place}: expected an id, got {kind(value)}{hint}")


def _ratio(above: int, below: int) -> float | None:
    return above / below if below else None


def _ndcg(gains: Sequence[bool], relevant: int) -> float | None:
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, relevant + 1))
    return sum(1 / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1) if gain) / ideal if ideal else None
