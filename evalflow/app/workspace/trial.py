"""A question to a bot, before anything is run with it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from anyio import to_thread

from evalflow.app.workspace.validate import check_bot
from evalflow.errors import Problem, UserError
from evalflow.paths import prompt_dirs
from evalflow.prompts import Prompts
from evalflow.protocols import Target
from evalflow.records import Answer, Case, Message
from evalflow.redaction import Redactor, environment_values
from evalflow.targets.form import Form
from evalflow.targets.registry import build_target, target_config_model

LONGEST_S = 120.0
"""How long all tries together may take."""
LONGEST_QUESTION = 20_000
"""Characters."""
_VARIABLE = re.compile(r"\$\{oc\.env:([A-Za-z_][A-Za-z0-9_]*)\}")


async def try_bot(name: str, config: Mapping[str, Any], question: str) -> Answer:
    """Ask a bot that is being defined; nothing is kept, and nothing is taken from what was kept.

    Args:
        name: What it will be called.
        config: Its configuration.
        question: Of the user.

    Returns:
        What it said; in state error, why it did not.

    Raises:
        UserError: The configuration is wrong, a key is not set, or the bot has only recorded answers.
        InfrastructureError: Nothing answers there, or the key is refused.
    """
    asked = question.strip()
    if not asked or len(asked) > LONGEST_QUESTION:
        raise UserError(Problem(f"a question has 1 to {LONGEST_QUESTION} characters", "question"))
    target = await to_thread.run_sync(_built, name, config)
    try:
        async with asyncio.timeout(LONGEST_S):
            answer = await target.answer(_case(asked), 0)
    except TimeoutError:
        raise UserError(Problem(f"no answer came within {LONGEST_S:g} s", "question", "is it running?")) from None
    finally:
        await target.close()
    redactor = Redactor(environment_values(config))
    said = answer.answer and redactor.data(answer.answer)
    return replace(answer, answer=said, error=answer.error and redactor.text(answer.error))


def _built(name: str, config: Mapping[str, Any]) -> Target:
    plain = check_bot(name, config)
    if plain["kind"] == "recorded":
        raise UserError(Problem("recorded answers cannot be asked", "question", "choose a bot that answers"))
    model = target_config_model(plain["kind"]).model_validate(_with_environment(plain))
    return build_target(model, name, Prompts(prompt_dirs()), {"trial": Form()}, generate=True)


def _case(question: str) -> Case:
    return Case(dataset="trial", index=0, id="trial", messages=(Message("user", question),))


def _with_environment(value: Any) -> Any:
    """The configuration with the values of the variables that it names."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found[1]), value)
    if isinstance(value, dict):
        return {key: _with_environment(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_with_environment(item) for item in cast("list[Any]", value)]
    return value


def _variable(name: str) -> str:
    if name not in os.environ:
        raise UserError(Problem(f"{name} is not set in the environment", "target.headers", f"export {name}=..."))
    return os.environ[name]
