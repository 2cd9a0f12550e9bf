"""What of a script is known: constants, variables of the case, and texts that are made of values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from evalflow.addons.interop.importers.javascript.methods import pattern_of
from evalflow.addons.interop.importers.javascript.values import Constant, Fields, JsItems, Regex, Text, Value, Words
from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.metrics.operations import BLANKS
from evalflow.values.jsonvalues import as_list, as_map
from evalflow.values.patterns import compiled


def constant_of(value: object) -> Value:
    """A variable of the case as the script sees it."""
    if isinstance(value, list):
        return JsItems(tuple(constant_of(item) for item in as_list(value)))
    if isinstance(value, Mapping):
        return Fields({str(key): constant_of(inner) for key, inner in as_map(value).items()})
    return Constant(value)


def joined(values: Sequence[Value]) -> Value:
    """Texts one after the other; the answer's alone stays what it is."""
    if all(isinstance(value, Constant) for value in values):
        return Constant("".join(_as_string(value.value) for value in values if isinstance(value, Constant)))
    texts = [value for value in values if value != Constant("")]
    return texts[0] if len(texts) == 1 and isinstance(texts[0], Text) else Words(tuple(values))


def _as_string(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int) and abs(value) < 10**21:
        return str(value)
    raise Untranslatable("")


def on_constant(text: str, name: str, arguments: Sequence[Value]) -> Value:
    """A method of a text that is known."""
    first = arguments[0] if arguments else None
    argument = first.value if isinstance(first, Constant) else None
    match name:
        case "trim" | "toLowerCase" | "toUpperCase" | "toString" if not arguments:
            changes = {"trim": lambda: text.strip(BLANKS), "toLowerCase": text.lower, "toUpperCase": text.upper}
            return Constant(changes.get(name, lambda: text)())
        case "includes" | "startsWith" | "endsWith" if isinstance(argument, str) and len(arguments) == 1:
            tests = {"includes": text.__contains__, "startsWith": text.startswith, "endsWith": text.endswith}
            return Constant(bool(tests[name](argument)))
        case "test" if isinstance(first, Regex):
            pattern = pattern_of(first)
            if pattern.utf16:
                raise Untranslatable("")
            flags = re.IGNORECASE if pattern.ignores_case else 0
            return Constant(compiled(pattern.text, flags).search(text) is not None)
        case "split" if isinstance(argument, str) and argument and len(arguments) == 1:
            return JsItems(tuple(Constant(part) for part in text.split(argument)))
        case _:
            raise Untranslatable("")
