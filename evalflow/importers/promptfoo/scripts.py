"""One-line JavaScript assertions that a rule can say; all others are programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evalflow.importers.js_regex import python_regex
from evalflow.importers.untranslatable import Untranslatable

Rule = dict[str, Any]
_TEXT = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_LITERAL = rf"(?P<literal>{_TEXT}|-?\d+(?:\.\d+)?|true|false|null)"
_OUTPUT = r"(?P<output>output(?P<forms>(?:\.(?:trim|toLowerCase|toString)\(\))*)|String\(output\))"
_PATH = r"(?P<path>(?:\.[A-Za-z_$][\w$]*|\[\d+\]|\['[^'\\]*'\])+)"
_NUMBER = r"(?P<number>\d+)"
_NEGATED = r"(?P<negated>!?)"
COMMAND = "write it as a program, and declare it as a `command` check: docs/checks.md"


def rule_of(script: str) -> Rule:
    """The rule of a script over `output`; Untranslatable if it is more than a comparison."""
    text = script.strip().removeprefix("return ").removesuffix(";").strip()
    for connective, op in (("&&", "all"), ("||", "any")):
        parts = _split(text, connective)
        if len(parts) > 1:
            if any(_split(part, other) != [part] for part in parts for other in ("&&", "||")):
                break
            return {"op": op, "rules": [rule_of(part) for part in parts]}
    text = text[1:-1].strip() if _is_wrapped(text) else text
    for pattern, make in _FORMS:
        if found := pattern.fullmatch(text):
            return make(found)
    line = text.splitlines()[0][:80] if text else ""
    raise Untranslatable(f"it runs JavaScript: {line}", COMMAND)


def _split(text: str, connective: str) -> list[str]:
    """The parts between a connective that stands outside of quotes and brackets."""
    parts: list[str] = []
    depth, quote, start, at = 0, "", 0, 0
    while at < len(text):
        character = text[at]
        if quote:
            at += character == "\\"
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth == 0 and text.startswith(connective, at):
            parts.append(text[start:at].strip())
            at += len(connective) - 1
            start = at + 1
        at += 1
    return [*parts, text[start:].strip()]


def _is_wrapped(text: str) -> bool:
    return text.startswith("(") and text.endswith(")") and _balanced(text[1:-1])


def _balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def _literal(text: str) -> Any:
    if text[0] not in "'\"":
        return json.loads(text)
    inner = re.sub(r"\\(['\"])", r"\1", text[1:-1])
    if "\\" in inner:
        inner = re.sub(r"\\(.)", lambda escape: {"n": "\n", "t": "\t", "\\": "\\"}.get(escape[1], escape[1]), inner)
    return inner


def _spelling(found: re.Match[str], value: str) -> dict[str, Any]:
    """How the output is changed before it is compared: `.trim()`, `.toLowerCase()`."""
    forms = found["forms"] or ""
    lower = "toLowerCase" in forms
    if lower and value != value.lower():
        raise Untranslatable("it compares a lower-case text with one that is not", "mend the script first")
    return {
        "normalize": None,
        **({"case_sensitive": False} if lower else {}),
        **({"trim": True} if "trim" in forms else {}),
    }


def _either(found: re.Match[str], rule: Rule) -> Rule:
    return {"op": "not", "rule": rule} if found["negated"] else rule


def _includes(found: re.Match[str]) -> Rule:
    value = _literal(found["literal"])
    if not isinstance(value, str):
        raise Untranslatable("it looks for something that is no text")
    ops = {"includes": "contains", "startsWith": "starts_with", "endsWith": "ends_with"}
    return _either(found, {"op": ops[found["method"]], "value": value, **_spelling(found, value)})


def _equals(found: re.Match[str]) -> Rule:
    value = _literal(found["literal"])
    if not isinstance(value, str):
        raise Untranslatable("it compares the output's text with something that is no text")
    op = "equals" if found["operator"] in ("===", "==") else "not_equals"
    return {"op": op, "value": value, **_spelling(found, value)}


_COMPARISONS: Mapping[str, str] = {
    "<": "less_than", "<=": "less_than_equals", ">": "greater_than", ">=": "greater_than_equals",
}  # fmt: skip


def _length(found: re.Match[str]) -> Rule:
    number, operator = int(found["number"]), found["operator"]
    bounds: Mapping[str, dict[str, int]] = {
        "<": {"max": number - 1}, "<=": {"max": number}, ">": {"min": number + 1}, ">=": {"min": number},
        "===": {"min": number, "max": number}, "==": {"min": number, "max": number},
    }  # fmt: skip
    if operator == "<" and number == 0:
        raise Untranslatable("no text is shorter than 0 characters")
    return {"op": "length", "unit": "characters", **bounds[operator]}


def _json_path(found: re.Match[str]) -> str:
    return "$" + found["path"]


def _json_value(found: re.Match[str]) -> Rule:
    value = _literal(found["literal"])
    rule: Rule = {"op": "jsonpath", "path": _json_path(found), "equals": value}
    operator = found["operator"]
    if operator in ("!=", "!=="):
        # A reply that is no JSON, and a path through nothing, throw in JavaScript, and so fail.
        steps = re.findall(r"\.[\w$]+|\[[^\]]*\]", found["path"])
        parent = "$" + "".join(steps[:-1])
        rules: list[Rule] = [
            {"op": "jsonpath", "path": parent, "missing": False},
            {"op": "not", "rule": {"op": "jsonpath", "path": parent, "equals": None}},
        ]
        return {"op": "all", "rules": [*rules, {"op": "not", "rule": rule}]}
    if operator == "==" and value is None:
        raise Untranslatable("== null holds for values that are missing too", COMMAND)
    return rule


def _json_number(found: re.Match[str]) -> Rule:
    number = {"op": _COMPARISONS[found["operator"]], "value": float(found["number"])}
    return {"op": "jsonpath", "path": _json_path(found), "rule": number}


def _pattern(found: re.Match[str]) -> Rule:
    flags = found["flags"]
    if set(flags) - set("i"):
        raise Untranslatable(f"its pattern has the flags {flags}", COMMAND)
    rule: Rule = {"op": "regex", "pattern": python_regex(found["pattern"]), "normalize": None}
    return _either(found, {**rule, **({"case_sensitive": False} if flags else {})})


_REGEX = r"/(?P<pattern>(?:[^/\\\n]|\\.)+)/(?P<flags>[a-z]*)"
_JSON = rf"JSON\.parse\(output\){_PATH}"
_FORMS: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], Rule]]] = [
    (re.compile(pattern, re.DOTALL), make)
    for pattern, make in (
        (rf"{_NEGATED}{_OUTPUT}\.(?P<method>includes|startsWith|endsWith)\({_LITERAL}\)", _includes),
        (rf"{_OUTPUT}\s*(?P<operator>===?|!==?)\s*{_LITERAL}", _equals),
        (rf"output\.length\s*(?P<operator><=?|>=?|===?)\s*{_NUMBER}", _length),
        (rf"{_NEGATED}{_REGEX}\.test\(output\)", _pattern),
        (rf"{_JSON}\s*(?P<operator>===?|!==?)\s*{_LITERAL}", _json_value),
        (rf"{_JSON}\s*(?P<operator><=?|>=?)\s*(?P<number>-?\d+(?:\.\d+)?)", _json_number),
    )
]
