"""promptfoo's assertions as checks of a case.

An assertion becomes a check: a rule, or a question to the judge. The check's name is its `metric`, else its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evalflow.addons.interop.importers.ledger import COMMAND, Untranslatable
from evalflow.addons.interop.importers.located import Broken, LocatedMap, located_yaml
from evalflow.addons.interop.importers.nunjucks import as_text, is_template, render
from evalflow.addons.interop.importers.promptfoo.scripts import Rule, rule_of, rule_of_file, rule_of_pattern
from evalflow.addons.interop.importers.readers import text_in, text_of, texts_in, texts_of
from evalflow.addons.interop.importers.sources import SourceFolder, read_document, text_of_file
from evalflow.metrics.case_checks import PARAMS
from evalflow.values.jsonvalues import as_list, as_map, is_object

_Maker = Callable[[object, Mapping[str, object]], Rule]
"""Makes the parameters of a check from the value of an assertion and all its keys."""
_REMARKS = ("description", "name", "label", "id", "title", "comment", "reason")
"""Keys that promptfoo does not read."""
_PROGRAMS = ("javascript", "python", "ruby")
_EXACT: Mapping[str, object] = {"normalize": None}
_LOWER: Mapping[str, object] = {"normalize": None, "letter_case": "lower"}
_SCRIPT_FILE = re.compile(r"file://(?P<name>.+\.c?js)(?::(?P<function>\w+))?", re.ASCII)
_KNOWN_KEYS = frozenset({"type", "value", "threshold", "weight", "metric", "provider", *_REMARKS})
_CALLS = "metric=trajectory_match, with the calls in the column `expected`: docs/agents.md"
_ELSEWHERE: Mapping[str, str] = {
    "python": COMMAND,
    "ruby": COMMAND,
    "webhook": COMMAND,
    "select-best": "compare two bots with metric=preference, or with `evalflow compare`",
    "max-score": "compare the runs with `evalflow rank`",
    "is-refusal": "metric=refusal, or a check `conformity` with the rule that the answer refuses",
    "moderation": "metric=harmful_content",
    "guardrails": "metric=jailbreak_guardrails, with your guardrail's outcomes",
    "classifier": "a metric of the kind `classification`, on your classifier's outcomes",
    "is-sql": "a check `rule` with the operation `sql`",
    "contains-sql": COMMAND,
    "contains-xml": COMMAND,
    "contains-html": COMMAND,
    "is-valid-openai-tools-call": "metric=trajectory_match",
    "is-valid-function-call": "metric=trajectory_match",
    "trajectory:tool-args-match": f"{_CALLS}; `arguments: superset` is its mode partial",
    "trajectory:tool-sequence": f"{_CALLS}; `match: in_order`, or `strict`",
    "trajectory:step-count": "metric=tool_limits, which has `least` and `most` calls",
    "trajectory:goal-success": "metric=goal_accuracy",
    "tool-call-f1": "metric=tool_f1",
    "agent-rubric": "metric=task_completion",
    "search-rubric": "a check `conformity`; the judge cannot search",
    "conversation-relevance": "metric=turn_relevance",
    "levenshtein": "metric=levenshtein, with its value as the reference of the case",
    "rouge-n": "metric=rouge_1, with its value as the reference of the case",
    "bleu": "metric=bleu, with its value as the reference of the case",
    "gleu": "a check `semantic_similarity`",
    "meteor": "metric=meteor, with its value as the reference of the case",
}


@dataclass(frozen=True, slots=True)
class Translated:
    """A translated assertion: a check of the case, or a metric over all cases.

    Attributes:
        check: The check, without its identifier.
        kind: The built-in check behind it.
        metric: Instead of a check: a metric of evalflow, with the assertion's threshold.
        weight: How much it counts in a group.
    """

    kind: str = ""
    params: dict[str, object] = field(default_factory=dict[str, object])
    metric: str = ""
    threshold: float | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class AssertionReader:
    """Translates assertions with the variables of a case.

    Attributes:
        folder, base: The folders of files that assertions name.
        answered: Whether they come from results, which lack the files that assertions name.
    """

    folder: SourceFolder
    base: Path
    answered: bool = False

    def translated(self, declared: Mapping[str, object], variables: Mapping[str, object]) -> Translated:
        """The equivalent of an assertion; Untranslatable if evalflow has none."""
        kind = declared.get("type")
        if not isinstance(kind, str):
            raise Untranslatable("it has no type", "write `type: contains` or another")
        base = kind.removeprefix("not-")
        odd = sorted(set(declared) - _KNOWN_KEYS - ({"config"} if base in _PROGRAMS else set()))
        if odd:
            raise Untranslatable(f"it has {', '.join(odd)}", "score the answer unchanged, or write a `command` check")
        inverse = base != kind
        weight = self._weight(declared)
        if base in _METRICS:
            if inverse:
                raise Untranslatable("this metric cannot be negated")
            return Translated(metric=_METRICS[base], threshold=_number(declared.get("threshold")), weight=weight)
        if base == "javascript":
            return Translated(kind="rule", params=self._script(declared, variables, inverse), weight=weight)
        value = self._value(declared, base, variables)
        if base in _JUDGED:
            if inverse:
                raise Untranslatable("a judge's assertion cannot be negated", "write the rubric in the opposite sense")
            check, make = _JUDGED[base]
            return Translated(kind=check, params=make(value, declared), weight=weight)
        if base in _RULES:
            rule = _RULES[base](value, declared)
        else:
            raise Untranslatable(f"evalflow has no equivalent of {kind}", _ELSEWHERE.get(base, COMMAND))
        return Translated(kind="rule", params={"op": "not", "rule": rule} if inverse else rule, weight=weight)

    def _script(self, declared: Mapping[str, object], variables: Mapping[str, object], inverse: bool) -> Rule:
        value, threshold = declared.get("value"), _number(declared.get("threshold"))
        file = _SCRIPT_FILE.fullmatch(value) if isinstance(value, str) else None
        if file is not None and not self.answered:
            program = text_of_file(self._file(file["name"], declared))
            return rule_of_file(program, file["function"] or "", inverse=inverse, threshold=threshold)
        script = self._text(value, "javascript", declared, variables)
        if not isinstance(script, str):
            raise Untranslatable("its script is not text", "write it as text")
        return rule_of(script, inverse=inverse, threshold=threshold)

    def _file(self, name: str, declared: Mapping[str, object]) -> Path:
        return self.folder.find(name, self.base, declared.at("value") if isinstance(declared, LocatedMap) else "")

    def _weight(self, declared: Mapping[str, object]) -> float:
        weight = _number(declared.get("weight"))
        if weight is not None and weight < 0:
            raise Untranslatable("its weight is below 0", "give it a weight of 0 or more")
        return 1.0 if weight is None else weight

    def _value(self, declared: Mapping[str, object], kind: str, variables: Mapping[str, object]) -> object:
        value = declared.get("value")
        if isinstance(value, list):
            return [self._text(item, kind, declared, variables) for item in as_list(value)]
        return self._text(value, kind, declared, variables)

    def _text(
        self, value: object, kind: str, declared: Mapping[str, object], variables: Mapping[str, object]
    ) -> object:
        if not isinstance(value, str):
            return value
        if not value.startswith("file://"):
            return render(value, variables)
        name = value.removeprefix("file://")
        if re.search(r"\.(py|js|ts|mjs|cjs|mts|cts|rb)(:\w+)?\Z", name):
            raise Untranslatable(f"it runs the program {name}", COMMAND)
        if self.answered:
            raise Untranslatable(
                f"it names the file {name}, which is not part of the results", "import the configuration"
            )
        path = self._file(name, declared)
        if path.suffix.lower() in (".json", ".yaml", ".yml"):
            return read_document(path)
        text = text_of_file(path)
        return text if kind in ("is-json", "contains-json") else render(text, variables)


def name_of(declared: Mapping[str, object]) -> str:
    """The name of the row: the assertion's `metric`, else its type."""
    name = re.sub(r"[\s#]+", "_", text_in(declared, "metric", "type").strip()) or "assert"
    return f"{name}_check" if name in PARAMS else name


