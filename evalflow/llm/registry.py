"""The kinds of judges and of embedders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from evalflow.calls.client import CallSession
from evalflow.config.judges import (
    CascadeConfig,
    EmbeddedEmbedderConfig,
    EmbeddedJudgeConfig,
    MembersConfig,
    OpenAIEmbedderConfig,
    OpenAIJudgeConfig,
    PanelConfig,
)
from evalflow.config.kinds import Kind, Kinds
from evalflow.config.schema import EmbedderConfig, JudgeConfig
from evalflow.errors import Problem, UserError
from evalflow.protocols import Embedder, Judge

CONTRACTS = Path(".evalflow/contracts")
"""Next to the cache, in the working directory."""


def build_judge(config: JudgeConfig, choice: str, session: CallSession | None = None) -> Judge:
    """The judge that a configuration describes.

    Args:
        choice: The chosen file of conf/judge; the name defaults to `<choice>:<model>`, or to the choice.
    """
    return JUDGE_KINDS.get(config.kind).build(config, default_name(config, choice), session or CallSession())


def build_embedder(config: EmbedderConfig, choice: str, session: CallSession | None = None) -> Judge:
    """The embedder that a configuration describes, wrapped as a judge; arguments and errors as in `build_judge`."""
    from evalflow.llm.panel import EmbeddingJudge

    embedder = EMBEDDER_KINDS.get(config.kind).build(config, default_name(config, choice), session or CallSession())
    return EmbeddingJudge(embedder)


def default_name(config: Any, choice: str) -> str:
    """A judge's or a target's column value: its own name, else `<choice>:<model>`, else the choice."""
    model = getattr(config, "model", None)
    return config.name or (f"{choice}:{model}" if model else choice)


def _embedded(config: EmbeddedJudgeConfig, name: str, _: CallSession) -> Judge:
    from evalflow.llm.embedded import EmbeddedJudge

    return EmbeddedJudge(config.model_copy(update={"name": name}))


def _openai(config: OpenAIJudgeConfig, name: str, session: CallSession) -> Judge:
    from evalflow.llm.judge import OpenAIJudge

    return OpenAIJudge(config, name, session, contracts=CONTRACTS)


def _panel(config: MembersConfig, name: str, session: CallSession) -> Judge:
    from evalflow.llm.panel import Panel

    members: list[Judge] = []
    problems: list[Problem] = []
    for key, member in config.asked.items():
        try:
            members.append(build_judge(member, key, session))
        except UserError as error:
            problems += [_of_member(key, problem) for problem in error.problems]
    if problems:
        raise UserError(problems)
    return Panel(config, name, members)


def _of_member(key: str, problem: Problem) -> Problem:
    where = problem.where.replace("judge.", f"judge.members.{key}.", 1)
    return replace(problem, where=where, hint=problem.hint.replace("judge.", f"judge.members.{key}."))


def _embedded_embedder(config: EmbeddedEmbedderConfig, _: str, __: CallSession) -> Embedder:
    from evalflow.llm.embedders import EmbeddedEmbedder

    return EmbeddedEmbedder(config)


def _openai_embedder(config: OpenAIEmbedderConfig, name: str, session: CallSession) -> Embedder:
    from evalflow.llm.embedders import OpenAIEmbedder

    return OpenAIEmbedder(config, name, session)


JUDGE_KINDS: Kinds[JudgeConfig, Judge] = Kinds(
    "judge",
    {
        "embedded": Kind(EmbeddedJudgeConfig, _embedded),
        "openai": Kind(OpenAIJudgeConfig, _openai),
        "panel": Kind(PanelConfig, _panel),
        "cascade": Kind(CascadeConfig, _panel),
    },
)
EMBEDDER_KINDS: Kinds[EmbedderConfig, Embedder] = Kinds(
    "embedder",
    {
        "embedded": Kind(EmbeddedEmbedderConfig, _embedded_embedder),
        "openai": Kind(OpenAIEmbedderConfig, _openai_embedder),
    },
)
