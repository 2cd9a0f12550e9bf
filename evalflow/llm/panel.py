"""Combine several judges into one: a panel, a cascade, or a judge with an embedder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel

from evalflow.config.judges import CascadeConfig, MembersConfig, PanelConfig
from evalflow.errors import CallError, JudgeError, Problem, UserError
from evalflow.protocols import Embedder, Judge
from evalflow.records import EMBED, Ask, JudgeInfo, Reply


class EmbeddingJudge:
    """An embedder as a Judge: the `results` of a reply are the vectors of an ask's items."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.info = replace(embedder.info, tasks=frozenset({EMBED}), limits="an embedder makes vectors")

    async def ask(self, ask: Ask) -> Reply:
        refusal = self.info.explain_refusal(ask.task)
        if refusal:
            raise JudgeError("unsupported", f"{ask.metric}, step {ask.step}: {refusal}")
        try:
            made = await self._embedder.embed([str(item) for item in ask.items or ()])
        except CallError as error:
            raise JudgeError(error.error_type, str(error), error.raw, error.spend, error.remedy) from None
        # Not validated, since a vector has hundreds of numbers that the embedder has already checked.
        parsed: BaseModel = ask.reply_model.model_construct(results=made.vectors)
        return made.spend.fill(Reply(parsed=parsed, raw="", identity=self.info.identity))

    async def close(self) -> None:
        await self._embedder.close()


class JudgeWithEmbedder:
    """A Judge whose vectors come from the embedder and whose other replies from the judge. Scores depend on both."""

    def __init__(self, judge: Judge, embedder: Judge) -> None:
        self._judge = judge
        self._embedder = embedder
        model, other = judge.info, embedder.info
        self.info = JudgeInfo(
            name=f"{model.name} + {other.name}",
            nature=f"{model.nature}; {other.nature}",
            identity=hashlib.sha256(f"{model.identity} {other.identity}".encode()).hexdigest()[:16],
            calibrated=model.calibrated and other.calibrated,
            remote=model.remote or other.remote,
            weighted=model.weighted,
            tasks=None if model.tasks is None else model.tasks | (other.tasks or frozenset()),
            limits=model.limits,
        )

    async def ask(self, ask: Ask) -> Reply:
        makes_vectors = ask.task in (self._embedder.info.tasks or ())
        return await (self._embedder if makes_vectors else self._judge).ask(ask)

    async def close(self) -> None:
        """Do nothing: both are closed by their creators."""


class Panel:
    """Several judges as one Judge. Each member scores a cell separately, and their scores are combined.

    Only results made once per run, such as the steps of G-Eval, are asked of the panel itself: its first member makes
    them, and all members score with them. UserError if two members are equal.
    """

    def __init__(self, config: MembersConfig, name: str, members: Sequence[Judge]) -> None:
        self.config = config
        self.members = tuple(members)
        problems = [
            problem
            for place, member in enumerate(members)
            for before, other in zip(config.asked, members[:place], strict=False)
            for problem in _alike(before, other, list(config.asked)[place], member)
        ]
        if problems:
            raise UserError(problems)
        self.info = _together(config, name, [member.info for member in members])

    async def ask(self, ask: Ask) -> Reply:
        return await self.members[0].ask(ask)

    async def close(self) -> None:
        for member in self.members:
            await member.close()


def single(judge: Judge) -> tuple[Judge, ...]:
    """Return the judges that are asked, in order: a panel's members, or the judge itself."""
    return judge.members if isinstance(judge, Panel) else (judge,)


def with_embedder(judge: Judge, embedder: Judge) -> Judge:
    """Return the judge, or a panel with each member, using an embedder for vectors."""
    if not isinstance(judge, Panel):
        return JudgeWithEmbedder(judge, embedder)
    members = [JudgeWithEmbedder(member, embedder) for member in judge.members]
    return Panel(judge.config, f"{judge.info.name} + {embedder.info.name}", members)


def with_probabilities(ask: Ask, config: CascadeConfig) -> Ask:
    """Return an ask with probabilities, which a cascade needs from all members but the last."""
    return ask if ask.embeds else replace(ask, logprobs=True, samples=max(ask.samples, config.samples or 1))


def _together(config: MembersConfig, name: str, members: Sequence[JudgeInfo]) -> JudgeInfo:
    natures = [member.nature for member in members]
    if isinstance(config, CascadeConfig):
        nature = f"cascade below {config.escalate_below:g}: {', then '.join(natures)}"
    else:
        how = config.vote if isinstance(config, PanelConfig) else config.kind
        nature = f"panel of {len(natures)}, {how}: {'; '.join(natures)}"
    decisive = config.model_dump(mode="json", exclude={"name", "title", "members", "calibrated", "thresholds"})
    text = json.dumps([decisive, *zip(config.asked, [member.identity for member in members], strict=True)])
    limited = [(member.tasks, member) for member in members if member.tasks is not None]
    tasks = frozenset[str].intersection(*(tasks for tasks, _ in limited)) if limited else None
    return JudgeInfo(
        name=name,
        nature=nature,
        identity=hashlib.sha256(text.encode()).hexdigest()[:16],
        calibrated=config.calibrated and all(member.calibrated for member in members),
        remote=any(member.remote for member in members),
        weighted=all(member.weighted for member in members),
        tasks=tasks,
        limits=f"the member {limited[0][1].name}: {limited[0][1].limits}" if limited else "it",
    )


def _alike(first_name: str, first: Judge, second_name: str, second: Judge) -> list[Problem]:
    key = f"judge.members.{second_name}"
    if first.info.identity == second.info.identity:
        what = f"the members {first_name} and {second_name} are the same judge, whose opinion would count twice"
        return [Problem(what, key, f"give one of them another model: {key}.model=...")]
    if first.info.name == second.info.name:
        return [
            Problem(
                f"the members {first_name} and {second_name} are both called {first.info.name!r}",
                key,
                f"{key}.name=...",
            )
        ]
    return []
