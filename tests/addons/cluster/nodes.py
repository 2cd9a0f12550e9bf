"""A cluster of Ray on this machine, of three nodes: a head without cores, and two with a core each."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SECRET = "sk-not-to-be-found"
KEY = "JUDGE_SECRET"
"""The variable with the key, in the environment of each node."""
_QUICK: dict[str, Any] = {  # a node that is silent for 8 to 12 seconds is lost; by default, for 20 to 60
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 1500,
    "health_check_failure_threshold": 6,
}
_PATIENCE_S = 60


@dataclass
class Nodes:
    """The nodes; `folder` has what Ray writes."""

    cluster: Any
    folder: Path
    workers: list[Any] = field(default_factory=list[Any])

    @property
    def address(self) -> str:
        return self.cluster.address

    def complete(self) -> None:
        """Start nodes in place of lost ones."""
        self.workers = [one for one in self.workers if one in self.cluster.worker_nodes]
        while len(self.workers) < 2:
            self.workers.append(self.add())

    def add(self, **options: Any) -> Any:
        return self.cluster.add_node(**options)

    def at_work(self) -> Any:
        """The node of an actor."""
        return next(one for one in self.workers if self.processes("ray::RayWorker", one))

    def lose(self, node: Any) -> None:
        """End a node at once, as a machine that loses its power."""
        for process in [*self.processes("ray::", node), node.all_processes["raylet"][0].process.pid]:
            _send(process, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)

    def silence(self, node: Any) -> Callable[[], None]:
        """Stop all that a node does; gives what has it go on."""
        stopped = [*self.processes("ray::", node), node.all_processes["raylet"][0].process.pid]
        for process in stopped:
            _send(process, signal.SIGSTOP)

        def go_on() -> None:
            for process in stopped:
                _send(process, signal.SIGCONT)

        return go_on

    def processes(self, role: str, node: Any | None = None) -> list[int]:
        """The processes of the cluster, or of a node, whose command begins so, such as `ray::RayWorker`."""
        nodes = [self.cluster.head_node, *self.cluster.worker_nodes] if node is None else [node]
        raylets = {one.all_processes["raylet"][0].process.pid for one in nodes}
        return [number for number, parent, command in _processes() if parent in raylets and command.startswith(role)]

    def kill(self, role: str) -> None:
        """Kill one of these processes."""
        _send(self.processes(role)[0], signal.SIGKILL)


def wait_until(so: Callable[[], bool]) -> None:
    """Wait until something is so, for a minute at most."""
    ends = time.monotonic() + _PATIENCE_S
    while not so():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.05)


def _send(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def _processes() -> Iterator[tuple[int, int, str]]:
    """Number, parent and command of each process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat, command = (entry / "stat").read_text(), (entry / "cmdline").read_text()
            except OSError:  # it has ended
                continue
            yield int(entry.name), int(stat.rpartition(")")[2].split()[1]), command


@pytest.fixture(scope="module")
def started() -> Iterator[Nodes]:
    if find_spec("ray") is None:
        pytest.skip("NO RAY: no run works on a cluster of it; pip install -e '.[ray]'")
    # Paths of sockets must be short.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "RAY_TMPDIR": folder,
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
            KEY: SECRET,
        }.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        from evalflow.addons.cluster.ray_crew import on_loopback

        head = {"num_cpus": 0, "_system_config": _QUICK, "include_dashboard": False}
        with on_loopback():
            cluster: Any = Cluster(initialize_head=True, head_node_args=head)
            try:
                yield Nodes(cluster, Path(folder))
            finally:
                cluster.shutdown()


@pytest.fixture
def nodes(started: Nodes, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    """The cluster with all of its nodes, in whose environment the driver is too."""
    for name in (KEY, "RAY_TMPDIR", "RAY_AUTH_MODE"):
        monkeypatch.setenv(name, {KEY: SECRET, "RAY_TMPDIR": str(started.folder), "RAY_AUTH_MODE": "disabled"}[name])
    started.complete()
    return started
