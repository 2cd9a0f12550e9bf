"""The cluster that runs with `engine=ray` join: once for all runs of a process."""

from __future__ import annotations

import os
import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING

from evalflow.config.engines import RayEngineConfig
from evalflow.config.schema import RunConfig
from evalflow.errors import Problem, UserError
from evalflow.extras import install_command

if TYPE_CHECKING:
    from evalflow.app.core.cluster.ray_crew import RayCluster

_REACH_S = 5.0  # seconds within which an address must answer
_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"  # the empty frame of HTTP/2 with which both sides begin
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
_joined: list[RayCluster] = []  # one at most


def join_cluster(run: RunConfig) -> RayCluster | None:
    """The cluster of a run, joined once for all runs of a sweep; None for a run in this process.

    UserError if the extra is not installed, or nothing answers at the address; InfrastructureError if joining fails.
    """
    config = run.engine
    if not isinstance(config, RayEngineConfig):
        return None
    if find_spec("ray") is None:
        what = "the engine ray needs the package ray, which is not installed"
        raise UserError(Problem(what, "engine", install_command("ray")))
    if config.address not in (None, "auto"):
        _expect_reached(str(config.address))
    if _joined and _joined[0].config != config:
        leave_cluster()
    if not _joined:
        from evalflow.app.core.cluster.ray_crew import RayCluster

        _joined.append(RayCluster(config))
    return _joined[0]


def leave_cluster() -> None:
    """Leave the cluster, or end it if it was started on this machine for this process."""
    while _joined:
        _joined.pop().leave()


def _expect_reached(address: str) -> None:
    """UserError unless something at the address speaks gRPC, as Ray does: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    hint = "start the cluster (`ray start --head --port=6379`), or leave engine.address out for this machine alone"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_S) as there:
            if os.environ.get("RAY_USE_TLS") == "1":  # Ray's own variable; the certificates are its affair
                return
            there.sendall(_GREETING)
            frame = there.recv(len(_SETTINGS), socket.MSG_WAITALL)
    except (OSError, OverflowError) as error:
        raise UserError(Problem(f"nothing answers at {address}: {error}", "engine.address", hint)) from None
    if frame[3:4] != _SETTINGS[3:4]:
        raise UserError(Problem(f"what listens at {address} is no head of Ray", "engine.address", hint))
