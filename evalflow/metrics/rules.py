"""Score rules: from the replies of a metric's steps to a score in 0..1 with a one-line reason.

Each rule class has three methods: its problems, the score, and the reason.
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
    Shape,
    item_type,
    misfit,
    normalised,
    number_problems,
    rows_at,
)
from evalflow.records import Direction

Shapes = Mapping[str, Shape]
Seen = Mapping[str, Observed]


@record()
class Result:
    """The result of a score rule.

    Attributes:
        score: In 0..1, or None if undefined.
        value: The score on the judge's scale.
        undefined: Why there is no score.
        weighted: Whether the judge's probabilities were used.
    """

    score: float | None
    value: Any = None
    undefined: str | None = None
    weighted: bool = False


class BaseRule(Strict):
    """A score rule."""

    def problems(self, shapes: Shapes, where: str) -> Iterator[Problem]:
        """Find everything about the rule that does not fit the steps it refers to.

        Args:
            shapes: The declared steps.
            where: The rule's key path, for messages.
        """
        raise NotImplementedError

    def evaluate(self, seen: Seen, weighted: bool) -> Result:
        """Compute the score of a rule without `problems`.

        Args:
            seen: What each step replied, by step id.
            weighted: Take expectations over the judge's probabilities if it gave them for every row used.
        """
        raise NotImplementedError

    def reason(self, seen: Seen, direction: Direction, weighted: bool) -> str:
        """Explain the result in one line.

        Args:
            seen: What each step replied.
            direction: Which end of the scale is good.
            weighted: As in `evaluate`.
        """
        raise NotImplementedError


class ListRule(BaseRule):
    """A rule over the items of a list; it reads the key `field` of each, unless the items are plain values."""

    op: str
    of: str
    field: str | None = None

    def problems(self, shapes: Shapes, where: str) -> Iterator[Problem]:
        """See `BaseRule`."""
        try:
            declared = self._declared(shapes)
        except ValueError as error:
            yield Problem(str(error), where)
        else:
            yield from self._misfits(declared, where)

    def _misfits(self, declared: Any, where: str) -> Iterator[Problem]:
        """Problems of the rule with the declared type of its values."""
        raise NotImplementedError

    def _declared(self, shapes: Shapes) -> Any:
        """The declared type of the values that the rule reads.

        Raises:
            ValueError: The rule names a step or field that does not exist.
        """
        items = item_type(self.of, shapes)
        if not isinstance(items, RecordType):
            if self.field is not None:
                raise ValueError(f"the items of {self.of!r} have no fields; leave `field` out")
            return items
        if self.field is None:
            raise ValueError(f"`field` is required: which field of {self.of!r}? {did_you_mean('', items.fields)}")
        if self.field not in items.fields:
            raise ValueError(f"{self.of!r} has no field {self.field!r}; {did_you_mean(self.field, items.fields)}")
        return items.fields[self.field]

    def evaluate(self, seen: Seen, weighted: bool) -> Result:
        """See `BaseRule`; undefined for an empty list."""
        listed = rows_at(self.of, seen)
        if not listed.rows:
            return Result(None, undefined=f"nothing to divide by: there are no {listed.noun}")
        return self._over(listed, seen, weighted)

    def _over(self, listed: Rows, seen: Seen, weighted: bool) -> Result:
        """The score over a non-empty list."""
        raise NotImplementedError

    def _cells(self, listed: Rows) -> list[Any]:
        """The value that the rule reads from each item."""
        return [_cell(row, self.field) for row in listed.rows]


class HitRule(ListRule):
    """A rule that counts some items as hits: those whose `field` equals `equals` or is in `in`."""

    model_config = ConfigDict(populate_by_name=True)

    equals: Any = None
    in_: list[Any] | None = Field(default=None, alias="in", min_length=1)

    @model_validator(mode="after")
    def _one_question(self) -> Self:
        if (self.equals is None) == (self.in_ is None):
            raise ValueError(f"{self.op} needs exactly one of `equals` and `in`")
        return self

    @property
    def hits(self) -> Sequence[Any]:
        """The values that count as hits."""
        return self.in_ if self.in_ is not None else [self.equals]

    @property
    def _base(self) -> Sequence[Any] | None:
        """The values in the denominator; None: all."""
        return None

    def _misfits(self, declared: Any, where: str) -> Iterator[Problem]:
        asked = [("equals" if self.in_ is None else "in", value) for value in self.hits]
        asked += [("among", value) for value in self._base or ()]
        for key, value in asked:
            fault = misfit(declared, value)
            if fault:
                yield Problem(fault[0], f"{where}.{key}", fault[1])
        if self._base is not None and not any(hit in self._base for hit in self.hits):
            yield Problem("what counts is not in `among`, so the share would always be 0", f"{where}.among")

    def reason(self, seen: Seen, direction: Direction, weighted: bool) -> str:
        """Quote the items that speak against the answer.

        If higher is better, these are the misses (e.g. unsupported claims for faithfulness); if lower is better, the
        hits.
        """
        listed = rows_at(self.of, seen)
        cells = self._cells(listed)
        kept = [i for i, cell in enumerate(cells) if self._base is None or cell in self._base]
        lower = direction == "lower_is_better"
        against = [i for i in kept if (cells[i] in self.hits) == lower]
        if not against and lower:
            return f"0 of {len(kept)} {listed.noun} {self._hits_in_words}"
        if not against:
            words = dict.fromkeys(word(self.field, cells[i]) for i in kept)
            return f"{len(kept)} of {len(kept)} {listed.noun} {' or '.join(words)}"
        counts = Counter(word(self.field, cells[i]) for i in against)
        kinds = next(iter(counts))
        if len(counts) > 1:
            details = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
            kinds = f"{'' if lower else 'not '}{self._hits_in_words} ({details})"
        return f"{len(against)} of {len(kept)} {listed.noun} {kinds}: {quotes(listed, against, seen.get(self.of))}"

    @property
    def _hits_in_words(self) -> str:
        """The hit condition as shown in a sentence."""
        return " or ".join(word(self.field, value) for value in self.hits)


class ShareRule(HitRule):
    """The share of hits among the items whose `field` is in `among`."""

    op: Literal["share"]  # pyright: ignore[reportIncompatibleVariableOverride]
    among: list[Any] | None = Field(default=None, min_length=1)

    @property
    def _base(self) -> Sequence[Any] | None:
        return self.among

    def _over(self, listed: Rows, seen: Seen, weighted: bool) -> Result:
        chances, used = _distributions(listed, self.field, weighted)
        hits, among = self.hits, self.among
        base = float(len(chances))
        if among is not None:
            hits = [hit for hit in hits if hit in among]
            base = sum(_mass(one, among) for one in chances)
        if base <= 0:
            words = ", ".join(str(value) for value in among or ())
            what = f"nothing to divide by: none of the {len(chances)} {listed.noun} is {words}"
            return Result(None, undefined=what)
        score = _clamped(sum(_mass(one, hits) for one in chances) / base)
        return Result(score, score, weighted=used)

    def reason(self, seen: Seen, direction: Direction, weighted: bool) -> str:
        """See `HitRule`; for an expectation, the items less likely right than not, or else the weakest one."""
        listed = rows_at(self.of, seen)
        spread, used = _distributions(listed, self.field, weighted and self.among is None)
        if not used or not spread:
            return super().reason(seen, direction, weighted)
        chances = [_mass(one, self.hits) for one in spread]
        lower = direction == "lower_is_better"
        right = [1 - chance for chance in chances] if lower else chances
        order = sorted(range(len(right)), key=lambda i: right[i])
        quoted = quotes(listed, [i for i in order if right[i] < 0.5] or order[:1], seen.get(self.of))
        if len(chances) == 1:
            return f"1 {listed.noun.removesuffix('s')}, {chances[0]:.2f} {self._hits_in_words}: {quoted}"
        # The quotes come first: they say most, and a terminal cuts the end of the line.
        head = f"{'most' if lower else 'least'} {self._hits_in_words}: {quoted}"
        return f"{head}; {len(chances)} {listed.noun}, on average {sum(chances) / len(chances):.2f}"


class AveragePrecisionRule(HitRule):
    """Average precision of a ranking: the mean, over the hits, of precision at their ranks."""

    op: Literal["average_precision"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _over(self, listed: Rows, seen: Seen, weighted: bool) -> Result:
        """Use the verdicts as replied: item probabilities give no expectation of average precision."""
        score = average_precision([cell in self.hits for cell in self._cells(listed)])
        return Result(score, score)

    def reason(self, seen: Seen, direction: Direction, weighted: bool) -> str:
        """The ranks of the hits, then why the other items are none."""
        cells = self._cells(rows_at(self.of, seen))
        ranks = [str(rank) for rank, cell in enumerate(cells, 1) if cell in self.hits]
        where = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}" if ranks else "no rank"
        others = super().reason(seen, direction, weighted)
        return f"{self._hits_in_words} at {where} of {len(cells)}; {others}"


class MeanRule(ListRule):
    """The mean of a numeric or boolean `field` over items, mapped to 0..1."""

    op: Literal["mean"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _misfits(self, declared: Any, where: str) -> Iterator[Problem]:
        return number_problems(declared, where)

    def _over(self, listed: Rows, seen: Seen, weighted: bool) -> Result:
        chances, used = _distributions(listed, self.field, weighted)
        declared = self._declared({name: one.shape for name, one in seen.items()})
        native = sum(_expected(one, float) for one in chances) / len(chances)
        score = sum(_expected(one, lambda value: normalised(declared, value)) for one in chances) / len(chances)
        return Result(_clamped(score), native, weighted=used)

    def reason(self, seen: Seen, direction: Direction, weighted: bool) -> str:
        """Quote the worst item."""
        listed = rows_at(self.of, seen)
        values = self._cells(listed)
        worst, extreme = (max, "highest") if direction == "lower_is_better" else (min, "lowest")
        found = worst(values)
        quoted = quote(listed, values.index(found), seen.get(self.of))
        named = f"{self.field} " if self.field else ""
        return f"mean over {len(values)} {listed.noun}; {extreme}: {quoted} {named}{found}"


class FieldRule(BaseRule):
    """A rule on one `field` of a step with a single reply."""

    op: str
    of: str
    field: str

    def problems(self, shapes: Shapes, where: str) -> Iterator[Problem]:
        """See `BaseRule`."""
        shape = shapes.get(self.of)
        if shape is None:
            yield Problem(f"there is no step {self.of!r}", f"{where}.of", did_you_mean(self.of, shapes))
        elif shape.one_per is not None:
            what = f"the step {self.of!r} replies once per item, and `{self.op}` takes one reply"
            yield Problem(what, f"{where}.op", "use share or mean")
        elif self.field not in shape.fields:
            known = did_you_mean(self.field, shape.fields)
            yield Problem(f"the step {self.of!r} returns no field {self.field!r}", f"{where}.field", known)
        else:
            yield from self._misfits(shape.fields[self.field], where)

    def _misfits(self, declared: Any, where: str) -> Iterator[Problem]:
        """Problems of the rule with the declared type of the field."""
        raise NotImplementedError

    def reason(self, seen: Seen, direction: Direction, weighted: bool) -> str:
        """The judge's own reason."""
        observed = seen[self.of]
        said = remark(observed.reply, observed) or f"{self.field}: {observed.reply[self.field]}"
        return one_line(said, 4 * REMARK)

    def _expected(self, observed: Observed, number: Callable[[Any], float], weighted: bool) -> tuple[float, Any, bool]:
        """The field's expected number, the distribution used, and whether that is the judge's own."""
        one_row = Rows([observed.reply], observed.probabilities, (), "")
        (chances,), used = _distributions(one_row, self.field, weighted)
        return _expected(chances, number), chances, used


