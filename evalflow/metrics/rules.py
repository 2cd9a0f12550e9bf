"""Score rules: from the replies of a metric's steps to a score in 0..1 with a one-line reason.

A rule has three methods: `problems` with the declared steps, `evaluate` for the score, and `reason`. With `weighted` a
score is an expectation over the judge's probabilities, if it gave them for every row used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from evalflow.config.schema import Strict, Word
from evalflow.errors import Problem, did_you_mean
from evalflow.frozen import record
from evalflow.metrics.reasons import REMARK, one_line, quote, quotes, remark, word
from evalflow.metrics.returns import (
    LabelType,
    Observed,
    RecordType,
    Rows,
    StepConfig,
    item_type,
    normalised,
    number_problems,
    rows_at,
    value_fault,
)
from evalflow.records import Direction

Steps = Mapping[str, StepConfig]
Replies = Mapping[str, Observed]


@record()
class Result:
    """The result of a score rule: no score has a reason, `undefined`; `weighted` by the judge's probabilities."""

    score: float | None
    value: Any = None
    undefined: str | None = None
    weighted: bool = False


class ListRule(Strict):
    """A rule over the items of a list; it reads the key `field` of each, unless the items are plain values."""

    op: str
    of: str
    field: str | None = None

    def problems(self, steps: Steps, where: str) -> Iterator[Problem]:
        try:
            declared = self._declared(steps)
        except ValueError as error:
            yield Problem(str(error), where)
        else:
            yield from self._type_problems(declared, where)

    def _type_problems(self, declared: Any, where: str) -> Iterator[Problem]:
        raise NotImplementedError

    def _declared(self, steps: Steps) -> Any:
        """The declared type of the values that the rule reads; ValueError if the step or field does not exist."""
        items = item_type(self.of, steps)
        if not isinstance(items, RecordType):
            if self.field is not None:
                raise ValueError(f"the items of {self.of!r} have no fields; leave `field` out")
            return items
        if self.field is None:
            raise ValueError(f"`field` is required: which field of {self.of!r}? {did_you_mean('', items.fields)}")
        if self.field not in items.fields:
            raise ValueError(f"{self.of!r} has no field {self.field!r}; {did_you_mean(self.field, items.fields)}")
        return items.fields[self.field]

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        listed = rows_at(self.of, replies)
        if not listed.rows:
            return Result(None, undefined=f"nothing to divide by: there are no {listed.noun}")
        return self._score(listed, replies, weighted)

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        raise NotImplementedError

    def _cells(self, listed: Rows) -> list[Any]:
        return [_cell(row, self.field) for row in listed.rows]


class HitRule(ListRule):
    """A rule that counts some items as hits: those whose `field` equals `equals` or is in `in`."""

    model_config = ConfigDict(populate_by_name=True, defer_build=True)

    equals: Any = None
    in_: list[Any] | None = Field(default=None, alias="in", min_length=1)

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        if (self.equals is None) == (self.in_ is None):
            raise ValueError(f"{self.op} needs exactly one of `equals` and `in`")
        return self

    @property
    def hits(self) -> Sequence[Any]:
        return self.in_ if self.in_ is not None else [self.equals]

    @property
    def denominator(self) -> Sequence[Any] | None:
        """The values that are counted at all; None: all."""
        return None

    def _type_problems(self, declared: Any, where: str) -> Iterator[Problem]:
        values = [("equals" if self.in_ is None else "in", value) for value in self.hits]
        values += [("among", value) for value in self.denominator or ()]
        for key, value in values:
            if fault := value_fault(declared, value):
                yield Problem(fault[0], f"{where}.{key}", fault[1])
        if self.denominator is not None and not any(hit in self.denominator for hit in self.hits):
            yield Problem("what counts is not in `among`, so the share would always be 0", f"{where}.among")

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        """Quote the items that speak against the answer: the misses, or the hits if lower is better."""
        listed = rows_at(self.of, replies)
        cells = self._cells(listed)
        counted = [i for i, cell in enumerate(cells) if self.denominator is None or cell in self.denominator]
        lower = direction == "lower_is_better"
        against = [i for i in counted if (cells[i] in self.hits) == lower]
        if not against and lower:
            return f"0 of {len(counted)} {listed.noun} {self._condition}"
        if not against:
            words = dict.fromkeys(word(self.field, cells[i]) for i in counted)
            return f"{len(counted)} of {len(counted)} {listed.noun} {' or '.join(words)}"
        counts = Counter(word(self.field, cells[i]) for i in against)
        kinds = next(iter(counts))
        if len(counts) > 1:
            details = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
            kinds = f"{'' if lower else 'not '}{self._condition} ({details})"
        quoted = quotes(listed, against, replies.get(self.of))
        return f"{len(against)} of {len(counted)} {listed.noun} {kinds}: {quoted}"

    @property
    def _condition(self) -> str:
        return " or ".join(word(self.field, value) for value in self.hits)


