"""The typed configuration of judges that combine other judges: panels and cascades."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, SerializeAsAny, WithJsonSchema, model_validator

from evalflow.config.schema import JudgeConfig
from evalflow.errors import did_you_mean

Vote = Literal["mean", "median", "majority", "weighted"]

# The type only says "judge": the validator picks each member's model by its kind.
Members = Annotated[
    dict[str, SerializeAsAny[JudgeConfig]],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "object"}}),
]


class MembersConfig(JudgeConfig):
    """Keys of every judge that has members.

    Attributes:
        members: Two or more judges, each with its own keys, by names that you choose.
        calibrated: Whether thresholds apply to its scores; always false if they do not apply to one of its members.
    """

    members: Members

    @model_validator(mode="after")
    def _judges(self) -> Self:
        if len(self.members) < 2:
            raise ValueError(f"{self.kind} needs two members or more, such as defaults: [openai@members.first, ...]")
        nested = [name for name, member in self.members.items() if isinstance(member, MembersConfig)]
        if nested:
            raise ValueError(f"the member {nested[0]} is itself made of members; name single judges")
        calibrated = self.calibrated and all(member.calibrated for member in self.members.values())
        return self if calibrated == self.calibrated else self.model_copy(update={"calibrated": calibrated})

    @property
    def asked(self) -> Mapping[str, JudgeConfig]:
        """The members in the order in which they are asked."""
        return self.members


class PanelConfig(MembersConfig):
    """Several judges each score the answer, and vote.

    Attributes:
        vote: How the scores are combined: mean; median; majority, the most frequent score (the worse one in a tie);
            or weighted, the mean by `weights`.
        weights: The weight of each member, by its name, for vote: weighted.
        quorum: How many members must have scored; null: all. With fewer, the panel's score is in state error.
    """

    kind: Literal["panel"]  # pyright: ignore[reportIncompatibleVariableOverride]
    vote: Vote = "mean"
    weights: dict[str, Annotated[float, Field(gt=0)]] | None = None
    quorum: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _votes(self) -> Self:
        if (self.weights is not None) != (self.vote == "weighted"):
            raise ValueError("vote: weighted and weights go together, such as weights: {first: 0.6, second: 0.4}")
        if self.weights is not None:
            _all_of(self.members, self.weights, "weights")
        if self.quorum is not None and self.quorum > len(self.members):
            raise ValueError(f"a quorum of {self.quorum} is more than the {len(self.members)} members")
        return self


class CascadeConfig(MembersConfig):
    """Judges in sequence: the next one is asked only if the one before was not confident enough.

    Attributes:
        order: The members' names in the order of asking, the cheapest first; null: as declared.
        escalate_below: The confidence a member needs for its score to count. Confidence is the lowest probability that
            the member gave one of its own verdicts on the answer.
        samples: Replies to sample from each member but the last if its endpoint gives no token probabilities for a
            request; null: none but those that a metric samples.
    """

    kind: Literal["cascade"]  # pyright: ignore[reportIncompatibleVariableOverride]
    order: list[str] | None = None
    escalate_below: float = Field(gt=0, le=1)
    samples: int | None = Field(default=None, ge=2)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.order is not None:
            _all_of(self.members, self.order, "order")
        return self

    @property
    def asked(self) -> Mapping[str, JudgeConfig]:
        """The members in the order in which they are asked."""
        return {name: self.members[name] for name in self.order or self.members}


def single_judges(config: JudgeConfig) -> Mapping[str, JudgeConfig]:
    """The single judges behind a judge, by name and in order; a single judge is returned under an empty name."""
    return config.asked if isinstance(config, MembersConfig) else {"": config}


def each_judge(config: JudgeConfig, change: Callable[[JudgeConfig], JudgeConfig]) -> JudgeConfig:
    """Apply a change to each judge that is actually asked."""
    if not isinstance(config, MembersConfig):
        return change(config)
    return config.model_copy(update={"members": {name: change(one) for name, one in config.members.items()}})


def _all_of(members: Mapping[str, JudgeConfig], named: Iterable[str], key: str) -> None:
    names = list(named)
    unknown = [name for name in names if name not in members]
    if unknown:
        raise ValueError(f"{key} names {unknown[0]!r}, which is no member; {did_you_mean(unknown[0], members)}")
    if sorted(names) != sorted(members):
        raise ValueError(f"{key} must name each member once: {', '.join(members)}")
