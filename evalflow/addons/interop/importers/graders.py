"""OpenAI's graders as checks of a case and metrics with a prompt.

Their templates know `{{item.x}}`, a column of the data, and `{{sample.output_text}}`, the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from evalflow.addons.interop.importers.columns import Columns
from evalflow.addons.interop.importers.files import metric_option
from evalflow.addons.interop.importers.ledger import COMMAND, Untranslatable
from evalflow.addons.interop.importers.nunjucks import as_text
from evalflow.addons.interop.importers.readers import texts_of
from evalflow.values.jsonvalues import as_list, as_map, as_number

_TAG = re.compile(r"\{\{-?\s*([^{}]*?)\s*-?\}\}")
_COLUMN = re.compile(r"item((?:\.\w+|\[\d+\]|\[['\"][^'\"]+['\"]\])+)")
_ANSWER = ("sample.output_text", "sample['output_text']")
_OUTPUT = re.compile(r"\{\{\s*sample\.output_text\s*\}\}\Z")
_JSON = re.compile(r"\{\{\s*sample\.output_json((?:\.\w+|\[\d+\])+)\s*\}\}\Z")
_COMPARE = "compare {{sample.output_text}}"
_PERCENT = "\n\nGive the score as a percentage: {low:g} is 0, and {high:g} is 100."
LEXICAL = "a metric of the kind `lexical`, such as metric=bleu; old scores in the file are imported"


@dataclass(frozen=True, slots=True)
class Grader:
    """A grader in evalflow's terms: either a check, filled for each case, or a metric and its prompt.

    Attributes:
        name: Its name in the file.
        check: Returns the kind of check and its parameters for a case's data.
        metric: The YAML of a metric; `prompt` is its text.
        judge: The judge's model and settings, as keys of a judge; empty if the grader names none.
        where: Its place in the file.
        expected: The columns that the answer is compared with.
    """

    name: str
    check: Callable[[Mapping[str, object]], tuple[str, dict[str, object]]] | None = None
    metric: dict[str, object] = field(default_factory=dict[str, object])
    prompt: str = ""
    judge: dict[str, object] = field(default_factory=dict[str, object])
    where: str = ""
    expected: frozenset[str] = frozenset()


def grader_of(declared: Columns) -> Grader:
    """The equivalent of a grader of `testing_criteria`; Untranslatable if evalflow has none."""
    kind = declared.text("type")
    if not kind:
        raise Untranslatable("it is not an object with a type", "write `type:` and its keys")
    make = _KINDS.get(kind)
    if make is None:
        raise Untranslatable(f"evalflow has no equivalent of {kind}", _ELSEWHERE.get(kind, COMMAND))
    return make(declared.text("name") or kind, declared)


def passes_at(declared: Columns) -> float | None:
    """A grader's passing score; None if it has none."""
    if declared.peek("type") in ("string_check", "label_model"):
        return 1.0
    return as_number(declared.peek("pass_threshold"))


def column_text(template: object, item: Mapping[str, object]) -> str:
    """Fill a template over `item`; ValueError for a column that the case lacks."""

    def value(tag: re.Match[str]) -> str:
        column = _COLUMN.fullmatch(tag[1])
        if not column:
            raise Untranslatable(f"its template {tag[0]} is not a column", "name a column: {{item.x}}")
        current: object = item
        for key in re.findall(r"\w[\w -]*", column[1]):
            items = as_list(current)
            if key.isdigit() and int(key) < len(items):
                current = items[int(key)]
            elif key in as_map(current):
                current = as_map(current)[key]
            else:
                raise ValueError(f"the case has no {tag[1]}")
        return as_text(current)

    return _TAG.sub(value, as_text(template))


def prompt_of(messages: object) -> str:
    """A grader's messages as a prompt in Jinja. The answer is put between delimiters that it cannot contain."""
    parts: list[str] = []
    for message in as_list(messages) or [messages]:
        content: object = as_map(message).get("content") if isinstance(message, Mapping) else message
        for part in as_list(content) or [content]:
            text = as_map(part).get("text") if isinstance(part, Mapping) else part
            if not isinstance(text, str):
                raise Untranslatable("it judges images or other parts that are not text", "evalflow's judges read text")
            parts.append(_TAG.sub(_in_jinja, text.replace("{%", "{ %").replace("{#", "{ #")))
    return "\n\n".join(parts)


def _in_jinja(tag: re.Match[str]) -> str:
    if tag[1] in _ANSWER:
        return '{{ answer | fenced("answer") }}'
    column = _COLUMN.fullmatch(tag[1])
    if not column:
        raise Untranslatable(f"its prompt has {tag[0]}", "use {{item.x}} and {{sample.output_text}}")
    return f'{{{{ vars{column[1]} | fenced("{re.sub(chr(92) + "W+", "_", column[1]).strip("_")}") }}}}'


_OPERATIONS: Mapping[str, dict[str, object]] = {
    "eq": {"op": "equals"},
    "ne": {"op": "not_equals"},
    "like": {"op": "contains"},
    "ilike": {"op": "contains", "case_sensitive": False},
}


