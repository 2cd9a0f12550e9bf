"""A valid value for each that is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalflow.config.judges import Concurrency, Price
from evalflow.config.schema import BudgetConfig, CacheConfig, Repeats
from evalflow.config.valid_values import valid_key, valid_text, with_line
from evalflow.errors import Meant, Problem


class Keys(BaseModel):
    model_config = ConfigDict(strict=True)

    name: str = ""
    names: list[str] = []
    flag: bool = False
    side: Literal["higher_is_better", "lower_is_better"] = "higher_is_better"
    when: Literal[False, True, "missing"] = False
    count: int = Field(default=7, ge=1)
    share: float = Field(default=0.5, ge=0, le=1)


@pytest.mark.parametrize(
    ("key", "given", "valid"),
    [
        ("name", 5, '"5"'),
        ("name", True, '"true"'),
        ("names", "a b", "[a,b]"),
        ("flag", "yes", "true"),
        ("flag", "flase", "false"),
        ("flag", "perhaps", None),
        ("side", "higher", "higher_is_better"),
        ("side", "lower_better", "lower_is_better"),
        ("side", "is", None),
        ("when", "always", "true"),
        ("when", "no", "false"),
        ("when", "mising", "missing"),
        ("count", "5k", "5"),
        ("count", "1,000", "1000"),
        ("count", -3, "3"),
        ("count", "many", "7"),
        ("share", 80, "0.8"),
        ("share", "high", "0.5"),
    ],
)
def test_a_valid_value_is_near_the_given_one(key: str, given: Any, valid: str | None) -> None:
    with pytest.raises(ValidationError) as refused:
        Keys.model_validate({key: given})
    assert valid_text(refused.value.errors()[0], Keys.model_fields[key]) == valid


@pytest.mark.parametrize(
    ("given", "model", "valid"),
    [
        ("off", CacheConfig, ("mode", "off")),
        (True, CacheConfig, ("mode", "on")),
        ("no", CacheConfig, ("mode", "off")),
        ("refesh", CacheConfig, ("mode", "refresh")),
        ("my/cache.db", CacheConfig, None),
        (0.5, BudgetConfig, ("usd", "0.5")),
        (5, BudgetConfig, None),
        (0.5, Repeats, ("pass_share", "0.5")),
        (3, Repeats, None),
        (2, Concurrency, None),
        (3, Price, None),
        ("low", BudgetConfig, None),
    ],
)
def test_a_single_value_belongs_to_a_key(given: object, model: type[BaseModel], valid: object) -> None:
    assert valid_key(given, model) == valid


def test_the_line_of_a_misspelt_key_shows_no_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("kind: rubric\nscale:\n  mn: 1\n  titel: my secret\nitems: [{a: 1}, {b: x}]\n", encoding="utf-8")

    def hint(path: list[str], right: str) -> str:
        problem = Problem("unknown", hint="so?", meant=Meant((".".join(path),), (right,)))
        return with_line(problem, file, path).hint

    assert hint(["scale", "mn"], "metric.mine.scale.min") == "so? line 3: min: 1"
    assert hint(["scale", "titel"], "metric.mine.scale.title") == "so? line 4: title: ..."
    assert hint(["items", "1", "b"], "metric.mine.items.c") == "so? line 5: c: ..."
    assert hint(["scale", "none"], "metric.mine.scale.min") == "so?"
    without = Problem("unknown", hint="so?")
    assert with_line(without, file, ["scale", "mn"]) is without
