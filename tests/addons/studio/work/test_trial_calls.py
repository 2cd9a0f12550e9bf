"""What a trial's process is given."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.addons.studio.work import bots, trial_calls
from evalflow.addons.studio.work.leases import TRIAL, read_budget
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError
from evalflow.limited import LimitExceeded
from tests.addons.studio.work.test_connections import BOT, allowing
from tests.postgres import ON_SQLITE

pytestmark = [pytest.mark.anyio, ON_SQLITE]


class Ended:
    """Takes the place of the limited process; the trial is ended by force."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}

    def call(self, payload: Any, *_: object) -> Any:
        self.environment = payload["environment"]
        raise LimitExceeded("the trial takes more than 20 s")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Ended:
    made = Ended()
    monkeypatch.setattr(trial_calls, "_TRIALS", made)
    return made


async def test_a_public_server_gives_it_the_keys_that_it_needs(
    space: Workspace, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", "sk-own")
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    monkeypatch.setenv("EVALFLOW_TOKEN", "of the server")
    space = allowing(space, "http://127.0.0.1:9/v1", "127.0.0.1/32", key="OWN_KEY")
    with pytest.raises(UserError, match="takes more than 20 s"):
        await bots.try_bot(space, "bot", BOT, "Well?")
    assert ended.environment["OWN_KEY"] == "sk-own"
    assert not {"OTHER_KEY", "EVALFLOW_TOKEN"} & set(ended.environment)


async def test_what_is_ended_by_force_has_spent_all_that_it_might(space: Workspace, ended: Ended) -> None:
    with pytest.raises(UserError, match="try less"):
        await bots.try_bot(space, "bot", {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}, "Well?")
    with space.database.reading() as connection:
        assert ended.environment
        assert read_budget(connection, space.project_id).spent == TRIAL
