"""Score rules over the items of a list, including what an empty list scores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from evalflow.config.schema import Strict, Word, with_examples
from evalflow.errors import Problem, did_you_mean
from evalflow.metrics.reasons import quote, quotes, word
from evalflow.metrics.returns import (
    ItemKind,
    LabelType,
    RecordType,
    Rows,
    item_type,
    normalised,
    number_problems,
    rows_at,
    value_fault,
)
from evalflow.metrics.rule_results import (
    Replies,
    Result,
    Steps,
    UnitScore,
    UnitValues,
    cell_of,
    clamped,
    distributions,
    expected,
    probability,
    table_problems,
)
from evalflow.records import Direction


class ListRule(Strict):
    """A rule over the items of a list; it reads the key `field` of each, unless the items are plain values.

    Attributes:
        when_empty: The score if no item counts: a number from 0 to 1, or undefined.
    """

    op: str
    of: str
    field: str | None = None
    when_empty: UnitScore = "undefined"

    def problems(self, steps: Steps, where: str) -> Iterator[Problem]:
        try:
            declared = self._declared(steps)
        except ValueError as error:
            yield Problem(str(error), where)
        else:
            yield from self._type_problems(declared, where)

    def _type_problems(self, declared: ItemKind, where: str) -> Iterator[Problem]:
        raise NotImplementedError

    def _declared(self, steps: Steps) -> ItemKind:
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
        return self._score(listed, replies, weighted) if listed.rows else self._empty(self._nothing(listed))

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        raise NotImplementedError

    def _empty(self, why: str) -> Result:
        if self.when_empty == "undefined":
            return Result(None, undefined=f"nothing to divide by: {why}")
        return Result(self.when_empty, self.when_empty)

    def _nothing(self, listed: Rows) -> str:
        """Why no item counts; "" if some do."""
        return "" if listed.rows else f"there are no {listed.noun}"

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        listed = rows_at(self.of, replies)
        return self._nothing(listed) or self._reason(listed, replies, direction, weighted)

    def _reason(self, listed: Rows, replies: Replies, direction: Direction, weighted: bool) -> str:
        raise NotImplementedError

    def _cells(self, listed: Rows) -> list[Any]:
        return [cell_of(row, self.field) for row in listed.rows]


class HitRule(ListRule):
    """A rule that counts some items as hits: those whose `field` equals `equals` or is in `in`."""

    model_config = ConfigDict(populate_by_name=True)

    equals: object = None
    in_: list[object] | None = Field(default=None, alias="in", min_length=1)

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        if (self.equals is None) == (self.in_ is None):
            raise ValueError(f"{self.op} needs exactly one of `equals` and `in`")
        return self

    @property
    def hits(self) -> Sequence[object]:
        return self.in_ if self.in_ is not None else [self.equals]

    @property
    def denominator(self) -> Sequence[object] | None:
        """The values of the items that count; None: all."""
        return None

    def _type_problems(self, declared: ItemKind, where: str) -> Iterator[Problem]:
        values = [("equals" if self.in_ is None else "in", value) for value in self.hits]
        values += [("among", value) for value in self.denominator or ()]
        for key, value in values:
            if fault := value_fault(declared, value):
                yield Problem(fault[0], f"{where}.{key}", fault[1])
        if self.denominator is not None and not any(hit in self.denominator for hit in self.hits):
            yield Problem("no counted value is in `among`, so the share would always be 0", f"{where}.among")

    def _nothing(self, listed: Rows) -> str:
        among = self.denominator
        if among is None or not listed.rows or any(cell in among for cell in self._cells(listed)):
            return super()._nothing(listed)
        return f"none of the {len(listed.rows)} {listed.noun} is {', '.join(map(str, among))}"

    def _reason(self, listed: Rows, replies: Replies, direction: Direction, weighted: bool) -> str:
        """Quote the items that lower the score: the misses, or the hits if lower is better."""
        cells = self._cells(listed)
        counted = [i for i, cell in enumerate(cells) if self.denominator is None or cell in self.denominator]
        lower = direction == "lower_is_better"
        against = [i for i in counted if (cells[i] in self.hits) == lower]
        if not against and lower:
            return f"0 of {len(counted)} {listed.noun} {self._condition}"
        if not against:
            labels = dict.fromkeys(word(self.field, cells[i]) for i in counted)
            return f"{len(counted)} of {len(counted)} {listed.noun} {' or '.join(labels)}"
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
    """The share of hits among the items whose `field` is in `among`.

    Attributes:
        missed: A list in a reply of things that are missing, such as steps that a plan lacks. Each counts as an item
            that is not a hit.
    """

    model_config = with_examples(
        {"op": "share", "of": "verdicts", "field": "verdict", "equals": "met"},
        {"op": "share", "of": "verdicts", "field": "verdict", "in": ["met"], "among": ["met", "not_met"]},
        {"op": "share", "of": "verdicts", "field": "verdict", "equals": "sound", "missed": "gaps.missing_steps"},
    )
    op: Literal["share"]  # pyright: ignore[reportIncompatibleVariableOverride]
    among: list[object] | None = Field(default=None, min_length=1)
    missed: Word | None = None

    def problems(self, steps: Steps, where: str) -> Iterator[Problem]:
        yield from super().problems(steps, where)
        if self.missed is not None:
            try:
                item_type(self.missed, steps)
            except ValueError as error:
                yield Problem(str(error), f"{where}.missed")

    @property
    def denominator(self) -> Sequence[object] | None:
        return self.among

    def evaluate(self, replies: Replies, weighted: bool) -> Result:
        listed = rows_at(self.of, replies)
        rows, used = distributions(listed, self.field, weighted)
        hits, total = self.hits, float(len(rows))
        if self.among is not None:
            hits = [hit for hit in hits if hit in self.among]
            total = sum(probability(row, self.among) for row in rows)
        total += len(self._missed(replies).rows)
        if total <= 0:
            return self._empty(self._nothing(listed))
        score = clamped(sum(probability(row, hits) for row in rows) / total)
        return Result(score, score, weighted=used)

    def _missed(self, replies: Replies) -> Rows:
        return rows_at(self.missed, replies) if self.missed else Rows((), None, (), "")

    def reason(self, replies: Replies, direction: Direction, weighted: bool) -> str:
        """Missing items come first, since quotes from the answer do not show them."""
        missed = self._missed(replies)
        base_reason = super().reason(replies, direction, weighted)
        count = len(missed.rows)
        if not count:
            return base_reason
        noun = missed.noun.removesuffix("s") if count == 1 else missed.noun
        return f"{count} {noun}: {quotes(missed, range(count), None)}; {base_reason}"

    def _reason(self, listed: Rows, replies: Replies, direction: Direction, weighted: bool) -> str:
        """As in `HitRule`. For an expectation, quote the items that are probably wrong, else the weakest one."""
        rows, used = distributions(listed, self.field, weighted and self.among is None)
        if not used or not rows:
            return super()._reason(listed, replies, direction, weighted)
        chances = [probability(row, self.hits) for row in rows]
        lower = direction == "lower_is_better"
        right = [1 - chance for chance in chances] if lower else chances
        order = sorted(range(len(right)), key=right.__getitem__)
        quoted = quotes(listed, [i for i in order if right[i] < 0.5] or order[:1], replies.get(self.of))
        if len(chances) == 1:
            return f"1 {listed.noun.removesuffix('s')}, {chances[0]:.2f} {self._condition}: {quoted}"
        # The quotes come first: they matter most, and a terminal cuts the end of the line.
        head = f"{'most' if lower else 'least'} {self._condition}: {quoted}"
        return f"{head}; {len(chances)} {listed.noun}, on average {sum(chances) / len(chances):.2f}"


class AveragePrecisionRule(HitRule):
    """Average precision of a ranking: the mean, over the hits, of precision at their ranks.

    Uses verdicts, not probabilities: the probabilities of single items do not give the expected average precision.
    """

    model_config = with_examples({"op": "average_precision", "of": "verdicts", "field": "verdict", "equals": "useful"})
    op: Literal["average_precision"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        score = average_precision([cell in self.hits for cell in self._cells(listed)])
        return Result(score, score)

    def _reason(self, listed: Rows, replies: Replies, direction: Direction, weighted: bool) -> str:
        cells = self._cells(listed)
        ranks = [str(rank) for rank, cell in enumerate(cells, 1) if cell in self.hits]
        where = f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}" if ranks else "no rank"
        return f"{self._condition} at {where} of {len(cells)}; {super()._reason(listed, replies, direction, weighted)}"


class NumberListRule(ListRule):
    """A rule over a number of each item: a boolean or bounded number mapped to 0..1, or a label by the table `values`.

    Attributes:
        values: The number, from 0 to 1, of each label; required if the field is a label.
    """

    values: UnitValues | None = None

    def _type_problems(self, declared: ItemKind, where: str) -> Iterator[Problem]:
        if self.values is not None:
            yield from table_problems(declared, self.values, where)
        elif isinstance(declared, LabelType):
            table = f"values: {{{', '.join(f'{label}: ...' for label in declared.labels)}}}"
            what = "expected a number or bool, but the field is a label"
            yield Problem(what, f"{where}.field", f"give each label its number: {table}")
        else:
            yield from number_problems(declared, where)

    def _to_unit(self, replies: Replies) -> Callable[[Any], float]:
        if self.values is not None:
            return self.values.__getitem__
        declared = self._declared({name: reply.step for name, reply in replies.items()})
        return lambda cell: normalised(declared, cell)

    def _quoted(self, place: int, listed: Rows, replies: Replies) -> str:
        cell = self._cells(listed)[place]
        named = word(self.field, cell) if isinstance(cell, str) else f"{f'{self.field} ' if self.field else ''}{cell}"
        return f"{quote(listed, place, replies.get(self.of))} {named}"


class MeanRule(NumberListRule):
    """The mean of a `field` over items: of numbers and booleans mapped to 0..1, or of labels by the table `values`."""

    model_config = with_examples(
        {"op": "mean", "of": "grades", "field": "grade"},
        {"op": "mean", "of": "verdicts", "field": "verdict", "values": {"met": 1, "partly_met": 0.5, "not_met": 0}},
    )
    op: Literal["mean"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        rows, used = distributions(listed, self.field, weighted)
        score = clamped(sum(expected(row, self._to_unit(replies)) for row in rows) / len(rows))
        value = score if self.values else sum(expected(row, float) for row in rows) / len(rows)
        return Result(score, value, weighted=used)

    def _reason(self, listed: Rows, replies: Replies, direction: Direction, weighted: bool) -> str:
        numbers = list(map(self._to_unit(replies), self._cells(listed)))
        worst, extreme = (max(numbers), "highest") if direction == "lower_is_better" else (min(numbers), "lowest")
        quoted = self._quoted(numbers.index(worst), listed, replies)
        return f"mean over {len(numbers)} {listed.noun}; {extreme}: {quoted}"


class LowestRule(NumberListRule):
    """The lowest number of the items. Uses verdicts: the probabilities of single items do not give its expectation."""

    model_config = with_examples(
        {
            "op": "lowest",
            "of": "faults.faults",
            "field": "severity",
            "values": {"critical": 0, "major": 0.5, "minor": 0.9},
            "when_empty": 1,
        }
    )
    op: Literal["lowest"]  # pyright: ignore[reportIncompatibleVariableOverride]

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        lowest = min(map(self._to_unit(replies), self._cells(listed)))
        return Result(lowest, lowest)

    def _reason(self, listed: Rows, replies: Replies, direction: Direction, weighted: bool) -> str:
        numbers = list(map(self._to_unit(replies), self._cells(listed)))
        quoted = self._quoted(numbers.index(min(numbers)), listed, replies)
        return f"lowest of {len(numbers)} {listed.noun}: {quoted}"


class PenaltiesRule(ListRule):
    """1 minus the penalties of the items, at least 0.

    Uses verdicts: probabilities of single items do not give its expectation.

    Attributes:
        values: The penalty, from 0 to 1, for each label.
    """

    model_config = with_examples(
        {
            "op": "penalties",
            "of": "faults.faults",
            "field": "severity",
            "values": {"critical": 1, "major": 0.3, "minor": 0.1},
            "when_empty": 1,
        }
    )
    op: Literal["penalties"]  # pyright: ignore[reportIncompatibleVariableOverride]
    values: UnitValues

    def _type_problems(self, declared: ItemKind, where: str) -> Iterator[Problem]:
        yield from table_problems(declared, self.values, where)

    def _score(self, listed: Rows, replies: Replies, weighted: bool) -> Result:
        score = clamped(1 - math.fsum(self.values[cell] for cell in self._cells(listed)))
        return Result(score, score)

    def _reason(self, listed: Rows, replies: Replies, direction: Direction, weighted: bool) -> str:
        cells = self._cells(listed)
        dearest_first = sorted(range(len(cells)), key=lambda place: -self.values[cells[place]])
        counts = Counter(cells[place] for place in dearest_first)
        breakdown = ", ".join(f"{count} {word(self.field, label)}" for label, count in counts.items())
        return f"{breakdown}: {quotes(listed, dearest_first, replies.get(self.of))}"


def average_precision(hits: Sequence[bool]) -> float:
    """The sum over the ranks k of a hit of P@k, divided by the number of hits; P@k is the share of hits in the first k.

    A ranking without a hit scores 0, not undefined, since every item was judged. (Manning, Raghavan
    and Schütze, 2008, section 8.4, over the retrieved items; the contextual precision of deepeval and the context
    precision of ragas.)
    """
    ranks = [rank for rank, hit in enumerate(hits, 1) if hit]
    return clamped(sum(count / rank for count, rank in enumerate(ranks, 1)) / len(ranks)) if ranks else 0.0
