"""Methods of texts and of values in the answer's JSON, and the lengths of lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

from evalflow.addons.interop.importers.javascript.conditions import (
    NEVER,
    NO_GUARDS,
    Formula,
    JsCondition,
    Rule,
    all_of,
    any_of,
    guarded,
    inner_of,
    not_of,
    parts_of,
)
from evalflow.addons.interop.importers.javascript.regex import BLANK_SET, JsPattern, js_pattern
from evalflow.addons.interop.importers.javascript.values import (
    SKIPPED,
    Choice,
    Constant,
    JsItems,
    Json,
    Kept,
    Match,
    Number,
    Pieces,
    Position,
    Regex,
    Text,
    TextPart,
    Value,
    changed,
    limits,
)
from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.metrics.operations import BLANKS, in_utf16

_SEARCHES = {"includes": "contains", "startsWith": "starts_with", "endsWith": "ends_with"}
_SUBSETS = 300  # combinations of conditions of which so many must hold
_ONE = re.compile(r"\(\?a\)(?:\[((?:[^\]\\]|\\.)+)\]|(\\.|[^\\\[\](){}.^$|?*+]))\+?", re.DOTALL)
"""A pattern of one character, or of one set, or of a run of them."""


def text_method(text: Text, name: str, arguments: Sequence[Value]) -> Value:
    """What a method of a text gives."""
    first = arguments[0] if arguments else None
    argument = first.value if isinstance(first, Constant) else None
    match name:
        case "trim" | "toLowerCase" | "toUpperCase" | "toString" | "valueOf" if not arguments:
            return _changed(text, name)
        case "includes" | "startsWith" | "endsWith" if isinstance(argument, str) and len(arguments) == 1:
            return text.has(argument, _SEARCHES[name])
        case "indexOf" if isinstance(argument, str) and len(arguments) == 1:
            return Position(text.has(argument, "contains"), text.has(argument, "starts_with"))
        case "match" | "search" | "matchAll" if len(arguments) == 1:
            return _searched(text, name, first if isinstance(first, Regex) else _regex_of(argument))
        case "split" if len(arguments) == 1:
            return Pieces(text, _separator(first))
        case "slice" | "substring" | "substr" | "charAt" | "at":
            return _part(text, name, [item.value if isinstance(item, Constant) else None for item in arguments])
        case _:
            raise Untranslatable("")


def _changed(text: Text, name: str) -> Text:
    match name:
        case "trim":
            return changed(text, trim=True)
        case "toLowerCase":
            return changed(text, letter_case="lower")
        case "toUpperCase":
            return changed(text, letter_case="upper")
        case _:
            return text


def _regex_of(argument: object) -> Regex:
    """A text where a regular expression belongs is one."""
    if not isinstance(argument, str):
        raise Untranslatable("")
    return Regex(argument or "(?:)", "")


def pattern_of(regex: Regex) -> JsPattern:
    """The pattern for Python, searched from the start of a text."""
    if "y" in regex.flags:
        raise Untranslatable("its pattern has the flag y")
    return js_pattern(regex.source, regex.flags)


def _searched(text: Text, name: str, regex: Regex) -> Value:
    pattern = pattern_of(regex)
    if name == "search":
        start = js_pattern(f"^(?:{regex.source})", regex.flags.replace("m", ""))
        if "m" in regex.flags:
            raise Untranslatable("")
        return Position(text.matches(pattern), text.matches(start))
    if name == "matchAll":
        if "g" not in regex.flags:
            raise Untranslatable("matchAll throws without the flag g", "add the flag")
        return Match(text, pattern, of_all=True, or_empty=True)
    return Match(text, pattern, of_all="g" in regex.flags)


def _separator(argument: Value | None) -> JsPattern:
    if isinstance(argument, Regex):
        pattern = js_pattern(argument.source, argument.flags)
        if pattern.groups or not pattern.takes_some:
            raise Untranslatable("it splits by a pattern with groups, or one that matches nothing")
        return pattern
    if isinstance(argument, Constant) and isinstance(argument.value, str) and argument.value:
        return JsPattern(re.escape(argument.value))
    raise Untranslatable("")


def _part(text: Text, name: str, numbers: Sequence[object]) -> Value:
    """The first or the last units of a text."""
    match (name, *numbers):
        case ("charAt" | "at", 0):
            return TextPart(text, 1)
        case ("at", -1):
            return TextPart(text, 1, at_end=True)
        case ("slice" | "substring" | "substr", 0, int(size)) if size > 0:
            return TextPart(text, size)
        case ("slice" | "substr", int(size)) if size < 0:
            return TextPart(text, -size, at_end=True)
        case _:
            raise Untranslatable("")


def json_method(value: Json, name: str, arguments: Sequence[Value], *, maybe: bool) -> Value:
    """What a method of a value in the JSON gives: of a text, or `includes` of a list."""
    if value.maybe:
        raise Untranslatable("")
    first = arguments[0] if arguments else None
    if name == "hasOwnProperty" and isinstance(first, Constant) and isinstance(first.value, str):
        below = value.member(first.value)
        return below.says(below.exists)
    if name == "toString" or (name == "at" and first == Constant(0)) or name in ("slice", "indexOf"):
        raise Untranslatable("")  # lists have these too
    result = _includes(value, first) if name == "includes" else text_method(value.as_text, name, arguments)
    if not maybe:
        return result
    null = value.rule(equals=None)
    return Choice(value.says(all_of(value.exists, not_of(null))), result, SKIPPED)


def _includes(value: Json, item: Value | None) -> JsCondition:
    """`includes` of a text or a list."""
    if not isinstance(item, Constant) or not isinstance(item.value, str | int | float | bool | None):
        raise Untranslatable("")
    parts: list[Formula] = [all_of(value.is_list, value.below_each(equals=item.value))]
    if isinstance(item.value, str):
        parts.append(value.as_text.has(item.value, "contains").true)
    included = any_of(*parts)
    has_method = all_of(guarded(value.guards), any_of(value.is_text, value.is_list))
    return JsCondition(included, all_of(has_method, not_of(included)), None)


def has_key(value: Json, key: str) -> JsCondition:
    """`KEY in value`, which throws for anything but objects and lists."""
    below = value.member(key)
    scalar = any_of(value.is_text, value.is_boolean, value.is_number)
    not_there = all_of(guarded(below.guards), not_of(scalar), not_of(below.exists))
    return JsCondition(below.exists, not_there, None)


def length_of(value: Value, *, maybe: bool = False) -> Value:
    """`length` of a text or a list; `maybe`: `?.` stands before it."""
    match value:
        case Constant(str(text)):
            return Constant(len(in_utf16(text)))
        case JsItems():
            return Constant(len(value.values))
        case Text() if not value.letter_case:
            return Number(value.length)
        case Json():
            inner = value.member("any", maybe=maybe)
            fits = inner.says(value.has_length(0, None))
            return Number(lambda least, most: inner.says(value.has_length(least, most)), fits)
        case Match():
            return _of_matches(value, maybe=maybe)
        case Pieces():
            return _of_pieces(value)
        case Kept():
            return _of_kept(value)
        case _:
            raise Untranslatable("it counts the characters of a changed text")


def _of_matches(matched: Match, *, maybe: bool) -> Number:
    """How many matches there are. What is null has no length, which throws without `?.`."""
    if matched.of_all and not matched.pattern.takes_some:
        raise Untranslatable("it counts matches of a pattern that matches nothing")
    rule: Rule = {"op": "count", **matched.pattern.keys, **matched.text.changes}

    def between(least: int | None, most: int | None) -> JsCondition:
        if matched.or_empty:
            return matched.text.rule({**rule, **limits(least, most)})
        at_least = max(least or 1, 1)
        if most is not None and most < at_least:
            fits: JsCondition = NEVER
        elif matched.of_all:
            fits = matched.text.rule({**rule, **limits(at_least, most)})
        else:
            size = matched.pattern.groups + 1
            is_in = at_least <= size and (most is None or size <= most)
            fits = matched.text.matches(matched.pattern) if is_in else NEVER
        if maybe:
            return fits
        is_there = matched.text.matches(matched.pattern)
        return JsCondition(fits.true, all_of(is_there.true, not_of(fits.true)), None)

    return Number(between, between(None, None))


def _of_pieces(pieces: Pieces) -> Number:
    """How many pieces a text is split into."""
    text, separator = pieces.text, pieces.separator
    if pieces.keeps == "all":

        def between(least: int | None, most: int | None) -> JsCondition:
            if most is not None and most < 1:
                return NEVER
            fewest = None if least is None or least <= 1 else least - 1
            counts = {"op": "count", **separator.keys, **text.changes}
            return text.rule({**counts, **limits(fewest, None if most is None else most - 1)})

        return Number(between)
    character = _ONE.fullmatch(separator.text if separator.text.startswith("(?a)") else f"(?a){separator.text}")
    if not character:
        raise Untranslatable("it counts pieces between separators of several characters")
    inner = character[1] or character[2]
    piece = f"[{inner[1:]}]" if character[1] and inner.startswith("^") else f"[^{inner}]"
    match pieces.keeps:
        case "some":
            pattern = f"{piece}+"
        case "visible":
            pattern = _visible(piece)
        case _:
            pattern = _begun(piece, pieces)
    keys = {**JsPattern(f"(?a){pattern}", separator.ignores_case).keys, **text.changes}
    return Number(lambda least, most: text.rule({"op": "count", **keys, **limits(least, most)}))


def _begun(piece: str, pieces: Pieces) -> str:
    """A piece that begins with a text, behind white space if that is trimmed."""
    start = pieces.start
    if not re.fullmatch(f"{piece}+", start) or (pieces.trim and start[0] in BLANKS):
        raise Untranslatable("it counts pieces by a condition")
    blanks = f"(?:(?=[{BLANK_SET}]){piece})*" if pieces.trim else ""
    more = f"(?={piece}*(?![{BLANK_SET}]){piece})" if pieces.trim and start[-1] in BLANKS else ""
    return f"(?<!{piece}){blanks}{re.escape(start)}{more}"


def _visible(piece: str) -> str:
    """A run of a set with a character that is not white space."""
    return f"(?:(?=[{BLANK_SET}]){piece})*(?![{BLANK_SET}]){piece}{piece}*"


def _of_kept(kept: Kept) -> Number:
    """How many conditions hold."""
    rules = [condition.true for condition in kept.conditions]
    if any(condition.guards != NO_GUARDS for condition in kept.conditions):
        raise Untranslatable("")

    def at_least(count: int) -> Formula:
        if count <= 0:
            return True
        chosen = list(combinations(rules, count))
        if len(chosen) > _SUBSETS:
            raise Untranslatable(f"it counts {len(rules)} conditions")
        return any_of(*(all_of(*some) for some in chosen))

    def between(least: int | None, most: int | None) -> JsCondition:
        return JsCondition.of(all_of(at_least(least or 0), True if most is None else not_of(at_least(most + 1))))

    return Number(between)


def at_items(path: str, rule: Formula) -> Formula:
    """That a rule about an item, whose path is $, holds for an item of the list at the path."""
    if isinstance(rule, bool):
        return all_of(rule, {"op": "jsonpath", "path": f"{path}[0]", "missing": False})
    every = f"{path}[*]"
    match rule["op"]:
        case "any":
            return any_of(*(at_items(path, part) for part in parts_of(rule)))
        case "not" if (inner := inner_of(rule))["op"] in ("any", "all"):
            turned = all_of if inner["op"] == "any" else any_of
            return at_items(path, turned(*(not_of(part) for part in parts_of(inner))))
        case "jsonpath" if rule["path"] == "$":
            return {**rule, "path": every}
        case "not" if _is_existence(inner_of(rule)):
            return False
        case "all":
            # An item is always there, and it is not null if something below it has a value.
            parts = parts_of(rule)
            below = any(map(_is_below, parts))
            needed = [part for part in parts if not _is_existence(part) and not (below and _is_not_null(part))]
            if len(needed) < len(parts):
                return at_items(path, all_of(*needed))
        case _:
            pass
    if _has_item_itself(rule):
        raise Untranslatable("it compares items of a list in several ways")
    return {"op": "jsonpath", "path": every, "rule": rule}


def _is_below(rule: Rule) -> bool:
    return rule["op"] == "jsonpath" and rule["path"] != "$" and rule.get("missing") is not True


def _is_existence(rule: Rule) -> bool:
    return rule["op"] == "jsonpath" and rule["path"] == "$" and rule.get("missing") is False


def _is_not_null(rule: Rule) -> bool:
    return rule["op"] == "not" and rule["rule"] == {"op": "jsonpath", "path": "$", "equals": None}


def _has_item_itself(rule: Rule) -> bool:
    """Whether it has a condition on the item itself, which could be a text that looks like JSON."""
    if rule["op"] in ("any", "all"):
        return any(map(_has_item_itself, parts_of(rule)))
    return _has_item_itself(inner_of(rule)) if rule["op"] == "not" else rule.get("path") in (None, "$")
