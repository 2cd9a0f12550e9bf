from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from evalflow.calls.client import RetryPolicy
from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.llm.chat import ChatClient
from evalflow.llm.judge import OpenAIJudge

QUICK = RetryPolicy(attempts=3, base_s=0.01, cap_s=0.02, connect_attempts=3, connect_patience_s=1)
IMPATIENT = replace(QUICK, silence_s=0.1, probe_s=0.2)
Build = Callable[..., OpenAIJudge]


@pytest.fixture(params=["http", "sdk"])
async def build(request: pytest.FixtureRequest) -> AsyncIterator[Build]:
    """Makes judges that retry at once, and closes them; each test runs over both ways to an endpoint."""
    judges: list[OpenAIJudge] = []

    def make(base_url: str, policy: RetryPolicy = QUICK, **keys: Any) -> OpenAIJudge:
        fixed = {"kind": "openai", "model": "m", "base_url": base_url, "api_key_env": None, "client": request.param}
        config = OpenAIJudgeConfig.model_validate({**fixed, **keys})
        judges.append(OpenAIJudge(config, "judge", client=ChatClient(config, "judge", policy=policy)))
        return judges[-1]

    yield make
    for judge in judges:
        await judge.close()
