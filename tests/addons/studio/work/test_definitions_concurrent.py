"""Two people at once on PostgreSQL: the second is refused as if the first had long been done, and nothing is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from evalflow.addons.studio.store import cases as case_table
from evalflow.addons.studio.store import definitions
from evalflow.addons.studio.work import bots, cases, datasets, metrics
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.space import StaleError, TakenError, Workspace, open_workspace
from evalflow.errors import ConflictError

MODEL: dict[str, Any] = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"}
POLITE: dict[str, Any] = {"kind": "g_eval", "criteria": "Polite?", "needs": ["question", "answer"]}
CASE: dict[str, Any] = {"key": "c1", "question": "q", "body": {"id": "c1", "question": "q"}, "tags": []}
PATIENCE_S = 60


@pytest.fixture(name="space")
def _space(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Workspace]:
    monkeypatch.chdir(tmp_path)
    with closing(open_workspace(postgres_url)) as opened:
        bots.create_bot(opened, "helper", MODEL)
        metrics.create_metric(opened, "helper", MetricDraft("polite", POLITE))
        datasets.create_dataset(opened, "mine")
        yield opened


def race(space: Workspace, first: Callable[[Connection], object], second: Callable[[], Any]) -> Any:
    """Have the second wait for the first, which writes and has not committed yet; gives what the second gives."""
    waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    deadline = time.monotonic() + PATIENCE_S
    with ThreadPoolExecutor(1) as pool:
        with space.database.writing() as connection:
            first(connection)
            found = pool.submit(second)
            with space.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
                while not other.scalar(waits) and not found.done():
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
        return found.result(PATIENCE_S)


def row_of(connection: Connection, kind: definitions.Kind, name: str) -> int:
    row = definitions.named(connection, kind, name, 1)
    assert row is not None
    return row["id"]


def helper_of(connection: Connection) -> int:
    return row_of(connection, "bot", "helper")


BOT = {"project_id": 1, "name": "other", "title": "other", "description": "", "config": MODEL}
DATASET = {"project_id": 1, "name": "other", "title": "other", "description": "", "generates": "answer"}
METRIC = {"name": "other", "title": "other", "definition": POLITE, "prompts": {}}
TAKEN: dict[str, tuple[Callable[[Connection], object], Callable[[Workspace], object]]] = {
    "bot": (
        lambda connection: definitions.add(connection, "bot", BOT),
        lambda space: bots.create_bot(space, "other", MODEL),
    ),
    "renamed bot": (
        lambda connection: definitions.add(connection, "bot", BOT),
        lambda space: bots.update_bot(space, "helper", 1, new_name="other"),
    ),
    "dataset": (
        lambda connection: definitions.add(connection, "dataset", DATASET),
        lambda space: datasets.create_dataset(space, "other"),
    ),
    "metric": (
        lambda connection: definitions.add(connection, "metric", {**METRIC, "bot_id": helper_of(connection)}),
        lambda space: metrics.create_metric(space, "helper", MetricDraft("other", POLITE)),
    ),
}


@pytest.mark.parametrize("what", TAKEN)
def test_a_name_that_is_taken_meanwhile_is_refused(space: Workspace, what: str) -> None:
    first, second = TAKEN[what]
    with pytest.raises(TakenError, match="other"):
        race(space, first, lambda: second(space))


def test_cases_that_come_meanwhile_keep_their_places(space: Workspace) -> None:
    def add(connection: Connection) -> None:
        case_table.append(connection, row_of(connection, "dataset", "mine"), [CASE])

    assert race(space, add, lambda: cases.add_cases(space, "mine", [{"id": "c2", "question": "q"}])) == 1
    assert [case.body["id"] for case in cases.list_cases(space, "mine").items] == ["c1", "c2"]


def test_a_case_whose_id_is_taken_meanwhile_is_refused(space: Workspace) -> None:
    def add(connection: Connection) -> None:
        case_table.append(connection, row_of(connection, "dataset", "mine"), [CASE])

    with pytest.raises(TakenError, match="c1"):
        race(space, add, lambda: cases.add_cases(space, "mine", [{"id": "c1", "question": "q"}]))


def test_a_metric_that_was_changed_meanwhile_is_neither_deleted_nor_replaced(space: Workspace) -> None:
    def change(connection: Connection) -> None:
        (row,) = definitions.listed(connection, "metric", helper_of(connection))
        definitions.change(
            connection, "metric", row["id"], row["version"], {"definition": {**POLITE, "threshold": 0.5}}
        )

    with pytest.raises(StaleError, match="version 2, not 1"):
        race(space, change, lambda: metrics.delete_metric(space, "helper", "polite", 1))
    with pytest.raises(StaleError, match="version 3, not 2"):
        race(space, change, lambda: metrics.replace_metrics(space, "helper", [], {"polite": 2}))
    assert metrics.get_metric(space, "helper", "polite").version == 3


def test_cases_for_a_dataset_that_is_deleted_meanwhile_are_refused(space: Workspace) -> None:
    def delete(connection: Connection) -> None:
        assert definitions.delete(connection, "dataset", row_of(connection, "dataset", "mine"), 1)

    with pytest.raises(ConflictError, match="made meanwhile"):
        race(space, delete, lambda: cases.add_cases(space, "mine", [{"id": "c2", "question": "q"}]))
