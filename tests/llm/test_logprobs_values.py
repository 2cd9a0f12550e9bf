from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from evalflow.llm.logprobs import choices, normalised


class Reply(BaseModel):
    reason: str
    label: Literal["b", "a"]
    flag: bool
    grade: Annotated[int, Field(ge=1, le=3), AfterValidator(int)]
    percentage: int = Field(ge=0, le=100)
    count: int = Field(ge=0)
    wide: int = Field(ge=0, le=1000)
    ratio: float = Field(ge=0, le=1)
    names: list[str]


def test_labels_booleans_and_bounded_whole_numbers_are_choices() -> None:
    found = choices(Reply)
    assert found.pop("percentage") == tuple(range(101))
    assert found == {"label": ("b", "a"), "flag": (True, False), "grade": (1, 2, 3)}


def test_weights_become_probabilities_and_nothing_becomes_nothing() -> None:
    assert normalised({"a": 3, "b": 1}) == {"a": 0.75, "b": 0.25}
    assert normalised({}) == normalised({"a": 0.0}) == {}