class ShareRule(HitRule):
    """The share of hits among the items whose `field` is in `among`."""

    op: Literal["share"]  # pyright: ignore[reportIncompatibleVariableOverride]
    among: list[Any] | None = Field(default=None, min_length=1)

    @property
    def denominator(self) -> Sequence[Any] | None:
        return self.among

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        rows, used = _distributions(listed, self.field, weighted)
        hits, total = self.hits, float(len(rows))
        if self.among is not None:
            hits = [hit for hit in hits if hit in self.among]
            total = sum(_probability(row, self.among) for row in rows)
        if total <= 0:
            words = ", ".join(map(str, self.among or ()))
            return Result(None, undefined=f"nothing to divide by: none of the {len(rows)} {listed.noun} is {words}")
        score = _clamped(sum(_probability(row, hits) for row in rows) / total)
        return Result(score, score, weighted=used)

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        """See `HitRule`; for an expectation, the items less likely right than not, or else the weakest one."""
        listed = rows_at(self.of, replies)
        rows, used = _distributions(listed, self.field, weighted and self.among is None)
        if not used or not rows:
            return super().reason(replies, direction, weighted)
        chances = [_probability(row, self.hits) for row in rows]
        lower = direction == "lower_is_better"
        right = [1 - chance for chance in chances] if lower else chances
        order = sorted(range(len(right)), key=right.__getitem__)
        quoted = quotes(listed, [i for i in order if right[i] < 0.5] or order[:1], replies.get(self.of))
        if len(chances) == 1:
            return f"1 {listed.noun.removesuffix('s')}, {chances[0]:.2f} {self._condition}: {quoted}"
        # The quotes come first: they say most, and a terminal cuts the end of the line.
        head = f"{'most' if lower else 'least'} {self._condition}: {quoted}"
        return f"{head}; {len(chances)} {listed.noun}, on average {sum(chances) / len(chances):.2f}"


class AveragePrecisionRule(HitRule):
    """Average precision of a ranking: the mean, over the hits, of precision at their ranks.

    Verdicts count as replied: item probabilities give no expectation of average precision.
    """

    op: Literal["average_precision"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        score = average_precision([cell in self.hits for cell in self._cells(listed)])
        return Result(score, score)

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        cells = self._cells(rows_at(self.of, replies))
        ranks = [str(rank) for rank, cell in enumerate(cells, 1) if cell in self.hits]
        where = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}" if ranks else "no rank"
        return f"{self._condition} at {where} of {len(cells)}; {super().reason(replies, direction, weighted)}"


