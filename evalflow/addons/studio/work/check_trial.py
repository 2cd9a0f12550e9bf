"""Try checks on an answer example: rules at once, those of a judge when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from anyio import to_thread

from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.cases import read_row
from evalflow.addons.studio.work.checks import CheckExample, custom_checks
from evalflow.addons.studio.work.metric_trial import try_metric
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import UserError
from evalflow.llm.registry import EMBEDDER_KINDS, build_embedder
from evalflow.metrics.kinds.checks import ChecksMetric, ChecksMetricConfig
from evalflow.paths import prompt_dirs
from evalflow.prompts import Prompts
from evalflow.records import Case
from evalflow.targets.recorded import recorded_answer

TrialState = Literal["passed", "failed", "unscored", "wrong", "judge", "off"]
Example = Mapping[str, object]
"""A case whose answer example is to be tried."""
_CASE = "trial"
_NO_QUESTION = "(no question)"


@dataclass(frozen=True, slots=True)
class CheckTrial:
    """The result of a check on an answer.

    Attributes:
        state: passed or failed; unscored (`reason` says why); wrong: its parameters are, as `reason` says; judge: a
            judge must be asked; off: it is disabled.
    """

    state: TrialState
    reason: str = ""


@requires("read")
def try_checks(space: Workspace, row: Mapping[str, object]) -> list[CheckTrial]:
    """Try each of the checks of a row on its `demo_answer`; free, since nobody is asked.

    Similarity is that of the embedded embedder, which runs may replace. Blocks: not for a thread with an event loop.
    """
    checks = cast("Sequence[Mapping[str, object]]", row.get("checks") or ())
    return asyncio.run(_tried(_metric(space), _case(row), checks))


@requires("read")
def try_examples(
    space: Workspace, kind: str, params: Mapping[str, object], rows: Sequence[Example]
) -> list[CheckTrial]:
    """Try a built-in check with its parameters on each of some rows; otherwise as `try_checks`."""

    async def tried() -> list[CheckTrial]:
        metric, check = _metric(space), {"identifier": kind, "params": dict(params)}
        return [(await _tried(metric, _case(row), [check]))[0] for row in rows]

    return asyncio.run(tried())


def example_row(example: CheckExample) -> Example:
    """An example of a check as a case with this answer, to try the check on."""
    answer = {"role": "assistant", "content": example.answer, "metadata": example.metadata}
    return {"question": example.question.strip() or _NO_QUESTION, "demo_answer": answer}


def _metric(space: Workspace) -> ChecksMetric:
    config = ChecksMetricConfig.model_validate(_definition(space))
    return ChecksMetric.build("checks", config, Prompts(prompt_dirs()))


def _case(row: Example) -> Case:
    return read_row(_CASE, {**row, "id": _CASE, "checks": None})


async def _tried(metric: ChecksMetric, case: Case, checks: Sequence[Mapping[str, object]]) -> list[CheckTrial]:
    answer = recorded_answer(case, "example", 0, demo=True)
    embedder = None
    found: list[CheckTrial] = []
    for check in checks:
        try:
            (bound,) = metric.bind(replace(case, checks=(check,)))
        except UserError as error:
            found.append(CheckTrial("wrong", "; ".join(_of_the_check(problem.what) for problem in error.problems)))
            continue
        if not check.get("enabled", True):
            found.append(CheckTrial("off"))
        elif bound.asks:
            found.append(CheckTrial("judge"))
        elif answer.answer is None and not answer.metadata:
            found.append(CheckTrial("unscored", "Write an answer example to try it."))
        else:
            if bound.embeds and embedder is None:
                embedder = build_embedder(
                    EMBEDDER_KINDS.config("embedded").model_validate({"kind": "embedded"}), "embedded"
                )
            outcome = await bound.score(case, answer, embedder, 0)
            found.append(_trial(outcome.status, outcome.score, outcome.reason or outcome.error))
    return found


@requires("edit")
async def judge_check(space: Workspace, bot: str, row: Mapping[str, object], check: Mapping[str, object]) -> CheckTrial:
    """Ask the judge of a bot's runs about one check on the `demo_answer` of a row; this costs what the judge costs."""
    case = await to_thread.run_sync(_case, row)
    answer = recorded_answer(case, "example", 0, demo=True)
    if not (answer.answer or "").strip():
        return CheckTrial("unscored", "Write an answer example to try it.")
    asked = {key: value for key, value in row.items() if key not in ("demo_answer", "failure", "actual")}
    asked |= {"id": _CASE, "answer": answer.answer, "metadata": dict(answer.metadata or {}), "checks": [dict(check)]}
    definition = await to_thread.run_sync(_definition, space)
    found = await try_metric(space, bot, MetricDraft("checks", definition), asked)
    if not found.scores:
        return CheckTrial("unscored", "The check gave no score.")
    score = found.scores[0]
    return _trial(score.status, score.score, score.reason or score.error)


def _definition(space: Workspace) -> dict[str, object]:
    return {"kind": "checks", "description": "Checks.", "needs": [], "custom": custom_checks(space) or None}


def _trial(status: str, score: float | None, reason: str | None) -> CheckTrial:
    said = reason or ""
    if status != "scored" or score is None:
        return CheckTrial("unscored", said)
    return CheckTrial("passed" if score == 1 else "failed", said)


def _of_the_check(what: str) -> str:
    """A problem without the place of the case, which the card shows."""
    return what.removeprefix(f"case {_CASE!r}, checks[0]").removeprefix(".params.").removeprefix(": ")
