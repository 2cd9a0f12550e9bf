"""Untrusted checks on untrusted answers (patterns, paths, SQL, similarity), run in a limited process."""

from __future__ import annotations

import asyncio
import base64
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalflow.errors import UserError
from evalflow.llm.registry import EMBEDDER_KINDS, build_embedder
from evalflow.metrics.kinds.checks import ChecksMetric, ChecksMetricConfig
from evalflow.prompts import Prompts
from evalflow.records import Case
from evalflow.targets.recorded import recorded_answer

CASE = "trial"
"""The id of the case on which checks are tried."""


def tried(
    definition: Mapping[str, Any], prompts: Sequence[str], cases: str, checks: Sequence[Sequence[Mapping[str, Any]]]
) -> list[list[tuple[str, str]]]:
    """Run each check on its case's answer example; returns (state, reason) as in `CheckTrial`.

    `definition`: a metric of the kind `checks`. `prompts`: folders. `cases`: see `packed`. `checks`: for each case.
    """
    known: Sequence[Case] = pickle.loads(base64.b64decode(cases))  # noqa: S301 - made by the server
    config = ChecksMetricConfig.model_validate(definition)
    metric = ChecksMetric.build("checks", config, Prompts([Path(one) for one in prompts]))

    async def all_tried() -> list[list[tuple[str, str]]]:
        return [await _tried(metric, case, own) for case, own in zip(known, checks, strict=True)]

    return asyncio.run(all_tried())


def packed(cases: Sequence[Case]) -> str:
    """Serialize validated cases for `tried`."""
    return base64.b64encode(pickle.dumps(list(cases))).decode()


async def _tried(metric: ChecksMetric, case: Case, checks: Sequence[Mapping[str, object]]) -> list[tuple[str, str]]:
    answer = recorded_answer(case, "example", 0, demo=True)
    embedder = None
    states: list[tuple[str, str]] = []
    for check in checks:
        try:
            (bound,) = metric.bind(replace(case, checks=(check,)))
        except UserError as error:
            states.append(("wrong", "; ".join(_of_the_check(problem.what) for problem in error.problems)))
            continue
        if not check.get("enabled", True):
            states.append(("off", ""))
        elif bound.asks:
            states.append(("judge", ""))
        elif answer.answer is None and not answer.metadata:
            states.append(("unscored", "Write an answer example to try it."))
        else:
            if bound.embeds and embedder is None:
                embedder = build_embedder(
                    EMBEDDER_KINDS.config("embedded").model_validate({"kind": "embedded"}), "embedded"
                )
            outcome = await bound.score(case, answer, embedder, 0)
            states.append(state_of(outcome.status, outcome.score, outcome.reason or outcome.error))
    return states


def state_of(status: str, score: float | None, reason: str | None) -> tuple[str, str]:
    """The state and reason of a trial, from the outcome of its check."""
    if status != "scored" or score is None:
        return "unscored", reason or ""
    return "passed" if score == 1 else "failed", reason or ""


def _of_the_check(what: str) -> str:
    """Strip the place of the case, which the page shows already."""
    return what.removeprefix(f"case {CASE!r}, checks[0]").removeprefix(".params.").removeprefix(": ")
