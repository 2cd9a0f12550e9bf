"""The configuration of the kinds of targets: recorded answers, models, and your own programs."""

from __future__ import annotations

import json
import re
import shlex
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic_core import CoreSchema

from evalflow.config.exchanges import (
    JsonPath,
    Method,
    OpenConfig,
    PollConfig,
    ServiceAddress,
    Stream,
    checked_path,
    example_address,
    split_address,
)
from evalflow.config.judges import Concurrency, EndpointConfig
from evalflow.config.schema import Strict, TargetConfig, Word
from evalflow.config.strict import CallableName
from evalflow.records import Spend
from evalflow.redaction import parts_of_header, public_address, secrets_in
from evalflow.values.jsonvalues import is_mapping

PLAIN_HEADER = re.compile(r"accept(-.*)?|content-.*|user-agent|connection|cache-control", re.IGNORECASE)
"""Headers whose values are never secret; values of all other headers are redacted."""
CONTEXT_FIELDS = ("text", "title", "path")


class RecordedTargetConfig(TargetConfig):
    """The answers recorded in the data."""

    kind: Literal["recorded"]  # pyright: ignore[reportIncompatibleVariableOverride]


class OpenAITargetConfig(EndpointConfig, TargetConfig):
    """A model behind an OpenAI-compatible endpoint.

    Attributes:
        system_prompt: Jinja text or the name of a .jinja file; null: none is sent.
        prompt: The same for the last user message; null: the case's messages are sent unchanged.
    """

    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    system_prompt: str | None = None
    prompt: str | None = None

    @property
    def calls(self) -> str:
        return f"{self.model} at {public_address(self.base_url) if self.base_url else 'OpenAI'}"


class ToolConfig(Strict):
    """A tool that a model may call: a program, or the function with the tool's name in the target's `module`.

    Attributes:
        description: What it does, for the model.
        parameters: The JSON Schema of its arguments, of type object.
        argv: The program to run and its arguments, without a shell; null: the function is called.
        timeout_s: Time limit in seconds for one call.
    """

    description: str = ""
    parameters: dict[str, object] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    argv: list[Word] | None = Field(default=None, min_length=1)
    timeout_s: float = Field(default=60, gt=0, allow_inf_nan=False)

    @field_validator("parameters")
    @classmethod
    def _of_an_object(cls, parameters: dict[str, object]) -> dict[str, object]:
        if parameters.get("type") != "object":
            raise ValueError("the arguments of a tool are an object: {type: object, properties: {...}}")
        return parameters


class SpendLimits(Strict):
    """Limits of several calls together; null: no limit.

    Cached calls count with their original usage, so that a replay ends at the same call.
    """

    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    seconds: float | None = Field(default=300, gt=0, allow_inf_nan=False)

    def reached(self, spend: Spend) -> tuple[Literal["tokens", "usd", "seconds"], str] | None:
        """Return the first limit that is reached and the amount used; None if none is reached.

        ValueError with the name of a limit if the usage of a call is unknown.
        """
        tokens = None if spend.usage is None else spend.usage.input_tokens + spend.usage.output_tokens
        limits: tuple[tuple[Literal["tokens", "usd", "seconds"], float | None, float | None, str], ...] = (
            ("tokens", self.tokens, tokens, "tokens"),
            ("usd", self.usd, spend.full_cost_usd, "US dollars"),
            ("seconds", self.seconds, spend.latency_s, "seconds"),
        )
        for limit, most, taken, unit in limits:
            if most is not None and taken is None:
                raise ValueError(limit)
            if most is not None and taken is not None and taken >= most:
                return limit, f"{taken:g} {unit}"
        return None


class AgentLimits(SpendLimits):
    """Limits of one answer of an agent, checked after each step; an answer that exceeds one is an error.

    Attributes:
        steps: Replies of the model.
        tokens: Tokens of all steps together; null: no limit.
        usd: US dollars of all steps together; null: no limit.
        seconds: Seconds of all steps and tools together; null: no limit.
        result_characters: Characters of a tool's result shown to the model; the middle of a longer one is cut out.
    """

    steps: int = Field(default=10, ge=1, le=1000)
    result_characters: int = Field(default=20_000, ge=100)


