"""docs/replies.md: each metric on the page gives the score that the page says, for the replies that it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from evalflow.metrics.returns import Plain
from evalflow.prompts import Prompts
from tests.docs.test_readme import ROOT, blocks
from tests.metrics.conftest import Bench

PAGE = (ROOT / "docs" / "replies.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:] if "```yaml" in part}
RULES = re.findall(r"^\| `(\{[^`]+\})` \| ([0-9.]+) \|", PAGE, re.MULTILINE)


def scored(section: str, folder: Path, **changes: Any) -> Any:
    """The outcome of a section's metric for its replies, with the prompts of the page."""
    for block in blocks("jinja", section):
        (name,) = re.findall(r"\{# prompts/(\S+) #\}", block)
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(block, encoding="utf-8")
    (metric,), (replies,) = blocks("yaml", section), blocks("json", section)
    bench = Bench()
    built = bench.build("own", {**yaml.safe_load(metric), **changes}, Prompts([folder, ROOT / "prompts"]))
    return bench.score(built, bench.judge(json.loads(replies)))


@pytest.mark.parametrize("title", SECTIONS)
def test_a_metric_gives_the_score_that_the_page_says(title: str, tmp_path: Path) -> None:
    (said,) = re.findall(r"The score is \*\*([0-9.]+)\*\*", SECTIONS[title])
    outcome = scored(SECTIONS[title], tmp_path)
    assert outcome.score == pytest.approx(float(said), abs=5e-5)
    for quoted in re.findall(r"`([^`]+); \.\.\.`", SECTIONS[title]):
        assert outcome.reason.startswith(" ".join(quoted.split()))


@pytest.mark.parametrize(("rule", "said"), RULES)
def test_other_rules_over_the_same_findings(rule: str, said: str, tmp_path: Path) -> None:
    outcome = scored(SECTIONS["Findings with a severity"], tmp_path, score=json.loads(rule))
    assert outcome.score == pytest.approx(float(said), abs=5e-5)


def test_every_type_is_explained_and_used() -> None:
    table = "".join(re.findall(r"^\| (`\w[^|]+) \|", PAGE.partition("\n\nA type")[0], re.MULTILINE))
    types = [name for model in get_args(Plain) for name in get_args(model.model_fields["type"].annotation)]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(types)
    used = "".join(blocks("yaml", PAGE))
    assert [name for name in types if not re.search(rf"\b{name}\b", used)] == ["float"]
    assert len(RULES) == 3
