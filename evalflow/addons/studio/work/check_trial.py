"""Try checks on an answer example: rules immediately, checks by a judge on request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from anyio import to_thread

from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.cases import read_row
from evalflow.addons.studio.work.check_process import CASE, packed, state_of
from evalflow.addons.studio.work.checks import CheckExample, custom_checks
from evalflow.addons.studio.work.metric_trial import try_metric
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.space import Workspace
from evalflow.errors import Problem, UserError
from evalflow.limited import LimitExceeded, Work
from evalflow.paths import prompt_dirs
from evalflow.records import Case
from evalflow.targets.recorded import recorded_answer

TrialState = Literal["passed", "failed", "unscored", "wrong", "judge", "off"]
Example = Mapping[str, object]
"""A case with an answer example to try checks on."""
_NO_QUESTION = "(no question)"
LONGEST_S = 10.0
"""Time limit in seconds for all checks of a trial."""
_CHECKS = Work("evalflow.addons.studio.work.check_process:tried", memory=6 * 1024**3, files=256, threads=True)
"""It reads prompts and the embedder's model, whose threads need this address space."""


@dataclass(frozen=True, slots=True)
class CheckTrial:
    """The result of a check on an answer.

    Attributes:
        state: passed, failed, unscored (`reason` says why), wrong (`reason` says what is wrong with its parameters),
            judge (needs a judge) or off (disabled).
    """

    state: TrialState
    reason: str = ""


@requires("try")
def try_checks(space: Workspace, row: Mapping[str, object]) -> list[CheckTrial]:
    """Try each check of a row on the row's `demo_answer`; free, because no judge is called.

    Similarity uses the embedded embedder; runs may use another. Blocks: do not call it from an event loop's thread.

    Raises:
        TooManyTrialsError: The person, or all people together, have exhausted their budget of trials.
    """
    case = read_row(CASE, {**row, "id": CASE})
    return _tried(space, [replace(case, checks=())], [case.checks])[0] if case.checks else []


@requires("try")
def try_examples(
    space: Workspace, kind: str, params: Mapping[str, object], rows: Sequence[Example]
) -> list[CheckTrial]:
    """Try one built-in check on the `demo_answer` of each row; otherwise as `try_checks`."""
    check = {"identifier": kind, "params": dict(params)}
    cases = [_case(row) for row in rows]
    return [trial for (trial,) in _tried(space, cases, [[check]] * len(rows))] if rows else []


def _tried(
    space: Workspace, cases: Sequence[Case], checks: Sequence[Sequence[Mapping[str, object]]]
) -> list[list[CheckTrial]]:
    payload = {"definition": _definition(space), "prompts": [str(one) for one in prompt_dirs()]}
    payload |= {"cases": packed(cases), "checks": checks}
    with space.trials.turn(space.identify().name):
        try:
            outcomes = _CHECKS.call(payload, LONGEST_S, "the trial")
        except LimitExceeded as error:
            raise UserError(Problem(str(error), "checks", "make the checks or the answer simpler")) from None
    return [[CheckTrial(state, reason) for state, reason in of_case] for of_case in outcomes]


def _case(row: Example) -> Case:
    """Parse a row without its checks, which are tried separately. Raises UserError for an invalid row."""
    return read_row(CASE, {**row, "id": CASE, "checks": None})


def example_row(example: CheckExample) -> Example:
    """A row with a check's example as its `demo_answer`, to try the check on."""
    answer = {"role": "assistant", "content": example.answer, "metadata": example.metadata}
    return {"question": example.question.strip() or _NO_QUESTION, "demo_answer": answer}


@requires("try")
async def judge_check(space: Workspace, bot: str, row: Mapping[str, object], check: Mapping[str, object]) -> CheckTrial:
    """Try one check on a row's `demo_answer` with the judge of the bot's runs, which must be paid."""
    case = await to_thread.run_sync(_case, row)
    answer = recorded_answer(case, "example", 0, demo=True)
    if not (answer.answer or "").strip():
        return CheckTrial("unscored", "Write an answer example to try it.")
    asked = {key: value for key, value in row.items() if key not in ("demo_answer", "failure", "actual")}
    asked |= {"id": CASE, "answer": answer.answer, "metadata": dict(answer.metadata or {}), "checks": [dict(check)]}
    definition = await to_thread.run_sync(_definition, space)
    trial = await try_metric(space, bot, MetricDraft("checks", definition), asked)
    if not trial.scores:
        return CheckTrial("unscored", "The check gave no score.")
    score = trial.scores[0]
    return CheckTrial(*cast("tuple[TrialState, str]", state_of(score.status, score.score, score.reason or score.error)))


def _definition(space: Workspace) -> dict[str, object]:
    return {"kind": "checks", "description": "Checks.", "needs": [], "custom": custom_checks(space) or None}
