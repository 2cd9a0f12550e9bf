"""Several judges as one: a panel or a cascade."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from evalflow.config.panels import CascadeConfig, MembersConfig, PanelConfig
from evalflow.errors import Problem, UserError
from evalflow.llm.embedding_judge import JudgeWithEmbedder
from evalflow.protocols import Judge
from evalflow.records import Ask, Reply


class Panel:
    """Implements Judge for judges of whom each scores a cell by itself; what they say is taken together afterwards.

    So it is its members who are asked when a cell is scored. It is asked itself only for what is made once per run,
    such as the steps of G-Eval: its first member makes that, and all of them score with it.

    Args:
        config: How they are asked, and how their scores become one.
        name: The column value of what they come to.
        members: In the order in which they are asked.

    Raises:
        UserError: Two of them are one judge, or are called the same.
    """

    def __init__(self, config: MembersConfig, name: str, members: Sequence[Judge]) -> None:
        self.config = config
        self.members = tuple(members)
        self._name = name
        problems = [
            problem
            for place, member in enumerate(members)
            for before, other in zip(config.asked, members[:place], strict=False)
            for problem in _alike(before, other, list(config.asked)[place], member)
        ]
        if problems:
            raise UserError(problems)

    @property
    def name(self) -> str:
        """The column value."""
        return self._name

    @property
    def nature(self) -> str:
        """What it is, and what its members are."""
        natures = [member.nature for member in self.members]
        if isinstance(self.config, CascadeConfig):
            return f"cascade below {self.config.escalate_below:g}: {', then '.join(natures)}"
        how = self.config.vote if isinstance(self.config, PanelConfig) else self.config.kind
        return f"panel of {len(natures)}, {how}: {'; '.join(natures)}"

    @property
    def identity(self) -> str:
        """A digest of its members' identities and of how their scores become one."""
        how = self.config.model_dump(mode="json", exclude={"name", "members", "calibrated", "thresholds"})
        text = json.dumps([how, *zip(self.config.asked, [one.identity for one in self.members], strict=True)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def calibrated(self) -> bool:
        """Whether a threshold on its scores means anything."""
        return self.config.calibrated and all(member.calibrated for member in self.members)

    @property
    def weighted(self) -> bool:
        """Whether the scores of all of them are always expectations."""
        return all(member.weighted for member in self.members)

    @property
    def tasks(self) -> frozenset[str] | None:
        """The tasks that all of them can answer; None: anything."""
        limited = [member.tasks for member in self.members if member.tasks is not None]
        return limited[0].intersection(*limited) if limited else None

    @property
    def remote(self) -> bool:
        """Whether one of them sends what it is asked to an endpoint."""
        return any(member.remote for member in self.members)

    def explain_refusal(self, task: str | None) -> str | None:
        """Why one of them cannot answer."""
        refusals = ((member.name, member.explain_refusal(task)) for member in self.members)
        return next((f"the member {name}: {refusal}" for name, refusal in refusals if refusal), None)

    async def ask(self, ask: Ask) -> Reply:
        """Have its first member answer.

        Raises:
            JudgeError: The question could not be answered.
            InfrastructureError, BudgetError: No further call can be made.
        """
        return await self.members[0].ask(ask)

    async def close(self) -> None:
        """Release the connections of all of them."""
        for member in self.members:
            await member.close()


def single(judge: Judge) -> tuple[Judge, ...]:
    """Whom a judge really asks, in order: its members, or itself."""
    return judge.members if isinstance(judge, Panel) else (judge,)


def with_embedder(judge: Judge, embedder: Judge) -> Judge:
    """A judge, each member of it if it has some, that has an embedder make its vectors."""
    if not isinstance(judge, Panel):
        return JudgeWithEmbedder(judge, embedder)
    members = [JudgeWithEmbedder(member, embedder) for member in judge.members]
    return Panel(judge.config, f"{judge.name} + {embedder.name}", members)


def sounding(ask: Ask, config: CascadeConfig) -> Ask:
    """An ask as a cascade puts it to those who may be followed by another: so that they say how sure they are."""
    return ask if ask.embeds else replace(ask, logprobs=True, samples=max(ask.samples, config.samples or 1))


def _alike(one: str, first: Judge, other: str, second: Judge) -> list[Problem]:
    key = f"judge.members.{other}"
    if first.identity == second.identity:
        what = f"the members {one} and {other} are the same judge, whose opinion would count twice"
        return [Problem(what, key, f"give one of them another model: {key}.model=...")]
    if first.name == second.name:
        return [Problem(f"the members {one} and {other} are both called {first.name!r}", key, f"{key}.name=...")]
    return []
