"""The page on rules: each operation in its table does what the row says."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, get_args

import pytest
import yaml
from pydantic import TypeAdapter

from evalflow.metrics.case_checks import RuleParams
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.metrics.rulebook import Operation, Rulebook
from evalflow.prompts import Prompts
from tests.docs.test_readme import ROOT, blocks

PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("\n## Operations")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| `(\w+)` \| [^|]+ \| `([^`]+)` \| `([^`]+)` \| `([^`]+)` \|$", TABLE, re.MULTILINE)
MAPPED = re.findall(r"`(\{\"[^`]+\})`", PAGE.partition("\n## Coming from promptfoo")[2])


MODELS = get_args(get_args(Operation)[0])
EXAMPLES = [example for model in MODELS for example in model.model_config["json_schema_extra"]["examples"]]


def score(operation: dict[str, Any], text: str) -> float | None:
    rulebook = Rulebook("answer", [RuleParams.model_validate(operation).root])
    return asyncio.run(rulebook.score({"answer": text})).score


def test_every_operation_has_its_row() -> None:
    ops = [op for model in MODELS for op in get_args(model.model_fields["op"].annotation)]
    assert sorted(op for op, *_ in ROWS) == sorted(ops)


@pytest.mark.parametrize(("op", "example", "holds", "fails"), ROWS)
def test_a_row_holds_for_what_it_says(op: str, example: str, holds: str, fails: str) -> None:
    operation = json.loads(example)
    assert operation["op"] == op
    assert operation in EXAMPLES
    assert (score(operation, holds), score(operation, fails)) == (1.0, 0.0)


@pytest.mark.parametrize("example", [*re.findall(r"`(\{[^`]+\})`", TABLE.partition("\n- ")[2]), *MAPPED])
def test_the_examples_in_the_text_are_rules(example: str) -> None:
    TypeAdapter(Operation).validate_python(json.loads(example))


def test_the_checks_and_the_metric_on_the_page_are_valid() -> None:
    for line in "".join(blocks("json", PAGE)).splitlines():
        RuleParams.model_validate(json.loads(line)["params"])
    for block in blocks("yaml", PAGE):
        values = yaml.safe_load(block)
        build_metric("own", METRIC_KINDS.config(values["kind"]).model_validate(values), Prompts([]))


def test_every_link_leads_somewhere() -> None:
    for page, heading in re.findall(r"\]\((\w[^)#]*)(?:#([^)]+))?\)", PAGE):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        headings = [line.strip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")]
        assert not heading or heading in headings
