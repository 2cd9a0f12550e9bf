"""`export weave`: W&B's own client, in an environment of its own, to a server that keeps what it is sent."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.addons.interop.exported_runs import ran as ran
from tests.addons.interop.exporters.weave_server import WeaveServer
from tests.cli.conftest import Program

ROOT = Path(__file__).parents[3]
PYTHON = os.environ.get("EVALFLOW_TEST_WEAVE")
KEY = "k" * 40
PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
needs_weave = pytest.mark.skipif(PYTHON is None, reason="needs an environment with Weave: make test-weave")


def export(program: Program, url: str, *words: str, key: str = KEY) -> subprocess.CompletedProcess[str]:
    """Run the command of the page, with a server of its own."""
    assert PYTHON is not None
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(program.folder), "WANDB_API_KEY": key}
    [line] = re.findall(r"^python (-m evalflow export weave .*)$", PAGE, re.MULTILINE)
    command = [PYTHON, *line.split(), "--to", url, *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=program.folder, env=env, timeout=600)


def scores(server: WeaveServer) -> dict[str, dict[str, Any]]:
    """What was said of each case, by the calls of the scorer."""
    found = [call for call in server.calls.values() if "/op/exact_match:" in call["op_name"]]
    return {call["inputs"]["inputs"]["case"]: call["output"] for call in found}


@needs_weave
def test_a_run_is_there_once_with_summary_report_and_a_score_for_each_case(ran: Program) -> None:
    with WeaveServer() as server:
        first, second = export(ran, server.url), export(ran, server.url)
        assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
        assert f"weave: 4 of 4 scores sent to {server.url}/team/desk" in first.stdout
        assert len(server.calls) == 2 + 3 * 4
        assert len(server.feedback) == 4
        found = scores(server)
        assert {name: (one.get("value"), one["state"]) for name, one in found.items()} == {
            "right": (1.0, "scored"),
            "wrong": (0.0, "scored"),
            "lacking": (None, "skipped"),
            "failed": (None, "error"),
        }
        assert found["wrong"]["reason"]
        [evaluation] = [call for call in server.calls.values() if "Evaluation.evaluate:" in call["op_name"]]
        summary = json.loads((ran.latest / "summary.json").read_text())["rows"][0]
        assert evaluation["output"]["exact_match"] == summary["value"]
        assert (evaluation["output"]["exact_match/n"], evaluation["output"]["exact_match/n_error"]) == (4, 1)
        assert any("<!doctype html>" in body.lower() for body in server.bodies), "the report was not sent"
        assert ran.manifest["run_id"] in "".join(server.bodies)
        assert ran.manifest["exports"][0]["id"] == evaluation["id"]
        assert export(ran, server.url, "--again").returncode == 0
        assert len(server.calls) == 2 + 3 * 4
        assert evaluation["id"] not in server.calls
    assert server.unknown == []
    assert KEY not in "".join(path.read_text("latin-1") for path in ran.latest.rglob("*") if path.is_file())


@needs_weave
def test_no_text_leaves_if_none_is_asked_for_and_other_results_are_not_the_same(ran: Program) -> None:
    with WeaveServer() as server:
        assert export(ran, server.url, "--text", "none").returncode == 0
        assert "7Q" not in "".join(server.bodies)
        assert len(scores(server)) == 4
        refused = export(ran, server.url)
    assert refused.returncode == 2
    assert "weave has this run with other results or texts" in refused.stderr


@needs_weave
def test_calls_that_are_lost_are_counted_and_replaced(ran: Program) -> None:
    with WeaveServer(lost=1) as server:
        lossy = export(ran, server.url)
        assert lossy.returncode == 5
        assert "4 not sent: Weave has 13 of 14 calls" in lossy.stdout
        assert export(ran, server.url).returncode == 0
        assert len(server.calls) == 2 + 3 * 4


@needs_weave
def test_without_a_key_or_a_server_it_says_what_to_do(ran: Program) -> None:
    keyless = export(ran, "http://127.0.0.1:9", key="")
    assert (keyless.returncode, "set WANDB_API_KEY" in keyless.stderr) == (2, True)
    nobody = export(ran, "http://127.0.0.1:9")
    assert (nobody.returncode, "http://127.0.0.1:9 cannot be used" in nobody.stderr) == (2, True)
    assert "Traceback" not in nobody.stderr


def test_without_weave_its_package_is_named(ran: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weave", None)
    done = ran("export", "weave")
    assert done.returncode == 2
    assert "python -m pip install 'weave" in done.stderr
