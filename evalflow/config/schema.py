"""The typed configuration. Hydra composes; these models validate, and refuse every key they do not know."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from evalflow.records import Direction

IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*\Z")
FIELDS = (
    "question", "history", "messages", "answer", "reference", "contexts", "expected", "actual", "metadata",
    "demo_answer", "vars",
)  # fmt: skip
"""What `needs` and templates may name."""


class Strict(BaseModel):
    """A frozen model without room for unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def _unquoted_word(value: Any) -> Any:
    if isinstance(value, bool):
        word = "true/yes/on" if value else "false/no/off"
        raise ValueError(f"YAML reads an unquoted {word} as a boolean; put it in quotes")
    return value


Word = Annotated[str, BeforeValidator(_unquoted_word)]
"""Text where YAML 1.1's yes, no, on and off would silently become booleans."""


class Price(Strict):
    """US dollars a million tokens."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)


class Concurrency(Strict):
    """Calls in flight to one endpoint: grows from `start` while answers come, never above `max`."""

    start: int = Field(default=8, ge=1)
    max: int = Field(default=64, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Concurrency:
        return self if self.start <= self.max else self.model_copy(update={"start": self.max})


class RateLimit(Strict):
    """What an endpoint allows in a minute, where that is known beforehand; null: as much as it bears."""

    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)


class AzureConfig(Strict):
    """What Azure OpenAI needs beside a base URL and a key.

    Attributes:
        api_version: Such as 2024-10-21, with a base_url that ends at the host; null: the v1 API (/openai/v1).
        sign_in: With the key of api_key_env, or with a token of Entra ID for who is signed in on this machine.
    """

    api_version: Word | None = None
    sign_in: Literal["key", "entra"] = "key"


class Connection(Strict):
    """How an OpenAI-compatible endpoint is reached, whatever it is asked.

    Attributes:
        base_url: Up to and including /v1; null is OpenAI's own.
        api_key_env: The environment variable that holds the key; null sends none.
        client: What sends: `http`, which is fast, or `sdk`, the openai SDK, for what only that can do.
        azure: For Azure OpenAI through its SDK; null for all other ways, Azure's v1 API with a key included.
        timeout_s, first_byte_timeout_s: Seconds for one try, and of it for a reply to begin; null: all of them.
        attempts: Tries in all for transient faults.
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
            _ = urlsplit(url).port  # raises ValueError for a port or an IPv6 address that makes no sense
        return url


class Endpoint(Connection):
    """What every chat with a model needs, judge or target."""

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)


class JudgeConfig(Strict):
    """Keys that every judge has.

    Attributes:
        calibrated: Whether thresholds mean anything for it; if not, it gives no pass or fail.
        thresholds: Thresholds that hold for this judge, by metric name.
    """

    kind: str
    name: Word | None = None
    calibrated: bool = True
    thresholds: dict[str, float] | None = None


class OpenAIJudgeConfig(Endpoint, JudgeConfig):
    """A model behind an OpenAI-compatible endpoint.

    Attributes:
        mode: How a typed reply is asked for.
        strict: Whether `json_schema` asks the endpoint to enforce the schema to the letter.
        reasks: How often an invalid reply is sent back with what is wrong with it.
        logprobs: Whether the endpoint gives token probabilities.
    """

    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    mode: Literal["json_schema", "tools", "json", "md_json"] = "json_schema"
    strict: bool = False
    reasks: int = Field(default=2, ge=0, le=20)
    logprobs: bool = False

    @property
    def gives_logprobs(self) -> bool:
        """Whether replies come with token probabilities: tool calls carry none."""
        return self.logprobs and self.mode != "tools"


class EmbeddedJudgeConfig(JudgeConfig):
    """The evidence scorer that needs no key. See `evalflow.llm.embedded`."""

    kind: Literal["embedded"]  # pyright: ignore[reportIncompatibleVariableOverride]
    calibrated: bool = False


class EmbedderConfig(Strict):
    """Keys that every embedder has; calibrated and thresholds as for a judge, since its similarities are scores."""

    kind: str
    name: Word | None = None
    calibrated: bool = True
    thresholds: dict[str, float] | None = None


class OpenAIEmbedderConfig(Connection, EmbedderConfig):
    """An embedding model behind an OpenAI-compatible endpoint.

    Attributes:
        dimensions: Of a vector, for models that can shorten theirs; null leaves it to the model.
        batch: Texts in one request at most.
    """

    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    dimensions: int | None = Field(default=None, ge=1)
    batch: int = Field(default=64, ge=1, le=2048)


class EmbeddedEmbedderConfig(EmbedderConfig):
    """The embedding model that needs no key. See `evalflow.llm.minilm`."""

    kind: Literal["embedded"]  # pyright: ignore[reportIncompatibleVariableOverride]


class TargetConfig(Strict):
    """Keys that every target has."""

    kind: str
    name: Word | None = None

    @property
    def runs_here(self) -> bool:
        """Whether it is a program that is run on this machine."""
        return False

    @property
    def calls(self) -> str | None:
        """What is called for an answer, as `check` shows it; None: nothing."""
        return None

    @property
    def may_fill(self) -> frozenset[str]:
        """Case fields that its replies may bring beside the one that the dataset generates."""
        return frozenset()


