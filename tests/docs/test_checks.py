"""The page on checks: its cases, its metric and its commands, in the order of the page."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from evalflow.metrics.case_checks import PARAMS
from evalflow.metrics.registry import METRIC_KINDS, build_metric
from evalflow.prompts import Prompts
from evalflow.records import Answer, Case
from evalflow.testing import Endpoint, Request
from tests.docs.test_readme import ADDRESS, ROOT, blocks, run

PAGE = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
PROMPTS = ROOT / "prompts"
BROKEN = "Bookworm lends them for longer."


def model(request: Request) -> Any:
    """Bot and judge in one."""
    if request.schema_name:
        holds = not any(words in request.text for words in (BROKEN, "10 for children"))
        return {"reason": "As I read it.", "passed": holds}
    return "At six in the evening."


def outcomes(folder: Path) -> dict[tuple[str, str], Any]:
    lines = (folder / "outputs" / "latest" / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return {(row["case_id"], row["metric"]): row["status"] if row["score"] is None else row["score"] for row in rows}


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    for name, text in re.findall(r"^`([\w/]+\.\w+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "desk.jsonl").write_text(blocks("json", PAGE)[0], encoding="utf-8")
    found: list[dict[tuple[str, str], Any]] = []
    said: list[str] = []
    with Endpoint(model, models=["my-bot", "my-judge"]) as endpoint:
        for command in "".join(blocks("bash", PAGE)).splitlines():
            done = run(command.replace(ADDRESS, endpoint.url), tmp_path)
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            said.append(done.stdout)
            if re.search("evalflow dataset=", command):
                found.append(outcomes(tmp_path))
    free, judged, custom, live, filled, stopped, own = found
    assert {row: free[row] for row in free if row[0] != "closing"} == {
        ("renew", "string_matching"): 1.0,
        ("fine", "metadata"): 0.0,
    }
    assert "Expected true at $.tool.cached but got false" in said[2]
    assert (judged["renew", "correctness"], judged["fine", "groundedness"]) == (1.0, 0.0)
    assert (judged["game", "conformity"], judged["game", "groundedness"]) == (0.0, 0.0)
    assert judged["closing", "regex_matching"] == "skipped"
    assert custom == {
        ("renew", "no_advice"): 1.0,
        ("fine", "no_advice"): 0.0,
        ("game", "no_advice"): 0.0,
        ("closing", "no_advice"): "skipped",
        ("renew", "on_loans"): 1.0,
        ("game", "on_loans"): 0.0,
    }
    assert own == {("late", "command"): 1.0, ("lost", "command"): 0.0}
    shown = [text for text in said if re.search("^desk · ", text, re.MULTILINE)]
    assert ["desk · fine" in text for text in shown] == [True, True, False]
    assert live["closing", "semantic_similarity"] in (0.0, 1.0)
    assert "1 of 1 missing example answers of desk are in desk.demo.jsonl" in "".join(said)
    assert filled == {("closing", "semantic_similarity"): live["closing", "semantic_similarity"]}
    assert (stopped["fine", "groundedness"], stopped["fine", "metadata"]) == (0.0, "skipped")


def test_the_groups_on_the_page_are_scored() -> None:
    group, *named = [json.loads(line) for block in blocks("json", PAGE)[1:3] for line in block.splitlines()]
    metric = build_metric(
        "checks", METRIC_KINDS.config("checks").model_validate({"kind": "checks"}), Prompts([PROMPTS])
    )
    case = Case(dataset="d", index=0, id="1", checks=(group, *named))
    bound = metric.bind(case)
    assert [one.name for one in bound] == ["polite", "form"]
    said = Answer(dataset="d", index=0, case_id="1", target="t", answer="Thank you!! It is 20 cents")
    outcomes = [asyncio.run(one.score(case, said, None, 0)) for one in bound]
    assert [(one.value, one.score) for one in outcomes] == [(2 / 3, 1.0), (2 / 3, 2 / 3)]


def test_every_check_is_named() -> None:
    assert set(PARAMS) <= set(re.findall(r"`(\w+)`", PAGE))


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE)
    assert links
    assert all((ROOT / "docs" / link).is_file() for link in links)


@pytest.mark.slow
def test_the_known_limit_is_as_the_page_says(tmp_path: Path) -> None:
    said = "The capital of France is Paris, which is located in the {} part of the country."
    check = {"identifier": "semantic_similarity", "params": {"reference": said.format("northern"), "threshold": 0.8}}
    case = {"question": "Where is Paris?", "demo_output": said.format("southern"), "checks": [check]}
    (tmp_path / "c.jsonl").write_text(json.dumps(case), encoding="utf-8")
    words = "dataset=conversations dataset.conversations.path=c.jsonl generate=demo metric=checks"
    assert run(f"python -m evalflow {words}", tmp_path).returncode == 0
    [line] = (tmp_path / "outputs" / "latest" / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    [cosine] = re.findall(r"a cosine of (0\.\d+)", " ".join(PAGE.split()))
    assert (row["score"], f"{float(row['value']):.3f}") == (1.0, cosine)
