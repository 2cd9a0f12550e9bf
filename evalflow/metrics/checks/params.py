"""What each check wants to know, by its identifier."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from evalflow.config.schema import Strict, Word
from evalflow.metrics.operations import NormalForm, as_number


class Correctness(Strict):
    """All of the reference is in the answer, without contradiction; what the answer adds does not matter."""

    reference: str = Field(min_length=1)


class Conformity(Strict):
    """The answer keeps to every rule, judged together over the whole conversation."""

    rules: list[str] = Field(min_length=1)


class Groundedness(Strict):
    """All of the answer is in the context, or without one in the earlier turns, without contradiction."""

    context: str | None = None


class StringMatching(Strict):
    """The keyword is in the answer."""

    keyword: str = Field(min_length=1)
    case_sensitive: bool = True
    normalize: NormalForm | None = Field(
        default="NFC", validation_alias=AliasChoices("normalize", "normalization_form")
    )


class JsonPathRule(Strict):
    """What must stand at a place in the metadata: text contains, a number or boolean equals."""

    json_path: str
    expected_value: Any
    expected_value_type: Literal["string", "number", "boolean"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> JsonPathRule:
        if self.kind == "number" and as_number(self.expected_value) is None:
            raise ValueError(f"expected_value {self.expected_value!r} is no number")
        if self.kind == "boolean" and str(self.expected_value).lower() not in ("true", "false"):
            raise ValueError(f"expected_value {self.expected_value!r} is not true or false")
        return self

    @property
    def kind(self) -> str:
        """The type that is said, else that of the value."""
        value = self.expected_value
        own = "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "string"
        return self.expected_value_type or own

    @property
    def operation(self) -> dict[str, Any]:
        """The rule as an operation on JSON."""
        if self.kind == "string":
            return {"op": "jsonpath", "path": self.json_path, "contains": str(self.expected_value)}
        if self.kind == "boolean":
            return {"op": "jsonpath", "path": self.json_path, "equals": str(self.expected_value).lower() == "true"}
        number = self.expected_value
        number = float(number) if isinstance(number, str) else number
        return {"op": "jsonpath", "path": self.json_path, "equals": number}


class Metadata(Strict):
    """The answer's metadata holds what is expected at every path."""

    json_path_rules: list[JsonPathRule] = Field(min_length=1)


class SemanticSimilarity(Strict):
    """The answer means about the same as the reference: the cosine of their embeddings reaches the threshold."""

    reference: str = Field(min_length=1)
    threshold: float = Field(default=0.8, ge=0, le=1)


class RegexMatching(Strict):
    """The pattern matches somewhere in the answer."""

    pattern: str


class Comparison(Strict):
    """The answer, or another field, compares with the expected value."""

    expected_value: Any
    field: Word = "answer"


class JsonSchemaValidity(Strict):
    """The answer, or another field, is JSON that is valid by the schema."""

    model_config = ConfigDict(populate_by_name=True)
    schema_: dict[str, Any] = Field(alias="schema")
    field: Word = "answer"


COMPARISONS = ("equals", "not_equals", "less_than", "less_than_equals", "greater_than", "greater_than_equals")
PARAMS: MappingProxyType[str, type[BaseModel]] = MappingProxyType(
    {
        "correctness": Correctness,
        "conformity": Conformity,
        "groundedness": Groundedness,
        "string_matching": StringMatching,
        "metadata": Metadata,
        "semantic_similarity": SemanticSimilarity,
        "regex_matching": RegexMatching,
        "json_schema": JsonSchemaValidity,
        **dict.fromkeys(COMPARISONS, Comparison),
    }
)
JUDGED = ("correctness", "conformity", "groundedness")
