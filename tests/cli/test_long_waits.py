"""Endpoints that ask for a longer wait than a run has, or whose quota is used up."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.testing import Endpoint, Request, status
from tests.cli.conftest import Program

ROWS = [{"id": f"c{n}", "question": "When?", "answer": f"At {n}."} for n in range(4)]


def judged(endpoint: Endpoint) -> list[str]:
    return ["metric=coherence", "judge=vllm", "judge.model=m", f"judge.base_url={endpoint.url}"]


def dataset(program: Program) -> str:
    (program.folder / "conf" / "dataset").mkdir(parents=True)
    path = program.write("mine.jsonl", *ROWS)
    (program.folder / "conf" / "dataset" / "mine.yaml").write_text(f"# @package dataset.mine\npath: {path}\n")
    return "dataset=mine"


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "86400"},
        {"Retry-After-Ms": "86400000"},
        {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "24h"},
    ],
)
def test_a_long_wait_ends_the_run_with_its_reason_and_a_resumed_one_finishes(
    program: Program, headers: dict[str, str]
) -> None:
    refuses = True

    def script(request: Request) -> Any:
        used_up = refuses and "At 0." in request.text
        return status(429, message="today's requests are used up", headers=headers) if used_up else None

    with Endpoint(script) as endpoint:
        done = program(dataset(program), *judged(endpoint))
        assert done.returncode == 5, done.stdout + done.stderr
        said = " ".join(done.stderr.split())
        assert "asks to wait 24 h, until " in said
        assert "HTTP 429: today's requests are used up" in said
        assert endpoint.count == 4
        refuses = False
        assert program("resume").returncode == 0
        assert endpoint.count == 5


def test_a_quota_that_is_used_up_is_told_at_once(program: Program) -> None:
    script = status(429, message="You exceeded your quota, check your plan and billing details")
    with Endpoint(lambda _: script) as endpoint:
        done = program(dataset(program), *judged(endpoint), "judge.concurrency.start=1", "judge.concurrency.max=1")
        assert done.returncode == 5
        assert "quota or credit is used up" in done.stderr
        assert endpoint.count <= 4
