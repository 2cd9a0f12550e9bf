"""A run again with another prompt of its bot."""

from __future__ import annotations

import pytest

from evalflow.app.studio import bots, cases, datasets
from evalflow.app.studio.reruns import bot_with_prompt, run_with_prompt
from evalflow.app.studio.runs import create_run, get_run
from evalflow.app.studio.snapshot import RunRequest
from evalflow.app.studio.space import Workspace
from evalflow.errors import UserError

pytestmark = pytest.mark.slow
MODEL = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1", "api_key_env": None}


def test_a_new_prompt_is_kept_by_the_bot_and_asks_the_same_cases(space: Workspace) -> None:
    bots.create_bot(space, "desk", {**MODEL, "system_prompt": "Be kind."})
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"id": "c", "question": "q?", "answer": "a", "reference": "a"}])
    asked = RunRequest("desk", ["mine"], ["exact_match"], judge="embedded", options={"generate": "missing", "limit": 1})
    first = create_run(space, asked)
    again = run_with_prompt(space, first.run_id, "Be brief. ", 1, "key")
    desk = bots.get_bot(space, "desk")
    assert (desk.version, desk.config["system_prompt"]) == (2, "Be brief.")
    assert again.request is not None
    assert (again.title, again.request.datasets) == ("desk, new prompt", ["mine"])
    assert again.request.options == {"generate": True, "limit": 1}
    assert get_run(space, first.run_id).request == asked
    # What is there already is not saved twice, whatever version was seen.
    assert run_with_prompt(space, first.run_id, "Be brief.", 1, "key").run_id == again.run_id
    with pytest.raises(UserError, match="version"):
        run_with_prompt(space, first.run_id, "Be long.", 1)
    bots.create_bot(space, "paper", {"kind": "recorded"})
    recorded = create_run(space, RunRequest("paper", ["mine"], ["exact_match"]))
    assert bot_with_prompt(space, recorded) is None
    with pytest.raises(UserError, match="no prompt"):
        run_with_prompt(space, recorded.run_id, "Be brief.", 1)
