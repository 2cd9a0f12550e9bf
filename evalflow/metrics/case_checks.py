"""The checks that a case may name: their parameters, and the metric built for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Literal, Self, get_args

from pydantic import AliasChoices, BaseModel, Field, RootModel, TypeAdapter, model_validator

from evalflow.config.schema import FIELDS, MetricConfig, Strict, Word, with_examples
from evalflow.errors import did_you_mean
from evalflow.metrics.base import BaseMetric, CosineMetric, FieldMetric, scored
from evalflow.metrics.case_fields import fields_of, root
from evalflow.metrics.chain import ChainConfig, ChainMetric
from evalflow.metrics.operations import NormalForm, spelled_number
from evalflow.metrics.references import any_right
from evalflow.metrics.returns import BoolType, Examples, FieldType, StepConfig, StrType
from evalflow.metrics.rulebook import Operation, Rulebook
from evalflow.metrics.rules import PartsRule, Rule, ValueRule
from evalflow.metrics.steps import PreparedStep, build_steps
from evalflow.metrics.topology import reached
from evalflow.prompts import Prompts
from evalflow.protocols import Judge
from evalflow.records import Answer, Ask, Case, Outcome, passes, texts_of
from evalflow.records.deferred import DEFER_BUILD
from evalflow.values.jsonvalues import as_list, as_map, is_list, is_mapping, look_up, written

_PLACEHOLDER = re.compile(
    r"\{%-?\s*raw\s*-?%\}(?P<raw>.*?)(?:\{%-?\s*endraw\s*-?%\}|(?P<unclosed>\Z))"
    r"|\{\{\s*+(?P<quote>['\"])(?P<text>(?:\\.|(?!(?P=quote)).)*+)(?P=quote)\s*+\}\}"
    r"|\\(?P<opening>\{\{)"
    r"|\{\{(?P<name>[^{}]*+)\}\}",
    re.DOTALL,
)
"""A placeholder such as {{brand}}, or literal braces: in Jinja's raw block, or after a backslash."""


_Text = Annotated[str, Field(min_length=1)]
Reference = _Text | Annotated[list[_Text], Field(min_length=1)]
"""One text, or several; matching one is enough."""


class Correctness(Strict):
    """The answer contains everything in the reference and does not contradict it; it may add more.

    Attributes:
        reference: What the answer must say; if it is a list of texts, one is enough.
    """

    model_config = with_examples({"reference": "Three times. A reserved book cannot be renewed."})
    reference: Reference


class Conformity(Strict):
    """The answer keeps every rule; all rules are judged together, over the whole conversation.

    Attributes:
        rules: The rules; {{brand}} is filled from the case. {% raw %}{{brand}}{% endraw %} is literal text.
    """

    model_config = with_examples({"rules": ["The agent should only answer in English."]})
    rules: list[str] = Field(min_length=1)


class Groundedness(Strict):
    """The context (without one, the earlier turns) supports everything in the answer, without contradiction.

    Attributes:
        context: The facts that the answer may state; null: the earlier turns. Blank: nothing was retrieved, so no fact
            is supported.
    """

    model_config = with_examples({"context": "A late book costs 20 cents a day."})
    context: str | None = None


class StringMatching(Strict):
    """The keyword is in the answer.

    Attributes:
        keyword: A word or a sentence.
        case_sensitive: Whether upper and lower case differ.
        normalize: The Unicode form both texts are brought to first; null compares them as they are.
    """

    model_config = with_examples({"keyword": "three", "case_sensitive": False})
    keyword: str = Field(min_length=1)
    case_sensitive: bool = True
    normalize: NormalForm | None = Field(
        default="NFC", validation_alias=AliasChoices("normalize", "normalization_form")
    )