class ValueRule(FieldRule):
    """One numeric or boolean `field` of a step's reply, mapped to 0..1."""

    op: Literal["value"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _misfits(self, declared: Any, where: str) -> Iterator[Problem]:
        return number_problems(declared, where)

    def evaluate(self, seen: Seen, weighted: bool) -> Result:
        """See `BaseRule`."""
        observed = seen[self.of]
        declared = observed.shape.fields[self.field]
        score, chances, used = self._expected(observed, lambda value: normalised(declared, value), weighted)
        return Result(_clamped(score), _expected(chances, float) if used else observed.reply[self.field], weighted=used)


class MapRule(FieldRule):
    """One label `field` of a step's reply, mapped to a number by a table."""

    op: Literal["map"]  # pyright: ignore[reportIncompatibleVariableOverride]
    values: dict[Word, float]

    @field_validator("values")
    @classmethod
    def _in_range(cls, values: dict[str, float]) -> dict[str, float]:
        return unit_values(values)

    def _misfits(self, declared: Any, where: str) -> Iterator[Problem]:
        if not isinstance(declared, LabelType):
            yield Problem(f"a label is wanted, but {self.field!r} is a {declared.type}", f"{where}.field")
            return
        for label in self.values:
            if label not in declared.labels:
                yield Problem(f"unknown label {label!r}", f"{where}.values", did_you_mean(label, declared.labels))
        missing = [label for label in declared.labels if label not in self.values]
        if missing:
            yield Problem(f"no number for {', '.join(missing)}", f"{where}.values", "every label needs its number")

    def evaluate(self, seen: Seen, weighted: bool) -> Result:
        """See `BaseRule`."""
        observed = seen[self.of]
        score, _, used = self._expected(observed, lambda label: self.values[label], weighted)
        return Result(_clamped(score), observed.reply[self.field], weighted=used)


class PartsRule(BaseRule):
    """A rule over other rules; undefined if one of them is."""

    def _rules(self) -> Mapping[str, Rule]:
        """The other rules by key path; the last part of a path is the rule's name."""
        raise NotImplementedError

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, Any]:
        """Score and value, computed from the scores by name."""
        raise NotImplementedError

    def problems(self, shapes: Shapes, where: str) -> Iterator[Problem]:
        """See `BaseRule`."""
        for key, part in self._rules().items():
            yield from part.problems(shapes, f"{where}.{key}")

    def evaluate(self, seen: Seen, weighted: bool) -> Result:
        """See `BaseRule`."""
        parts = {key.rpartition(".")[2]: part.evaluate(seen, weighted) for key, part in self._rules().items()}
        for name, part in parts.items():
            if part.score is None:
                return Result(None, undefined=f"{name} is undefined: {part.undefined}")
        score, value = self._combined({name: part.score for name, part in parts.items() if part.score is not None})
        return Result(score, value, weighted=any(part.weighted for part in parts.values()))

    def reason(self, seen: Seen, direction: Direction, weighted: bool) -> str:
        """The result and reason of each rule."""
        said: list[str] = []
        for key, part in self._rules().items():
            score = part.evaluate(seen, weighted).score
            number = "undefined" if score is None else f"{score:.2f}"
            said.append(f"{key.rpartition('.')[2]} {number}: {part.reason(seen, direction, weighted)}")
        return "; ".join(said)


