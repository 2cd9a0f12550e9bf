"""Comparisons of values of a script, and `typeof`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeGuard

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
    holds,
    spread,
    truthy,
)
from evalflow.addons.interop.importers.ledger import Untranslatable

_SWAPPED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NULLS = (None, UNDEFINED)


def compared(operator: str, value: Value, other: Value) -> Value:
    """What a comparison gives."""
    if operator in ("!==", "!="):
        return truthy(compared(operator.replace("!", "=", 1), value, other)).negated()
    return spread(value, lambda left: spread(other, lambda right: _compared(operator, left, right)))


def _compared(operator: str, value: Value, other: Value) -> JsCondition:
    if isinstance(value, Constant) and isinstance(other, Constant):
        return ALWAYS if _constants(operator, value.value, other.value) else NEVER
    if isinstance(value, Constant):
        return _with_constant(_SWAPPED.get(operator, operator), other, value.value)
    if isinstance(other, Constant):
        return _with_constant(operator, value, other.value)
    raise Untranslatable("")


def _constants(operator: str, left: object, right: object) -> bool:
    """A comparison of two constants."""
    if _is_number(left) and _is_number(right):
        return holds(operator, left, right) if operator in _SWAPPED else left == right
    if operator in _SWAPPED:
        raise Untranslatable("")
    if operator == "==" and (left in _NULLS or right in _NULLS):
        return left in _NULLS and right in _NULLS
    if type(left) is not type(right):
        if operator == "==":
            raise Untranslatable("")
        return False
    return left == right


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_constant(operator: str, value: Value, constant: object) -> JsCondition:
    """A comparison with what is known, which stands on the right."""
    equal = operator in ("===", "==")
    match value:
        case Text() | TextPart() if equal and isinstance(constant, str):
            return value.equals(constant)
        case Text() | TextPart() | JsItems() if equal and constant in _NULLS and not isinstance(constant, str):
            return NEVER
        case Json():
            return _json(operator, value, constant)
        case Number() if isinstance(constant, int | float) and _is_number(constant):
            return value.compared(operator, constant)
        case Number() if equal and constant in _NULLS and not isinstance(constant, str):
            return value.fits.negated()
        case Match() if equal and constant in _NULLS:
            if value.or_empty or (operator == "===" and constant is UNDEFINED):
                return NEVER
            return truthy(value).negated()
        case Position() if isinstance(constant, int | float) and _is_number(constant):
            return _position(operator, value, constant)
        case TypeOf() if equal and isinstance(constant, str):
            return _type(value.of, constant)
        case JsCondition() if equal and isinstance(constant, bool):
            return value if constant else value.negated()
        case _:
            raise Untranslatable("")


def _json(operator: str, value: Json, constant: object) -> JsCondition:
    if operator in _SWAPPED:
        if not _is_number(constant):
            raise Untranslatable("")
        return value.says(value.compares(operator, constant))
    missing = value.rule(missing=True)
    if constant is UNDEFINED and operator == "===":
        return value.says(missing, implies=False)
    if operator == "==" and constant in _NULLS:
        return value.says(any_of(missing, value.rule(equals=None)), implies=False)
    alike = _alike(constant) if operator == "==" else [constant]
    return value.says(any_of(*(value.rule(equals=item) for item in alike)))


def _alike(value: object) -> list[object]:
    """The values of JSON that `==` takes for the same."""
    if isinstance(value, bool):
        return [value, int(value), str(int(value)), *([] if value else [""])]
    if isinstance(value, int | float):
        return [value, f"{value:g}", *_like_number(value), *([] if value else [""])]
    if not value:
        return ["", 0, False]
    if not isinstance(value, str):
        raise Untranslatable("")
    if not (value.removeprefix("-").replace(".", "", 1).isdigit() and value.isascii()):
        if not re.search(r"[^\d.eE+xXoObB\s-]", value):
            raise Untranslatable("it compares loosely with a text that may be a number")
        return [value]
    number = float(value)
    return [value, int(number) if number.is_integer() else number, *_like_number(number)]


def _like_number(number: float) -> list[object]:
    return [bool(number)] if number in (0, 1) else []


def _position(operator: str, value: Position, number: float) -> JsCondition:
    """`indexOf` and `search`, whose results are compared with -1 and 0."""
    match (operator, number):
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
    scalar = any_of(value.is_text, value.is_boolean, value.is_number)
    rules: Mapping[str, Formula] = {
        "string": value.is_text,
        "boolean": value.is_boolean,
        "number": all_of(value.exists, value.is_number),
        "object": all_of(value.exists, not_of(scalar)),
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


def calculated(operator: str, left: object, right: object) -> Constant:
    """A calculation with two constant numbers."""
    if not _is_number(left) or not _is_number(right) or (operator in "/%" and not right):
        raise Untranslatable("")
    if operator == "%" and (left < 0 or right < 0):
        raise Untranslatable("")
    match operator:
        case "-":
            result = left - right
        case "*":
            result = left * right
        case "/":
            result = left / right
        case _:
            result = left % right
    return Constant(int(result) if float(result).is_integer() else result)
