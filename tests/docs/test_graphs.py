"""docs/graphs.md: its graphs give the scores and reasons that the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from evalflow.prompts import Prompts
from tests.docs.test_readme import ROOT, blocks
from tests.metrics.conftest import Bench

PAGE = (ROOT / "docs" / "graphs.md").read_text(encoding="utf-8")


def built(block: str, folder: Path) -> Any:
    for prompt in blocks("jinja", PAGE):
        (name,) = re.findall(r"\{# prompts/(\S+) #\}", prompt)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(prompt, encoding="utf-8")
    return Bench().build("own", yaml.safe_load(block), Prompts([folder, ROOT / "prompts"]))


def test_the_first_graph_goes_the_way_that_the_page_tells(tmp_path: Path) -> None:
    bench, (first, _), (replies,), (reason,) = Bench(), *(blocks(kind, PAGE) for kind in ("yaml", "json", "text"))
    metric = built(first, tmp_path)
    answer = bench.answer(answer="We will pay it back: https://shop.example/refunds")
    outcome = bench.score(metric, bench.judge(json.loads(replies)), answer=answer)
    assert outcome.score == float(re.findall(r"\*\*([0-9.]+)\*\*", PAGE)[0])
    assert outcome.reason == reason.strip()
    assert bench.score(metric, bench.judge({}), answer=bench.answer(answer="No link.")).score == 0


def test_the_second_graph_gives_a_share_or_the_end(tmp_path: Path) -> None:
    bench, metric = Bench(), built(blocks("yaml", PAGE)[1], tmp_path)
    claims = {"promises": {"claims": ["a", "b", "c"]}}
    for labels, score in (("ssn", 2 / 3), ("snn", 0.0)):
        verdicts = bench.verdicts([{"s": "supported", "n": "not_in_context"}[one] for one in labels])
        assert bench.score(metric, bench.judge({**claims, "verdicts": verdicts})).score == score
    assert bench.score(metric, bench.judge({"promises": {"claims": []}})).score == 1
    assert set(metric.tasks.values()) == {"extract_claims", "verify_claims"}
