"""What is to be run, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.config.load import Composed


@dataclass(frozen=True, slots=True)
class Order:
    """What to run.

    Attributes:
        composed: The configuration.
        folder: Where to write.
        run_id: The run's id.
        latest: What `outputs/latest` is to point to: the folder itself, or its sweep's; None leaves it alone.
        siblings: Finished runs of the same sweep, whose answers are used again.
        resumed: run.json of the run that is to be finished; None for a new run.
        retry_errors: Whether a resumed run asks again what ended in error.
    """

    composed: Composed
    folder: Path
    run_id: str
    latest: Path | None
    siblings: Sequence[Path] = ()
    resumed: dict[str, Any] | None = None
    retry_errors: bool = False
