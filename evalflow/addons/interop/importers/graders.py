"""OpenAI's graders as checks of a case and metrics with a prompt.

Their templates know `{{item.x}}`, a column of the data, and `{{sample.output_text}}`, the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from evalflow.addons.interop.importers.columns import Columns
from evalflow.addons.interop.importers.files import metric_option
from evalflow.addons.interop.importers.ledger import COMMAND, Untranslatable
from evalflow.addons.interop.importers.nunjucks import as_text
from evalflow.jsonvalues import as_list, as_map, as_number

_TAG = re.compile(r"\{\{-?\s*([^{}]*?)\s*-?\}\}")
_COLUMN = re.compile(r"item((?:\.\w+|\[\d+\]|\[['\"][^'\"]+['\"]\])+)")
_ANSWER = ("sample.output_text", "sample['output_text']")
_OUTPUT = re.compile(r"\{\{\s*sample\.output_text\s*\}\}\Z")
_JSON = re.compile(r"\{\{\s*sample\.output_json((?:\.\w+|\[\d+\])+)\s*\}\}\Z")
_COMPARE = "compare {{sample.output_text}}"
_PERCENT = "\n\nGive the score as a percentage: {low:g} is 0, and {high:g} is 100."
LEXICAL = "a metric of the kind `lexical`, such as metric=bleu; the old scores are taken, where the file has them"


@dataclass(frozen=True, slots=True)
class Grader:
    """A grader that evalflow has: either a check, filled for each case, or a metric and its prompt.

    Attributes:
        name: Its name in the file.
        check: From the data of a case to the kind of check and its parameters.
        metric: The YAML of a metric; `prompt` is its text.
        judge: The model that judges, with its settings, as keys of a judge; empty if it names none.
        where: Its place in the file.
        expected: The columns that the answer is compared with.
    """

    name: str
    check: Callable[[Mapping[str, Any]], tuple[str, dict[str, Any]]] | None = None
    metric: dict[str, Any] = field(default_factory=dict[str, Any])
    prompt: str = ""
    judge: dict[str, Any] = field(default_factory=dict[str, Any])
    where: str = ""
    expected: frozenset[str] = frozenset()


def grader_of(declared: Columns) -> Grader:
    """The like of a grader of `testing_criteria`; Untranslatable if there is none."""
    kind = declared.get("type")
    if kind is None:
        raise Untranslatable("it is no object with a type", "write `type:` and its keys")
    make = _KINDS.get(str(kind))
    if make is None:
        raise Untranslatable(f"there is no like of {kind}", _ELSEWHERE.get(str(kind), COMMAND))
    return make(str(declared.get("name") or kind), declared)


def passes_at(declared: Columns) -> float | None:
    """The least score with which an answer passes a grader; None if it does not say."""
    if declared.peek("type") in ("string_check", "label_model"):
        return 1.0
    return as_number(declared.peek("pass_threshold"))


def column_text(template: Any, item: Mapping[str, Any]) -> str:
    """A template over `item`, filled; ValueError for a column that the case does not have."""

    def value(found: re.Match[str]) -> str:
        column = _COLUMN.fullmatch(found[1])
        if not column:
            raise Untranslatable(f"its template {found[0]} is no column", "name a column: {{item.x}}")
        current: Any = item
        for key in re.findall(r"\w[\w -]*", column[1]):
            if isinstance(current, list) and key.isdigit() and int(key) < len(cast("list[Any]", current)):
                current = cast("list[Any]", current)[int(key)]
            elif isinstance(current, Mapping) and key in current:
                current = cast("Mapping[str, Any]", current)[key]
            else:
                raise ValueError(f"the case has no {found[1]}")
        return as_text(current)

    return _TAG.sub(value, as_text(template))


def prompt_of(messages: Any) -> str:
    """A grader's messages as a prompt in Jinja; the answer stands between delimiters that it cannot contain."""
    parts: list[str] = []
    for message in as_list(messages) or [messages]:
        content: Any = as_map(message).get("content") if isinstance(message, Mapping) else message
        for part in as_list(content) or [content]:
            text = as_map(part).get("text") if isinstance(part, Mapping) else part
            if not isinstance(text, str):
                raise Untranslatable("it judges images or other parts that are no text", "evalflow's judges read text")
            parts.append(_TAG.sub(_in_jinja, text.replace("{%", "{ %").replace("{#", "{ #")))
    return "\n\n".join(parts)


def _in_jinja(found: re.Match[str]) -> str:
    if found[1] in _ANSWER:
        return '{{ answer | fenced("answer") }}'
    column = _COLUMN.fullmatch(found[1])
    if not column:
        raise Untranslatable(f"its prompt has {found[0]}", "use {{item.x}} and {{sample.output_text}}")
    return f'{{{{ vars{column[1]} | fenced("{re.sub(chr(92) + "W+", "_", column[1]).strip("_")}") }}}}'


def _expect_answer(declared: Columns) -> None:
    given = declared.get("input")
    if not isinstance(given, str) or not _OUTPUT.fullmatch(given.strip()):
        raise Untranslatable(f"it compares {str(given)[:60]}, not the answer", _COMPARE)


_OPERATIONS: Mapping[str, dict[str, Any]] = {
    "eq": {"op": "equals"},
    "ne": {"op": "not_equals"},
    "like": {"op": "contains"},
    "ilike": {"op": "contains", "case_sensitive": False},
}


