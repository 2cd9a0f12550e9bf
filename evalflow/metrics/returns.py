"""Steps: their declarations, the types of their replies, the pydantic models built from them, and the replies.

A field's type is one of str, bool, int, float (both with `min` and `max`), label (with `labels`) and list (with
`items`: a type, or a map of fields). A type without further keys may be written as its name alone.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    create_model,
    model_validator,
)

from evalflow.config.schema import FIELDS, IDENTIFIER, Strict, Word, with_examples
from evalflow.errors import Problem, did_you_mean
from evalflow.records import NUMBER, Distribution
from evalflow.records.deferred import DEFER_BUILD
from evalflow.values.jsonvalues import as_list, as_map, count_at, is_list, is_mapping

TYPES = ("str", "bool", "int", "float", "label", "list")
RESERVED = ("source", "against", "items", "turns", "user_turns")  # set by a step's own keys, so no step ids


class StrType(Strict):
    """Text."""

    model_config = with_examples({"type": "str"})
    type: Literal["str"]


class BoolType(Strict):
    """True or false."""

    model_config = with_examples({"type": "bool"})
    type: Literal["bool"]


class NumberType(Strict):
    """A number. The judge sees the bounds, both inclusive, in the schema."""

    model_config = with_examples({"type": "int", "min": 1, "max": 5}, {"type": "float", "min": 0, "max": 100})
    type: Literal["int", "float"]
    min: int | float | None = None
    max: int | float | None = None

    @model_validator(mode="after")
    def _ordered(self) -> NumberType:
        for bound in (self.min, self.max):
            if bound is not None and not abs(bound) <= sys.float_info.max:
                raise ValueError("min and max must be finite numbers")
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise ValueError(f"min must be below max, but min is {self.min} and max is {self.max}")
        return self


class LabelType(Strict):
    """One of several words. In a step with a `task` the first word is the positive one."""

    model_config = with_examples({"type": "label", "labels": ["critical", "major", "minor"]})
    type: Literal["label"]
    labels: list[Word] = Field(min_length=2)

    @model_validator(mode="after")
    def _distinct(self) -> LabelType:
        if len(set(self.labels)) < len(self.labels):
            raise ValueError("the labels must be distinct")
        return self


class ListType(Strict):
    """A list of texts, numbers or labels, or of maps with the same fields; these may contain lists."""

    model_config = with_examples(
        {"type": "list", "items": "str"},
        {"type": "list", "items": {"quote": "str", "severity": {"type": "label", "labels": ["major", "minor"]}}},
        {"type": "list", "items": {"heading": "str", "faults": {"type": "list", "items": "str"}}},
    )
    type: Literal["list"]
    items: ItemType


class RecordType(Strict):
    """A map of fields; in YAML simply `items: {field: type, ...}`."""

    type: Literal["record"]
    fields: Returns


def _expand(declared: object) -> object:
    if isinstance(declared, str):
        declared = {"type": declared}
    if is_mapping(declared):
        name = declared.get("type")
        if isinstance(name, str) and name not in (*TYPES, "record"):
            raise ValueError(f"unknown type {name!r}; {did_you_mean(name, TYPES)}")
    return declared


def _expand_item(declared: object) -> object:
    """The long form of a list's item type; a map without the key `type` is a map of fields."""
    if is_mapping(declared) and "type" not in declared:
        return {"type": "record", "fields": declared}
    return _expand(declared)


def _field_name(name: str) -> str:
    """Refuse names of dict and model methods: a template would find the method instead of the field."""
    if not IDENTIFIER.match(name):
        raise ValueError(f"the field name {name!r} must be lower-case letters, digits and _, a letter first")
    if hasattr(dict, name) or hasattr(BaseModel, name):
        raise ValueError(f"{name!r} cannot be a field name: it is a method of a dict or a model; choose another word")
    if name == "type":
        raise ValueError("'type' cannot be a field name: it is the key for the type of a field")
    return name


