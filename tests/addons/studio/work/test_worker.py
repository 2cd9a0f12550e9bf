"""A worker carries out what is queued, and what happens to it loses nothing and does nothing twice."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.store import runs as queue
from evalflow.addons.studio.work import bots, cases, datasets, metrics, process, runs, scores
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run, run_row
from evalflow.addons.studio.work.scores import Score, ScoreFilter
from evalflow.addons.studio.work.space import Workspace, open_workspace
from evalflow.addons.studio.work.worker import Worker
from evalflow.errors import InfrastructureError
from evalflow.testing import Endpoint, Request, status
from tests.cli.conftest import Program
from tests.forked import FORKING, Forked
from tests.postgres import cluster

pytestmark = pytest.mark.slow

PATIENCE_S = 120
GRADE: dict[str, Any] = {
    "kind": "rubric",
    "needs": ["question", "answer"],
    "description": "How good.",
    "scale": {"type": "likert", "min": 1, "max": 5},
    "threshold": 0.5,
}


@pytest.fixture(autouse=True)
def forked_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers in this process fork the processes of their runs; those in a process of their own start them."""
    monkeypatch.setattr(process, "subprocess", FORKING)


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Workspace]:
    monkeypatch.chdir(tmp_path)
    runs = open_workspace()
    yield runs
    runs.close()


class Bot:
    """A bot and its judge behind one endpoint; `hold` keeps every reply back until it is set.

    Attributes:
        free: So many grades are given anyway, and then all answers.
    """

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.hold.set()
        self.free = self._graded = 0
        self.failing = False
        self.endpoint = Endpoint(self._reply)

    def _reply(self, request: Request) -> Any:
        self._graded += request.schema is not None
        if self._graded > self.free or not self.free:
            self.hold.wait(PATIENCE_S)
        if self.failing and request.schema is not None:
            return status(400)
        if request.schema is None:
            return f"answer to {request.text[-12:]}"
        return {"reason": "so", "score": 1 + len(request.text) % 5}


@pytest.fixture
def bot() -> Generator[Bot]:
    made = Bot()
    with made.endpoint:
        yield made
        made.hold.set()


def define(space: Workspace, bot: Bot, count: int = 6, **options: Any) -> RunRequest:
    config = {"kind": "openai", "model": "m", "base_url": bot.endpoint.url, "concurrency": {"start": 4, "max": 4}}
    config["timeout_s"] = 2 * PATIENCE_S  # a reply that is held back is not asked for again
    bots.create_bot(space, "helper", config)
    metrics.create_metric(space, "helper", MetricDraft("good", GRADE))
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"id": f"c{i}", "question": f"What is {i}?", "tags": ["t"]} for i in range(count)])
    return RunRequest("helper", ["mine"], ["good"], options=options)


