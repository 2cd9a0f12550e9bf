"""A dataset's own form, which replies may have too: its columns in the place of case fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from evalflow.config.schema import DatasetConfig
from evalflow.jsonvalues import json_path, kind

Generated = Literal["answer", "actual"]


@dataclass(frozen=True, slots=True)
class Form:
    """How the rows of a dataset name what a target replies.

    Attributes:
        generates: The case field that a reply must have.
        sources: Case field to column or JSONPath, or to several of them by the names that they get in the field.
    """

    generates: Generated = "answer"
    sources: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict[str, "str | Mapping[str, str]"])

    @classmethod
    def of(cls, config: DatasetConfig) -> Self:
        """The form that a dataset declares."""
        return cls(config.generates, config.fields or {})

    @property
    def parts(self) -> tuple[str, ...]:
        """What a prediction is put together of; empty where it is one value."""
        source = self.sources.get("actual")
        return () if source is None or isinstance(source, str) else tuple(source)

    def find(self, name: str, row: Mapping[str, Any]) -> Any:
        """The value of a case field in a reply that is like a row of the dataset; None where it has none."""
        source = self.sources.get(name)
        if source is None or isinstance(source, str):
            return _at(source, row)
        values = {part: _at(one, row) for part, one in source.items()}
        return {part: value for part, value in values.items() if value is not None} or None

    def failure(self, row: Mapping[str, Any]) -> str | None:
        """Why a reply says that there is no answer: where the dataset has a column of `status: error`; else None."""
        found = self.find("failure", row)
        if not isinstance(found, dict):
            return found if isinstance(found, str) else None
        told = cast("dict[str, Any]", found)
        return str(told.get("message", "it says no more than status: error")) if told.get("status") == "error" else None

    def check(self, prediction: Any) -> None:
        """Refuse a prediction that metrics would find nothing in.

        Raises:
            ValueError: The dataset puts predictions together, and this one has none of the parts.
        """
        if not self.parts or prediction is None:
            return
        if not isinstance(prediction, dict):
            raise ValueError(f"actual: expected an object with {', '.join(self.parts)}, got {kind(prediction)}")
        keys = cast("dict[str, Any]", prediction)
        if not keys.keys() & set(self.parts):
            raise ValueError(f"actual: expected {', '.join(self.parts)}, got {', '.join(keys) or 'no field'}")


def _at(source: str | None, row: Mapping[str, Any]) -> Any:
    if source is None or not source.startswith("$"):
        return None if source is None else row.get(source)
    path = json_path(source)
    found = path.matches(row)
    return (found[0] if path.single else found) if found else None
