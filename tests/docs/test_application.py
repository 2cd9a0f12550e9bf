"""Every command of the page on the application is run, against the server that the page starts."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui", reason="the extra `web` is not installed")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "application.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8000"
TRIES = 1200


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


@contextmanager
def started(words: list[str], folder: Path, stream: str) -> Iterator[str]:
    """A program that continues until it is interrupted; gives its first line."""
    command = [sys.executable, *words[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    streams: dict[str, Any] = {stream: subprocess.PIPE}
    process = subprocess.Popen(command, cwd=folder, env=environment, text=True, **streams)
    lines = getattr(process, stream)
    with lines:
        try:
            yield lines.readline()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
    assert process.returncode in (0, 130)


@pytest.mark.slow
def test_every_command_works_in_the_order_of_the_page(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    serve, worker, *asked = commands()
    with started(worker, tmp_path, "stderr") as line:
        assert line.startswith(("made ", "work "))
    with started([*serve, "--port", "0"], tmp_path, "stdout") as line:
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        token = (tmp_path / ".evalflow" / "token").read_text(encoding="utf-8").strip()
        assert f"{found[0]}/?token={token} " in line
        said: list[Any] = []
        for words in asked:
            words = [word.replace(ADDRESS, found[0]).replace("$(cat .evalflow/token)", token) for word in words]
            if "RUN" in words[-1]:
                run = said[-1]["run_id"]
                ended([*words[:-1], f"{found[0]}/api/v1/runs/{run}"])
                words[-1] = words[-1].replace("RUN", run)
            said.append(curl(words))
    assert [metric["name"] for metric in said[2]["items"]] == ["no_excuse"]
    assert [score["metric"] for score in said[-1]["items"]] == ["no_excuse"] * 10
    assert {score["status"] for score in said[-1]["items"]} == {"scored"}


def curl(words: list[str]) -> Any:
    assert words[0] == "curl"
    done = subprocess.run([*words, "--fail-with-body", "--silent"], capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def ended(words: list[str]) -> None:
    for _ in range(TRIES):
        if curl(words)["state"] not in ("queued", "running"):
            return
        time.sleep(0.1)
    raise AssertionError("the run did not end")