ToolName = Annotated[Word, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


Version = Word | int | None


class AgentTargetConfig(OpenAITargetConfig):
    """A model behind an OpenAI-compatible endpoint that calls tools in a loop until it answers.

    Attributes:
        tools: The tools that it may call, by name.
        module: The Python module with the functions of tools without `argv`; allowed on the command line only.
        version: Any word; change it whenever the tools' behaviour may change. Runs with the same version reuse each
            other's results. null: each run calls its tools again, since a change in a program cannot be detected.
        limits: What one answer may take.
        batch: Always false: an answer would need one batch per step.
    """

    batch: Literal[False] = False  # pyright: ignore[reportIncompatibleVariableOverride]
    runs_here = True
    kind: Literal["agent"]  # pyright: ignore[reportIncompatibleVariableOverride]
    tools: dict[ToolName, ToolConfig] = Field(min_length=1)
    module: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*$")] | None = None
    version: Version = None
    limits: AgentLimits = AgentLimits()

    @property
    def may_fill(self) -> frozenset[str]:
        return frozenset({"actual"})


def _written_out(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


def _value_names(value: object) -> object:
    """Turn map keys into JSON text, since YAML reads some as booleans or numbers."""
    if not is_mapping(value):
        return value
    return {value_name(key): entry for key, entry in value.items()}


def value_name(value: object) -> str:
    """Return the key of a reply's value in `values`: text unchanged, anything else as JSON."""
    return json.dumps(value) if isinstance(value, bool) or value is None else str(value)


def _or_path(schema: dict[str, object]) -> dict[str, object]:
    """Extend a JSON Schema so that a path alone is valid too."""
    return {"anyOf": [{"type": "string", "description": "A JSONPath."}, schema]}


class Extract(Strict):
    """Where to find a value in a reply.

    Attributes:
        path: A JSONPath. If it can match several times, the value is the list of all matches.
        values: Maps values to their meaning: {pass: false, fail: true}; null: values are used unchanged.
    """

    path: str
    values: Annotated[dict[str, object] | None, BeforeValidator(_value_names)] = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, object]:
        return _or_path(handler(core))

    _path = field_validator("path")(checked_path)


class ContextsExtract(Strict):
    """Where to find the contexts in a reply.

    Attributes:
        path: A JSONPath to the list of contexts.
        fields: Where to find text, title and path in each item: a key or a JSONPath in the item; null: common forms are
            recognised.
    """

    path: str
    fields: dict[str, str] | None = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, object]:
        return _or_path(handler(core))

    _path = field_validator("path")(checked_path)

    @field_validator("fields")
    @classmethod
    def _known(cls, fields: dict[str, str] | None) -> dict[str, str] | None:
        for name, source in (fields or {}).items():
            if name not in CONTEXT_FIELDS:
                raise ValueError(f"a context has no {name!r}; known: {', '.join(CONTEXT_FIELDS)}")
            if source.startswith("$"):
                checked_path(source)
        if fields is not None and "text" not in fields:
            raise ValueError("name the key of a context's text: {text: KEY}")
        return fields


Extracted = Annotated[Extract | None, BeforeValidator(_written_out)]


class ReplyConfig(TargetConfig):
    """Maps a JSON reply to an answer. null: the reply's field of the same name, if there is one.

    Attributes:
        answer, actual: The answer's text; the prediction or the retrieved ids.
        contexts: The contexts the answer was generated from.
        metadata: An object with further data about the answer.
        trace: The OTLP trace of the answer, in JSON. It supplies what the reply itself lacks: answer, steps, contexts,
            tokens and cost. null: the field `trace`, if it has resourceSpans.
        finish_reason: A JSONPath to the finish reason, in any provider's terms; with `length` the answer was cut off.
        timeout_s: Time limit in seconds for one attempt.
        concurrency: Maximum number of concurrent calls.
    """

    answer: Extracted = None
    actual: Extracted = None
    contexts: Annotated[ContextsExtract | None, BeforeValidator(_written_out)] = None
    metadata: Extracted = None
    trace: JsonPath | None = None
    finish_reason: JsonPath | None = None
    timeout_s: float = Field(default=60, gt=0)
    concurrency: Concurrency = Concurrency(start=4, max=16)

    @property
    def may_fill(self) -> frozenset[str]:
        """Contexts and metadata always; answer and prediction only if they are mapped or come from a trace."""
        mapped = {name for name in ("answer", "actual") if (getattr(self, name) or self.trace) is not None}
        return frozenset({"contexts", "metadata", *mapped})


