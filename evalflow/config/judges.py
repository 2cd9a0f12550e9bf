"""The configuration of models behind OpenAI-compatible endpoints, of embedded ones, and of panels and cascades."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SerializeAsAny, WithJsonSchema, model_validator

from evalflow.config.parameters import LIMIT, OWN_KEYS, checked
from evalflow.config.schema import EmbedderConfig, HttpAddress, JudgeConfig, Strict, Word
from evalflow.errors import did_you_mean


class Price(Strict):
    """US dollars per million tokens.

    Attributes:
        cached_input_per_million: For input tokens that the provider reads from its own cache; null: as other input.
        batch: The share of this price that calls by batch cost: half, as OpenAI, Azure, Anthropic and Google say.
    """

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    cached_input_per_million: float | None = Field(default=None, ge=0)
    batch: float = Field(default=0.5, ge=0, le=1)

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        return (input_tokens * self.input_per_million + output_tokens * self.output_per_million) / 1e6

    def saved(self, cached_tokens: int) -> float | None:
        """What input tokens from the provider's cache cost less; None if their price is unknown."""
        if self.cached_input_per_million is None:
            return None
        return cached_tokens * (self.input_per_million - self.cached_input_per_million) / 1e6

    def by_batch(self) -> Price:
        """The price of the same calls by batch."""
        sent, received = self.input_per_million * self.batch, self.output_per_million * self.batch
        cached = self.cached_input_per_million
        cached = None if cached is None else cached * self.batch
        return Price(input_per_million=sent, output_per_million=received, cached_input_per_million=cached, batch=1)


class Concurrency(Strict):
    """Concurrent calls to one endpoint: grows from `start` while calls succeed, never above `max`."""

    start: int = Field(default=8, ge=1)
    max: int = Field(default=64, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Concurrency:
        return self if self.start <= self.max else self.model_copy(update={"start": self.max})


class RateLimit(Strict):
    """The endpoint's known limits per minute; null: no fixed limit."""

    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)


class AzureConfig(Strict):
    """Settings of Azure OpenAI besides base URL and key.

    Attributes:
        api_version: E.g. 2024-10-21, with a base_url that ends at the host; null: the v1 API (/openai/v1).
        sign_in: With the key of api_key_env, or with an Entra ID token of the user signed in on this machine.
    """

    api_version: Word | None = None
    sign_in: Literal["key", "entra"] = "key"


class RemoteModelConfig(Strict):
    """Settings of a model behind an OpenAI-compatible endpoint.

    Attributes:
        base_url: Up to and including /v1; null is OpenAI's own.
        api_key_env: The environment variable with the key; null sends none.
        client: `http`, which is fast, or `sdk`, the openai SDK, for features that only it has.
        azure: For Azure OpenAI through its SDK; null for everything else, including Azure's v1 API with a key.
        timeout_s, first_byte_timeout_s: Time limits in seconds for one attempt, and for the start of its reply; null:
            only the limit for the attempt.
        attempts: Maximum number of attempts, for transient faults.
    """

    kind: str
    name: Word | None = None
    model: Word
    base_url: HttpAddress | None = None
    api_key_env: str | None = "OPENAI_API_KEY"
    client: Literal["http", "sdk"] = "http"
    azure: AzureConfig | None = None
    timeout_s: float = Field(default=60, gt=0)
    first_byte_timeout_s: float | None = Field(default=None, gt=0)
    attempts: int = Field(default=6, ge=1, le=100)
    concurrency: Concurrency = Concurrency()
    rate_limit: RateLimit = RateLimit()
    price: Price | None = None

    @property
    def charged(self) -> Price | None:
        """The price of a case's calls."""
        return self.price

    @model_validator(mode="after")
    def _through_the_sdk(self) -> Self:
        if self.azure is None or (self.client == "sdk" and self.base_url):
            return self
        raise ValueError("azure needs client: sdk, and base_url")


BatchFormat = Literal["openai", "anthropic", "gemini"]
_OWN_FORMATS: Mapping[str, BatchFormat] = MappingProxyType(
    {"api.anthropic.com": "anthropic", "generativelanguage.googleapis.com": "gemini"}
)


