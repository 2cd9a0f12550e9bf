"""The typed configuration of models behind OpenAI-compatible endpoints, and of embedded ones."""

from __future__ import annotations

import re
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from evalflow.config.schema import EmbedderConfig, JudgeConfig, Strict, Word


class Price(Strict):
    """US dollars per million tokens."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)


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


class Connection(Strict):
    """The connection to an OpenAI-compatible endpoint.

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
    base_url: str | None = None
    api_key_env: str | None = "OPENAI_API_KEY"
    client: Literal["http", "sdk"] = "http"
    azure: AzureConfig | None = None
    timeout_s: float = Field(default=60, gt=0)
    first_byte_timeout_s: float | None = Field(default=None, gt=0)
    attempts: int = Field(default=6, ge=1, le=100)
    concurrency: Concurrency = Concurrency()
    rate_limit: RateLimit = RateLimit()
    price: Price | None = None

    @model_validator(mode="after")
    def _through_the_sdk(self) -> Self:
        if self.azure is None or (self.client == "sdk" and self.base_url):
            return self
        raise ValueError("azure needs client: sdk, and base_url")

    @field_validator("base_url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        if url is not None and not re.match(r"https?://\S+\Z", url):
            raise ValueError("base_url must start with http:// or https://")
        if url is not None:
            _ = urlsplit(url).port  # raises ValueError for an invalid port or IPv6 address
        return url


class EndpointConfig(Connection):
    """Settings of every chat model, judge or target."""

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)


class OpenAIJudgeConfig(EndpointConfig, JudgeConfig):
    """A model behind an OpenAI-compatible endpoint.

    Attributes:
        mode: How the endpoint is asked for a typed reply.
        strict: Whether `json_schema` asks the endpoint to enforce the schema strictly.
        reasks: How often an invalid reply is sent back with its errors.
        logprobs: Whether the endpoint gives token probabilities.
    """

    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    mode: Literal["json_schema", "tools", "json", "md_json"] = "json_schema"
    strict: bool = False
    reasks: int = Field(default=2, ge=0, le=20)
    logprobs: bool = False

    @property
    def gives_logprobs(self) -> bool:
        """Whether replies have token probabilities; tool calls have none."""
        return self.logprobs and self.mode != "tools"


class EmbeddedJudgeConfig(JudgeConfig):
    """The evidence scorer that needs no key. See `evalflow.llm.embedded`."""

    kind: Literal["embedded"]  # pyright: ignore[reportIncompatibleVariableOverride]
    calibrated: bool = False


class OpenAIEmbedderConfig(Connection, EmbedderConfig):
    """An embedding model behind an OpenAI-compatible endpoint.

    Attributes:
        dimensions: Vector length, for models that can shorten theirs; null: the model's default.
        batch: Maximum number of texts in one request.
    """

    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    dimensions: int | None = Field(default=None, ge=1)
    batch: int = Field(default=64, ge=1, le=2048)


class EmbeddedEmbedderConfig(EmbedderConfig):
    """The embedding model that needs no key. See `evalflow.llm.minilm`."""

    kind: Literal["embedded"]  # pyright: ignore[reportIncompatibleVariableOverride]
