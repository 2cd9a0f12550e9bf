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
        cached_input_per_million: For input tokens that the provider reads from its own cache; null: the price of other
            input.
        batch: The fraction of this price charged for batch calls; OpenAI, Azure, Anthropic and Google charge half.
    """

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    cached_input_per_million: float | None = Field(default=None, ge=0)
    batch: float = Field(default=0.5, ge=0, le=1)

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        return (input_tokens * self.input_per_million + output_tokens * self.output_per_million) / 1e6

    def saved(self, cached_tokens: int) -> float | None:
        """Return the discount on input tokens from the provider's cache; None if their price is unknown."""
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
        api_version: E.g. 2024-10-21, with a base_url that ends with the host; null: the v1 API (/openai/v1).
        sign_in: With the key of api_key_env, or with an Entra ID token of the user signed in on this machine.
    """

    api_version: Word | None = None
    sign_in: Literal["key", "entra"] = "key"


class RemoteModelConfig(Strict):
    """Settings of a model behind an OpenAI-compatible endpoint.

    Attributes:
        base_url: The address up to and including /v1; null: OpenAI's.
        api_key_env: The environment variable with the key; null: no key is sent.
        client: `http`, which is fast, or `sdk`, the openai SDK, for features that only the SDK has.
        azure: For Azure OpenAI through its SDK; null for everything else, including Azure's v1 API with a key.
        timeout_s, first_byte_timeout_s: Time limits in seconds for one attempt and for the first byte of its reply;
            null: no limit for the first byte.
        attempts: Maximum number of attempts if faults are transient.
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
        """The price of calls as a run makes them, by batch or directly."""
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
        max_tokens: Maximum number of tokens in a reply; null: not sent, so the endpoint's own limit applies.
        parameters: Further parameters of each request, passed on unchanged: {reasoning_effort: low, top_p: 0.9}.
            max_completion_tokens replaces max_tokens; null removes temperature or max_tokens.
        batch: Whether a run sends its calls as batches, at `price.batch` of the price, in the format of the provider at
            base_url; openai, anthropic or gemini: in that format.
    """

    typed: ClassVar[bool] = False  # whether replies are typed, so that evalflow sets the response format
    temperature: float | None = Field(default=0.0, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    parameters: dict[str, object] | None = None
    batch: bool | BatchFormat = False

    @property
    def longest_reply(self) -> int | None:
        """Maximum number of tokens in a reply, whichever parameter sets it; None: no limit."""
        limit = (self.parameters or {}).get(LIMIT)
        return limit if isinstance(limit, int) else self.max_tokens

    @property
    def batch_format(self) -> BatchFormat | None:
        """The format of its batches; None if it does not use batches."""
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
    """Settings of a chat model with typed replies.

    Attributes:
        mode: How typed replies are requested from the endpoint.
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
    """The evidence scorer, which works without a key. See `evalflow.addons.embedded.judge`."""

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
    """The embedding model that works without a key. See `evalflow.addons.embedded.minilm`."""

    kind: Literal["embedded"]  # pyright: ignore[reportIncompatibleVariableOverride]


Vote = Literal["mean", "median", "majority", "weighted"]

# The static type is only a judge's; the validator picks each member's model by its kind.
Members = Annotated[
    dict[str, SerializeAsAny[JudgeConfig]],
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "object"}}),
]


class MembersConfig(JudgeConfig):
    """Keys of every judge with members.

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
    """Several judges that each score the answer; their scores are combined by a vote.

    Attributes:
        vote: How the scores are combined: mean; median; majority, the most frequent score (in a tie, the worst);
            or weighted, the mean by `weights`.
        weights: The weight of each member, by its name, for vote: weighted.
        quorum: Number of members that must have scored; null: all. With fewer, the panel's score is in state error.
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
    """Judges in sequence: the next one is asked only if the previous one was not confident enough.

    Attributes:
        order: The members' names in the order of asking, the cheapest first; null: as declared.
        escalate_below: The confidence that a member needs for its score to be final. Confidence is the lowest of the
            probabilities that the member gave its verdicts on the answer.
        samples: Number of replies to sample from each member but the last if its endpoint gives no token probabilities;
            null: only those that a metric samples.
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
    """Return the single judges behind a judge, by name, in order; a judge without members has an empty name."""
    return config.asked if isinstance(config, MembersConfig) else {"": config}


def each_judge(config: JudgeConfig, change: Callable[[JudgeConfig], JudgeConfig]) -> JudgeConfig:
    """Apply a change to each single judge behind a judge."""
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
