"""What is to be said of judges that are made of others, before they are asked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from evalflow.app.setup.assemble import Parts
from evalflow.config.panels import CascadeConfig
from evalflow.errors import Problem
from evalflow.llm.panel import Panel
from evalflow.llm.values import choices
from evalflow.protocols import Judge
from evalflow.records import Ask

_FAMILY = re.compile(r"[a-z]+")


def alike(parts: Parts) -> Iterator[str]:
    """Panels whose members are models of one family, as far as their names tell."""
    told: set[str] = set()
    for pair in parts.pairs:
        if not isinstance(pair.judge, Panel) or isinstance(pair.judge.config, CascadeConfig):
            continue
        families = {_family(config) for _, config in parts.asked(pair)}
        family = families.pop()
        if not families and family and pair.judge.name not in told:
            told.add(pair.judge.name)
            yield (
                f"all members of the panel {pair.judge.name} are {family} models: what one of them overlooks the "
                "others are likely to overlook as well; take members of several families"
            )


def silence(judge: Judge, config: Any, asks: Sequence[Ask]) -> str | None:
    """Why a member of a cascade could not say how sure it is of what it answers; None where it can.

    Args:
        judge: The member.
        config: Its configuration.
        asks: What it is asked about one answer, as the cascade puts it.
    """
    verdicts = [ask for ask in asks if not ask.embeds and choices(_row(ask))]
    if not verdicts:
        return "it is asked for no verdict out of few, such as a label, yes or no, or a grade" if asks else None
    if judge.weighted:
        return None
    silent = next((ask for ask in verdicts if ask.samples == 1 and not _read(ask, config)), None)
    if silent is None:
        return None
    logprobs = getattr(config, "gives_logprobs", False)
    why = "token probabilities of a list are not read" if logprobs else "its endpoint gives no token probabilities"
    return f"step {silent.step}: {why}"


def refused(cascade: Panel, place: int, metric: str, why: str) -> Problem:
    """The problem of a cascade that could not tell when to escalate."""
    name = list(cascade.config.asked)[place]
    what = f"{metric}: {cascade.members[place].name} gives no probability of its verdicts ({why}), so that the cascade "
    what += "could not tell when to ask the next one"
    hint = f"draw several replies, judge.samples=5; or judge.members.{name}.logprobs=true where the endpoint gives them"
    return Problem(what, f"judge.members.{name}", hint)


def _row(ask: Ask) -> Any:
    """The model of one verdict: of the reply, or of each of its results."""
    from evalflow.llm.fill import item_type

    return ask.reply_model if ask.items is None else item_type(ask.reply_model.model_fields["results"])


def _read(ask: Ask, config: Any) -> bool:
    return ask.items is None and getattr(config, "gives_logprobs", False)


def _family(config: object) -> str | None:
    """The first word of a model's name: gpt of openai/gpt-4.1-mini."""
    model: str | None = getattr(config, "model", None)
    found = _FAMILY.match(model.rpartition("/")[2].lower()) if model else None
    return found.group() if found else None
