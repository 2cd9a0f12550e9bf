"""A short set of cases that keeps the ranking of several runs, and what it loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evalflow.stats.subset import FEWEST_SYSTEMS, Loss, choose, measured_loss
from evalflow.summary.ranking import CommonCases


@dataclass(frozen=True, slots=True)
class ShortSet:
    """Some of the `of` common cases of several runs; `loss` is None for fewer runs than it takes to measure that."""

    dataset: str
    metric: str
    runs: int
    ids: Sequence[str]
    of: int
    loss: Loss | None

    @property
    def sentence(self) -> str:
        found, n = self.loss, len(self.ids)
        if found is None:
            return f"What it loses is not known: that takes {FEWEST_SYSTEMS} runs or more, and these are {self.runs}."
        order = "" if math.isnan(found.order) else (
            f"; {100 * found.order:.0f} % of the pairs of runs stand in the same order (random: "
            f"{100 * found.random_order:.0f} %)"
        )  # fmt: skip
        less = f"{found.gain:.4f} less ({found.low:.4f} to {found.high:.4f})"
        verdict = "" if found.is_better else f" It is not shown to be better than a random set of {n:,} cases."
        off = f"a mean is off by {found.error:.4f}, and by {found.random_error:.4f} with a random set"
        return f"On runs that had no part in the choice, {off}: {less}{order}.{verdict}"

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] | None = None
        if self.loss is not None:
            known = {name: None if math.isnan(value) else value for name, value in asdict(self.loss).items()}
            found = known | {"is_better_than_random": self.loss.is_better}
        return {
            "dataset": self.dataset, "metric": self.metric, "n": len(self.ids), "of": self.of, "ids": list(self.ids),
            "loss": found, "sentence": self.sentence,
        }  # fmt: skip


def short_set(common: CommonCases, n: int, *, seed: int) -> ShortSet:
    """Choose n of the common cases, by tag and difficulty, and measure what that loses; ValueError without n cases."""
    tags = common.cases["tags"].list.join(";").fill_null("").to_numpy()
    places = choose(common.scores, n, tags, seed=seed)
    enough = len(common.names) >= FEWEST_SYSTEMS
    loss = measured_loss(common.scores, n, tags, seed=seed) if enough else None
    ids: list[str] = common.cases["case_id"].gather(places).to_list()
    return ShortSet(common.dataset, common.metric, len(common.names), ids, common.cases.height, loss)
