"""Comparisons of values of a script, and `typeof`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evalflow.addons.interop.importers.javascript.conditions import (
    ALWAYS,
    NEVER,
    Formula,
    JsCondition,
    all_of,
    any_of,
    not_of,
)
from evalflow.addons.interop.importers.javascript.syntax import UNDEFINED
from evalflow.addons.interop.importers.javascript.values import (
    Constant,
    JsItems,
    Json,
    Match,
    Number,
    Position,
    Text,
    TextPart,
    TypeOf,
    Value,
    spread,
    truthy,
)
from evalflow.addons.interop.importers.ledger import Untranslatable

_SWAPPED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NULLS = (None, UNDEFINED)


def compared(operator: str, one: Value, other: Value) -> Value:
    """What a comparison gives."""
    if operator in ("!==", "!="):
        return truthy(compared(operator.replace("!", "=", 1), one, other)).negated()
    return spread(one, lambda left: spread(other, lambda right: _compared(operator, left, right)))


def _compared(operator: str, one: Value, other: Value) -> JsCondition:
    if isinstance(one, Constant) and isinstance(other, Constant):
        return ALWAYS if _constants(operator, one.value, other.value) else NEVER
    if isinstance(one, Constant):
        return _with_constant(_SWAPPED.get(operator, operator), other, one.value)
    if isinstance(other, Constant):
        return _with_constant(operator, one, other.value)
    raise Untranslatable("")


def _constants(operator: str, one: Any, other: Any) -> bool:
    """A comparison of what is known."""
    both_numbers = _is_number(one) and _is_number(other)
    if operator in _SWAPPED:
        if not both_numbers:
            raise Untranslatable("")
        return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[operator]
    if operator == "==" and (one in _NULLS or other in _NULLS):
        return one in _NULLS and other in _NULLS
    if type(one) is not type(other) and not both_numbers:
        if operator == "==":
            raise Untranslatable("")
        return False
    return one == other


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_constant(operator: str, value: Value, known: Any) -> JsCondition:
    """A comparison with what is known, which stands on the right."""
    equal = operator in ("===", "==")
    match value:
        case Text() | TextPart() if equal and isinstance(known, str):
            return value.equals(known)
        case Text() | TextPart() | JsItems() if equal and known in _NULLS and not isinstance(known, str):
            return NEVER
        case Json():
            return _json(operator, value, known)
        case Number() if isinstance(known, int | float) and _is_number(known):
            return value.compared(operator, known)
        case Number() if equal and known in _NULLS and not isinstance(known, str):
            return value.fits.negated()
        case Match() if equal and known in _NULLS:
            if value.or_empty or (operator == "===" and known is UNDEFINED):
                return NEVER
            return truthy(value).negated()
        case Position() if isinstance(known, int | float) and _is_number(known):
            return _position(operator, value, known)
        case TypeOf() if equal and isinstance(known, str):
            return _type(value.of, known)
        case JsCondition() if equal and isinstance(known, bool):
            return value if known else value.negated()
        case _:
            raise Untranslatable("")


def _json(operator: str, value: Json, known: Any) -> JsCondition:
    if operator in _SWAPPED:
        if not _is_number(known):
            raise Untranslatable("")
        return value.says(value.compares(operator, known))
    missing = value.rule(missing=True)
    if known is UNDEFINED and operator == "===":
        return value.says(missing, implies=False)
    if operator == "==" and known in _NULLS:
        return value.says(any_of(missing, value.rule(equals=None)), implies=False)
    alike = _alike(known) if operator == "==" else [known]
    return value.says(any_of(*(value.rule(equals=one) for one in alike)))


def _alike(value: Any) -> list[Any]:
    """The values of JSON that `==` takes for the same."""
    if isinstance(value, bool):
        return [value, int(value), str(int(value)), *([] if value else [""])]
    if isinstance(value, int | float):
        return [value, f"{value:g}", *_like_number(value), *([] if value else [""])]
    if not value:
        return ["", 0, False]
    if not (value.removeprefix("-").replace(".", "", 1).isdigit() and value.isascii()):
        if not re.search(r"[^\d.eE+xXoObB\s-]", value):
            raise Untranslatable("it compares loosely with a text that may be a number")
        return [value]
    number = float(value)
    return [value, int(number) if number.is_integer() else number, *_like_number(number)]


def _like_number(number: float) -> list[Any]:
    return [bool(number)] if number in (0, 1) else []


def _position(operator: str, value: Position, known: float) -> JsCondition:
    """`indexOf` and `search`, whose results are compared with -1 and 0."""
    match (operator, known):
        case ("===" | "==" | "<=", -1) | ("<", 0):
            return value.found.negated()
        case (">", -1) | (">=", 0):
            return value.found
        case ("===" | "==", 0):
            return value.at_start
        case (">", 0) | (">=", 1):
            return value.found.and_then(value.at_start.negated())
        case _:
            raise Untranslatable("it compares a position")


def _type(value: Json, name: str) -> JsCondition:
    known = any_of(value.is_text, value.is_boolean, value.is_number)
    rules: Mapping[str, Formula] = {
        "string": value.is_text,
        "boolean": value.is_boolean,
        "number": all_of(value.exists, value.is_number),
        "object": all_of(value.exists, not_of(known)),
        "undefined": value.rule(missing=True),
    }
    return value.says(rules[name], implies=False) if name in rules else NEVER


def type_of(value: Value) -> Value:
    """`typeof`."""
    match value:
        case Json():
            return TypeOf(value)
        case Text() | TextPart():
            return Constant("string")
        case Number() | Position():
            return Constant("number")
        case JsCondition():
            return Constant("boolean")
        case Constant():
            kinds = (bool, "boolean"), (str, "string"), (int | float, "number"), (type(UNDEFINED), "undefined")
            return Constant(next((name for kind, name in kinds if isinstance(value.value, kind)), "object"))
        case JsItems():
            return Constant("object")
        case _:
            raise Untranslatable("")


def calculated(operator: str, one: Any, other: Any) -> Constant:
    """A calculation with known numbers."""
    if not _is_number(one) or not _is_number(other) or (operator in "/%" and not other):
        raise Untranslatable("")
    if operator == "%" and (one < 0 or other < 0):
        raise Untranslatable("")
    value = {"-": lambda: one - other, "*": lambda: one * other, "/": lambda: one / other, "%": lambda: one % other}
    found = value[operator]()
    return Constant(int(found) if float(found).is_integer() else found)