class MeanRule(ListRule):
    """The mean of a numeric or boolean `field` over items, mapped to 0..1."""

    op: Literal["mean"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _type_problems(self, declared: Any, where: str) -> Iterator[Problem]:
        return number_problems(declared, where)

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        rows, used = _distributions(listed, self.field, weighted)
        declared = self._declared({name: reply.step for name, reply in replies.items()})
        value = sum(_expected(row, float) for row in rows) / len(rows)
        score = sum(_expected(row, lambda cell: normalised(declared, cell)) for row in rows) / len(rows)
        return Result(_clamped(score), value, weighted=used)

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        listed = rows_at(self.of, replies)
        values = self._cells(listed)
        worst, extreme = (max(values), "highest") if direction == "lower_is_better" else (min(values), "lowest")
        quoted = quote(listed, values.index(worst), replies.get(self.of))
        named = f"{self.field} " if self.field else ""
        return f"mean over {len(values)} {listed.noun}; {extreme}: {quoted} {named}{worst}"


class FieldRule(Strict):
    """A rule on one `field` of a step with a single reply; the reason is the judge's own."""

    op: str
    of: str
    field: str

    def problems(self, steps: Steps, where: str) -> Iterator[Problem]:
        step = steps.get(self.of)
        if step is None:
            yield Problem(f"there is no step {self.of!r}", f"{where}.of", did_you_mean(self.of, steps))
        elif step.one_per is not None:
            what = f"the step {self.of!r} replies once per item, and `{self.op}` takes one reply"
            yield Problem(what, f"{where}.op", "use a rule over a list, such as share or mean")
        elif self.field not in step.returns:
            known = did_you_mean(self.field, step.returns)
            yield Problem(f"the step {self.of!r} returns no field {self.field!r}", f"{where}.field", known)
        else:
            yield from self._type_problems(step.returns[self.field], where)

    def _type_problems(self, declared: Any, where: str) -> Iterator[Problem]:
        raise NotImplementedError

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        reply = replies[self.of]
        return one_line(remark(reply.reply, reply) or f"{self.field}: {reply.reply[self.field]}", 4 * REMARK)

    def _chances(self, reply: Observed) -> Mapping[Any, float] | None:
        """The judge's own distribution of the field, if it gave one."""
        (row,), used = _distributions(Rows([reply.reply], reply.probabilities, (), ""), self.field, weighted=True)
        return row if used else None


class ValueRule(FieldRule):
    """One numeric or boolean `field` of a step's reply, mapped to 0..1."""

    op: Literal["value"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _type_problems(self, declared: Any, where: str) -> Iterator[Problem]:
        return number_problems(declared, where)

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        reply = replies[self.of]
        declared = reply.step.returns[self.field]
        chances = self._chances(reply) if weighted and reply.probabilities else None
        if chances is None:
            return Result(normalised(declared, reply.reply[self.field]), reply.reply[self.field])
        score = _clamped(_expected(chances, lambda value: normalised(declared, value)))
        return Result(score, _expected(chances, float), weighted=True)


class MapRule(FieldRule):
    """One label `field` of a step's reply, mapped to a number by a table."""

    op: Literal["map"]  # pyright: ignore[reportIncompatibleVariableOverride]
    values: dict[Word, float]

    @field_validator("values")
    @classmethod
    def _in_range(cls, values: dict[str, float]) -> dict[str, float]:
        return unit_values(values)

    def _type_problems(self, declared: Any, where: str) -> Iterator[Problem]:
        if not isinstance(declared, LabelType):
            yield Problem(f"a label is wanted, but {self.field!r} is a {declared.type}", f"{where}.field")
            return
        for label in self.values:
            if label not in declared.labels:
                yield Problem(f"unknown label {label!r}", f"{where}.values", did_you_mean(label, declared.labels))
        missing = [label for label in declared.labels if label not in self.values]
        if missing:
            yield Problem(f"no number for {', '.join(missing)}", f"{where}.values", "every label needs its number")

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        reply = replies[self.of]
        value = reply.reply[self.field]
        chances = self._chances(reply) if weighted and reply.probabilities else None
        if chances is None:
            return Result(self.values[value], value)
        return Result(_clamped(_expected(chances, self.values.__getitem__)), value, weighted=True)


class PartsRule(Strict):
    """A rule over other rules; undefined if one of them is."""

    def _parts(self) -> Mapping[str, Rule]:
        """The other rules by key path; the last part of a path is the rule's name."""
        raise NotImplementedError

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, Any]:
        raise NotImplementedError

    def problems(self, steps: Steps, where: str) -> Iterator[Problem]:
        for key, part in self._parts().items():
            yield from part.problems(steps, f"{where}.{key}")

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        parts = {key.rpartition(".")[2]: part.evaluate(replies, weighted) for key, part in self._parts().items()}
        for name, part in parts.items():
            if part.score is None:
                return Result(None, undefined=f"{name} is undefined: {part.undefined}")
        score, value = self._combined({name: part.score for name, part in parts.items() if part.score is not None})
        return Result(score, value, weighted=any(part.weighted for part in parts.values()))

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        reasons: list[str] = []
        for key, part in self._parts().items():
            score = part.evaluate(replies, weighted).score
            number = "undefined" if score is None else f"{score:.2f}"
            reasons.append(f"{key.rpartition('.')[2]} {number}: {part.reason(replies, direction, weighted)}")
        return "; ".join(reasons)


class FScoreRule(PartsRule):
    """The F-score of two rules; `beta` weighs recall against precision."""

    op: Literal["f_score"]
    precision: Rule
    recall: Rule
    beta: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    def _parts(self) -> Mapping[str, Rule]:
        return {"precision": self.precision, "recall": self.recall}

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, Any]:
        score = f_beta(scores["precision"], scores["recall"], self.beta)
        return score, score


