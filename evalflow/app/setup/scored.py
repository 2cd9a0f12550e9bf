"""What the scores of a run will be called, and what makes them."""

from __future__ import annotations

from dataclasses import dataclass

from evalflow.protocols import Judge, Metric


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores that a run will have under one name.

    Attributes:
        metric: What makes them.
        judge: Who is asked for them, or for what they are made of; None where nobody is.
        declared: The name of the metric in the configuration, which may bind to several.
    """

    metric: Metric
    judge: Judge | None
    declared: str