def _string_check(name: str, declared: Columns) -> Grader:
    operation = _OPERATIONS.get(str(declared.get("operation")))
    if operation is None:
        raise Untranslatable(f"its operation is {declared.get('operation')}", f"known: {', '.join(_OPERATIONS)}")
    given, reference = declared.get("input"), declared.get("reference")
    if "equals" in operation["op"] and not _names_answer(given) and _names_answer(reference):
        given, reference = reference, given
    if not _names_answer(given):
        raise Untranslatable(f"it compares {str(given)[:60]}, not the answer", _COMPARE)
    if _names_answer(reference):
        raise Untranslatable("it compares the answer with itself", "compare it with a column: {{item.x}}")
    within = _JSON.fullmatch(given.strip())

    def check(item: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        rule = {**operation, "value": column_text(reference, item), "normalize": None}
        return "rule", {"op": "jsonpath", "path": f"${within[1]}", "rule": rule} if within else rule

    return Grader(name, check, expected=_columns(reference))


def _columns(template: Any) -> frozenset[str]:
    """The columns that a template names."""
    found = re.finditer(r"\bitem(?:\.(\w+)|\[['\"]([^'\"]+))", as_text(template))
    return frozenset(one[1] or one[2] for one in found)


def _names_answer(template: Any) -> bool:
    known = isinstance(template, str)
    return known and any(form.fullmatch(template.strip()) for form in (_OUTPUT, _JSON))


def _text_similarity(name: str, declared: Columns) -> Grader:
    _expect_answer(declared)
    metric, threshold = declared.get("evaluation_metric"), as_number(declared.get("pass_threshold"))
    if metric != "cosine":
        raise Untranslatable(f"there is no check like {metric}", LEXICAL)
    reference = declared.get("reference")

    def check(item: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        limit = {} if threshold is None else {"threshold": min(1.0, max(0.0, threshold))}
        return "semantic_similarity", {"reference": column_text(reference, item), **limit}

    return Grader(name, check, expected=_columns(reference))


def rubric_option(description: str, scale: Mapping[str, Any], threshold: float | None, prompt: str) -> dict[str, Any]:
    """The YAML of a rubric, which needs the fields that the text of its prompt names."""
    needs = [field for field in ("question", "answer", "reference", "vars") if re.search(rf"\{{\{{ {field}\b", prompt)]
    return metric_option("rubric", "imported", description, needs, threshold, scale=dict(scale))


def _score_model(name: str, declared: Columns) -> Grader:
    bounds = as_list(declared.get("range") or [0, 1])
    low, high = (as_number(bound) for bound in bounds) if len(bounds) == 2 else (None, None)
    if low is None or high is None or not low < high:
        raise Untranslatable(f"its range is {bounds}", "give it [least, most]")
    threshold = as_number(declared.get("pass_threshold"))
    limit = None if threshold is None else min(1.0, max(0.0, (threshold - low) / (high - low)))
    prompt = prompt_of(declared.get("input"))
    if low.is_integer() and high.is_integer() and high - low > 1:
        scale: dict[str, Any] = {"type": "likert", "min": int(low), "max": int(high)}
    else:
        scale = {"type": "percentage"}
        prompt += _PERCENT.format(low=low, high=high)
    option = rubric_option(f"{name}, a score from {low:g} to {high:g}.", scale, limit, prompt)
    return Grader(name, None, option, prompt, _judge(declared), declared.where)


def _label_model(name: str, declared: Columns) -> Grader:
    labels = [str(label) for label in as_list(declared.get("labels"))]
    passing = {str(label) for label in as_list(declared.get("passing_labels"))}
    if len(set(labels)) < 2 or not passing <= set(labels):
        raise Untranslatable("it has not two labels, or passing labels that are none of them", "name its labels")
    scale = {"type": "label", "values": {label: float(label in passing) for label in labels}}
    about = f"{name}: passes with {' or '.join(sorted(passing)) or 'no label'}."
    prompt = prompt_of(declared.get("input"))
    option = rubric_option(about, scale, 1.0, prompt)
    return Grader(name, None, option, prompt, _judge(declared), declared.where)


def _judge(declared: Columns) -> dict[str, Any]:
    """The keys of a judge: the grader's model, and the settings of its requests."""
    model = declared.get("model")
    if not isinstance(model, str) or not model:
        return {}
    settings, found = declared.child("sampling_params"), dict[str, Any]()
    temperature = settings.number("temperature")
    found |= {} if temperature is None else {"temperature": temperature}
    more = {new: settings.get(old) for old, new in _SETTINGS.items() if old in settings}
    return {"model": model, **found, **({"parameters": more} if more else {})}


_SETTINGS: Mapping[str, str] = {
    "top_p": "top_p",
    "seed": "seed",
    "reasoning_effort": "reasoning_effort",
    "max_completions_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_completion_tokens",
}
_KINDS: Mapping[str, Callable[[str, Columns], Grader]] = {
    "string_check": _string_check,
    "text_similarity": _text_similarity,
    "score_model": _score_model,
    "label_model": _label_model,
}
_ELSEWHERE: Mapping[str, str] = {
    "python": COMMAND,
    "multi": "import its graders one by one, and join them by a metric of the kind composite: docs/metrics.md",
    "endpoint": COMMAND,
}
