"""Runs of the studio, carried out to their end."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evalflow.addons.studio.work import process, runs
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import Run
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.worker import Worker
from evalflow.calls import budget
from evalflow.calls.budget import Lease
from evalflow.calls.connections import VARIABLE, Connections
from tests.cli.conftest import Program

PATIENCE_S = 240


def finish(space: Workspace, request: RunRequest) -> Run:
    """Create a run and carry it out."""
    return carry_out(space, runs.create_run(space, request).run_id)


def carry_out(space: Workspace, run_id: str) -> Run:
    """Have a worker carry a queued run out in this process: it takes a fifth."""
    worker, deadline = Worker(space), time.monotonic() + PATIENCE_S
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "start", _carry_out)
        while (found := runs.get_run(space, run_id)).state in ("queued", "running"):
            assert time.monotonic() < deadline, found
            if not worker.step():
                time.sleep(0.05)
    assert found.facts, found.message
    return found


@dataclass(frozen=True)
class _Ended:
    """Stands for a process that has ended."""

    code: int
    pid: int = field(default_factory=os.getpid)

    def poll(self) -> int:
        return self.code

    wait = poll


def _carry_out(
    folder: Path, arguments: Sequence[str], root: Path, connections: Connections | None, lease: Lease | None
) -> _Ended:
    with pytest.MonkeyPatch.context() as patch:
        if lease is not None:
            patch.setenv(budget.VARIABLE, lease.model_dump_json())
        if connections is not None:
            connections.write(folder / process.CONNECTIONS)
            patch.setenv(VARIABLE, str(folder / process.CONNECTIONS))
        done = Program(root)(*arguments)
    (folder / process.OUTPUT).write_text(done.stdout + done.stderr, encoding="utf-8")
    return _Ended(done.returncode)
