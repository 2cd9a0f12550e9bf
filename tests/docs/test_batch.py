"""The page on batches: its commands, in the order of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalflow.calls.batches import WAITING_CASES
from evalflow.llm.batch_services import SERVICES
from evalflow.testing import Batches, Endpoint, Request
from tests.docs.test_readme import ROOT, blocks, run

PAGE = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")


def judge(request: Request) -> Any:
    return {"claims": ["It is so."]} if request.schema_name == "Claims" else None


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path) -> None:
    first, again, waiting, rounds, priced = "".join(blocks("bash", PAGE)).replace("\\\n", "").splitlines()
    scripted = Batches(looks=2)
    with Endpoint(judge, batches=scripted) as endpoint:
        there = f" judge.base_url={endpoint.url} judge.api_key_env=null limit=2"
        assert run(first + there, tmp_path).returncode == 6
        assert run(again, tmp_path).returncode == 6  # the second step is a batch of its own
        assert run(again, tmp_path).returncode == 0
        assert len(scripted.submitted) == 2
        assert run(f"{waiting}{there} batch.poll_s=0.1 cache.mode=off", tmp_path).returncode == 0
        assert "2 rounds of batches" in run(rounds + there, tmp_path).stdout
        assert "0.6 of it by batch" in run(priced + there, tmp_path).stdout.replace("\n", " ")


def test_the_limits_on_the_page() -> None:
    words = PAGE.replace("\n", " ")
    openai, anthropic = SERVICES["openai"], SERVICES["anthropic"]
    assert f"at most {openai.most_requests:,} requests or {openai.most_bytes // 10**6} MB" in words
    assert f"{anthropic.most_requests:,} or {anthropic.most_bytes // 10**6} MB" in words
    assert f"Gemini: {SERVICES['gemini'].most_bytes // 10**6} MB" in words
    assert f"At most {WAITING_CASES:,} cases wait" in words
