"""The configuration of a run's engine, batches, OpenTelemetry export and other observers; their kinds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from evalflow.config.kinds import Kind, Kinds, lazily
from evalflow.config.strict import Strict, matching

TextToSend = Literal["none", "reasons", "all"]
"""Which texts are sent with scores: none; reasons and errors, which may quote an answer; or also questions and
answers."""
A_FOLDER = matching(
    r"(s3|gs|az)://[^/?#*\[\s]+(/[^?#*\[\s]*)?", "write s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER"
)
A_RECEIVER = matching(
    r"(?i:https?)://[^/?#@\s]+(/[^?#@\s]*)?",
    "write http(s)://HOST[:PORT][/PATH]; headers and keys go into OTEL_EXPORTER_OTLP_HEADERS, as NAME=VALUE",
)


class OtelConfig(Strict):
    """Sends scores as OpenTelemetry log records during the run.

    Attributes:
        endpoint: The base address of an OTLP/HTTP receiver, without /v1/logs; null: nothing is sent.
        text: none; reasons: also the reasons of scores and errors, which may quote an answer; all: also questions and
            answers.
        timeout_s: Seconds to wait at the end of the run for records that are still being sent.
    """

    endpoint: Annotated[str, A_RECEIVER] | None = None
    text: TextToSend = "none"
    timeout_s: float = Field(default=30, gt=0)


class ObserverConfig(Strict):
    """Keys of every observer, which receives each record of a run.

    Example:
        >>> ObserverConfig(kind="archive").expect_ready("observers.mine")
    """

    kind: str

    def expect_ready(self, key: str) -> None:
        """UserError if it cannot work, e.g. without a package; `key` is its configuration key."""


class BatchConfig(Strict):
    """How a run waits for the batches of its judges and its target.

    Attributes:
        wait_s: Seconds to wait for them in total before the run ends with exit code 6; it can be resumed.
        poll_s: Seconds between two polls of a batch.
    """

    wait_s: float = Field(default=0, ge=0, allow_inf_nan=False)
    poll_s: float = Field(default=60, gt=0, allow_inf_nan=False)


class EngineConfig(Strict):
    """Keys of every engine, which executes a run.

    Example:
        >>> EngineConfig(kind="local").sends_to is None
        True
    """

    kind: str

    @property
    def sends_to(self) -> str | None:
        """The address that cases and answers are sent to; None: nothing leaves this machine."""
        return None


class LocalEngineConfig(EngineConfig):
    """Executes the run in this process, on one core."""

    kind: Literal["local"] = "local"  # pyright: ignore[reportIncompatibleVariableOverride]


ENGINE_KINDS: Kinds[EngineConfig, Any] = Kinds(
    "engine", {"local": Kind(LocalEngineConfig, lazily("evalflow.app.core.engines:LocalEngine"))}
)
OBSERVER_KINDS: Kinds[ObserverConfig, Any] = Kinds("observer", {})