_SHORT = Literal["str", "bool", "int", "float"]
Plain = StrType | BoolType | NumberType | LabelType | ListType
FieldType = Annotated[
    Annotated[Plain, Field(discriminator="type")], BeforeValidator(_expand, json_schema_input_type=Plain | _SHORT)
]
ItemKind = Plain | RecordType
ItemType = Annotated[
    Annotated[ItemKind, Field(discriminator="type")],
    BeforeValidator(_expand_item, json_schema_input_type=Plain | dict[str, object] | _SHORT),
]
FieldName = Annotated[Word, AfterValidator(_field_name)]
Returns = Annotated[dict[FieldName, FieldType], Field(min_length=1)]
"""The fields of a reply, in the order in which the judge writes them: reasons before verdicts."""

ListType.model_rebuild()
RecordType.model_rebuild()

_LIST: Any = list  # known only during the run
_LITERAL: Any = Literal
_SEALED = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=DEFER_BUILD)


def reply_model(step: str, returns: Mapping[str, object], one_per: bool) -> type[BaseModel]:
    """The pydantic model of a reply, or of a list of them, `results`. Endpoints show its name to the model.

    No field has a default and extra fields are refused, so that only what the judge wrote is scored. Each of several
    results begins with the `number` of its item, and the list is in the order of the items. The validation context
    `items` is the number of items; without it, the number of results.
    """
    name = _camel(step)
    if not one_per:
        return _model(name, returns)
    item = _model(f"{name}Item", {NUMBER: NumberType(type="int"), **returns})
    results: Any = Annotated[_LIST[item], AfterValidator(_in_order)]
    return create_model(name, __config__=_SEALED, results=(results, ...))


def _model(name: str, returns: Mapping[str, object]) -> type[BaseModel]:
    fields: dict[str, Any] = {field: (_annotation(f"{name}_{field}", kind), ...) for field, kind in returns.items()}
    return create_model(name, __config__=_SEALED, **fields)


def _in_order(results: list[Any], info: ValidationInfo) -> list[Any]:
    """The results in the order of their items; ValueError unless each item has exactly one."""
    wanted = count_at({"items": len(results), **as_map(info.context)}, "items")
    given = Counter(getattr(result, NUMBER) for result in results)
    missing = [number for number in range(1, wanted + 1) if number not in given]
    twice = [number for number, times in given.items() if times > 1 and 1 <= number <= wanted]
    unknown = [number for number in given if not 1 <= number <= wanted]
    faults = {"no result for": missing, "more than one result for": twice, "there is not an": unknown}
    clauses = [f"{fault} item {_first(numbers)}" for fault, numbers in faults.items() if numbers]
    if clauses:
        last = f"the numbers 1 to {wanted}" if wanted > 1 else f"number {wanted}"
        raise ValueError(f"{'; '.join(clauses)}; give exactly one result for {'each of ' * (wanted > 1)}{last}")
    return sorted(results, key=lambda result: getattr(result, NUMBER))


def _first(numbers: Sequence[int], shown: int = 10) -> str:
    more = f" and {len(numbers) - shown:,} more" if len(numbers) > shown else ""
    return ", ".join(map(str, sorted(numbers)[:shown])) + more


def _annotation(name: str, declared: object) -> Any:
    match declared:
        case StrType():
            return str
        case BoolType():
            return bool
        case NumberType():
            number: Any = int if declared.type == "int" else float
            bounds = Field(ge=declared.min, le=declared.max)
            # Pydantic would read true as 1 and score it as a grade.
            return Annotated[number, bounds, BeforeValidator(_no_boolean), AfterValidator(_finite)]
        case LabelType():
            return _LITERAL[tuple(declared.labels)]
        case ListType():
            # A blank item is not a claim, but would count as one that holds.
            item = Annotated[str, AfterValidator(_not_blank)] if isinstance(declared.items, StrType) else None
            return _LIST[item or _annotation(name, declared.items)]
        case RecordType():
            return _model(_camel(name), declared.fields)
        case _:
            raise TypeError(f"{declared!r} is not a type of a reply")


