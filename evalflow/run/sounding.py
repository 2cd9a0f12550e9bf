"""A judge as a cascade sees it: how sure it was of what it said of one answer."""

from __future__ import annotations

from typing import Any, cast

from evalflow.config.panels import CascadeConfig
from evalflow.llm.panel import sounding
from evalflow.llm.values import choices
from evalflow.protocols import Judge
from evalflow.records import Ask, Reply
from evalflow.run.meter import Meter
from evalflow.run.tally import Tally


class SoundingMeter(Meter):
    """Has probabilities given with every verdict, and keeps the lowest that the judge gave a verdict of its own.

    A verdict is a value out of few: a label, yes or no, a grade. What is written freely has no probability here.

    Args:
        judge: Who answers.
        tally: The run's counts.
        config: How probabilities are got.

    Attributes:
        confidence: The lowest probability, 0..1; None where no verdict was asked for, or one came without.
    """

    def __init__(self, judge: Judge, tally: Tally, config: CascadeConfig) -> None:
        super().__init__(judge, tally)
        self._config = config
        self._lowest: float | None = None
        self._silent = False

    @property
    def confidence(self) -> float | None:
        """How sure the judge was of what it was least sure of."""
        return None if self._silent else self._lowest

    async def ask(self, ask: Ask) -> Reply:
        """Ask, and note how sure the judge is."""
        reply = await super().ask(sounding(ask, self._config))
        if not ask.embeds:
            self._note(reply, listed=ask.items is not None)
        return reply

    def _note(self, reply: Reply, *, listed: bool) -> None:
        verdicts = cast("Any", reply.parsed).results if listed else [reply.parsed]
        for place, verdict in enumerate(verdicts):
            for field in choices(type(verdict)):
                chances = reply.probabilities[place].get(field) if reply.probabilities else None
                if not chances:
                    self._silent = True
                    continue
                chance = chances.get(getattr(verdict, field), 0.0)
                self._lowest = chance if self._lowest is None else min(self._lowest, chance)