class MinRule(PartsRule):
    """The lowest of several named rules."""

    op: Literal["min"]
    parts: dict[Word, Rule] = Field(min_length=2)

    def _parts(self) -> Mapping[str, Rule]:
        return {f"parts.{name}": part for name, part in self.parts.items()}

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, Any]:
        return min(scores.values()), dict(scores)


Rule = Annotated[
    ShareRule | AveragePrecisionRule | MeanRule | ValueRule | MapRule | FScoreRule | MinRule, Field(discriminator="op")
]
FScoreRule.model_rebuild()
MinRule.model_rebuild()


def unit_values(values: dict[str, float]) -> dict[str, float]:
    """Refuse scores outside 0..1."""
    outside = [f"{label}: {number:g}" for label, number in values.items() if not 0 <= number <= 1]
    if outside:
        raise ValueError(f"the number of each label must lie in 0..1, not {', '.join(outside)}")
    return values


def average_precision(hits: Sequence[bool]) -> float:
    """The sum over the ranks k of a hit of P@k, divided by the number of hits; P@k is the share of hits in the first k.

    Every item was judged, so a ranking without a hit has 0, the worst value, and is not undefined. (Manning, Raghavan
    and Schütze, 2008, section 8.4, over the retrieved items; the contextual precision of deepeval and the context
    precision of ragas.)
    """
    ranks = [rank for rank, hit in enumerate(hits, 1) if hit]
    return _clamped(sum(count / rank for count, rank in enumerate(ranks, 1)) / len(ranks)) if ranks else 0.0


def f_beta(precision: float, recall: float, beta: float = 1.0) -> float:
    """The weighted harmonic mean (1 + b²) P R / (b² P + R); 0 where one is 0 (van Rijsbergen, 1979)."""
    if precision == 0 or recall == 0:
        return 0.0
    return _clamped((1 + beta**2) * precision * recall / (beta**2 * precision + recall))


def _distributions(listed: Rows, field: str | None, weighted: bool) -> tuple[list[Mapping[Any, float]], bool]:
    """Each row's distribution, and whether they are the judge's own: only if all rows have one."""
    if weighted and listed.probabilities is not None and field is not None:
        own = [distribution.get(field) or {} for distribution in listed.probabilities]
        totals = [sum(chances.values()) for chances in own]
        if len(own) == len(listed.rows) and all(total > 0 for total in totals):
            pairs = zip(own, totals, strict=True)
            return [{value: chance / total for value, chance in chances.items()} for chances, total in pairs], True
    return [{_cell(row, field): 1.0} for row in listed.rows], False


def _cell(row: Any, field: str | None) -> Any:
    return row if field is None else row[field]


def _probability(chances: Mapping[Any, float], values: Sequence[Any]) -> float:
    return sum(chance for value, chance in chances.items() if value in values)


def _expected(chances: Mapping[Any, float], number: Callable[[Any], float]) -> float:
    return sum(chance * number(value) for value, chance in chances.items())


def _clamped(score: float) -> float:
    return min(1.0, max(0.0, score))
