"""What a run works on and sends to: its engine, batches, OpenTelemetry, other observers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from evalflow.config.strict import Strict, matching

TextToSend = Literal["none", "reasons", "all"]
"""Which texts leave with scores: none; reasons and errors, which may quote an answer; questions and answers too."""
A_FOLDER = matching(
    r"(s3|gs|az)://[^/?#*\[\s]+(/[^?#*\[\s]*)?", "write s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER"
)
A_RECEIVER = matching(
    r"(?i:https?)://[^/?#@\s]+(/[^?#@\s]*)?",
    "write http(s)://HOST[:PORT][/PATH]; headers and keys go into OTEL_EXPORTER_OTLP_HEADERS, as NAME=VALUE",
)


class OtelConfig(Strict):
    """Where the scores are sent as OpenTelemetry log records while the run continues.

    Attributes:
        endpoint: An OTLP/HTTP receiver, to whose address /v1/logs is added; null: nothing is sent.
        text: none; reasons: also the reasons of scores and errors, which may quote an answer; all: also questions and
            answers.
        timeout_s: Seconds that the run waits at its end for what is still to be sent.
    """

    endpoint: Annotated[str, A_RECEIVER] | None = None
    text: TextToSend = "none"
    timeout_s: float = Field(default=30, gt=0)


class ObserverConfig(Strict):
    """What hears of each record of a run; keys that every observer has.

    Example:
        >>> ObserverConfig(kind="archive").expect_ready("observers.mine")
    """

    kind: str

    def expect_ready(self, key: str) -> None:
        """UserError if it cannot work, such as without a package; `key` is where it is configured."""


class BatchConfig(Strict):
    """How a run waits for the batches of its judges and its target.

    Attributes:
        wait_s: Seconds that it waits for them in all, before it ends with exit code 6 and can be resumed.
        poll_s: Seconds between two looks at a batch.
    """

    wait_s: float = Field(default=0, ge=0, allow_inf_nan=False)
    poll_s: float = Field(default=60, gt=0, allow_inf_nan=False)


class EngineConfig(Strict):
    """Where a run works; keys that every engine has.

    Example:
        >>> EngineConfig(kind="local").sends_to is None
        True
    """

    kind: str

    @property
    def sends_to(self) -> str | None:
        """The address that cases and answers go to; None: nothing leaves this machine."""
        return None


class LocalEngineConfig(EngineConfig):
    """The run works in this process, on one core."""

    kind: Literal["local"] = "local"  # pyright: ignore[reportIncompatibleVariableOverride]
