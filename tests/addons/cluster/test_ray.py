"""Runs in actors of Ray, on three nodes: what they write, and what becomes of them when something is lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.addons.cluster.nodes import KEY, SECRET, Nodes, nodes, started, wait_until
from tests.addons.cluster.test_driver import ROWS, arguments, grade, scores, totals
from tests.cli.conftest import Program

__all__ = ["nodes", "started"]
pytestmark = pytest.mark.slow
IN_FLIGHT = 6  # as `arguments` limits it
BOT = """
import logging, os

def answer(case):
    logging.getLogger("evalflow").warning("asked %s", case["question"])
    if "13" in case["question"]:
        os._exit(1)
    return "Answer."
"""


OTHER_PYTHON = "import platform\nplatform.python_version = lambda: '3.0.0'\n"


class Slow:
    """Answers as `grade` after a moment; does something at one of the requests. `count` are all so far."""

    def __init__(self, at: int = 0, does: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self._at, self._does = at, does
        self._lock = threading.Lock()
        self.done = threading.Event()

    def __call__(self, request: Request) -> Any:
        with self._lock:
            self.count += 1
            if self.count == self._at:
                threading.Thread(target=self._do).start()
        return reply(grade(request)).after(0.1)

    def has(self, requests: int) -> bool:
        return self.count >= requests

    def _do(self) -> None:
        self._does()
        self.done.set()


def on(nodes: Nodes, *more: str) -> list[str]:
    return ["engine=ray", f"engine.address={nodes.address}", "engine.shard=4", *more]


def log(program: Program) -> str:
    return (program.latest / "evalflow.log").read_text(encoding="utf-8")


def expect_scores_of_one_process(program: Program, url: str) -> None:
    found, taken = scores(program), totals(program)
    local = program(*arguments(program, url), "cache.path=local.db")
    assert local.returncode == 0, local.stderr
    assert found.equals(scores(program))
    assert taken["requests"] == totals(program)["requests"]


def test_scores_are_those_of_one_process_and_the_key_is_nowhere(program: Program, nodes: Nodes) -> None:
    with Endpoint(grade, api_key=SECRET) as endpoint:
        words = [*arguments(program, endpoint.url), f"judge.api_key_env={KEY}"]
        done = program(*words, *on(nodes))
        assert done.returncode == 0, done.stderr
        assert "ray: 2 actors on 3 nodes" in done.stderr
        spread, taken = scores(program), totals(program)
        local = program(*words, "cache.path=local.db")
        assert local.returncode == 0, local.stderr
    assert spread.equals(scores(program))
    assert taken == totals(program)
    files = [file for folder in (nodes.folder, program.folder) for file in folder.rglob("*") if file.is_file()]
    assert [file for file in files if SECRET.encode() in file.read_bytes()] == []
    assert {"raylet.out", "scores.parquet", "evalflow.log"} <= {file.name for file in files}
    assert SECRET not in done.stdout + done.stderr


def test_a_cluster_of_its_own_listens_on_this_machine_alone(tmp_path: Path) -> None:
    code = """
