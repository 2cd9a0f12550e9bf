"""`export mlflow`, to a real MLflow server and to SQLite. MLflow is installed in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.addons.interop.exported_runs import ran as ran
from tests.cli.conftest import Program

ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("EVALFLOW_TEST_MLFLOW")
needs_mlflow = pytest.mark.skipif(PYTHON is None, reason="needs an environment with MLflow: make test-mlflow")
PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore"}
READ = """
import json, sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name(sys.argv[2])
runs = client.search_runs([experiment.experiment_id]) if experiment else []
print(json.dumps([{
    "id": run.info.run_id, "status": run.info.status, "params": run.data.params, "metrics": run.data.metrics,
    "tags": run.data.tags, "files": [one.path for one in client.list_artifacts(run.info.run_id)],
    "traces": [{
        "case": trace.info.tags["evalflow.case.id"],
        "in": trace.data.spans[0].inputs, "out": trace.data.spans[0].outputs,
        "feedback": [one.to_dictionary() for one in trace.info.assessments],
    } for trace in client.search_traces(locations=[experiment.experiment_id], run_id=run.info.run_id)],
} for run in runs]))
"""


def in_environment(*words: str, folder: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    assert PYTHON is not None
    environment = {**os.environ, **QUIET, "PYTHONPATH": str(ROOT), **env}
    return subprocess.run([PYTHON, *words], capture_output=True, text=True, cwd=folder, env=environment, timeout=600)


def export(program: Program, uri: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return in_environment("-m", "evalflow", "export", "mlflow", "--to", uri, *words, folder=program.folder, **env)


def read(uri: str, experiment: str = "evalflow") -> list[dict[str, Any]]:
    done = in_environment("-c", READ, uri, experiment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stores = ("--backend-store-uri", f"sqlite:///{folder}/db", "--artifacts-destination", str(folder / "files"))
    command = [str(PYTHON), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    process = subprocess.Popen([*command, *stores], env={**os.environ, **QUIET}, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, "the server has ended"
            try:
                urlopen(f"{url}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def feedback(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {trace["case"]: one for trace in run["traces"] for one in trace["feedback"]}


@needs_mlflow
def test_a_run_is_there_once_with_params_bounds_report_and_feedback(ran: Program, server: str) -> None:
    [line] = re.findall(r"^python (-m evalflow export mlflow .*)$", PAGE, re.MULTILINE)
    words = line.replace("http://127.0.0.1:5000", server).split()
    first, second = in_environment(*words, folder=ran.folder), export(ran, server)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert f"mlflow: 4 of 4 scores sent to {server}" in first.stdout
    [run] = read(server)
    assert run["status"] == "FINISHED"
    assert run["params"]["metric.exact_match.threshold"] == "1.0"
    assert run["tags"]["evalflow.run_id"] == ran.manifest["run_id"]
    summary = json.loads((ran.latest / "summary.json").read_text())["rows"][0]
    for key in ("value", "ci_low", "ci_high"):
        name = "exact_match" + ("" if key == "value" else f"/{key}")
        assert run["metrics"].get(name) == summary[key]
    assert (run["metrics"]["exact_match/n"], run["metrics"]["exact_match/n_error"]) == (4, 1)
    assert set(run["files"]) == {"report.html", "summary.csv", "summary.md"}
    found = feedback(run)
    assert {name: one["feedback"].get("value") for name, one in found.items()} == {
        "right": 1,
        "wrong": 0,
        "lacking": None,
        "failed": None,
    }
    assert found["wrong"]["rationale"]
    assert found["failed"]["feedback"]["error"]["error_code"] == "target: recorded"
    assert found["lacking"]["metadata"]["evalflow.state"] == "skipped"
    assert found["right"]["source"] == {"source_type": "CODE", "source_id": "evalflow"}
    traces = {trace["case"]: trace for trace in run["traces"]}
    assert (traces["wrong"]["in"], traces["wrong"]["out"]) == ({"question": "Which-7Q?"}, "Lyon-7Q")
    [exported] = ran.manifest["exports"]
    assert (exported["to"], exported["id"], exported["sent"]) == ("mlflow", run["id"], 4)


@needs_mlflow
def test_no_text_leaves_if_none_is_asked_for(ran: Program, server: str) -> None:
    done = export(ran, server, "--text", "none", "--project", "none")
    assert done.returncode == 0, done.stderr
    [run] = read(server, "none")
    assert "7Q" not in json.dumps(run)
    assert run["files"] == ["summary.csv"]
    assert len(feedback(run)) == 4


@needs_mlflow
def test_other_results_replace_the_run_only_if_they_are_sent_again(ran: Program, server: str) -> None:
    assert export(ran, server, "--project", "changed").returncode == 0
    assert ran("report", "metric.exact_match.threshold=0").returncode == 0
    refused = export(ran, server, "--project", "changed")
    assert refused.returncode == 2
    assert "mlflow has this run with other results" in refused.stderr
    assert export(ran, server, "--project", "changed", "--again").returncode == 0
    [run] = read(server, "changed")
    assert run["params"]["metric.exact_match.threshold"] == "0"
    assert len(feedback(run)) == 4


@needs_mlflow
def test_sqlite_without_a_server(ran: Program) -> None:
    uri = f"sqlite:///{ran.folder}/mlflow.db"
    assert export(ran, uri).returncode == 0
    [run] = read(uri)
    assert len(feedback(run)) == 4


@needs_mlflow
def test_a_server_that_is_not_there_is_said_and_counted(ran: Program) -> None:
    done = export(ran, "http://127.0.0.1:9", MLFLOW_HTTP_REQUEST_MAX_RETRIES="0")
    assert done.returncode == 5
    assert "Traceback" not in done.stderr
    assert "4 not sent" in done.stdout
    assert ran.manifest["exports"][0]["unsent"] == 4


def test_without_mlflow_its_packages_are_named(ran: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    done = ran("export", "mlflow")
    assert done.returncode == 2
    assert "python -m pip install 'mlflow-skinny" in done.stderr


def test_an_address_has_no_password(ran: Program) -> None:
    done = ran("export", "mlflow", "--to", "http://user:secret-1@127.0.0.1:9")
    assert done.returncode == 2
    assert "MLFLOW_TRACKING_PASSWORD" in done.stderr
    assert "secret-1" not in done.stderr


def test_a_public_server_does_not_export_to_a_tracker(ran: Program) -> None:
    connections = ran.folder / "connections.json"
    connections.write_text("[]", encoding="utf-8")
    done = ran("export", "mlflow", EVALFLOW_CONNECTIONS=str(connections))
    assert done.returncode == 2
    assert "cannot be restricted to this server's connections" in done.stderr
