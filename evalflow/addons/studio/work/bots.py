"""Bots: the targets defined in the application or in conf/, and test questions to them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from anyio import to_thread

from evalflow.addons.studio.store.rows import Row, from_row
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.definitions import (
    Definition,
    DefinitionStore,
    Origin,
    given,
    kind_of,
    new_values,
    remembered_content,
)
from evalflow.addons.studio.work.space import Workspace
from evalflow.addons.studio.work.titles import declared_title, lifted
from evalflow.addons.studio.work.trial_calls import result_of
from evalflow.addons.studio.work.trial_process import AnswerTask
from evalflow.addons.studio.work.validate import BOT_KINDS, check_bot, one_line
from evalflow.app.core.options import Option
from evalflow.calls.client import CallSession
from evalflow.calls.connections import Connections
from evalflow.config.schema import TargetConfig
from evalflow.config.targets import OpenAITargetConfig
from evalflow.errors import CallError, InfrastructureError, Problem, UserError
from evalflow.limited import in_thread
from evalflow.llm.chat import listed_models
from evalflow.records import Answer, Case, Message
from evalflow.redaction import Redactor, environment_values
from evalflow.targets.registry import TARGET_KINDS
from evalflow.values.jsonvalues import is_list, is_object


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot(Definition):
    """A target under test; runs use its name for the target.

    Attributes:
        description: For people.
        config: A target's configuration: kind (openai, http or recorded) and its keys. It holds names of secrets, not
            the secrets.
    """

    description: str
    config: Mapping[str, object]
    origin: Origin = "workspace"


BOTS = DefinitionStore("bot", partial(from_row, Bot), "target", lambda option: kind_of(option) in BOT_KINDS)


@requires("read")
def list_bots(space: Workspace) -> list[Bot]:
    """All bots: those of the database by name, then those of conf/ whose kind is supported here."""
    return BOTS.every(space, _of_conf)


@requires("read")
def get_bot(space: Workspace, name: str) -> Bot:
    """One bot. A bot of conf/ includes inherited keys, and "???" for a missing required value."""

    def whole(option: Option) -> Bot:
        return replace(_of_conf(option), config=lifted(remembered_content(space, "target", name), None)[0])

    return BOTS.one(space, name, whole)


@requires("edit")
def create_bot(
    space: Workspace, name: str, config: Mapping[str, object], description: str = "", title: str | None = None
) -> Bot:
    """Define a bot."""
    BOTS.create(space, bot_values(space, name, config, description, title))
    return get_bot(space, name)


@requires("edit")
def bot_values(
    space: Workspace, name: str, config: Mapping[str, object], description: str = "", title: str | None = None
) -> Row:
    """The columns of a new bot, for `BOTS.add`."""
    values = _values(space, name, config, description, title)
    BOTS.expect_free(name)
    return values


def _values(space: Workspace, name: str, config: Mapping[str, object], description: str, title: str | None) -> Row:
    return new_values("bot", name, config, description, title, partial(check_bot, connections=space.allowed))


@requires("edit")
def update_bot(
    space: Workspace,
    name: str,
    expected: int,
    *,
    config: Mapping[str, object] | None = None,
    description: str | None = None,
    new_name: str | None = None,
    title: str | None = None,
) -> Bot:
    """Change a bot; None leaves a value unchanged.

    `config` replaces the whole configuration. Past runs keep the old name. `expected`: the version that was edited.
    """
    bot = BOTS.get(space, name)
    about = bot.description if description is None else description
    values = _values(space, new_name or name, bot.config if config is None else config, about, title)
    if values["name"] != name:
        BOTS.expect_free(values["name"])
    BOTS.change(space, bot, expected, values)
    return get_bot(space, values["name"])


@requires("edit")
def delete_bot(space: Workspace, name: str, expected: int) -> int:
    """Delete a bot and its metrics; its runs stay. Returns its id in the trash."""
    return BOTS.delete(space, BOTS.get(space, name), expected)


@requires("edit")
def copy_bot(
    space: Workspace, source: str, name: str, changes: Mapping[str, object] | None = None, title: str | None = None
) -> Bot:
    """Copy a bot of the database or of conf/, and change some keys."""
    bot = get_bot(space, source)
    return create_bot(space, name, {**given(bot.config), **(changes or {})}, bot.description, title)


def _of_conf(option: Option) -> Bot:
    config, _ = lifted(option.values, None)
    return Bot(
        name=option.name, title=declared_title(option), description=option.description, config=config, origin="conf"
    )


LONGEST_S = 120.0
"""Time limit, including retries."""
LONGEST_QUESTION = 20_000
"""In characters."""
MODELS_S = 10.0
"""Time limit for listing an endpoint's models."""
_VARIABLE = re.compile(r"\$\{oc\.env:([A-Za-z_][A-Za-z0-9_]*)\}")


