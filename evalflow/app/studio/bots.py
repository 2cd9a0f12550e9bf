"""Bots: the targets that people define, those of conf/, and a test question to one."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from anyio import to_thread

from evalflow.app.core.options import Option
from evalflow.app.studio.access import requires
from evalflow.app.studio.definitions import DefinitionStore, given, kind_of, remembered_content
from evalflow.app.studio.leases import trial_budget
from evalflow.app.studio.space import Workspace, not_found
from evalflow.app.studio.titles import lifted
from evalflow.app.studio.validate import BOT_KINDS, check_bot, one_line
from evalflow.calls.budget import Budget
from evalflow.calls.client import CallSession
from evalflow.calls.connections import Connections
from evalflow.config.schema import TargetConfig
from evalflow.config.targets import OpenAITargetConfig
from evalflow.errors import CallError, InfrastructureError, Problem, UserError
from evalflow.llm.chat import listed_models
from evalflow.paths import prompt_dirs
from evalflow.prompts import Prompts
from evalflow.protocols import Target
from evalflow.records import Answer, Case, Message
from evalflow.redaction import Redactor, environment_values
from evalflow.store.rows import from_row
from evalflow.targets.registry import TARGET_KINDS, build_target
from evalflow.targets.reply import Form

Origin = Literal["workspace", "conf"]


@dataclass(frozen=True, slots=True)
class Bot:
    """A target under test.

    Attributes:
        name: Unique; the target's name in runs.
        title: What people call it.
        description: For people.
        config: A target's configuration: kind (openai, http or recorded) and its keys. It holds names of secrets, not
            the secrets.
        origin: "conf" if a file declares it; it cannot be changed here.
        version: Counts its changes; 0 for conf.
        created_at, updated_at: ISO 8601, UTC; empty for conf.
    """

    name: str
    description: str
    config: Mapping[str, Any]
    origin: Origin = "workspace"
    version: int = 0
    created_at: str = ""
    updated_at: str = ""
    title: str = ""


BOTS = DefinitionStore("bot", "bots", "target", lambda option: kind_of(option) in BOT_KINDS)


@requires("read")
def list_bots(space: Workspace) -> list[Bot]:
    """All bots: the defined ones by name, then those of conf/ that could be defined here too."""
    own = {row["name"]: from_row(Bot, row) for row in BOTS.rows(space)}
    return [*own.values(), *(_of_conf(option) for name, option in BOTS.offered().items() if name not in own)]


@requires("read")
def get_bot(space: Workspace, name: str) -> Bot:
    """One bot. A bot of conf/ includes all that it inherits, and "???" for a required value that is missing."""
    row = BOTS.find(space, name)
    if row is not None:
        return from_row(Bot, row)
    offered = BOTS.offered()
    if name not in offered:
        raise not_found("bot", name, [bot.name for bot in list_bots(space)])
    return replace(_of_conf(offered[name]), config=lifted(remembered_content(space, "target", name), None)[0])


@requires("edit")
def create_bot(
    space: Workspace, name: str, config: Mapping[str, Any], description: str = "", title: str | None = None
) -> Bot:
    """Define a bot."""
    BOTS.create(space, bot_values(space, name, config, description, title))
    return get_bot(space, name)


@requires("edit")
def bot_values(
    space: Workspace, name: str, config: Mapping[str, Any], description: str = "", title: str | None = None
) -> dict[str, Any]:
    """The columns of a new bot, for `BOTS.add`."""
    plain, title = lifted(config, title)
    checked = check_bot(name, plain, space.allowed)
    BOTS.expect_free(name)
    return {"name": name, "title": title, "description": one_line(description, "bot"), "config": checked}


@requires("edit")
def update_bot(
    space: Workspace,
    name: str,
    expected: int,
    *,
    config: Mapping[str, Any] | None = None,
    description: str | None = None,
    new_name: str | None = None,
    title: str | None = None,
) -> Bot:
    """Change a bot. None leaves a value unchanged.

    `config` is the complete new one. Past runs keep an old name. `expected` is the version that the change is based on.
    """
    row = BOTS.get(space, name)
    plain, title = lifted(row["config"] if config is None else config, title)
    values: dict[str, Any] = {"name": new_name or name, "title": title}
    values["config"] = check_bot(values["name"], plain, space.allowed)
    values["description"] = row["description"] if description is None else one_line(description, "bot")
    if values["name"] != name:
        BOTS.expect_free(values["name"])
    BOTS.change(space, row, expected, values)
    return get_bot(space, values["name"])


@requires("edit")
def delete_bot(space: Workspace, name: str, expected: int) -> int:
    """Delete a bot and its metrics; its runs stay. Returns its id in the trash."""
    return BOTS.delete(space, BOTS.get(space, name), expected)


@requires("edit")
def copy_bot(
    space: Workspace, source: str, name: str, changes: Mapping[str, Any] | None = None, title: str | None = None
) -> Bot:
    """Copy a bot, which may be of conf/, and change some keys."""
    bot = get_bot(space, source)
    return create_bot(space, name, {**given(bot.config), **(changes or {})}, bot.description, title)


def _of_conf(option: Option) -> Bot:
    return Bot(option.name, option.description, lifted(option.values, None)[0], "conf", title=option.title)


LONGEST_S = 120.0
"""Time limit, including retries."""
LONGEST_QUESTION = 20_000
"""In characters."""
MODELS_S = 10.0
"""Time limit of the list of an endpoint's models."""
_VARIABLE = re.compile(r"\$\{oc\.env:([A-Za-z_][A-Za-z0-9_]*)\}")