class DatasetConfig(Strict):
    """Where cases come from.

    Attributes:
        name: The column value; null: the key it stands under.
        path: A file or a glob.
        format: null: by the file's ending.
        fields: Case field to column or JSONPath.
        group: The column whose value is the cluster for error bars.
        generates: The case field that a live target's reply fills.
        conversation: Whether the whole file is one conversation.
        allow_irregular: Whether turns may come in any order: two of the assistant in a row, or one at the end.
    """

    name: Word | None = None
    path: str
    description: str | None = None
    format: Literal["jsonl", "json", "csv", "parquet"] | None = None
    fields: dict[str, str] | None = None
    group: str | None = None
    generates: Literal["answer", "actual"] = "answer"
    conversation: bool = False
    allow_irregular: bool = False


class NotWorse(Strict):
    """A gate against the baseline: how much worse than it is still acceptable."""

    not_worse_by: float = Field(ge=0)


def _gate_value(value: Any) -> Any:
    """One message where a union would have one for each of its members."""
    if isinstance(value, bool | str | NotWorse):
        return value
    known = cast("dict[Any, Any]", value) if isinstance(value, dict) else {}
    margin = known.get("not_worse_by") if len(known) == 1 else None
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not margin >= 0:
        raise ValueError('write a condition such as ">= 0.8", or {not_worse_by: 0.02}')
    return NotWorse(not_worse_by=margin)


GateValue = Annotated[bool | str | NotWorse, BeforeValidator(_gate_value)]
"""A gate's value under a statistic: a condition, or how it compares with the baseline; under `point` true or false."""


class MetricConfig(Strict):
    """Keys that all metric kinds share.

    Attributes:
        name: The column value; null: the key it stands under.
        datasets: The datasets whose cases it scores, by name; null: all of the run.
        version: Raise it when a change makes old and new scores incomparable.
        needs: Case fields without which a case is skipped.
        threshold: Where `passed` begins (inclusive); decides no exit code.
        judge: Part of a judge's configuration that this metric overrides.
        gate: Conditions on its summary rows, by statistic: {mean: ">= 0.8"}.
    """

    kind: str
    name: Word | None = None
    datasets: list[Word] | None = None
    family: str | None = None
    version: int = Field(default=1, ge=1)
    description: str = ""
    needs: list[str] = []
    direction: Direction = "higher_is_better"
    threshold: float | None = None
    judge: dict[str, Any] | None = None
    gate: dict[str, GateValue] | None = None

    def covers(self, dataset: str) -> bool:
        """Whether cases of this dataset are scored."""
        return self.datasets is None or dataset in self.datasets

    @field_validator("needs")
    @classmethod
    def _known_fields(cls, needs: list[str]) -> list[str]:
        unknown = [need for need in needs if need.split(".")[0] not in FIELDS]
        if unknown:
            raise ValueError(f"unknown case field {unknown[0]!r}; known: {', '.join(FIELDS)}")
        return needs


class Repeats(Strict):
    """How often: `target` repeats show generator noise, `judge` repeats judge noise."""

    target: int = Field(default=1, ge=1)
    judge: int = Field(default=1, ge=1)


class CacheConfig(Strict):
    """What was asked before and need not be paid for again.

    Attributes:
        mode: on; read (what it stores serves to resume this run and no other); refresh (reads nothing that is older
            than the run); off (both).
        path: The file; it may be shared by any number of runs.
        max_bytes: What the file may take; the least recently used replies go first.
    """

    mode: Annotated[Literal["on", "off", "read", "refresh"], BeforeValidator(_unquoted_word)] = "on"
    path: str = Field(default=".evalflow/cache.db", min_length=1)
    max_bytes: int = Field(default=1024**3, ge=1024**2)


class BudgetConfig(Strict):
    """What a run may spend, or all runs of a sweep together; null: without limit.

    Attributes:
        usd: US dollars.
        requests: Requests, tries that failed included.
        tokens: Of prompts and replies together.
        allow_unpriced: Whether models without a price may be asked under a limit in dollars, where they count as free.
    """

    usd: float | None = Field(default=None, ge=0)
    requests: int | None = Field(default=None, ge=0)
    tokens: int | None = Field(default=None, ge=0)
    allow_unpriced: bool = False


class RunConfig(Strict):
    """One run: dataset x target x metric x judge. The parts with a `kind` hold the model of theirs."""

    dataset: dict[str, DatasetConfig]
    target: TargetConfig
    metric: dict[str, MetricConfig]
    judge: JudgeConfig
    embedder: EmbedderConfig
    generate: Literal[False, True, "missing", "demo"] = False
    repeats: Repeats = Repeats()
    limit: int | None = Field(default=None, ge=1)
    sample: int | None = Field(default=None, ge=1)
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    cache: CacheConfig = CacheConfig()
    budget: BudgetConfig = BudgetConfig()
    gate: dict[str, dict[str, GateValue]] | None = None
    baseline: str | None = None
    case_timeout_s: float | None = Field(default=3600, gt=0)
    max_error_rate: float = Field(default=0.0, ge=0, le=1)
