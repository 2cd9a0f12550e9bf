"""docs/metrics.md names every metric that ships, as its file has it, and every score rule."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from evalflow.config.yaml_text import safe_yaml
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.metrics.rules import Rule
from evalflow.prompts import Prompts
from evalflow.records import Answer, Case, Context, Message
from tests.metrics.injections import TEXTS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
FILES = {file.stem: file.read_text(encoding="utf-8") for file in sorted((ROOT / "conf" / "metric").glob("*.yaml"))}


def rows() -> dict[str, tuple[str, list[str]]]:
    """Of each metric on the page its family and its cells."""
    found: dict[str, tuple[str, list[str]]] = {}
    family = ""
    for line in PAGE.partition("\n## ")[0].splitlines():
        if line.startswith("### "):
            family = line.removeprefix("### ")
        if line.startswith("| `"):
            name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert name.strip(" `") not in found, name
            found[name.strip(" `")] = (family, cells)
    return found


def test_every_metric_has_its_row_and_no_other_has() -> None:
    assert sorted(rows()) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_row_says_what_the_file_says(name: str) -> None:
    values: dict[str, Any] = safe_yaml(FILES[name])
    family, (needs, score, undefined) = rows()[name]
    assert family == values["family"]
    assert needs == ", ".join(values["needs"])
    comment = " ".join(line.removeprefix("# ") for line in FILES[name].splitlines() if line.startswith("# "))
    assert f"score = {score}" in comment
    assert undefined


def test_families_are_in_order() -> None:
    families = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)
    assert families == sorted({safe_yaml(text)["family"] for text in FILES.values()})


def test_every_score_rule_is_explained() -> None:
    ops = {get_args(rule.model_fields["op"].annotation)[0] for rule in get_args(get_args(Rule)[0])}
    table = PAGE.partition("\n## Score rules")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \| ", table, re.MULTILINE)) - {"op"} == ops


def test_the_metric_on_the_page_can_be_built() -> None:
    for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        values = safe_yaml(block)
        config = METRIC_KINDS.config(values["kind"]).model_validate(values)
        metric = build_metric("own", config, Prompts([ROOT / "prompts"]))
        assert metric.name == "own"


def example(of: str) -> Any:
    """The row on the page that has this field."""
    rows = map(json.loads, re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    (found,) = (row for row in rows if of in row)
    return found


@pytest.mark.parametrize(("arguments", "score"), [("ignore", 1.0), ("exact", 0.5)])
def test_the_tool_calls_on_the_page(arguments: str, score: float) -> None:
    said = example("expected")
    values = {**safe_yaml(FILES["tool_correctness"]), "arguments": arguments}
    config = METRIC_KINDS.config(values["kind"]).model_validate(values)
    metric = build_metric("tool_correctness", config, Prompts([]))
    case = Case(dataset="d", index=0, id=said["id"], expected=said["expected"])
    answer = Answer(dataset="d", index=0, case_id="1", target="t", answer=said["answer"], actual=said["actual"])
    assert asyncio.run(metric.score(case, answer, None, 0)).score == score


def test_the_number_of_texts_is_right() -> None:
    said = re.search(r"More than (\d+)\s+texts", PAGE)
    assert said is not None
    assert len(TEXTS) > int(said[1])


def test_the_turns_on_the_page_show_what_was_retrieved_for_each() -> None:
    said = example("messages")
    config = METRIC_KINDS.config("judge").model_validate(safe_yaml(FILES["turn_context_relevancy"]))
    metric = build_metric("turn_context_relevancy", config, Prompts([ROOT / "prompts"]))
    messages = tuple(Message(**message) for message in said["messages"])
    contexts = tuple(map(Context, said["contexts"]))
    case = Case(dataset="d", index=0, id=said["id"], messages=messages, contexts=contexts)
    answer = Answer(dataset="d", index=0, case_id="1", target="t", answer=said["answer"])
    (ask,) = metric.preview(case, answer)
    first, last = ask.text.partition("Retrieved for turn 1")[2].split("Retrieved for")
    assert "closed on Sundays" in first
    assert "open until 8 pm" in last