@requires("edit")
async def try_bot(space: Workspace, name: str, config: Mapping[str, Any], question: str) -> Answer:
    """Send a question to a bot that is being defined; nothing is cached or saved.

    A call that fails gives an answer in state error; only a wrong configuration or a missing key raises.
    """
    asked = question.strip()
    if not asked or len(asked) > LONGEST_QUESTION:
        raise UserError(Problem(f"a question has 1 to {LONGEST_QUESTION} characters", "question"))
    return await answer_case(space, name, config, _case(asked))


@requires("edit")
async def answer_case(space: Workspace, name: str, config: Mapping[str, Any], case: Case) -> Answer:
    """What a bot answers to a case now; as in `try_bot`."""
    with trial_budget(space, f"trial of {name}") as budget:
        target = await to_thread.run_sync(_built, space, name, config, budget, case.dataset)
        try:
            async with asyncio.timeout(LONGEST_S):
                answer = await target.answer(case, 0)
        except TimeoutError:
            raise UserError(Problem(f"no answer came within {LONGEST_S:g} s", "question", "is it running?")) from None
        finally:
            await target.close()
    redactor = Redactor(environment_values(config))
    said = answer.answer and redactor.data(answer.answer)
    return replace(answer, answer=said, error=answer.error and redactor.text(answer.error))


@requires("edit")
async def list_models(space: Workspace, config: Mapping[str, Any]) -> list[str]:
    """The names of the models that an OpenAI-compatible endpoint lists, sorted.

    `config`: of a bot, whose model may be missing. UserError says why there are none.
    """
    asked = {**config, "model": config.get("model") or "unknown", "attempts": 1, "timeout_s": MODELS_S}
    model, allowed = await to_thread.run_sync(_checked, space, "bot", asked)
    try:
        return await listed_models(cast("OpenAITargetConfig", model), "target", CallSession(connections=allowed))
    except (CallError, InfrastructureError) as error:
        raise UserError(Problem(one_line(str(error), "bot"), "target.model")) from None


def _built(space: Workspace, name: str, config: Mapping[str, Any], budget: Budget, dataset: str) -> Target:
    model, allowed = _checked(space, name, config)
    if model.kind == "recorded":
        raise UserError(Problem("recorded answers cannot be asked", "question", "choose a bot that answers"))
    session = CallSession(connections=allowed, budget=budget)
    return build_target(model, name, Prompts(prompt_dirs()), {dataset: Form()}, generate=True, session=session)


def _checked(space: Workspace, name: str, config: Mapping[str, Any]) -> tuple[TargetConfig, Connections | None]:
    """A valid configuration as it is called, and the connections that it may call."""
    allowed = space.allowed
    plain = check_bot(name, config, allowed)
    called = plain if allowed is None else allowed.resolve(plain, "target")
    model = TARGET_KINDS.config(plain["kind"]).model_validate(_with_environment(called))
    return model, allowed


def _case(question: str) -> Case:
    return Case(dataset="trial", index=0, id="trial", messages=(Message("user", question),))


def _with_environment(value: Any) -> Any:
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