class JsonPathRule(Strict):
    """The expected value at a path in the metadata: text must contain it; a number or boolean must equal it.

    Attributes:
        json_path: The JSONPath.
        expected_value: The text, number or boolean.
        expected_value_type: Its type; null: the type as written.
    """

    json_path: str
    expected_value: object
    expected_value_type: Literal["string", "number", "boolean"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> JsonPathRule:
        if self.kind == "number" and spelled_number(self.expected_value) is None:
            raise ValueError(f"expected_value {self.expected_value!r} is not a number")
        if self.kind == "boolean" and str(self.expected_value).lower() not in ("true", "false"):
            raise ValueError(f"expected_value {self.expected_value!r} is not true or false")
        return self

    @property
    def kind(self) -> str:
        value = self.expected_value
        own = "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "string"
        return self.expected_value_type or own

    @property
    def operation(self) -> dict[str, object]:
        expected = self.expected_value
        if self.kind == "string":
            return {"op": "jsonpath", "path": self.json_path, "contains": str(expected)}
        if isinstance(expected, str) or self.kind == "boolean":
            expected = spelled_number(expected) if self.kind == "number" else str(expected).lower() == "true"
        return {"op": "jsonpath", "path": self.json_path, "equals": expected}


class Metadata(Strict):
    """The answer's metadata has the expected value at every path.

    Attributes:
        json_path_rules: The paths, each with its value.
    """

    model_config = with_examples(
        {"json_path_rules": [{"json_path": "$.tool.name", "expected_value": "fees", "expected_value_type": "string"}]}
    )
    json_path_rules: list[JsonPathRule] = Field(min_length=1)


class SemanticSimilarity(Strict):
    """The answer means about the same as the reference: the cosine of their embeddings reaches the threshold.

    Attributes:
        reference: What the answer should mean; if it is a list of texts, the nearest counts.
        threshold: The smallest cosine that passes.
    """

    model_config = with_examples({"reference": "We close at six.", "threshold": 0.7})
    reference: Reference
    threshold: float = Field(default=0.8, ge=0, le=1)


class RegexMatching(Strict):
    """The pattern matches somewhere in the answer.

    Attributes:
        pattern: A regular expression in the syntax of Python's `re`.
    """

    model_config = with_examples({"pattern": "[0-9]+ cents"})
    pattern: str


class FieldComparison(Strict):
    """A field, by default the answer, compares with the expected value.

    Attributes:
        expected_value: The text or number.
        field: A case field, or a dotted path into one.
    """

    model_config = with_examples({"expected_value": 20, "field": "metadata.cents"})
    expected_value: object
    field: Word = "answer"


class JsonSchemaValidity(Strict):
    """A field, by default the answer, is JSON that is valid by the schema.

    Attributes:
        schema_: The JSON Schema, in data as `schema`.
        field: A case field, or a dotted path into one.
    """

    model_config = with_examples({"schema": {"required": ["days"]}}, populate_by_name=True, defer_build=DEFER_BUILD)
    schema_: dict[str, object] = Field(alias="schema")
    field: Word = "answer"


class RuleParams(RootModel[Operation]):
    """A rule about the answer's text, metadata, time or cost; no model judges it."""

    model_config = with_examples(
        {"op": "contains", "value": "three", "case_sensitive": False},
        {"op": "less_than_equals", "field": "latency_s", "value": 2},
        {"op": "not", "rule": {"op": "regex", "pattern": "(?i)as an ai"}},
    )

    @model_validator(mode="after")
    def _known_fields(self) -> RuleParams:
        for key, field in self.root.reads("answer"):
            if root(field) not in FIELDS:
                raise ValueError(f"{key} {field!r} is not a case field; {did_you_mean(root(field), FIELDS)}")
        return self


class GroupedCheck(Strict):
    """A check within a group.

    Attributes:
        identifier: The kind of check, or one of your own.
        name: Its name in the group's reason; null: its identifier.
        enabled: false: it does not count.
        params: Its parameters.
        weight: How much it counts in the group's share; 0: it is shown, and does not count.
    """

    identifier: Word
    name: Word | None = None
    enabled: bool = True
    params: dict[str, object] = Field(default_factory=dict[str, object])
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)


class CheckGroup(Strict):
    """Several checks together: all must pass, or a share of them.

    Attributes:
        checks: The checks, each with its weight.
        threshold: The smallest share with which the group passes; its score is then 1 or 0. null: the score is the
            share itself.
    """

    model_config = with_examples(
        {
            "threshold": 0.6,
            "checks": [
                {"identifier": "rule", "weight": 2, "params": {"op": "contains", "value": "please"}},
                {"identifier": "conformity", "params": {"rules": ["The agent should be polite."]}},
            ],
        }
    )
    checks: list[GroupedCheck] = Field(min_length=1)
    threshold: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _weighted(self) -> CheckGroup:
        if not any(check.weight for check in self.checks):
            raise ValueError("no check of the group has a weight above 0, so there is no share")
        return self


