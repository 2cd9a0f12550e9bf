"""`engine=ray`: runs in the actors of a cluster, which is joined once for all runs of a process."""

from __future__ import annotations

import os
import socket
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from evalflow.addons.cluster.config import RayEngineConfig
from evalflow.errors import Problem, UserError
from evalflow.extras import install_command
from evalflow.report.wording import counted

if TYPE_CHECKING:
    from evalflow.addons.cluster.ray_crew import RayCluster
    from evalflow.app.core.engines import CaseRunner, EngineJob

_REACH_S = 5.0  # time limit in seconds for an address to answer
_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"  # the empty frame of HTTP/2 with which both sides begin
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS


class RayEngine:
    """Implements Engine by a cluster of Ray."""

    Config = RayEngineConfig
    is_here = False

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster

    @classmethod
    def build(cls, config: RayEngineConfig) -> RayEngine:
        """Join the cluster, or start one on this machine.

        UserError if the extra is not installed, or nothing answers at the address; InfrastructureError if it cannot be
        joined.
        """
        if find_spec("ray") is None:
            what = "the engine ray needs the package ray, which is not installed"
            raise UserError(Problem(what, "engine", install_command("ray")))
        if config.address not in (None, "auto"):
            _expect_reached(str(config.address))
        from evalflow.addons.cluster.ray_crew import RayCluster

        return cls(RayCluster(config))

    @property
    def about(self) -> str:
        cluster = self._cluster
        where = counted(cluster.nodes, "node") + (f", http://{cluster.dashboard}" if cluster.dashboard else "")
        return f"ray: {counted(cluster.size, 'actor')} on {where}"

    def open(self, job: EngineJob) -> AbstractAsyncContextManager[CaseRunner]:
        from evalflow.addons.cluster.spreading import on_cluster

        return on_cluster(self._cluster, job)

    def close(self) -> None:
        """Leave the cluster, or stop it if this process started it."""
        self._cluster.leave()


def _expect_reached(address: str) -> None:
    """UserError unless the address speaks gRPC, as Ray does; Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    hint = "start the cluster (`ray start --head --port=6379`), or leave engine.address out for this machine alone"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S) as there:
            if os.environ.get("RAY_USE_TLS") == "1":  # Ray's own variable; Ray then handles certificates
                return
            there.sendall(_GREETING)
            frame = there.recv(len(_SETTINGS), socket.MSG_WAITALL)
    except (OSError, OverflowError) as error:
        raise UserError(Problem(f"nothing answers at {address}: {error}", "engine.address", hint)) from None
    if frame[3:4] != _SETTINGS[3:4]:
        raise UserError(Problem(f"what listens at {address} is not a head of Ray", "engine.address", hint))
