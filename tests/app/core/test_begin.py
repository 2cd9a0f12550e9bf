"""What is made once per run, and what becomes of a metric that it cannot be made for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evalflow.app.core.begin import prepare
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.folder import RunFolder
from evalflow.engine.scoring import Pair
from evalflow.errors import EvalflowError, InfrastructureError, Problem, UserError
from evalflow.records import Answer, Case

pytestmark = pytest.mark.anyio
CASE = Case(dataset="d", index=0, id="c")
ANSWER = Answer(dataset="d", index=0, case_id="c", target="t")


@dataclass
class Unready:
    """A metric of somebody else's, bound to two checks."""

    error: Exception
    name: str = "unready"

    async def prepare(self, *_: object) -> Any:
        raise self.error

    def bind(self, case: Case) -> list[Any]:
        return [SimpleNamespace(name="one"), SimpleNamespace(name="two")]


async def prepared(tmp_path: Path, error: Exception) -> Any:
    pair = Pair(cast("Any", Unready(error)), None)
    (ready,) = await prepare([pair], RunFolder(tmp_path), Tally(), lambda *_: None)
    return ready.metric


async def test_what_goes_wrong_with_it_is_the_error_of_each_of_its_scores(tmp_path: Path) -> None:
    metric = await prepared(tmp_path, KeyError("steps"))
    bound = metric.bind(CASE)
    assert [one.name for one in bound] == ["one", "two"]
    for one in bound:
        outcome = await one.score(CASE, ANSWER, None, 0)
        assert (outcome.status, outcome.error_type) == ("error", "exception")
        assert "could not be prepared: KeyError: 'steps' (test_begin.py:" in outcome.error


@pytest.mark.parametrize("error", [UserError(Problem("damaged")), InfrastructureError("gone")])
async def test_what_every_metric_would_meet_ends_the_run(tmp_path: Path, error: EvalflowError) -> None:
    with pytest.raises(type(error)):
        await prepared(tmp_path, error)
