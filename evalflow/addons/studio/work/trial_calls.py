"""Has trials carried out in a limited process, within the budget of the project."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.leases import TRIAL, trial_budget
from evalflow.addons.studio.work.sent_prompts import PromptPreview
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.trial_process import PreviewTask, Trial, TrialTask, expect_result, packed, spent
from evalflow.config.judges import single_judges
from evalflow.config.validate import Settings
from evalflow.errors import Problem, UserError
from evalflow.limited import LimitExceeded, Work

T = TypeVar("T")
COMPUTING_S = 20.0
"""CPU time of a trial in seconds."""
_GRACE_S = 15.0  # on top of a task's own time limit, whose message is better
_TRIALS = Work(
    "evalflow.addons.studio.work.trial_process:carried_out",
    memory=6 * 1024**3,  # the address space is that of the embedder's threads
    output=64 * 1024**2,
    files=256,
    threads=True,
    waits=True,
    niceness=10,
)
_OF_CALLS = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "HOME")
"""Variables that any call reads."""


@requires("edit")
def result_of(
    space: Workspace, task: TrialTask, kind: type[T], source: str, used: Iterable[Any], longest_s: float
) -> T:
    """The result of a task that calls what it uses, of this kind; `source` names the trial in the project's budget.

    `used`: the configurations of its endpoints, whose keys the process is given. A trial that is ended by force counts
    as having spent all that it might. Blocks: not for a thread with an event loop.
    """
    allowed = space.allowed
    environment = dict(os.environ) if allowed is None else _environment(used)
    with trial_budget(space, source) as budget:
        assert budget.lease is not None
        trial = Trial(task, allowed, budget.lease)
        budget.sent = TRIAL
        reply = _reply(space, trial, environment, longest_s + _GRACE_S)
        budget.sent = spent(reply)
        return expect_result(reply, kind)


@requires("try")
def preview_of(space: Workspace, task: PreviewTask, longest_s: float) -> PromptPreview:
    """The prompts of a trial that calls nothing."""
    environment = dict(os.environ) if space.allowed is None else _environment(())
    return expect_result(_reply(space, Trial(task, None, None), environment, longest_s), PromptPreview)


def endpoints(settings: Settings) -> list[object]:
    """The configurations of all that a run may call."""
    judges = [one for judge in (settings.run.judge, *settings.judges.values()) for one in single_judges(judge).values()]
    return [settings.run.target, settings.run.embedder, settings.run.simulator, *judges]


def _reply(space: Workspace, trial: Trial, environment: dict[str, str], seconds: float) -> dict[str, Any]:
    payload = {"trial": packed(trial), "root": str(space.root), "environment": environment}
    try:
        return _TRIALS.call(payload, seconds, "the trial", COMPUTING_S)
    except LimitExceeded as error:
        raise UserError(Problem(str(error), hint="try less: a shorter text, or a simpler rule or prompt")) from None


def _environment(used: Iterable[Any]) -> dict[str, str]:
    keys = {str(one.api_key_env) for one in used if getattr(one, "api_key_env", None)}
    names = {*keys, *_OF_CALLS, *map(str.lower, _OF_CALLS), "OPENAI_CUSTOM_HEADERS"}
    return {name: os.environ[name] for name in names if name in os.environ}
