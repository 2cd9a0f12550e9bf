"""The configuration of the engine."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from evalflow.config.surroundings import EngineConfig

_NODE = re.compile(r"auto\Z|(\[[0-9a-fA-F:]+\]|[^\s:/?#@\[\]]+):\d{1,5}\Z")


class RayEngineConfig(EngineConfig):
    """Executes the run in Ray actors: on all cores of this machine, or on the nodes of a cluster.

    Attributes:
        address: The cluster's `HOST:PORT`, or `auto` for this node's cluster; null: only this machine.
        actors: Number of actors of the run; null: as many as the cores allow.
        cpus: Cores of each actor.
        gpus: GPUs of each actor, for targets and judges that run inside it.
        resources: Further resources of the node that each actor needs, by the cluster's names.
        shard: Number of cases given to an actor at a time.
        start_timeout_s: Time limit in seconds for the first actor to start.
    """

    kind: Literal["ray"]  # pyright: ignore[reportIncompatibleVariableOverride]
    address: str | None = None
    actors: int | None = Field(default=None, ge=1, le=10_000)
    cpus: float = Field(default=1, gt=0)
    gpus: float = Field(default=0, ge=0)
    resources: dict[str, float] = Field(default_factory=dict)
    shard: int = Field(default=64, ge=1, le=10_000)
    start_timeout_s: float = Field(default=60, gt=0)

    @property
    def sends_to(self) -> str | None:
        return self.address

    @field_validator("address")
    @classmethod
    def _of_a_node(cls, address: str | None) -> str | None:
        if address is None or _NODE.match(address):
            return address
        if address.startswith("ray://"):
            what = "with the Ray client a run is lost if the connection fails: start evalflow on a node of the cluster"
            raise ValueError(f"{what}, with `auto`, or write HOST:PORT")
        raise ValueError("write HOST:PORT, such as 10.0.0.1:6379, or auto for the cluster of this node")
