from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, create_model

from evalflow.addons.embedded.judge import Support, UnsupportedStepError, fill, list_of_text

SUPPORT = st.floats(0, 1)


def reply(**fields: Any) -> type[BaseModel]:
    return create_model("Item", **fields)


def label(*labels: str) -> Any:
    return (Literal[labels], ...)  # pyright: ignore[reportInvalidTypeForm]


@given(SUPPORT)
def test_a_label_is_the_likelier_one_and_the_reason_fills_the_text(support: float) -> None:
    model = reply(reason=(str, ...), verdict=label("supported", "contradicted", "not_in_context"))
    content, chances = fill(model, Support(support, "because"))
    assert content == {"reason": "because", "verdict": "supported" if support >= 0.5 else "not_in_context"}
    assert chances == {"verdict": {"supported": support, "not_in_context": 1 - support}}


@pytest.mark.parametrize(
    ("labels", "other"),
    [
        (("yes", "no"), "no"),
        (("supported", "not_in_context", "contradicted"), "not_in_context"),
        (("supported", "missing", "contradicted"), "missing"),
    ],
)
def test_a_contradiction_is_never_claimed(labels: tuple[str, ...], other: str) -> None:
    content, _ = fill(reply(verdict=label(*labels)), Support(0.1, ""))
    assert content == {"verdict": other}


@given(SUPPORT)
def test_a_number_keeps_the_supports_place_on_its_scale(support: float) -> None:
    model = reply(stars=(int, Field(ge=1, le=5)))
    content, chances = fill(model, Support(support, ""))
    mean = sum(value * chance for value, chance in chances["stars"].items())
    assert mean == pytest.approx(1 + 4 * support)
    stars = content["stars"]
    assert isinstance(stars, int)
    assert abs(stars - mean) <= 0.5 + 1e-9
    assert model.model_validate(content)


def test_a_float_and_a_boolean() -> None:
    assert fill(reply(grade=(float, Field(ge=-1, le=1))), Support(0.25, "")) == ({"grade": -0.5}, {"grade": {-0.5: 1}})
    assert fill(reply(ok=(bool, ...)), Support(0.25, "")) == ({"ok": False}, {"ok": {True: 0.25, False: 0.75}})


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"reason": (str, ...)}, "exactly one verdict"),
        ({"a": (bool, ...), "b": (bool, ...)}, "exactly one verdict"),
        ({"grade": (float, ...)}, "min and a max"),
        ({"verdict": label("supported", "contradicted")}, "merely absent"),
        ({"parts": (list[str], ...)}, "'parts'"),
    ],
)
def test_other_shapes_are_refused_by_name(fields: dict[str, Any], names: str) -> None:
    with pytest.raises(UnsupportedStepError, match=names):
        fill(reply(**fields), Support(0.5, ""))


def test_the_list_of_text_is_found_whatever_its_name() -> None:
    assert list_of_text(reply(facts=(list[str], ...))) == "facts"
    assert list_of_text(reply(facts=(list[Annotated[str, Field(min_length=1)]], ...))) == "facts"
    for fields in ({"facts": (list[int], ...)}, {"claims": (str, ...)}, {"a": (list[str], ...), "b": (str, ...)}):
        with pytest.raises(UnsupportedStepError, match="one list of str"):
            list_of_text(reply(**fields))