class EndpointConfig(RemoteModelConfig):
    """Settings of every chat model, judge or target.

    Attributes:
        temperature: The sampling temperature; null: not sent.
        max_tokens: The most tokens of a reply; null: not sent, so that the endpoint's own limit applies.
        parameters: Further parameters of each request, passed on as they are: {reasoning_effort: low, top_p: 0.9}.
            max_completion_tokens replaces max_tokens; null removes temperature or max_tokens.
        batch: Whether a run sends its calls as batches, at `price.batch` of the price, in the format that goes with
            base_url; openai, anthropic or gemini: in that format.
    """

    typed: ClassVar[bool] = False  # whether replies have a type, and so requests a form that evalflow sets
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    parameters: dict[str, object] | None = None
    batch: bool | BatchFormat = False

    @property
    def longest_reply(self) -> int | None:
        """The most tokens of a reply, whichever parameter limits it; None without a limit."""
        limit = (self.parameters or {}).get(LIMIT)
        return limit if isinstance(limit, int) else self.max_tokens

    @property
    def batch_format(self) -> BatchFormat | None:
        """The format of its batches; None if it sends none."""
        if not isinstance(self.batch, bool):
            return self.batch
        host = urlsplit(self.base_url or "").hostname or ""
        return _OWN_FORMATS.get(host, "openai") if self.batch else None

    @property
    def charged(self) -> Price | None:
        return self.price.by_batch() if self.price and self.batch else self.price

    @model_validator(mode="after")
    def _checked_parameters(self) -> Self:
        if self.parameters is None:
            return self
        removed = [name for name in OWN_KEYS if name in self.parameters]
        kept = checked(self.parameters, typed=self.typed)
        return self.model_copy(update={**dict.fromkeys(removed), "parameters": kept or None})

    @model_validator(mode="after")
    def _batched(self) -> Self:
        if self.batch and self.azure is not None and self.azure.api_version is not None:
            raise ValueError("batch needs Azure's v1 API: base_url that ends in /openai/v1, and no azure.api_version")
        return self


class TypedReplyConfig(EndpointConfig):
    """Settings of a chat model whose replies are typed.

    Attributes:
        mode: How the endpoint is asked for a typed reply.
        strict: Whether `json_schema` asks the endpoint to enforce the schema strictly.
        reasks: How often an invalid reply is sent back with its errors.
    """

    typed = True
    mode: Literal["json_schema", "tools", "json", "md_json"] = "json_schema"
    strict: bool = False
    reasks: int = Field(default=2, ge=0, le=20)


class OpenAIJudgeConfig(TypedReplyConfig, JudgeConfig):
    """A model behind an OpenAI-compatible endpoint.

    Attributes:
        logprobs: Whether the endpoint gives token probabilities.
    """

    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    logprobs: bool = False

    @property
    def gives_logprobs(self) -> bool:
        return self.logprobs and self.mode != "tools"


class EmbeddedJudgeConfig(JudgeConfig):
    """The evidence scorer that needs no key. See `evalflow.addons.embedded.judge`."""

    kind: Literal["embedded"]  # pyright: ignore[reportIncompatibleVariableOverride]
    calibrated: bool = False


class OpenAIEmbedderConfig(RemoteModelConfig, EmbedderConfig):
    """An embedding model behind an OpenAI-compatible endpoint.

    Attributes:
        dimensions: Vector length, for models that can shorten theirs; null: the model's default.
        batch: Maximum number of texts in one request.
    """

    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    dimensions: int | None = Field(default=None, ge=1)
    batch: int = Field(default=64, ge=1, le=2048)


class EmbeddedEmbedderConfig(EmbedderConfig):
    """The embedding model that needs no key. See `evalflow.addons.embedded.minilm`."""

    kind: Literal["embedded"]  # pyright: ignore[reportIncompatibleVariableOverride]


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
        raise ValueError(f"{key} names {unknown[0]!r}, which is not a member; {did_you_mean(unknown[0], members)}")
    if sorted(names) != sorted(members):
        raise ValueError(f"{key} must name each member once: {', '.join(members)}")