def until(space: Workspace, run: Run, worker: Worker | None, holds: Callable[[Run], bool]) -> Run:
    """Work until that holds of the run."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(found := runs.get_run(space, run.run_id)):
        assert time.monotonic() < deadline, found
        if worker is None or not worker.step():
            time.sleep(0.05)
    return found


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(run: Run) -> bool:
    return run.state not in ("queued", "running")


def by_case(space: Workspace, run: Run) -> dict[str, tuple[str, float | None]]:
    page = scores.list_scores(space, run.run_id, limit=500)
    assert page.next is None
    return {score.case_id: (score.status, score.score) for score in page.items}


def test_a_run_is_carried_out_and_its_command_repeats_it(space: Workspace, bot: Bot) -> None:
    run = runs.create_run(space, define(space, bot))
    done = until(space, run, Worker(space), ended)
    assert (done.state, done.exit_code, done.progress.done, done.progress.expected) == ("done", 0, 6, 6)
    found = by_case(space, run)
    assert len(found) == 6
    assert {state for state, _ in found.values()} == {"scored"}
    assert done.facts["metrics"][0]["threshold"] == 0.5
    assert scores.run_tags(space, run.run_id) == [("t", 6)]
    first = scores.get_score(space, run.run_id, "0-0")
    assert first.steps
    assert first.question == "What is 0?"
    assert repeated(done) == found


def test_another_threshold_is_free(space: Workspace, bot: Bot) -> None:
    run = runs.create_run(space, define(space, bot))
    until(space, run, Worker(space), ended)
    asked = bot.endpoint.count
    values = [value for _, value in by_case(space, run).values()]
    for threshold in (0.0, 0.5, 1.0):
        rate = scores.pass_rates(space, run.run_id, {"good": threshold})[0]
        assert rate.passed == sum(value is not None and value >= threshold for value in values)
        failed = ScoreFilter(passed=False)
        found = scores.order_results(space, run.run_id, failed, thresholds={"good": threshold})
        assert len(found) == rate.n - rate.passed
    assert bot.endpoint.count == asked


def test_a_run_is_cancelled_and_resumed(space: Workspace, bot: Bot) -> None:
    run = runs.create_run(space, define(space, bot, 40))
    bot.hold.clear()
    worker = Worker(space)
    until(space, run, worker, lambda _: bot.endpoint.count > 0)
    runs.cancel_run(space, run.run_id)
    bot.hold.set()
    stopped = until(space, run, worker, ended)
    assert stopped.state == "cancelled"
    runs.resume_run(space, run.run_id)
    done = until(space, run, worker, ended)
    assert (done.state, len(by_case(space, run))) == ("done", 40)


def test_only_errors_are_asked_again(space: Workspace, bot: Bot) -> None:
    bot.failing = True
    run = runs.create_run(space, define(space, bot))
    worker = Worker(space)
    assert until(space, run, worker, ended).exit_code == 3
    assert {state for state, _ in by_case(space, run).values()} == {"error"}
    bot.failing = False
    asked = bot.endpoint.count
    runs.retry_errors(space, run.run_id)
    done = until(space, run, worker, ended)
    assert (done.state, done.exit_code, done.progress.done, done.progress.errors) == ("done", 0, 6, 0)
    assert {state for state, _ in by_case(space, run).values()} == {"scored"}
    assert bot.endpoint.count == asked + 6


def test_a_refused_run_says_why(space: Workspace, bot: Bot) -> None:
    run = runs.create_run(space, define(space, bot))
    (run.folder / "snapshot" / "data" / "mine.jsonl").write_text("{", encoding="utf-8")
    failed = until(space, run, Worker(space), ended)
    assert (failed.state, failed.exit_code) == ("failed", 2)
    assert "mine.jsonl" in failed.message


def test_two_workers_never_take_one_run(space: Workspace, bot: Bot) -> None:
    request = define(space, bot, 1)
    made = [runs.create_run(space, request) for _ in range(4)]
    workers = [Worker(space), Worker(space)]
    workers[1].name = f"elsewhere-{workers[1].name}"
    stop = threading.Event()
    threads = [threading.Thread(target=worker.run, args=(stop,)) for worker in workers]
    for thread in threads:
        thread.start()
    for run in made:
        assert until(space, run, None, ended).state == "done"
    stop.set()
    for thread in threads:
        thread.join()


def test_a_worker_waits_for_a_database_that_is_away(
    bot: Bot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    stop = threading.Event()
    with cluster() as postgres, closing(open_workspace(postgres.url)) as space:
        run = runs.create_run(space, define(space, bot))
        bot.hold.clear()
        thread = threading.Thread(target=Worker(space).run, args=(stop,))
        thread.start()
        until(space, run, None, lambda _: bot.endpoint.count > 0)
        postgres.stop()
        wait_for(lambda: "the worker tries again" in caplog.text)
        with pytest.raises(InfrastructureError, match="does not answer"):
            runs.get_run(space, run.run_id)
        bot.hold.set()
        postgres.start()
        assert until(space, run, None, ended).state == "done"
        assert len(by_case(space, run)) == 6
        stop.set()
        thread.join()
    assert bot.endpoint.count == 12


def test_scores_are_there_while_a_run_goes_on(space: Workspace, bot: Bot) -> None:
    run = runs.create_run(space, define(space, bot, 30, repeats={"target": 2, "judge": 1}))
    bot.hold.clear()
    bot.free = 10
    worker = Worker(space)
    until(space, run, worker, lambda _: len(rows_of(space, run)) >= 5)
    found = rows_of(space, run)
    first = scores.get_score(space, run.run_id, found[0].id)
    assert first.score is not None
    assert (first.question, first.tags, first.passed) == (f"What is {first.case_id[1:]}?", ["t"], first.score >= 0.5)
    assert first.answer
    assert first.steps
    assert [tag for tag, _ in scores.run_tags(space, run.run_id)] == ["t"]
    assert runs.get_run(space, run.run_id).facts == {}  # what they come to is told at the end
    places = {(one.case_id, one.target_repeat): one.position for one in found}
    latest: Any = runs.get_run(space, run.run_id).progress.latest
    assert latest
    assert all(one["position"] == places[one["case_id"], one["target_repeat"]] for one in latest)
    bot.hold.set()
    until(space, run, worker, ended)
    there = {(one.position, one.case_id, one.target_repeat, one.score, one.reason) for one in found}
    last = rows_of(space, run)
    assert there < {(one.position, one.case_id, one.target_repeat, one.score, one.reason) for one in last}
    assert len(last) == 60


def rows_of(space: Workspace, run: Run) -> list[Score]:
    return list(scores.list_scores(space, run.run_id, limit=500).items)


@pytest.mark.parametrize("written", [[], ["scores.parquet"]], ids=["nothing", "the first table"])
def test_scores_of_a_run_that_died_without_a_report_are_there(space: Workspace, bot: Bot, written: list[str]) -> None:
    run = runs.create_run(space, define(space, bot, 30))
    bot.hold.clear()
    bot.free = 10
    worker = Worker(space)
    until(space, run, worker, lambda _: lines_of(run) >= 5)
    os.kill(json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["process"], signal.SIGKILL)
    for name in written:
        (run.folder / name).touch()
    found = until(space, run, worker, ended)
    assert (found.state, found.message) == ("interrupted", "")
    assert len(by_case(space, run)) == lines_of(run) == found.progress.done


def lines_of(run: Run) -> int:
    journal = run.folder / "scores.jsonl"
    return len(journal.read_bytes().splitlines()) if journal.is_file() else 0


@pytest.mark.parametrize("both", [False, True], ids=["worker", "worker and run"])
def test_a_killed_worker_loses_nothing(database_url: str, space: Workspace, bot: Bot, both: bool) -> None:
    with closing(open_workspace(database_url)) as space:
        run = runs.create_run(space, define(space, bot, 40))
        bot.hold.clear()
        bot.free = 10
        worker = Forked(["worker", "--database-url", database_url], Path.cwd())
        until(space, run, None, lambda _: len(rows_of(space, run)) >= 5)
        worker.kill()
        worker.wait()
        before = by_case(space, run)
        if both:
            os.kill(json.loads((run.folder / "run.json").read_text(encoding="utf-8"))["process"], signal.SIGKILL)
        successor = Worker(space)
        until(space, run, successor, lambda _: len(rows_of(space, run)) >= len(before))
        for _ in range(30):  # it reads all of the journals again
            successor.step()
            found = rows_of(space, run)
            assert len({one.case_id for one in found}) == len(found) >= len(before)
            time.sleep(0.05)
        bot.hold.set()
        done = until(space, run, successor, ended)
        assert (done.state, done.exit_code) == ("done", 0)
        after = by_case(space, run)
        assert len(after) == len(rows_of(space, run)) == lines_of(run) == 40
        assert before.items() <= after.items()


def test_a_run_is_carried_out_and_taken_over_on_each_database(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bot: Bot
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_workspace(database_url)) as space:
        run = runs.create_run(space, define(space, bot, 12))
        bot.hold.clear()
        worker = Forked(["worker", "--database-url", database_url], Path.cwd())
        until(space, run, None, lambda _: bot.endpoint.count > 0)
        worker.kill()
        worker.wait()
        bot.hold.set()
        done = until(space, run, Worker(space), ended)
        assert (done.state, done.exit_code, done.progress.done) == ("done", 0, 12)
        assert {state for state, _ in by_case(space, run).values()} == {"scored"}
        assert scores.pass_rates(space, run.run_id)[0].n == 12
    assert bot.endpoint.count == 24


def test_a_worker_that_is_stopped_puts_its_run_back(space: Workspace, bot: Bot) -> None:
    run = runs.create_run(space, define(space, bot, 40))
    bot.hold.clear()
    worker = Forked(["worker"], Path.cwd())
    until(space, run, None, lambda _: bot.endpoint.count > 0)
    worker.send_signal(signal.SIGTERM)
    bot.hold.set()
    assert worker.wait(PATIENCE_S) == 0
    assert runs.get_run(space, run.run_id).state == "queued"
    done = until(space, run, Worker(space), ended)
    assert (done.state, done.message) == ("done", "")
    assert len(by_case(space, run)) == 40


@pytest.mark.parametrize("own", [False, True], ids=["", "with a folder of its own"])
def test_a_run_of_the_command_line_is_opened_and_repeated(space: Workspace, tmp_path: Path, own: bool) -> None:
    words = ["dataset=rag", "metric=exact_match", "limit=3"]
    if own:
        (tmp_path / "mine" / "metric").mkdir(parents=True)
        definition = "# @package metric.long\nkind: check\nneeds: [answer]\nchecks: [{op: not_regex, pattern: loan}]\n"
        (tmp_path / "mine" / "metric" / "long.yaml").write_text(definition, encoding="utf-8")
        words = ["--config-dir", "mine", "dataset=rag", "metric=long", "limit=3"]
    assert Program(tmp_path)(*words).returncode == 0
    run = open_run(space, tmp_path / "outputs" / "latest")
    done = until(space, run, Worker(space), ended)
    found = by_case(space, run)
    assert (done.state, done.origin, len(found)) == ("done", "command line", 3)
    assert repeated(done) == found


def repeated(run: Run) -> dict[str, tuple[str, float | None]]:
    """The scores of the run's own command, run again."""
    program = Program(Path.cwd())
    assert program(*shlex.split(run.repeat)[3:], "cache.mode=off").returncode == 0
    lines = (program.latest / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["case_id"]: (row["status"], row["score"]) for row in map(json.loads, lines)}


def test_the_same_creation_key_makes_one_run(space: Workspace, bot: Bot) -> None:
    request = define(space, bot)
    first = runs.create_run(space, request, "key")
    assert runs.create_run(space, request, "key").run_id == first.run_id
    assert [path.name for path in space.runs.iterdir()] == [first.run_id]


def test_a_worker_elsewhere_is_silent_only_while_it_is_watched(space: Workspace, bot: Bot) -> None:
    run = runs.create_run(space, define(space, bot))
    with space.database.writing() as connection:
        assert queue.claim(
            connection, queue.queued(connection)[0].id, "elsewhere:1:1", 0.0
        )  # by a clock that is decades behind
    worker = Worker(space, silence_s=0.0)
    worker.step()
    assert runs.get_run(space, run.run_id).state == "running"
    assert run_row(space, run.run_id).worker == "elsewhere:1:1"
    assert until(space, run, worker, ended).state == "done"


def test_a_process_on_another_machine_is_not_signalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with process.working_on(tmp_path):
        (tmp_path / process.LOCK).write_text("elsewhere", encoding="utf-8")
        assert not process.interrupt(tmp_path, os.getpid(), signal.SIGKILL)
