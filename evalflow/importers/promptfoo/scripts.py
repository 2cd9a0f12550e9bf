"""One-line JavaScript assertions that a rule can say; all others are programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from evalflow.importers.js_regex import python_regex
from evalflow.importers.ledger import COMMAND, Untranslatable

Rule = dict[str, Any]
_TEXT = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_LITERAL = rf"(?P<literal>{_TEXT}|-?\d+(?:\.\d+)?|true|false|null)"
_OUTPUT = r"(?P<output>(?:output|String\(output\))(?P<forms>(?:\.(?:trim|toLowerCase|toString)\(\))*))"
_PATH = r"(?P<path>(?:(?:\?\.|\.)[A-Za-z_$][\w$]*|(?:\?\.)?\[\d+\]|(?:\?\.)?\['[^'\\]*'\])+)"
_JSON_START = r"JSON\.parse\(output\)"
_CONSTANT = re.compile(
    r"(?:const|let|var)\s+([A-Za-z_$][\w$]*)\s*=\s*"
    r"(JSON\.parse\(output\)|(?:output|String\(output\))(?:\.(?:trim|toLowerCase|toString)\(\))*)\s*(?:;\s*|\n\s*)"
)
_VARIABLE = r"context\.vars(?:\.(?P<dotted>[A-Za-z_$][\w$]*)\b|\[['\"](?P<quoted>[^'\"]+)['\"]\])"
_LOWERED = re.compile(rf"({_TEXT})\.toLowerCase\(\)")
_EITHER_TYPE = re.compile(r"\(\s*typeof output === ['\"]string['\"]\s*\?\s*JSON\.parse\(output\)\s*:\s*output\s*\)")
_OBJECT = (  # an output that is an object, of which texts have no such part
    r"(?<![\w$.])output(?=\??\.(?!(?:length|includes|startsWith|endsWith|trim\w*|to\w+|match\w*|split|slice|substr\w*|"
    r"indexOf|lastIndexOf|replace\w*|search|char\w+|at|concat|normalize|repeat|pad\w+|valueOf|codePointAt)\b)[A-Za-z_$])"
)
_NUMBER = r"(?P<number>\d+)"
_NEGATED = r"(?P<negated>!?)"


def rule_of(script: str, variables: Mapping[str, Any] | None = None) -> Rule:
    """The rule of a script over `output` and `context.vars`; Untranslatable if it is more than comparisons."""
    text = _expression(script, variables or {})
    try:
        return _rule(text)
    except Untranslatable as failure:
        if failure.reason:
            raise
    line = script.strip().splitlines()[0][:80] if script.strip() else ""
    raise Untranslatable(f"it runs JavaScript: {line}", COMMAND)


def _expression(script: str, variables: Mapping[str, Any]) -> str:
    """What the script returns, with its constants and the variables of the case written out."""
    lines = [line for line in script.strip().splitlines() if not line.strip().startswith("//")]
    text = "\n".join(lines).strip()
    while constant := _CONSTANT.match(text):
        text = _outside_quotes(text[constant.end() :], rf"(?<![.\w$]){constant[1]}\b", _always(constant[2]))
    text = text.strip().removeprefix("return ").removesuffix(";").strip()
    text = _outside_quotes(text, _VARIABLE, lambda found: _variable(found, variables))
    text = _LOWERED.sub(lambda found: json.dumps(_literal(found[1]).lower(), ensure_ascii=False), text)
    text = _EITHER_TYPE.sub("JSON.parse(output)", text)
    text = _outside_quotes(text, _OBJECT, _always("JSON.parse(output)"))
    return re.sub(r"\s*\?\s*(?:1|true)\s*:\s*(?:0|false)\Z", "", text)


def _always(text: str) -> Callable[[re.Match[str]], str]:
    return lambda _: text


def _variable(found: re.Match[str], variables: Mapping[str, Any]) -> str:
    value = variables.get(found["dotted"] or found["quoted"])
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float) else found[0]


def _outside_quotes(text: str, pattern: str, change: Callable[[re.Match[str]], str]) -> str:
    return re.sub(rf"{_TEXT}|(?P<found>{pattern})", lambda one: change(one) if one["found"] else one[0], text)


def _rule(text: str) -> Rule:
    text = text.strip()
    while _is_wrapped(text):
        text = text[1:-1].strip()
    if len(parts := _split(text, "||")) > 1:
        return _any(parts)
    if len(parts := _split(text, "&&")) > 1:
        return {"op": "all", "rules": [_rule(part) for part in parts]}
    if text.startswith("!") and _is_wrapped(text[1:].strip()):
        if "JSON." in text:  # a reply that is no JSON throws, and so fails, also within a negation
            raise Untranslatable("")
        return {"op": "not", "rule": _rule(text[1:])}
    for pattern, make in _FORMS:
        if found := pattern.fullmatch(text):
            return make(found)
    raise Untranslatable("")


def _any(parts: Sequence[str]) -> Rule:
    """One of several. What throws in JavaScript ends it: then what comes later does not count."""
    rule: Rule = {"op": "any", "rules": [_rule(part) for part in parts]}
    guards = [guard for path in re.findall(_JSON_START + _PATH, parts[0]) for guard in _guards(path)]
    if any("JSON." in part for part in parts[1:-1]) or (guards and "?." in parts[0]):
        raise Untranslatable("")
    return {"op": "all", "rules": [*guards, rule]} if guards else rule


def _guards(path: str) -> list[Rule]:
    """What holds of a reply in which a path does not throw: it is JSON, and there is an object above the last step."""
    parent = "$" + "".join(re.findall(r"\.[\w$]+|\[[^\]]*\]", path)[:-1])
    return [
        {"op": "jsonpath", "path": parent, "missing": False},
        {"op": "not", "rule": {"op": "jsonpath", "path": parent, "equals": None}},
    ]


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
    """Whether one pair of brackets is around all of it."""
    inner = re.sub(_TEXT, "''", text)
    depths = list(accumulate((one == "(") - (one == ")") for one in inner))
    return inner.startswith("(") and inner.endswith(")") and 0 not in depths[:-1]


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
    return "$" + re.sub(r"\?\.(?=\[)", "", found["path"]).replace("?.", ".")


def _json_value(found: re.Match[str]) -> Rule:
    value, operator = _literal(found["literal"]), found["operator"]
    if value is None and operator in ("==", "!="):
        raise Untranslatable("== null holds for values that are missing too", COMMAND)
    alike = _alike(value) if operator in ("==", "!=") else [value]
    path = _json_path(found)
    rules = [{"op": "jsonpath", "path": path, "equals": one} for one in alike]
    rule: Rule = rules[0] if len(rules) == 1 else {"op": "any", "rules": rules}
    if operator in ("===", "=="):
        return rule
    if "?." in found["path"]:
        raise Untranslatable("")
    return {"op": "all", "rules": [*_guards(found["path"]), {"op": "not", "rule": rule}]}


def _alike(value: Any) -> list[Any]:
    """The values of JSON that `==` takes for the same."""
    if isinstance(value, bool):
        return [value, int(value), str(int(value))]
    if isinstance(value, int | float):
        return [value, f"{value:g}"]
    number = re.fullmatch(r"-?\d{1,15}", value)
    return [value, int(value)] if number else [value]


def _one_of(found: re.Match[str]) -> Rule:
    values = [_literal(one) for one in re.findall(_TEXT, found["list"])]
    if found["path"]:
        path = _json_path(found)
        return {"op": "any", "rules": [{"op": "jsonpath", "path": path, "equals": value} for value in values]}
    spelled = [{"op": "equals", "value": value, **_spelling(found, value)} for value in values]
    return {"op": "any", "rules": spelled}


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
_JSON = _JSON_START + _PATH
_FORMS: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], Rule]]] = [
    (re.compile(pattern, re.DOTALL), make)
    for pattern, make in (
        (rf"{_NEGATED}{_OUTPUT}\.(?P<method>includes|startsWith|endsWith)\({_LITERAL}\)", _includes),
        (rf"{_OUTPUT}\s*(?P<operator>===?|!==?)\s*{_LITERAL}", _equals),
        (rf"output\.length\s*(?P<operator><=?|>=?|===?)\s*{_NUMBER}", _length),
        (rf"{_NEGATED}{_REGEX}\.test\(output\)", _pattern),
        (rf"{_JSON}\s*(?P<operator>===?|!==?)\s*{_LITERAL}", _json_value),
        (rf"\[(?P<list>\s*{_TEXT}(?:\s*,\s*{_TEXT})*)\s*,?\s*\]\.includes\((?:{_JSON}|{_OUTPUT})\)", _one_of),
        (rf"{_JSON}\s*(?P<operator><=?|>=?)\s*(?P<number>-?\d+(?:\.\d+)?)", _json_number),
    )
]
