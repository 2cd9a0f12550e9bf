"""JavaScript assertions as rules, as far as rules can say the same; all others are programs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evalflow.addons.interop.importers.javascript.conditions import ALWAYS, NEVER, Formula, JsCondition, Rule
from evalflow.addons.interop.importers.javascript.evaluate import Evaluation
from evalflow.addons.interop.importers.javascript.syntax import Node, read_body
from evalflow.addons.interop.importers.javascript.values import (
    FALSY,
    UNDEFINED_VALUE,
    After,
    Caught,
    Choice,
    Constant,
    Fields,
    Value,
)
from evalflow.addons.interop.importers.ledger import COMMAND, Untranslatable

_DECLARES = re.compile(r"(?:const|let|var)\s")
_RETURNS = re.compile(r"return\b")
_NO_RETURN = Untranslatable(
    "it returns nothing, so that promptfoo fails it for every answer", "write `return` before its last expression"
)


def rule_of(
    script: str, variables: Mapping[str, object] | None = None, *, inverse: bool = False, threshold: float | None = None
) -> Rule:
    """The rule of a script over `output` and `context.vars`; Untranslatable if rules cannot say the same.

    `inverse`: that it returns false. A script that throws fails either way. `threshold` is the least of numbers.
    """
    try:
        body = _body(script.strip())
        result = _result(Evaluation(variables or {}).returned(body), threshold)
        return _told(result.false if inverse else result.true, "vars" in script)
    except Untranslatable as failure:
        if failure.reason:
            raise Untranslatable(failure.reason, failure.hint or COMMAND) from None
    except RecursionError:
        pass
    line = script.strip().splitlines()[0][:80] if script.strip() else ""
    raise Untranslatable(f"it runs JavaScript: {line}", COMMAND)


def _body(script: str) -> tuple[Node, ...]:
    """The body of the function that promptfoo makes of a script: one line is what it returns, several lines are it.

    A line that begins with `return` is taken as it is meant, though promptfoo cannot read it.
    """
    body = read_body(
        script
        if "\n" in script or _RETURNS.match(script) or _DECLARES.match(script)
        else f"return ({script.rstrip('; ')}\n)"
    )
    if "\n" not in script and body and body[-1].kind == "expression" and len(body) > 1:
        return (*body[:-1], Node("return", parts=body[-1].parts))
    return body


def _told(rule: Formula, has_variables: bool) -> Rule:
    """The rule; one that every answer fits, or none, where the variables of the case decide it."""
    if not isinstance(rule, bool):
        return rule
    if not has_variables:
        raise Untranslatable(f"it {'passes' if rule else 'fails'} every answer", "mend the script first")
    anything: Rule = {"op": "length", "min": 0}
    return anything if rule else {"op": "not", "rule": anything}


def _result(value: Value, threshold: float | None) -> JsCondition:
    """Whether promptfoo passes what a script returns: true, a number above 0, or an object that says so."""
    match value:
        case JsCondition():
            return value
        case _ if value == FALSY:  # false or another value, which promptfoo fails either way
            return JsCondition(False, None)
        case Constant(bool(truth)):
            return ALWAYS if truth else NEVER
        case Constant(int() | float() as number):
            return _number(number, threshold)
        case _ if value == UNDEFINED_VALUE:
            raise _NO_RETURN
        case Constant():
            return JsCondition(False, False, None)
        case Choice():
            then, other = _result(value.then, threshold), _result(value.other, threshold)
            return value.condition.choose(then, other)
        case Caught():
            return _result(value.value, threshold).or_caught(_result(value.handler, threshold))
        case After():
            return value.ends.and_then(_result(value.value, threshold))
        case Fields():
            return _graded(value)
        case _:
            raise Untranslatable("it returns neither true or false nor a number, so that promptfoo fails it")


def _number(number: float, threshold: float | None) -> JsCondition:
    if number not in (0, 1):
        raise Untranslatable(f"it returns the grade {number:g}")
    if threshold is not None and not 0 < threshold <= 1:
        raise Untranslatable(f"its threshold is {threshold:g}")
    return ALWAYS if number else NEVER


def _graded(value: Fields) -> JsCondition:
    """An object with `pass`, `score` and `reason`, of which the score says the same as `pass`."""
    if not {"pass", "score", "reason"} <= set(value.values):
        raise Untranslatable("it returns an object without pass, score and reason", "give it all three")
    if odd := set(value.values) - {"pass", "score", "reason"}:
        raise Untranslatable(f"it returns an object with {', '.join(sorted(odd))}")
    passes, score = (_result(value.values[key], None) for key in ("pass", "score"))
    if passes.when_true != score.when_true:
        raise Untranslatable("it returns a score that differs from its pass")
    return passes
