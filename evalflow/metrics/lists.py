"""Lists that a judge writes: equal items count once, and a list is no longer than its text allows.

A model in a loop may write the same claim hundreds of times, or invent claims without end; either would distort the
score. Items are equal if they differ only in white space, case, character width or a final full stop.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence

from evalflow.errors import JudgeError
from evalflow.metrics.returns import ItemKind, ListType, RecordType, StepConfig, StrType
from evalflow.records import Ask
from evalflow.values.jsonvalues import as_list, as_map, written
from evalflow.values.segments import words

_ENDS = re.compile(r"[^\w '\"]")
_SPARE = 5
_STOPS = " .。!;"
"""Final signs that do not change the meaning; NFKC has already replaced full-width signs."""


def most_items(text: str) -> int:
    """How many items a list about a text may have: a third of its words, plus one per separator, plus 5.

    A separator is any character but letters, digits, spaces and quotation marks, so that a list of names passes
    whatever separates them.

    Example:
        >>> most_items("The pool opens at 9 and costs 4 euros.")
        9
    """
    return len(words(text)) // 3 + len(_ENDS.findall(text)) + _SPARE


def checked_lists(
    step: StepConfig, ask: Ask, rows: Sequence[Mapping[str, object]], most: int | None = None
) -> tuple[list[object], int]:
    """The rows of a reply without duplicates in their lists, and the number of duplicates.

    JudgeError if a list still has more than `most` items. With None its text is the limit: the step's `source`, else
    all that the judge was shown.
    """
    if not any(isinstance(declared, ListType) for declared in step.returns.values()):
        return list(rows), 0
    source = ask.variables.get("source") if step.source_field else None
    text = "\n".join(message.content for message in ask.messages) if source is None else written(source)
    reader = _ListReader(ask, text, most)
    return [reader.record(step.returns, row) for row in rows], reader.left_out


class _ListReader:
    def __init__(self, ask: Ask, text: str, most: int | None) -> None:
        self._ask = ask
        self._text = text
        self._most = most_items(text) if most is None else most
        self.left_out = 0

    def record(self, fields: Mapping[str, object], row: Mapping[str, object]) -> dict[str, object]:
        return {name: self._value(name, fields.get(name), value) for name, value in row.items()}

    def _value(self, name: str, declared: object, value: object) -> object:
        if not isinstance(declared, ListType):
            return value
        kind = declared.items
        items = [self._item(name, kind, item) for item in as_list(value)]
        kept = items
        if isinstance(kind, StrType) or (isinstance(kind, RecordType) and _says_something(kind)):
            kept = list({json.dumps(_comparable(item)): item for item in reversed(items)}.values())[::-1]
        self.left_out += len(items) - len(kept)
        if len(kept) > self._most:
            noun, count = name.replace("_", " "), len(words(self._text))
            what = f"the judge listed {len(kept):,} {noun} for a text of {count:,} words (step {self._ask.step})"
            advice = "if it invents or repeats items, use another model or raise judge.temperature"
            allowed = f"if the text really has so many, allow them: ++metric.{self._ask.metric}.most_items={len(kept)}"
            raise JudgeError("schema", f"{what}, and {self._most:,} are allowed: {advice}; {allowed}")
        return kept

    def _item(self, name: str, kind: ItemKind, item: object) -> object:
        return self.record(kind.fields, as_map(item)) if isinstance(kind, RecordType) else self._value(name, kind, item)


def _says_something(kind: RecordType) -> bool:
    """Whether the items contain text. Then equal items are duplicates; without text they are just equal verdicts."""
    return any(isinstance(declared, StrType) for declared in kind.fields.values())


def _comparable(value: object) -> object:
    if isinstance(value, str):
        plain = " ".join(unicodedata.normalize("NFKC", value).split()).casefold()
        return plain.rstrip(_STOPS) or plain
    if isinstance(value, dict):
        return {name: _comparable(one) for name, one in as_map(value).items()}
    return [_comparable(one) for one in as_list(value)] if isinstance(value, list) else value