def _number(value: object) -> float | None:
    if value is None or (isinstance(value, str) and is_template(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Untranslatable(f"it has {value!r} instead of a number")
    return float(value)


def _required_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise Untranslatable("it has no value to compare with", "give it a `value`")
    return as_text(value)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        parts = re.findall(r'\s*"((?:[^"]|"")*)"\s*(?:,|\Z)|\s*([^,]+?)\s*(?:,|\Z)', value)
        value = [quoted.replace('""', '"') or plain for quoted, plain in parts]
    if not isinstance(value, list) or not value:
        raise Untranslatable("it has no list of values to compare with", "give it a `value`")
    return [as_text(item) for item in as_list(value)]


def _filled(what: str) -> Callable[[object], str]:
    """Returns a reader of a text that must not be empty; `what` names it in the reason."""

    def read(value: object) -> str:
        if not isinstance(value, str) or not value:
            raise Untranslatable(f"it has no {what}", "give it a `value`")
        return value

    return read


def _schema(value: object) -> dict[str, object]:
    schema = value
    if isinstance(value, str) and value.strip():
        try:
            schema = located_yaml(value, "schema")
        except Broken:
            schema = None
    if schema in (None, "") or isinstance(schema, bool):
        schema = {}
    if not isinstance(schema, dict):
        raise Untranslatable("its schema is not an object", "write a JSON Schema")
    return dict(as_map(schema))


def _elements(value: object) -> list[str]:
    elements = as_map(value).get("requiredElements") if isinstance(value, dict) else value
    if isinstance(elements, str):
        return [part.strip() for part in elements.split(",")]
    return [] if elements is None else texts_of(elements, "list of elements")


def _criteria(value: object) -> list[str]:
    rules = texts_in(as_list(value) or [value])
    if not rules or not all(rule.strip() for rule in rules):
        raise Untranslatable("its rubric is not text", "write it as text")
    return rules


def _equals(value: object, _declared: object) -> Rule:
    if isinstance(value, dict | list) or value is None:
        return {"op": "jsonpath", "path": "$", "equals": value}
    return {"op": "equals", "value": as_text(value), **_EXACT}


def _at_most(field: str, parts: float) -> _Maker:
    def rule(_value: object, declared: Mapping[str, object]) -> Rule:
        limit = _number(declared.get("threshold"))
        if limit is None:
            raise Untranslatable("it has no threshold", "give it a `threshold`")
        return {"op": "less_than_equals", "field": field, "value": limit / parts}

    return rule


def _words(value: object, _declared: object) -> Rule:
    if isinstance(value, dict):
        bounds = {key: bound for key, bound in as_map(value).items() if key in ("min", "max")}
    else:
        bounds = dict.fromkeys(("min", "max"), as_text(value))
    try:
        whole = {key: int(text_of(bound, f"{key} of words")) for key, bound in bounds.items()}
    except ValueError:
        whole = {}
    if not whole:
        raise Untranslatable("it has no number of words", "give it a `value`")
    return {"op": "count", "pattern": r"[^\s\ufeff]+", "normalize": None, **whole}


def _similar(value: object, declared: Mapping[str, object]) -> dict[str, object]:
    threshold = _number(declared.get("threshold"))
    several = as_list(value)
    reference = _required_text(several[0] if len(several) == 1 else value)
    return {"reference": reference, "threshold": 0.75 if threshold is None else threshold}


def _rule(op: str, key: str, read: Callable[[object], object], more: Mapping[str, object] | None = None) -> _Maker:
    """Returns a maker of rules that have the assertion's value in one key."""
    return lambda value, _declared: {"op": op, key: read(value), **(more or {})}


def _tools_used(value: object, _declared: object) -> Rule:
    """A rule that each of these tools was called, for any format of the list of calls or messages."""
    if is_object(value) and set(value) - {"name"}:
        raise Untranslatable("it counts calls or uses a pattern", _CALLS)
    names = texts_in(as_list(value) or [as_map(value).get("name", value)])
    if not names or not all(names):
        raise Untranslatable("it names no tool", "give it a `value`")
    paths = ("$[*].name", "$[*].function.name", "$[*].tool_calls[*].function.name")
    rules: list[Rule] = [
        {"op": "any", "rules": [{"op": "jsonpath", "field": "actual", "path": at, "equals": name} for at in paths]}
        for name in names
    ]
    return rules[0] if len(rules) == 1 else {"op": "all", "rules": rules}


_RULES: Mapping[str, _Maker] = {
    "contains": _rule("contains", "value", _required_text, _EXACT),
    "icontains": _rule("contains", "value", lambda value: _required_text(value).lower(), _LOWER),
    "contains-any": _rule("contains_any", "values", _texts, _EXACT),
    "icontains-any": _rule("contains_any", "values", lambda value: [text.lower() for text in _texts(value)], _LOWER),
    "contains-all": _rule("contains_all", "values", _texts, _EXACT),
    "icontains-all": _rule("contains_all", "values", lambda value: [text.lower() for text in _texts(value)], _LOWER),
    "equals": _equals,
    "starts-with": _rule("starts_with", "value", _filled("text to compare with"), _EXACT),
    "regex": lambda value, _declared: rule_of_pattern(_filled("pattern")(value)),
    "is-json": _rule("json_schema", "schema", _schema),
    "contains-json": _rule("json_schema", "schema", _schema, {"anywhere": True}),
    "is-xml": _rule("xml", "elements", _elements),
    "is-html": lambda _value, _declared: {"op": "html"},
    "latency": _at_most("latency_s", 1000),
    "cost": _at_most("cost_usd", 1),
    "finish-reason": _rule("equals", "value", _filled("finish reason"), {**_EXACT, "field": "finish_reason"}),
    "word-count": _words,
    "trajectory:tool-used": _tools_used,
}
_JUDGED: Mapping[str, tuple[str, _Maker]] = {
    **dict.fromkeys(
        ("llm-rubric", "model-graded-closedqa", "g-eval"),
        ("conformity", lambda value, _declared: {"rules": _criteria(value)}),
    ),
    **dict.fromkeys(
        ("factuality", "model-graded-factuality"),
        ("correctness", lambda value, _declared: {"reference": _required_text(value)}),
    ),
    **dict.fromkeys(("similar", "similar:cosine"), ("semantic_similarity", _similar)),
}
"""The check that asks the judge, and its parameters."""
_METRICS: Mapping[str, str] = {
    "answer-relevance": "answer_relevancy",
    "context-faithfulness": "faithfulness",
    "context-recall": "context_recall",
    "context-relevance": "context_relevance",
}
NOTES: Mapping[str, str] = {
    "llm-rubric": "llm-rubric becomes the check conformity: the judge says yes or no, and thresholds are dropped",
    "g-eval": "g-eval becomes the check conformity: the judge says yes or no instead of grading",
    "factuality": "factuality becomes the check correctness: the classes A to E become yes or no",
    "similar": "similar uses the embedder of the run: the thresholds of another model's cosines may not fit",
    "context-faithfulness": "metrics over contexts score every case that has contexts",
    "contains-json": "contains-json only accepts JSON here; promptfoo also accepts YAML-like text such as {note}",
    "javascript": "scripts run unchanged (docs/from-promptfoo.md); of a grade the rule only keeps pass or fail",
    "trajectory:tool-used": "trajectory:tool-used reads `actual`, which an agent or a service returns: docs/agents.md",
    "latency": "latency and cost are those of the run's own answers",
}
"""Differences to promptfoo, by type of assertion."""