@requires("try")
async def try_bot(space: Workspace, name: str, config: Mapping[str, object], question: str) -> Answer:
    """Send a question to an unsaved bot; nothing is cached or saved.

    A failed call returns an answer in state error; only a wrong configuration or a missing key raises.
    """
    asked = question.strip()
    if not asked or len(asked) > LONGEST_QUESTION:
        raise UserError(Problem(f"a question has 1 to {LONGEST_QUESTION} characters", "question"))
    case = Case(dataset="trial", index=0, id="trial", messages=(Message("user", asked),))
    return await answer_case(space, name, config, case)


@requires("edit")
async def answer_case(space: Workspace, name: str, config: Mapping[str, object], case: Case) -> Answer:
    """The bot's current answer to a case; as in `try_bot`."""

    def answered() -> Answer:
        called, model, _ = _checked(space, name, config)
        if model.kind == "recorded":
            raise UserError(Problem("recorded answers cannot be asked", "question", "choose a bot that answers"))
        task = AnswerTask(name, called, case, LONGEST_S)
        return result_of(space, task, Answer, f"trial of {name}", [model], LONGEST_S)

    answer = await in_thread(answered)
    redactor = Redactor(environment_values(config))
    redacted = answer.answer and redactor.data(answer.answer)
    return replace(answer, answer=redacted, error=answer.error and redactor.text(answer.error))


@requires("edit")
async def list_models(space: Workspace, config: Mapping[str, object]) -> list[str]:
    """The names of the models that an OpenAI-compatible endpoint lists, sorted.

    `config`: a bot's configuration, in which the model may be missing. Raises UserError if there are none.
    """
    asked = {**config, "model": config.get("model") or "unknown", "attempts": 1, "timeout_s": MODELS_S}
    _, model, allowed = await to_thread.run_sync(_checked, space, "bot", asked)
    try:
        return await listed_models(cast("OpenAITargetConfig", model), "target", CallSession(connections=allowed))
    except (CallError, InfrastructureError) as error:
        raise UserError(Problem(one_line(str(error), "bot"), "target.model")) from None


def _checked(
    space: Workspace, name: str, config: Mapping[str, object]
) -> tuple[dict[str, Any], TargetConfig, Connections | None]:
    """A valid configuration as it is called, as values and as a model, and the connections that it may call."""
    allowed = space.allowed
    plain = check_bot(name, config, allowed)
    called = plain if allowed is None else allowed.resolve(plain, "target")
    values = cast("dict[str, Any]", _with_environment(called))
    return values, TARGET_KINDS.config(str(plain["kind"])).model_validate(values), allowed


def _with_environment(value: object) -> object:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _variable(match[1]), value)
    if is_object(value):
        return {key: _with_environment(inner) for key, inner in value.items()}
    if is_list(value):
        return [_with_environment(item) for item in value]
    return value


def _variable(name: str) -> str:
    if name not in os.environ:
        raise UserError(Problem(f"{name} is not set in the environment", "target.headers", f"export {name}=..."))
    return os.environ[name]