from evalflow.addons.cluster.ray_crew import RayCluster, ray
from evalflow.addons.cluster.config import RayEngineConfig
RayCluster(RayEngineConfig(kind="ray"))
print(*[node["NodeManagerAddress"] for node in ray.nodes()])
ray.shutdown()
"""
    with TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        own = {**os.environ, "RAY_TMPDIR": folder, "RAY_AUTH_MODE": "disabled"}
        done = subprocess.run([sys.executable, "-c", code], env=own, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["127.0.0.1"]), done.stderr


def test_the_jobs_of_a_sweep_go_over_the_same_actors(program: Program, nodes: Nodes) -> None:
    seen: dict[bool, set[int]] = {True: set(), False: set()}

    def script(request: Request) -> Any:
        seen[request.body["temperature"] == 0] |= set(nodes.processes("ray::RayWorker"))
        return grade(request)

    with Endpoint(script) as endpoint:
        done = program("-m", *arguments(program, endpoint.url), *on(nodes), "judge.temperature=0,1")
    assert done.returncode == 0, done.stderr
    assert len(seen[True]) == 2
    assert seen[True] == seen[False]


def test_the_embedded_model_is_loaded_once_on_each_node_with_cores(program: Program, nodes: Nodes) -> None:
    seen, over = set[int](), threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            seen.update(nodes.processes("ray::RayModel"))

    watching = threading.Thread(target=watch)
    watching.start()
    path = program.write("mine.jsonl", *ROWS)
    words = ["dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=semantic_similarity"]
    done = program(*words, *on(nodes))
    over.set()
    watching.join()
    assert done.returncode == 0, done.stderr
    assert len(seen) == 2
    spread = scores(program)
    assert program(*words).returncode == 0
    assert spread.equals(scores(program))


@pytest.mark.parametrize("what", ["actor", "node"])
def test_others_do_what_a_lost_one_had(program: Program, nodes: Nodes, what: str) -> None:
    lose = {"actor": lambda: nodes.kill("ray::RayWorker"), "node": lambda: nodes.lose(nodes.at_work())}[what]
    script = Slow(10, lose)
    with Endpoint(script) as endpoint:
        done = program(*arguments(program, endpoint.url), *on(nodes, "engine.actors=1"))
        assert done.returncode == 0, done.stderr
        assert script.done.wait(60)
        assert 0 <= script.count - len(ROWS) <= program.manifest.get("unaccounted_requests", 0)
        assert "was lost with" in log(program)
        expect_scores_of_one_process(program, endpoint.url)


def test_a_node_that_falls_silent_is_given_up_also_when_it_comes_back(program: Program, nodes: Nodes) -> None:
    def silence() -> None:
        node = nodes.at_work()
        go_on = nodes.silence(node)
        wait_until(lambda: "was lost with" in log(program))
        go_on()
        nodes.lose(node)

    script = Slow(10, silence)
    with Endpoint(script) as endpoint:
        done = program(*arguments(program, endpoint.url), *on(nodes, "engine.actors=1"))
        assert done.returncode == 0, done.stderr
        assert script.done.wait(60)
        assert 0 <= script.count - len(ROWS) <= program.manifest.get("unaccounted_requests", 0)
        expect_scores_of_one_process(program, endpoint.url)


def test_a_case_that_ends_its_actors_is_told_from_the_others(program: Program, nodes: Nodes) -> None:
    (program.folder / "bot.py").write_text(BOT, encoding="utf-8")
    with Endpoint(grade) as endpoint:
        target = ["generate=true", "target=python", "target.call=bot:answer"]
        done = program(*arguments(program, endpoint.url), *target, *on(nodes))
    assert done.returncode == 3, done.stderr
    failed = scores(program).filter(pl.col("status") == "error")
    assert set(failed.select("case_id", "error_type").rows()) == {("c13", "worker")}
    assert scores(program).height == 3 * len(ROWS)
    # Of some cases: a lost actor's last lines are lost with it, and what it had a reply for is not asked again.
    assert re.search(r"actor \d+: asked Question \d+\?", log(program))


def test_after_the_loss_of_the_coordinator_resume_goes_on(program: Program, nodes: Nodes) -> None:
    script = Slow(10, lambda: nodes.kill("ray::RayCoordinator"))
    with Endpoint(script) as endpoint:
        done = program(*arguments(program, endpoint.url), *on(nodes))
        assert done.returncode == 5, done.stderr
        assert "coordinator" in done.stderr
        resumed = program("resume", *on(nodes))
        assert resumed.returncode == 0, resumed.stderr
        assert 0 <= script.count - len(ROWS) <= 2 * IN_FLIGHT
        expect_scores_of_one_process(program, endpoint.url)


def test_after_the_loss_of_the_driver_resume_goes_on(program: Program, nodes: Nodes) -> None:
    script = Slow(10)
    with Endpoint(script) as endpoint:
        driver = program.begin(*arguments(program, endpoint.url), *on(nodes))
        wait_until(partial(script.has, 10))
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
        wait_until(lambda: not nodes.processes("ray::RayWorker"))
        resumed = program("resume", "engine=local")
        assert resumed.returncode == 0, resumed.stderr
        assert 0 <= script.count - len(ROWS) <= 2 * IN_FLIGHT
        expect_scores_of_one_process(program, endpoint.url)


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupted_run_goes_on(program: Program, nodes: Nodes, times: int) -> None:
    script = Slow()
    with Endpoint(script) as endpoint:
        words = [*arguments(program, endpoint.url), "repeats.judge=3"]
        driver = program.begin(*words, *on(nodes))
        for due in (10, 20)[:times]:
            wait_until(partial(script.has, due))
            driver.send_signal(signal.SIGINT)
        assert driver.wait() == 130
        wait_until(lambda: not nodes.processes("ray::RayWorker"))
        assert script.count < 3 * len(ROWS)
        resumed = program("resume", *on(nodes))
        assert resumed.returncode == 0, resumed.stderr
        again = script.count - 3 * len(ROWS)
        assert again == 0 if times == 1 else 0 <= again <= 2 * IN_FLIGHT
    assert scores(program)["status"].to_list() == 5 * len(ROWS) * ["scored"]


def test_a_cluster_without_room_is_not_waited_for_for_ever(program: Program, nodes: Nodes) -> None:
    with Endpoint(grade) as endpoint:
        words = on(nodes, "+engine.resources={unheard_of: 1}", "engine.start_timeout_s=1")
        done = program(*arguments(program, endpoint.url), *words)
        assert endpoint.count == 0
    assert (done.returncode, "no actor has started within 1 s" in done.stderr) == (5, True), done.stderr


@pytest.mark.parametrize("what", ["another version", "no evalflow"])
def test_a_node_that_cannot_give_the_same_scores_ends_the_run(
    program: Program, nodes: Nodes, tmp_path_factory: pytest.TempPathFactory, what: str
) -> None:
    folder: Path = tmp_path_factory.mktemp("site")
    file, text, said = {
        "another version": ("sitecustomize.py", OTHER_PYTHON, "has python 3.0.0 instead of"),
        "no evalflow": ("evalflow.py", "raise ModuleNotFoundError('no evalflow')\n", "no evalflow"),
    }[what]
    (folder / file).write_text(text, encoding="utf-8")
    odd = nodes.add(resources={what.replace(" ", "_"): 1}, env_vars={"PYTHONPATH": str(folder)})
    try:
        with Endpoint(grade) as endpoint:
            words = on(nodes, f"+engine.resources={{{what.replace(' ', '_')}: 1}}")
            done = program(*arguments(program, endpoint.url), *words)
            assert endpoint.count == 0
    finally:
        nodes.lose(odd)
    assert (done.returncode, said in done.stderr) == (5, True), done.stderr
    assert "Traceback" not in done.stderr
