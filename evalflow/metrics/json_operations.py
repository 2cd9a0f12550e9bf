"""Operations on JSON and XML in a case field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from evalflow.apart import TooSlow
from evalflow.config.schema import Word, with_examples
from evalflow.jsonvalues import Path, json_path, written
from evalflow.metrics.json_schema import Fault, NoJson, json_equal, json_of, json_schema, objects_in
from evalflow.metrics.operations import BaseOperation, QuickOperation, Read, RuleFinding, quoted
from evalflow.patterns import Pattern, compiled

if TYPE_CHECKING:
    from evalflow.metrics.rulebook import Operation

_WANTED = ("contains", "equals", "matches", "missing", "rule")


class JsonPathOperation(BaseOperation):
    """Compares the values at a JSONPath with one expectation. If the path has several values, one match is enough.

    Attributes:
        path: The JSONPath.
        contains: A text that the text at the path must contain.
        equals: The value at the path, of the same JSON type: 1 equals 1.0, but not "1" or true.
        matches: A regular expression that must match somewhere in the text at the path.
        missing: true: the path must have no value; false: it must have one.
        rule: Any operation, which must hold for the value at the path.
    """

    model_config = with_examples(
        {"op": "jsonpath", "path": "$.days", "equals": 21},
        {"op": "jsonpath", "path": "$.price", "rule": {"op": "less_than", "value": 10}},
    )
    op: Literal["jsonpath"]
    path: Word
    contains: Word | None = None
    equals: Any = None
    matches: Word | None = None
    missing: bool | None = None
    rule: Operation | None = None

    @model_validator(mode="after")
    def _checked(self) -> JsonPathOperation:
        # `equals: null` is an expectation; for the other keys null means absent.
        given = [
            name
            for name in _WANTED
            if name in self.model_fields_set and (name == "equals" or getattr(self, name) is not None)
        ]
        if len(given) != 1:
            raise ValueError(f"jsonpath needs exactly one of {', '.join(_WANTED)}")
        if self.rule is not None and any(key.endswith("field") for key, _ in self.rule.reads("")):
            raise ValueError("the rule of a jsonpath is about the value at the path, and names no `field`")
        _ = self._path
        _ = self._matches
        return self

    def reads(self, field: str) -> Iterator[Read]:
        yield from super().reads(field)
        yield from ((f"rule.{key}", other) for key, other in (self.rule.reads("") if self.rule else ()) if key)

    def test(self, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
        try:
            document = json_of(value)
        except NoJson as error:
            return RuleFinding(passed=False, reason=f"the {name} is {error}")
        values = self._values(document)
        if self.missing is not None:
            phrase = "exists" if values else "does not exist"
            return RuleFinding(bool(values) != self.missing, f"JSON path {self.path} {phrase} in {name}")
        if not values:
            return RuleFinding(passed=False, reason=f"JSON path {self.path} does not exist in {name}")
        if self.rule is not None:
            findings = [self.rule.test(f"value at {self.path}", one, fields) for one in values]
            return next((finding for finding in findings if finding.passed), findings[0])
        wanted = self._wanted
        for one in values:
            if self._holds(one):
                return RuleFinding(passed=True, reason=f"Found {_cut(written(one))} at {self.path}, as expected")
        got = ", ".join(_shown(one, wanted) for one in values[:3])
        return RuleFinding(passed=False, reason=f"Expected {wanted} at {self.path} but got {got}")

    def _values(self, document: Any) -> Sequence[Any]:
        try:
            return self._path.matches(document)
        except TooSlow:
            raise
        except ValueError:
            return []  # e.g. a filter that compares incompatible types in this document

    def _holds(self, value: Any) -> bool:
        if self.contains is not None:
            return isinstance(value, str) and self.contains in value
        if self._matches is not None:
            return isinstance(value, str) and self._matches.search(value) is not None
        return json_equal(value, self.equals)

    @cached_property
    def _matches(self) -> Pattern | None:
        return None if self.matches is None else compiled(self.matches)

    @cached_property
    def _wanted(self) -> str:
        if self.matches is not None:
            return f"a match of {self.matches}"
        return written(self.equals if self.contains is None else self.contains)

    @cached_property
    def _path(self) -> Path:
        try:
            return json_path(self.path)
        except ValueError as error:
            raise ValueError(f"{self.path!r} is no JSONPath: {error}") from None


class JsonSchemaOperation(BaseOperation):
    """Checks that the JSON in a field is valid by a JSON Schema.

    Attributes:
        schema_: The JSON Schema, in YAML as `schema`; {} accepts any JSON.
        anywhere: false: the whole text must be JSON; true: one JSON object somewhere in the text is enough.
    """

    model_config = with_examples(
        {"op": "json_schema", "schema": {"required": ["days"]}}, populate_by_name=True, defer_build=True
    )
    op: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")
    anywhere: bool = False

    @model_validator(mode="after")
    def _checked(self) -> JsonSchemaOperation:
        _ = self._fault
        return self

    def test(self, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
        if self.anywhere and isinstance(value, str):
            faults = map(self._fault, objects_in(value))
            first = next(faults, "it has no JSON object")
            fault = None if first is None or None in faults else first
        else:
            try:
                fault = self._fault(json_of(value))
            except NoJson as error:
                return RuleFinding(passed=False, reason=f"the {name} is {error}")
        if fault:
            return RuleFinding(passed=False, reason=f"the {name} is not valid by the JSON Schema: {fault}")
        return RuleFinding(passed=True, reason=f"the {name} is valid by the JSON Schema")

    @cached_property
    def _fault(self) -> Fault:
        return json_schema(self.schema_)


class XmlOperation(QuickOperation):
    """Checks that a text is well-formed XML. A document type with entities is refused, and nothing is fetched.

    Attributes:
        elements: Elements that it must have, each as the path from the root: answer.source.
    """

    model_config = with_examples({"op": "xml", "elements": ["loan.days"]})
    op: Literal["xml"]
    elements: list[Word] = Field(default_factory=list[Word])

    def test(self, name: str, value: Any, fields: Mapping[str, Any]) -> RuleFinding:
        text = written(value)
        wanted = [element.split(".") for element in self.elements]
        try:
            found = _elements(text.strip(), wanted)
        except _NoXmlError as error:
            return RuleFinding(passed=False, reason=f"the {name} is no XML: {error}")
        missing = [element for element, path in zip(self.elements, wanted, strict=True) if tuple(path) not in found]
        if missing:
            return RuleFinding(passed=False, reason=f"the {name} is XML without the element {', '.join(missing)}")
        return RuleFinding(passed=True, reason=f"the {name} is XML" + (" with its elements" if wanted else ""))


class _NoXmlError(ValueError):
    pass


def _elements(text: str, wanted: Sequence[Sequence[str]]) -> set[tuple[str, ...]]:
    """Which of the wanted paths a document has."""
    from xml.parsers import expat

    parser = expat.ParserCreate("utf-8")  # whatever encoding the text says it has
    here: list[str] = []
    found: set[tuple[str, ...]] = set()
    paths = {tuple(path) for path in wanted}
    deepest = max(map(len, paths), default=0)

    def begin(name: str, _: Mapping[str, str]) -> None:
        here.append(name)
        if len(here) <= deepest and tuple(here) in paths:
            found.add(tuple(here))

    def refuse(*_: Any) -> None:
        raise _NoXmlError("it declares entities, which are not read")

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: here.pop()
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError as error:
        raise _NoXmlError(str(error)) from None
    return found


def _shown(value: Any, wanted: str) -> str:
    """A value for a reason; its type is added if it looks like the wanted text but has another type."""
    text = written(value)
    return f"{text} (no text)" if text == wanted and not isinstance(value, str) else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= 120 else quoted(text)
