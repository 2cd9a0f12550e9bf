"""The kinds of judges. Third parties add theirs as entry points of the group `evalflow.judges`, each a `JudgeKind`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.calls.session import CallSession
from evalflow.config.kinds import Kinds
from evalflow.config.schema import EmbeddedJudgeConfig, JudgeConfig, OpenAIJudgeConfig
from evalflow.protocols import Judge

CONTRACTS = Path(".evalflow/contracts")
"""Beside the cache, in the working directory."""


@dataclass(frozen=True, slots=True)
class JudgeKind:
    """A kind of judge.

    Attributes:
        config_model: The model of its configuration.
        build: Makes one, given its configuration, its name, and what it shares with others of its run.
    """

    config_model: type[JudgeConfig]
    build: Callable[[Any, str, CallSession], Judge]


def judge_kinds() -> Kinds[JudgeKind]:
    """All kinds of judges."""
    builtin = {
        "embedded": lambda: JudgeKind(EmbeddedJudgeConfig, _embedded),
        "openai": lambda: JudgeKind(OpenAIJudgeConfig, _openai),
    }
    return Kinds("judge", "evalflow.judges", builtin)


def judge_config_model(kind: str) -> type[JudgeConfig]:
    """The model of a kind's configuration.

    Raises:
        UserError: There is no such kind.
    """
    return judge_kinds().get(kind).config_model


def build_judge(config: JudgeConfig, choice: str, session: CallSession | None = None) -> Judge:
    """The judge that a configuration describes.

    Args:
        config: Of the model that belongs to its kind.
        choice: The file of conf/judge that was chosen; the name defaults to `<choice>:<model>`, or to the choice.
        session: Shared by all judges and targets of a run.

    Raises:
        UserError: The configuration cannot work, such as without an API key.
    """
    return judge_kinds().get(config.kind).build(config, default_name(config, choice), session or CallSession())


def default_name(config: Any, choice: str) -> str:
    """A judge's or a target's column value: its own name, else `<choice>:<model>`, else the choice."""
    model = getattr(config, "model", None)
    return config.name or (f"{choice}:{model}" if model else choice)


def _embedded(config: EmbeddedJudgeConfig, name: str, _: CallSession) -> Judge:
    from evalflow.llm.embedded import EmbeddedJudge

    return EmbeddedJudge(config.model_copy(update={"name": name}))


def _openai(config: OpenAIJudgeConfig, name: str, session: CallSession) -> Judge:
    from evalflow.llm.openai import OpenAIJudge

    return OpenAIJudge(config, name, session, contracts=CONTRACTS)