class CommandParams(Strict):
    """A program of your own decides; on the command line only.

    Attributes:
        command: The name of the program in the metric's `commands`.
        options: Further data that the program gets from this case.
    """

    model_config = with_examples({"command": "tone", "options": {"words": ["stupid"]}})
    command: Word
    options: dict[str, object] = Field(default_factory=dict[str, object])


COMPARISONS = ("equals", "not_equals", "less_than", "less_than_equals", "greater_than", "greater_than_equals")
PARAMS: Mapping[str, type[BaseModel]] = {
    "correctness": Correctness,
    "conformity": Conformity,
    "groundedness": Groundedness,
    "string_matching": StringMatching,
    "metadata": Metadata,
    "semantic_similarity": SemanticSimilarity,
    "regex_matching": RegexMatching,
    "json_schema": JsonSchemaValidity,
    "rule": RuleParams,
    "group": CheckGroup,
    "command": CommandParams,
    **dict.fromkeys(COMPARISONS, FieldComparison),
}
JudgedKind = Literal["correctness", "conformity", "groundedness"]
JUDGED: Sequence[JudgedKind] = get_args(JudgedKind)


def meaning_of(kind: str) -> str:
    """What a built-in check requires, in one sentence."""
    return " ".join((PARAMS[kind].__doc__ or "").partition("\n\n")[0].split())


def starts_program(kind: object, params: object) -> bool:
    """Whether a check, or one in its group, is of the type `command`. Both may be of any shape."""
    return "command" in _kinds(kind, params)


def asks_judge(kind: object, params: object) -> bool:
    """Whether a judge decides a check, or one in its group. Both may be of any shape."""
    return any(one in JUDGED for one in _kinds(kind, params))


def _kinds(kind: object, params: object) -> list[object]:
    return [kind, *(name for name, _ in named_checks(params))] if kind == "group" else [kind]


def named_checks(content: object) -> Iterator[tuple[str, bool]]:
    """The checks that `checks` lists, those in groups included, and whether each is enabled.

    `content` is a case or a group's parameters, unvalidated.
    """
    for check in as_list(as_map(content).get("checks")):
        if is_mapping(check) and isinstance(name := check.get("identifier"), str):
            is_enabled = bool(check.get("enabled", True))
            yield name, is_enabled
            for member, is_on in named_checks(check.get("params")):
                yield member, is_enabled and is_on


