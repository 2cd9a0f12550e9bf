"""Build judges and embedders of all kinds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Protocol

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
from evalflow.config.kinds import Kind, Kinds, lazily
from evalflow.config.schema import EmbedderConfig, JudgeConfig
from evalflow.errors import Problem, UserError
from evalflow.protocols import Embedder, Judge

CONTRACTS = Path(".evalflow/contracts")  # next to the cache, in the working directory


def build_judge(config: JudgeConfig, choice: str, session: CallSession | None = None, role: str = "judge") -> Judge:
    """Build the judge of a configuration. Its name defaults to `<choice>:<model>`, or to the choice.

    `role` is its configuration key, for error messages.
    """
    place = {"role": role} if type(config) is OpenAIJudgeConfig else {}
    build = JUDGE_KINDS.get(config.kind).build
    return build(config, default_name(config, choice), session or CallSession(), **place)


def build_embedder(config: EmbedderConfig, choice: str, session: CallSession | None = None) -> Judge:
    """Build the embedder of a configuration, wrapped as a judge; arguments and errors as in `build_judge`."""
    from evalflow.llm.panel import EmbeddingJudge

    embedder = EMBEDDER_KINDS.get(config.kind).build(config, default_name(config, choice), session or CallSession())
    return EmbeddingJudge(embedder)


class Named(Protocol):
    """A configuration that may have a name."""

    @property
    def name(self) -> str | None: ...


def default_name(config: Named, choice: str) -> str:
    """Return a judge's or a target's column value: its own name, else `<choice>:<model>`, else the choice."""
    model = getattr(config, "model", None)
    return config.name or (f"{choice}:{model}" if model else choice)


def _panel(config: MembersConfig, name: str, session: CallSession) -> Judge:
    from evalflow.llm.panel import Panel

    members: list[Judge] = []
    problems: list[Problem] = []
    for key, member in config.asked.items():
        role = f"judge.members.{key}"
        try:
            members.append(build_judge(member, key, session, role))
        except UserError as error:
            for fault in error.problems:
                if not fault.where.startswith(role):  # a package's kind names all judges alike
                    where, hint = (text.replace("judge.", f"{role}.") for text in (fault.where, fault.hint))
                    fault = replace(fault, where=where, hint=hint)
                problems.append(fault)
    if problems:
        raise UserError(problems)
    return Panel(config, name, members)


JUDGE_KINDS: Kinds[JudgeConfig, Judge] = Kinds(
    "judge",
    {
        "openai": Kind(OpenAIJudgeConfig, lazily("evalflow.llm.judge:OpenAIJudge", contracts=CONTRACTS)),
        "panel": Kind(PanelConfig, _panel),
        "cascade": Kind(CascadeConfig, _panel),
    },
    {"embedded": EmbeddedJudgeConfig},
)
EMBEDDER_KINDS: Kinds[EmbedderConfig, Embedder] = Kinds(
    "embedder",
    {
        "openai": Kind(OpenAIEmbedderConfig, lazily("evalflow.llm.embedders:OpenAIEmbedder")),
    },
    {"embedded": EmbeddedEmbedderConfig},
)