class FScoreRule(PartsRule):
    """The F-score of two rules; `beta` weighs recall against precision."""

    op: Literal["f_score"]
    precision: Rule
    recall: Rule
    beta: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    def _rules(self) -> Mapping[str, Rule]:
        return {"precision": self.precision, "recall": self.recall}

    def _combined(self, scores: Mapping[str, float]) -> tuple[float, Any]:
        score = f_beta(scores["precision"], scores["recall"], self.beta)
        return score, score


class MinRule(PartsRule):
    """The lowest of several named rules."""

    op: Literal["min"]
    parts: dict[Word, Rule] = Field(min_length=2)

    def _rules(self) -> Mapping[str, Rule]:
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
    return _clamped(sum(found / rank for found, rank in enumerate(ranks, 1)) / len(ranks)) if ranks else 0.0


def f_beta(precision: float, recall: float, beta: float = 1.0) -> float:
    """The weighted harmonic mean (1 + b²) P R / (b² P + R); 0 where one is 0 (van Rijsbergen, 1979)."""
    if precision == 0 or recall == 0:
        return 0.0
    return _clamped((1 + beta**2) * precision * recall / (beta**2 * precision + recall))


def _distributions(listed: Rows, field: str | None, weighted: bool) -> tuple[list[Mapping[Any, float]], bool]:
    """Each row's distribution, and whether they are the judge's own.

    The judge's are used only if all rows have one: mixing them with plain replies would be neither an expectation nor
    the replies.
    """
    if weighted and listed.probabilities is not None and field is not None:
        own = [distribution.get(field) or {} for distribution in listed.probabilities]
        totals = [sum(chances.values()) for chances in own]
        if len(own) == len(listed.rows) and all(total > 0 for total in totals):
            pairs = zip(own, totals, strict=True)
            return [{value: chance / total for value, chance in chances.items()} for chances, total in pairs], True
    return [{_cell(row, field): 1.0} for row in listed.rows], False


def _cell(row: Any, field: str | None) -> Any:
    return row if field is None else row[field]


def _mass(chances: Mapping[Any, float], values: Sequence[Any]) -> float:
    return sum(chance for value, chance in chances.items() if value in values)


def _expected(chances: Mapping[Any, float], number: Callable[[Any], float]) -> float:
    return sum(chance * number(value) for value, chance in chances.items())


def _clamped(score: float) -> float:
    """Clamp floating-point error to 0..1."""
    return min(1.0, max(0.0, score))
