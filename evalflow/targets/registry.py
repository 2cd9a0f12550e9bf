"""The kinds of targets, and of the users that talk to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from evalflow.calls.client import CallSession
from evalflow.config.kinds import Kind, Kinds, lazily
from evalflow.config.schema import BaseSimulatorConfig, NoSimulatorConfig, TargetConfig
from evalflow.config.simulators import OpenAISimulatorConfig, ScriptedSimulatorConfig
from evalflow.config.targets import (
    AgentTargetConfig,
    CommandTargetConfig,
    HttpTargetConfig,
    OpenAITargetConfig,
    PythonTargetConfig,
    RecordedTargetConfig,
)
from evalflow.llm.registry import default_name
from evalflow.prompts import Prompts
from evalflow.protocols import Simulator, Target
from evalflow.targets.answer_step import step_of
from evalflow.targets.conversation import ConversationTarget
from evalflow.targets.recorded import MissingTarget, RecordedTarget
from evalflow.targets.reply import Form

if TYPE_CHECKING:
    from evalflow.targets.service import Connector

Forms = Mapping[str, Form]
Generate = Literal[False, True, "missing", "demo"]


def build_target(
    config: TargetConfig,
    choice: str,
    prompts: Prompts,
    forms: Forms,
    generate: Generate,
    session: CallSession | None = None,
    simulator: Simulator | None = None,
) -> Target:
    """Build the target that a configuration describes. Its name defaults to `<choice>:<model>`, or to the choice.

    `simulator` plays the user of cases that have a scenario.
    """
    if generate == "demo":
        return RecordedTarget("demo", forms, step_of(config), demo=True)
    name = default_name(config, choice)
    target = TARGET_KINDS.get(config.kind).build(config, name, prompts, forms, session or CallSession())
    if config.kind == "recorded":
        return target
    playing: Target = ConversationTarget(target)
    if simulator is not None:
        from evalflow.targets.simulated import SimulatedConversations

        playing = SimulatedConversations(playing, simulator)
    return MissingTarget(playing, forms, step_of(config)) if generate == "missing" else playing


def build_simulator(
    config: BaseSimulatorConfig, choice: str, prompts: Prompts, session: CallSession | None = None
) -> Simulator | None:
    """Build what plays the user; None if nobody does. Its name defaults as that of a target."""
    build = SIMULATOR_KINDS.get(config.kind).build
    return build(config, default_name(config, choice), prompts, session or CallSession())


def _recorded(config: RecordedTargetConfig, name: str, _: Prompts, forms: Forms, *__: object) -> Target:
    return RecordedTarget(name, forms, step_of(config))


def _service(
    config: CommandTargetConfig | PythonTargetConfig | HttpTargetConfig,
    name: str,
    prompts: Prompts,
    forms: Forms,
    session: CallSession,
) -> Target:
    from evalflow.targets.service import ServiceTarget

    connector: Connector
    match config:
        case CommandTargetConfig():
            from evalflow.targets.command import CommandConnector

            connector = CommandConnector(config, prompts, session)
        case PythonTargetConfig():
            from evalflow.targets.command import PythonConnector

            connector = PythonConnector(config, session)
        case HttpTargetConfig():
            from evalflow.targets.http import HttpConnector

            connector = HttpConnector(config, prompts, session)
    return ServiceTarget(connector, config, name, forms, session)


TARGET_KINDS: Kinds[TargetConfig, Target] = Kinds(
    "target",
    {
        "recorded": Kind(RecordedTargetConfig, _recorded),
        "openai": Kind(OpenAITargetConfig, lazily("evalflow.targets.openai:OpenAITarget")),
        "agent": Kind(AgentTargetConfig, lazily("evalflow.targets.agent:AgentTarget")),
        "http": Kind(HttpTargetConfig, _service),
        "command": Kind(CommandTargetConfig, _service),
        "python": Kind(PythonTargetConfig, _service),
    },
)
SIMULATOR_KINDS: Kinds[BaseSimulatorConfig, Simulator | None] = Kinds(
    "simulator",
    {
        "none": Kind(NoSimulatorConfig, lambda *_: None),
        "scripted": Kind(ScriptedSimulatorConfig, lazily("evalflow.targets.simulated:ScriptedSimulator")),
        "openai": Kind(OpenAISimulatorConfig, lazily("evalflow.targets.simulated:ModelSimulator")),
    },
)
