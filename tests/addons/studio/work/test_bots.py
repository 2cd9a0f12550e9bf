from __future__ import annotations

import pytest

from evalflow.addons.studio.work.bots import list_models, try_bot
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import InfrastructureError, UserError
from evalflow.testing import Endpoint, status
from tests.off_loop import keep_off_loops
from tests.postgres import ON_SQLITE

pytestmark = [pytest.mark.anyio, ON_SQLITE]
MODEL = {"kind": "openai", "model": "m", "api_key_env": None, "attempts": 1}


async def test_a_bot_answers(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_off_loops(monkeypatch.setattr)
    with Endpoint(["Forty pounds."]) as endpoint:
        answer = await try_bot(space, "bot", {**MODEL, "base_url": endpoint.url}, " What does it cost? ")
    assert (answer.status, answer.answer) == ("answered", "Forty pounds.")


async def test_why_it_did_not_is_said(space: Workspace) -> None:
    with Endpoint([status(400)]) as endpoint:
        answer = await try_bot(space, "bot", {**MODEL, "base_url": endpoint.url}, "Well?")
    assert answer.status == "error"
    assert answer.error


async def test_a_key_that_is_refused_is_no_answer(space: Workspace) -> None:
    with Endpoint([status(401)]) as endpoint:
        with pytest.raises(InfrastructureError):
            await try_bot(space, "bot", {**MODEL, "base_url": endpoint.url}, "Well?")


async def test_the_models_of_an_endpoint_are_listed(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_off_loops(monkeypatch.setattr)
    with Endpoint(models=["small", "large"]) as endpoint:
        config = {"kind": "openai", "api_key_env": None, "base_url": endpoint.url}
        assert await list_models(space, config) == ["large", "small"]
        assert await list_models(space, {**config, "model": "small"}) == ["large", "small"]
        with pytest.raises(UserError, match="404") as refused:
            await list_models(space, {**config, "base_url": f"{endpoint.url}/nowhere"})
        assert refused.value.problems[0].where == "target.model"
    with pytest.raises(UserError, match=r"refused|reach|connect"):
        await list_models(space, config)
    with pytest.raises(UserError, match="must start with http"):
        await list_models(space, {**config, "base_url": "nowhere"})


@pytest.mark.parametrize(
    ("config", "question", "what"),
    [
        (MODEL, "  ", "a question has"),
        (MODEL, "x" * 20_001, "a question has"),
        ({"kind": "recorded"}, "Well?", "cannot be asked"),
        ({**MODEL, "api_key_env": "NO_SUCH_KEY"}, "Well?", "NO_SUCH_KEY is not set"),
        (
            {"kind": "http", "url": "http://127.0.0.1:9/", "headers": {"Authorization": "${oc.env:NO_SUCH}"}},
            "Well?",
            "NO_SUCH is not set",
        ),
        ({"kind": "command", "argv": ["true"]}, "Well?", "cannot be defined here"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    space: Workspace, config: dict[str, object], question: str, what: str
) -> None:
    with pytest.raises(UserError, match=what):
        await try_bot(space, "bot", config, question)