def circular(custom: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Your own checks that contain themselves, through their groups."""
    members = {name: [member for member, _ in named_checks(params)] for name, params in custom.items()}
    return [name for name in custom if any(name in reached(member, members) for member in members[name])]


VERDICT_STEP, FIELD = "verdict", "passed"
EXTRAS = ("messages", "reference", "rules", "context")


class JudgedCheck(ChainMetric[ChainConfig]):
    """A check decided by a judge, bound to the case's reference, rules or context."""

    def __init__(
        self,
        name: str,
        config: ChainConfig,
        steps: Sequence[PreparedStep],
        rule: Rule | PartsRule,
        params: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name, config, steps, rule)
        self._params = params or {}

    @classmethod
    def of(cls, kind: str, config: ChainConfig, prompts: Prompts, examples: Examples = None) -> Self:
        returns: dict[str, FieldType] = {"reason": StrType(type="str"), FIELD: BoolType(type="bool")}
        step = StepConfig(id=VERDICT_STEP, prompt=f"checks/{kind}.jinja", returns=returns, examples=examples)
        rule = ValueRule(op="value", of=VERDICT_STEP, field=FIELD)
        return cls(kind, config, build_steps(kind, [step], rule, config.needs, prompts, extras=EXTRAS), rule)

    def bound(self, name: str, config: ChainConfig, params: Mapping[str, object]) -> Self:
        return type(self)(name, config, self._steps, self._rule, params)

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        return () if self._ungrounded(case, answer) else super().preview(case, answer)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Ask the judge; skip if there is neither a context nor an earlier turn to compare with."""
        return self._ungrounded(case, answer) or await super().score(case, answer, judge, repeat)

    def _ungrounded(self, case: Case, answer: Answer) -> Outcome | None:
        if self._params.get("context", "") is not None or fields_of(case, answer)["history"]:
            return None
        return Outcome(status="skipped", reason="the check has no context and the case has no earlier turns")

    def _extras(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        own: dict[str, object] = {**dict.fromkeys(EXTRAS), "messages": fields["messages"] or (), **self._params}
        references = own["reference"]
        if is_list(references):
            own["reference"] = any_right([text for text in references if isinstance(text, str)])
        return own


class RuledCheck(FieldMetric[MetricConfig]):
    """Operations over one field, which must all hold; `keyword` is shown in the reason of string matching."""

    def __init__(self, name: str, config: MetricConfig, rulebook: Rulebook, keyword: str | None = None) -> None:
        super().__init__(name, config)
        self._rulebook = rulebook
        self._keyword = keyword

    async def compare(self, fields: dict[str, object]) -> Outcome:
        """Apply the operations. An answer without metadata has no value at any path."""
        if "metadata" not in self.config.needs:
            fields["metadata"] = fields["metadata"] or {}
        outcome = await self._rulebook.score(fields)
        if self._keyword is None or outcome.status != "scored":
            return outcome
        phrase = "contains" if outcome.score else "does not contain"
        return replace(outcome, reason=f"The agent answer {phrase} the keyword '{self._keyword}'")


class SimilarityCheck(CosineMetric[MetricConfig]):
    """Passes if the cosine reaches the case's own threshold; the value is the cosine."""

    def __init__(self, name: str, config: MetricConfig, params: SemanticSimilarity) -> None:
        super().__init__(name, config)
        self._params = params

    def texts(self, fields: Mapping[str, object]) -> tuple[str, Sequence[str]]:
        return written(fields["answer"]), texts_of(self._params.reference)

    def outcome(self, cosine: float, among: str) -> Outcome:
        wanted = self._params.threshold
        reason = f"similarity to the reference {cosine:.3f} (cosine of embeddings), required: {wanted:g}"
        reason = f"{reason}; {among}" if among else reason
        return scored(float(passes(cosine, wanted)), cosine, reason)


class DisabledCheck(BaseMetric[MetricConfig]):
    """A check that the case switches off."""

    is_off = True

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        return Outcome(status="skipped", reason="the check is disabled")


def rulebook_of(identifier: str, params: BaseModel) -> Rulebook:
    """The operations of a check without a judge; ValidationError if the parameters are invalid."""
    match params:
        case StringMatching():
            value = {"value": params.keyword, "case_sensitive": params.case_sensitive, "normalize": params.normalize}
            return Rulebook("answer", _operations([{"op": "contains", **value}]))
        case Metadata():
            return Rulebook("metadata", _operations([rule.operation for rule in params.json_path_rules]))
        case RegexMatching():
            return Rulebook("answer", _operations([{"op": "regex", "pattern": params.pattern}]))
        case JsonSchemaValidity():
            return Rulebook(params.field, _operations([{"op": "json_schema", "schema": params.schema_}]))
        case FieldComparison():
            text = identifier in ("equals", "not_equals")
            value = written(params.expected_value) if text else params.expected_value
            return Rulebook(params.field, _operations([{"op": identifier, "value": value}]))
        case RuleParams():
            return Rulebook("answer", [params.root])
        case _:
            raise TypeError(f"{identifier} is not a check of this kind")


def _operations(declared: Sequence[Mapping[str, object]]) -> list[Operation]:
    return _adapter().validate_python(list(declared))


@cache
def _adapter() -> TypeAdapter[list[Operation]]:
    return TypeAdapter(list[Operation])


def filled(text: str, case: Case) -> str:
    """The rule with placeholders filled from columns or dotted paths.

    ValueError if a placeholder has no value or a raw block no end.
    """

    def value(match: re.Match[str]) -> str:
        if match["unclosed"] is not None:
            raise ValueError("{% raw %} has no {% endraw %} after it: add it")
        literal = next((match[key] for key in ("raw", "text", "opening") if match[key] is not None), None)
        if literal is not None:
            return literal
        name = match["name"].strip()
        known: Mapping[str, object] = {
            **case.vars,
            "metadata": case.metadata or {},
            "vars": case.vars,
            "question": case.question,
            "reference": case.reference_text,
            "expected": case.expected,
        }
        value = known.get(name, known.get(name.replace(" ", "_")))
        value = look_up(name, known) if value is None else value
        if not isinstance(value, str | int | float) or value == "":
            hint = f"for literal braces: {{% raw %}}{match[0]}{{% endraw %}}"
            raise ValueError(f"the case has no value for {match[0]} ({hint})")
        return str(value)

    return _PLACEHOLDER.sub(value, text)