def _string_check(name: str, declared: Columns) -> Grader:
    name_of_operation = declared.text("operation")
    operation = _OPERATIONS.get(name_of_operation)
    if operation is None:
        what = f"its operation is {name_of_operation}" if name_of_operation else "it has no operation"
        raise Untranslatable(what, f"known: {', '.join(_OPERATIONS)}")
    compared, reference = declared.get("input"), declared.get("reference")
    if operation["op"] in ("equals", "not_equals") and not _names_answer(compared) and _names_answer(reference):
        compared, reference = reference, compared
    if not _names_answer(compared):
        raise Untranslatable(f"it compares {as_text(compared)[:60]}, not the answer", _COMPARE)
    if _names_answer(reference):
        raise Untranslatable("it compares the answer with itself", "compare it with a column: {{item.x}}")
    within = _JSON.fullmatch(compared.strip())

    def check(item: Mapping[str, object]) -> tuple[str, dict[str, object]]:
        rule = {**operation, "value": column_text(reference, item), "normalize": None}
        return "rule", {"op": "jsonpath", "path": f"${within[1]}", "rule": rule} if within else rule

    return Grader(name, check, expected=_columns(reference))


def _columns(template: object) -> frozenset[str]:
    matches = re.finditer(r"\bitem(?:\.(\w+)|\[['\"]([^'\"]+))", as_text(template))
    return frozenset(item[1] or item[2] for item in matches)


def _names_answer(template: object) -> TypeGuard[str]:
    return isinstance(template, str) and any(form.fullmatch(template.strip()) for form in (_OUTPUT, _JSON))


def _text_similarity(name: str, declared: Columns) -> Grader:
    compared = declared.get("input")
    if not isinstance(compared, str) or not _OUTPUT.fullmatch(compared.strip()):
        raise Untranslatable(f"it compares {as_text(compared)[:60]}, not the answer", _COMPARE)
    metric, threshold = declared.text("evaluation_metric"), as_number(declared.get("pass_threshold"))
    if metric != "cosine":
        raise Untranslatable(f"evalflow has no check equivalent to {metric}", LEXICAL)
    reference = declared.get("reference")

    def check(item: Mapping[str, object]) -> tuple[str, dict[str, object]]:
        limit = {} if threshold is None else {"threshold": min(1.0, max(0.0, threshold))}
        return "semantic_similarity", {"reference": column_text(reference, item), **limit}

    return Grader(name, check, expected=_columns(reference))


def rubric_option(
    description: str, scale: Mapping[str, object], threshold: float | None, prompt: str
) -> dict[str, object]:
    """The YAML of a rubric; `needs` are the fields that its prompt names."""
    needs = [field for field in ("question", "answer", "reference", "vars") if re.search(rf"\{{\{{ {field}\b", prompt)]
    return metric_option("rubric", "imported", description, needs, threshold, scale=dict(scale))


def _score_model(name: str, declared: Columns) -> Grader:
    bounds = as_list(declared.get("range") or [0, 1])
    low, high = (as_number(bound) for bound in bounds) if len(bounds) == 2 else (None, None)
    if low is None or high is None or not low < high:
        raise Untranslatable(f"its range is {bounds}", "write [minimum, maximum]")
    threshold = as_number(declared.get("pass_threshold"))
    limit = None if threshold is None else min(1.0, max(0.0, (threshold - low) / (high - low)))
    prompt = prompt_of(declared.get("input"))
    if low.is_integer() and high.is_integer() and high - low > 1:
        scale: dict[str, object] = {"type": "likert", "min": int(low), "max": int(high)}
    else:
        scale = {"type": "percentage"}
        prompt += _PERCENT.format(low=low, high=high)
    option = rubric_option(f"{name}, a score from {low:g} to {high:g}.", scale, limit, prompt)
    return Grader(name, None, option, prompt, _judge(declared), declared.where)


def _label_model(name: str, declared: Columns) -> Grader:
    labels = texts_of(declared.get("labels") or [], "label")
    passing = {*texts_of(declared.get("passing_labels") or [], "passing label")}
    if len(set(labels)) < 2 or not passing <= set(labels):
        what = "it has fewer than two labels, or passing labels that are not among its labels"
        raise Untranslatable(what, "name its labels")
    scale = {"type": "label", "values": {label: float(label in passing) for label in labels}}
    about = f"{name}: passes with {' or '.join(sorted(passing)) or 'no label'}."
    prompt = prompt_of(declared.get("input"))
    option = rubric_option(about, scale, 1.0, prompt)
    return Grader(name, None, option, prompt, _judge(declared), declared.where)


def _judge(declared: Columns) -> dict[str, object]:
    """The keys of a judge: the grader's model, and the settings of its requests."""
    model = declared.get("model")
    if not isinstance(model, str) or not model:
        return {}
    settings = declared.child("sampling_params")
    temperature = settings.number("temperature")
    own = {} if temperature is None else {"temperature": temperature}
    more = {new: settings.get(old) for old, new in _SETTINGS.items() if old in settings}
    return {"model": model, **own, **({"parameters": more} if more else {})}


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