class HttpTargetConfig(ReplyConfig):
    """A service called over HTTP that replies in JSON.

    Attributes:
        url: Its address; its path and query may have template expressions.
        method: The HTTP method.
        headers: Headers to send; secrets as ${oc.env:NAME}.
        body: The body to send: JSON whose texts are Jinja templates, or one template of JSON; null: the case, or no
            body for GET if `url` has a template.
        attempts: Maximum number of attempts if faults are transient.
        open: A request sent before the first turn of a conversation; null: none.
        stream: How to read the reply if it is a stream of events: sse, jsonl, or more keys; null: it is one JSON value.
        poll: How to poll for the reply if it is not ready at once; null: the request's own reply is used.
    """

    kind: Literal["http"]  # pyright: ignore[reportIncompatibleVariableOverride]
    url: ServiceAddress
    method: Method = "POST"
    headers: dict[str, str] | None = None
    body: object = None
    attempts: int = Field(default=3, ge=1, le=100)
    open: OpenConfig | None = None
    stream: Stream = None
    poll: PollConfig | None = None

    @model_validator(mode="after")
    def _one_server(self) -> Self:
        own = split_address(self.url)
        for key, part in (("open", self.open), ("poll", self.poll)):
            other = split_address(part.url) if part and not part.url.startswith("/") else own
            if (other.scheme, other.netloc) != (own.scheme, own.netloc):
                raise ValueError(
                    f"{key}.url must be on the server of url, {public_address(f'{own.scheme}://{own.netloc}')}"
                )
        if self.stream is not None and self.poll is not None:
            raise ValueError("a reply is either a stream or asked for later: set stream or poll, not both")
        return self

    @property
    def server(self) -> str:
        """Return scheme, user and host of its address."""
        parts = split_address(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def addresses(self) -> dict[str, str]:
        """Return all addresses that are called, by key, with `x` for template expressions."""
        places = {"url": self.url, "open.url": self.open and self.open.url, "poll.url": self.poll and self.poll.url}
        return {
            key: example_address(self.server + url if url.startswith("/") else url)
            for key, url in places.items()
            if url is not None
        }

    @property
    def calls(self) -> str:
        return f"{self.method} {public_address(self.url)}"

    @property
    def secrets(self) -> list[str]:
        """Return the texts to redact: values of headers and secrets in addresses."""
        headers = (value for name, value in (self.headers or {}).items() if not PLAIN_HEADER.fullmatch(name))
        return sorted({part for value in headers for part in parts_of_header(value)} | secrets_in(self.url))

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, str] | None) -> dict[str, str] | None:
        for name, value in (headers or {}).items():
            if not re.match(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z", name):
                raise ValueError(f"{name!r} cannot be the name of a header")
            if not value.isprintable() or not value.isascii():
                raise ValueError(f"the header {name} has a value that cannot be sent")
        return headers


EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class CommandTargetConfig(ReplyConfig):
    """A program started for each case, which reads the case as JSON from stdin and writes the reply as JSON to stdout.

    Attributes:
        argv: The program and its arguments, run without a shell.
        env: Environment variables to set, each a Jinja template: {INPUT: "{{ question }}"}. The program also inherits
            those of this process.
        cwd: The folder to run it in; null: the working directory.
        version: Any word; change it whenever the program's answers may change. Runs with the same version reuse each
            other's answers. null: each run asks again, since a change in the program cannot be detected.
    """

    runs_here = True
    kind: Literal["command"]  # pyright: ignore[reportIncompatibleVariableOverride]
    version: Version = None
    argv: list[Word] = Field(min_length=1)
    env: dict[EnvironmentName, str] | None = None
    cwd: str | None = None

    @property
    def calls(self) -> str:
        return shlex.join(self.argv)


class PythonTargetConfig(ReplyConfig):
    """A Python callable that takes the case and returns the reply.

    Attributes:
        call: `package.module:callable`; allowed on the command line only.
        version: Any word; change it whenever the code's answers may change. Runs with the same version reuse each
            other's answers while its files are unchanged. null: each run asks again, since a change in what the code
            uses cannot be detected.
    """

    runs_here = True
    kind: Literal["python"]  # pyright: ignore[reportIncompatibleVariableOverride]
    call: CallableName
    version: Version = None

    @property
    def calls(self) -> str:
        return self.call
