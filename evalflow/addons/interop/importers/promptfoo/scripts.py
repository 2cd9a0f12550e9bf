"""JavaScript assertions as rules that run the same script."""

from __future__ import annotations

import json
import re

from pydantic import ValidationError

from evalflow.addons.interop.importers.ledger import COMMAND, Untranslatable
from evalflow.metrics.javascript import JavaScriptOperation

Rule = dict[str, object]
_ELSEWHERE = re.compile(
    r"\b(?:(?:require|import|fetch)\s*\(|process\s*\.|context\s*\??\.\s*(?!vars\b)\w+)|^\s*(?:import|export)\b",
    re.MULTILINE,
)
"""Words of a script that need a program, or promptfoo's own context."""
_OF_TEXTS = (
    "at charAt charCodeAt codePointAt concat endsWith includes indexOf lastIndexOf length localeCompare match matchAll"
    " normalize padEnd padStart repeat replace replaceAll search slice split startsWith substr substring toString trim"
    " toLocaleLowerCase toLocaleUpperCase toLowerCase toUpperCase trimEnd trimLeft trimRight trimStart valueOf"
).replace(" ", "|")
_AS_OBJECT = re.compile(
    rf"\boutput\s*\??\.\s*(?!(?:{_OF_TEXTS})\b)[A-Za-z_$]"  # output.label
    r"|\boutput\s*(?:\?\.)?\[\s*['\"`]|\bin\s+output\b|\}\s*=\s*output\b|\bObject\.\w+\(\s*output\b"
)
"""Expressions by which a script reads an output that is an object."""


def rule_of(script: str, *, inverse: bool = False, threshold: float | None = None) -> Rule:
    """The rule that runs a script over `output` and `context.vars`.

    Untranslatable if the script needs more or is not valid. With `inverse` it must return false. `threshold` is the
    lowest number that passes.
    """
    shown = script.strip().splitlines()[0][:80] if script.strip() else ""
    if not shown:
        raise Untranslatable("it has no script", "give it a `value`")
    if match := _ELSEWHERE.search(script):
        needed = match[0].strip().rstrip("(. ")
        raise Untranslatable(f"it needs {needed}, which rules do not have: {shown}", COMMAND)
    if "\n" in script.strip() and not re.search(r"\breturn\b", script):
        hint = "write `return` before its last expression"
        raise Untranslatable("it returns nothing, so promptfoo fails every answer", hint)
    rule: Rule = {"op": "javascript", "script": script.strip()}
    rule |= {"parsed": True} if _AS_OBJECT.search(script) else {}
    rule |= {} if threshold is None else {"least": threshold}
    rule |= {"inverse": True} if inverse else {}
    try:
        JavaScriptOperation.model_validate(rule)
    except ValidationError as error:
        raise Untranslatable(error.errors()[0]["msg"].removeprefix("Value error, "), COMMAND) from None
    return rule


def rule_of_file(program: str, function: str, *, inverse: bool, threshold: float | None) -> Rule:
    """The rule that runs a CommonJS file: its export, or a function of its export."""
    called = f"module.exports.{function}" if function else "module.exports"
    script = (
        f"const module = {{exports: {{}}}}, exports = module.exports;\n{program}\nreturn {called}(output, context);"
    )
    return rule_of(script, inverse=inverse, threshold=threshold)


def rule_of_pattern(pattern: str) -> Rule:
    """The rule that searches for a pattern in the syntax of JavaScript."""
    return rule_of(f"new RegExp({json.dumps(pattern, ensure_ascii=False)}).test(output)")