def _no_boolean(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")
    return value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("an item must not be blank; leave it out")
    return text


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("expected a finite number")
    return value


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def number_problems(declared: ItemKind, where: str) -> Iterator[Problem]:
    """Why a field of that type cannot be mapped to 0..1."""
    if isinstance(declared, BoolType):
        return
    if not isinstance(declared, NumberType):
        yield Problem(f"expected a number or bool, but the field is a {declared.type}", f"{where}.field")
    elif declared.min is None or declared.max is None:
        hint = "give the field both `min` and `max` in `returns`"
        yield Problem("the field has no bounds, so it cannot be mapped to 0..1", f"{where}.field", hint)


def value_fault(declared: ItemKind, value: object) -> tuple[str, str] | None:
    """Why a field of that type can never have that value, with a hint."""
    match declared:
        case LabelType() if isinstance(value, bool):
            return (
                f"{value} is not a label",
                "YAML reads an unquoted yes, no, on and off as a boolean; put it in quotes",
            )
        case LabelType():
            known = value in declared.labels
            return None if known else (f"unknown label {value!r}", did_you_mean(str(value), declared.labels))
        case BoolType():
            return None if isinstance(value, bool) else (f"{value!r} is not true or false", "the field is a bool")
        case NumberType():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return None if number else (f"{value!r} is not a number", f"the field is {declared.type}")
        case _:
            text = isinstance(value, str) and declared.type == "str"
            return None if text else (f"the field is a {declared.type} and never equals {value!r}", "")


def normalised(declared: ItemKind, value: object) -> float:
    """A boolean or bounded number mapped to 0..1: true is 1, false is 0, `min` is 0 and `max` is 1."""
    if isinstance(declared, BoolType):
        return 1.0 if value else 0.0
    assert isinstance(declared, NumberType)
    assert declared.min is not None
    assert declared.max is not None
    assert isinstance(value, int | float)
    return (value - declared.min) / (declared.max - declared.min)


def step_name(step: str) -> str:
    """Refuse an id of a step that cannot be a variable in prompts."""
    if not IDENTIFIER.match(step):
        raise ValueError(f"the step id {step!r} must be lower-case letters, digits and _, a letter first")
    if step in FIELDS or step in RESERVED:
        raise ValueError(f"the step id {step!r} is already a template variable; choose another")
    return step


StepName = Annotated[Word, AfterValidator(step_name)]


def _given_or_ask(value: object) -> object:
    if value == "ask" or is_mapping(value) or value == []:
        return value
    raise ValueError(f"must be a reply, such as {{reason: ..., verdict: ...}}, [] for no items, or ask; not {value!r}")


Given = Annotated[dict[str, object] | list[object] | Literal["ask"], BeforeValidator(_given_or_ask)]
"""A reply used without asking (in a `one_per` step for each item), or [] for no items; or `ask`."""


Examples = Annotated[list[dict[str, Any]], Field(min_length=1)] | Word | None


class StepInputs(Strict):
    """The inputs of a question to the judge.

    Attributes:
        task: For judges that are not language models: extract_claims, verify_claims or rate_relevance.
        one_per: A list in an earlier reply; or `turns` (the assistant's), `contexts` (in retrieval order), or `calls`
            (of tools); or the path of a list in vars, metadata or expected, or of a text with a line for each item. The
            judge then gives `returns` once for each item.
        source: The text to work on, as the variable `source`; defaults to the answer for extract_claims.
        against: The text to compare with, as the variable `against`; defaults to the contexts for verify_claims.
        if_empty: The reply to use, without asking the judge, if a field in `needs` or a list in an earlier reply is
            empty: {contexts: {reason: Nothing was retrieved., verdict: unsupported}}. For a step with `one_per` it is
                the reply to each item, or [] for no items. `ask`: ask anyway. Without this key an empty
            field leaves the score undefined.
        examples: Few-shot examples for the prompt, each with fields of a case, named as in the prompt, and the `reply`;
            or a YAML file of them in the folders of prompts, such as mine/examples.yaml.
    """

    task: Word | None = None
    one_per: Word | None = None
    source: Word | None = None
    against: Word | None = None
    if_empty: dict[Word, Given] | None = Field(default=None, min_length=1)
    examples: Examples = None


class StepConfig(StepInputs):
    """One question to the judge.

    Attributes:
        id: Names the reply for later prompts and for the score rule.
        prompt: A template of the prompt folders.
        returns: The judge's reply.
    """

    id: StepName
    prompt: Word
    returns: Returns

    @model_validator(mode="after")
    def _numbered(self) -> StepConfig:
        if self.one_per is not None and NUMBER in self.returns:
            raise ValueError(f"{NUMBER!r} cannot be a field of a step with one_per: each result names its item by it")
        return self

    @property
    def source_field(self) -> str | None:
        return self.source or ("answer" if self.task == "extract_claims" else None)

    @property
    def against_field(self) -> str | None:
        return self.against or ("contexts" if self.task == "verify_claims" else None)


@dataclass(slots=True)  # not enforced, as in `CallCosts`
class Observed:
    """A step's reply; for a one_per step a list, one per item, with a distribution each, if the judge gives any."""

    step: StepConfig
    reply: object
    probabilities: Sequence[Distribution] | None = None
    items: Sequence[object] | None = None

    @property
    def each(self) -> Sequence[object]:
        """The replies of a one_per step."""
        assert is_list(self.reply)
        return self.reply

    def cell(self, field: str) -> object:
        """The value of a field in the reply of a step that replies once."""
        return cell_of(self.reply, field)


def cell_of(row: object, field: str | None) -> object:
    """The value of an item that a rule reads: one of its fields, or the item itself."""
    if field is None:
        return row
    assert is_mapping(row)
    return row[field]


@dataclass(frozen=True, slots=True)
class Rows:
    """The items of a list in a reply, with their distributions, if any; `noun` names the items in reasons.

    `about` is the subject of each row: the item asked about in a one_per step, else the row itself.
    """

    rows: Sequence[object]
    probabilities: Sequence[Distribution] | None
    about: Sequence[object]
    noun: str


def item_type(ref: str, steps: Mapping[str, StepConfig]) -> ItemKind:
    """The declared type of the items of a list: `ref` names a one_per step, or a list in a step's reply.

    A list in a reply is `step.field`; a list in each of its items is `step.field.inner`. ValueError if there is no such
    list.
    """
    name, *path = ref.split(".")
    step = steps.get(name)
    if step is None:
        raise ValueError(f"{ref!r} does not name an earlier step; {did_you_mean(name, steps) if steps else 'none'}")
    if not path and step.one_per is None:
        raise ValueError(f"the step {name!r} replies once and is not a list; name a list in it: {name}.FIELD")
    items: ItemKind = RecordType(type="record", fields=step.returns)
    outer = f"the step {name!r}"
    for field in path:
        if not isinstance(items, RecordType):
            raise ValueError(f"{outer} has items without fields, so there is no {ref!r}")
        declared = items.fields.get(field)
        if declared is None:
            raise ValueError(f"{outer} returns no field {field!r}; {did_you_mean(field, items.fields)}")
        if not isinstance(declared, ListType):
            hint = f"; write {name!r}, which is a list with one reply per item" if step.one_per else ""
            raise ValueError(f"{ref!r} is a {declared.type}, not a list{hint}")
        items, outer = declared.items, f"the list {field!r}"
    return items


def rows_at(ref: str, replies: Mapping[str, Observed]) -> Rows:
    """The items of the list that `ref` names; a list inside items is joined over all items."""
    step, *path = ref.split(".")
    reply = replies[step]
    if not path:
        noun = (reply.step.one_per or step).rpartition(".")[2].replace("_", " ")
        return Rows(reply.each, reply.probabilities, reply.items or (), noun)
    rows = reply.each if reply.step.one_per else [reply.reply]
    for field in path:
        rows = [item for row in rows for item in as_list(cell_of(row, field))]
    return Rows(rows, None, rows, path[-1].replace("_", " "))
