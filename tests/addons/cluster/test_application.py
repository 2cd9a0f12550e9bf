"""Runs of the application work on the cluster that the workers' folder names."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from evalflow.addons.studio.work import bots, cases, datasets, metrics, scores
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import open_workspace
from evalflow.testing import Endpoint, Request
from tests.addons.cluster.crew import LocalCluster
from tests.cli.conftest import Program
from tests.finishing import finish

GRADE: dict[str, Any] = {
    "kind": "rubric",
    "needs": ["question", "answer"],
    "description": "How good.",
    "scale": {"type": "likert", "min": 1, "max": 5},
}


def answer(request: Request) -> Any:
    return {"reason": "so", "score": 4} if request.schema else "An answer."


def test_a_run_of_the_application_works_on_a_cluster(program: Program, cluster: LocalCluster, monkeypatch: Any) -> None:
    monkeypatch.chdir(program.folder)
    for folder in ("local", "metric"):
        (program.folder / "conf" / folder).mkdir(parents=True)
    own = "# @package _global_\nengine:\n  kind: ray\n  address: auto\n"
    (program.folder / "conf" / "local" / "default.yaml").write_text(own, encoding="utf-8")
    with closing(open_workspace()) as space, Endpoint(answer) as endpoint:
        bots.create_bot(space, "helper", {"kind": "openai", "model": "m", "base_url": endpoint.url})
        metrics.create_metric(space, "helper", MetricDraft("good", GRADE))
        datasets.create_dataset(space, "mine")
        cases.add_cases(space, "mine", [{"id": f"c{i}", "question": f"What is {i}?"} for i in range(6)])
        done = finish(space, RunRequest("helper", ["mine"], ["good"], options={}))
        assert (done.state, done.exit_code) == ("done", 0)
        assert len(scores.list_scores(space, done.run_id, limit=50).items) == 6
    assert len(cluster.hired) > 1
    assert all(cluster.given.values())
