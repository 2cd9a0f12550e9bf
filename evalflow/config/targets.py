"""The configuration of the kinds of targets: what stands in the data, models, and programs of one's own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator

from evalflow.config.address import public_address, secrets_in
from evalflow.config.endpoints import Concurrency, EndpointConfig
from evalflow.config.schema import Strict, TargetConfig, Word
from evalflow.jsonvalues import json_path
from evalflow.redaction import parts_of_header

PLAIN_HEADER = re.compile(r"accept(-.*)?|content-.*|user-agent|connection|cache-control", re.IGNORECASE)
"""Names of headers whose values are none; of all others they are struck out of what is written and shown."""
CONTEXT_FIELDS = ("text", "title", "path")


class RecordedTargetConfig(TargetConfig):
    """The answers that stand in the data."""

    kind: Literal["recorded"]  # pyright: ignore[reportIncompatibleVariableOverride]


class OpenAITargetConfig(EndpointConfig, TargetConfig):
    """A model behind an OpenAI-compatible endpoint.

    Attributes:
        system_prompt: Jinja text, or the name of a .jinja file; null sends none.
        prompt: The same, for the last user message; null sends the case's messages as they are.
    """

    kind: Literal["openai"]  # pyright: ignore[reportIncompatibleVariableOverride]
    system_prompt: str | None = None
    prompt: str | None = None

    @property
    def calls(self) -> str:
        """The model and where it is."""
        return f"{self.model} at {public_address(self.base_url) if self.base_url else 'OpenAI'}"


def _written_out(value: Any) -> Any:
    """Expand the short form: a text is the path."""
    return {"path": value} if isinstance(value, str) else value


def _value_names(value: Any) -> Any:
    """Keys as JSON writes them: YAML turns some into booleans and numbers."""
    if not isinstance(value, Mapping):
        return value
    return {value_name(key): entry for key, entry in cast("Mapping[Any, Any]", value).items()}


def value_name(value: Any) -> str:
    """What a value of a reply is called in `values`: text as it is, all else as JSON spells it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def _checked_path(path: str) -> str:
    if not path.startswith("$"):
        raise ValueError(f"{path!r} is no JSONPath: it begins with $, as in $.answer")
    try:
        json_path(path)
    except ValueError as error:
        raise ValueError(f"{path!r} is no JSONPath: {error}") from None
    return path


class Extract(Strict):
    """Where in a reply a value stands.

    Attributes:
        path: A JSONPath. One that can match several times gives the list of all it finds.
        values: What the values there mean: {pass: false, fail: true}; null takes them as they are.
    """

    path: str
    values: Annotated[dict[str, Any] | None, BeforeValidator(_value_names)] = None

    _path = field_validator("path")(_checked_path)


class ContextsExtract(Strict):
    """Where in a reply the contexts stand.

    Attributes:
        path: A JSONPath to a list of them.
        fields: text, title and path of each: a key of it, or a JSONPath into it; null for forms that map themselves.
    """

    path: str
    fields: dict[str, str] | None = None

    _path = field_validator("path")(_checked_path)

    @field_validator("fields")
    @classmethod
    def _known(cls, fields: dict[str, str] | None) -> dict[str, str] | None:
        for name, source in (fields or {}).items():
            if name not in CONTEXT_FIELDS:
                raise ValueError(f"a context has no {name!r}; known: {', '.join(CONTEXT_FIELDS)}")
            if source.startswith("$"):
                _checked_path(source)
        if fields is not None and "text" not in fields:
            raise ValueError("say where the text of a context stands: {text: KEY}")
        return fields


Extracted = Annotated[Extract | None, BeforeValidator(_written_out)]


class ReplyConfig(TargetConfig):
    """How a JSON reply becomes an answer. Null: the field of that name, where the reply is an object that has it.

    Attributes:
        answer, actual: The text, and the prediction or the retrieved ids.
        contexts: What the answer was made from.
        metadata: An object that comes with it.
        timeout_s: Seconds for one try.
        concurrency: Calls under way at the same time.
    """

    answer: Extracted = None
    actual: Extracted = None
    contexts: Annotated[ContextsExtract | None, BeforeValidator(_written_out)] = None
    metadata: Extracted = None
    timeout_s: float = Field(default=60, gt=0)
    concurrency: Concurrency = Concurrency(start=4, max=16)

    @property
    def may_fill(self) -> frozenset[str]:
        """Contexts and metadata may always come; of answer and prediction, what is mapped."""
        mapped = {name for name in ("answer", "actual") if getattr(self, name) is not None}
        return frozenset({"contexts", "metadata", *mapped})


class HttpTargetConfig(ReplyConfig):
    """A service that is asked over HTTP and replies in JSON.

    Attributes:
        url: Its address.
        method: How it is asked.
        headers: Sent along; secrets as ${oc.env:NAME}.
        body: What is sent: JSON whose texts are Jinja templates, or one template of JSON; null: the case.
        attempts: Tries in all for transient faults.
    """

    kind: Literal["http"]  # pyright: ignore[reportIncompatibleVariableOverride]
    url: str
    method: Literal["GET", "POST", "PUT", "PATCH"] = "POST"
    headers: dict[str, str] | None = None
    body: Any = None
    attempts: int = Field(default=3, ge=1, le=100)

    @property
    def calls(self) -> str:
        """The request."""
        return f"{self.method} {public_address(self.url)}"

    @property
    def secrets(self) -> list[str]:
        """What is not to be shown: values of headers, and what is secret in the address."""
        headers = (value for name, value in (self.headers or {}).items() if not PLAIN_HEADER.fullmatch(name))
        return sorted({part for value in headers for part in parts_of_header(value)} | secrets_in(self.url))

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        if not re.match(r"https?://[^\s/]+\S*\Z", url):
            raise ValueError("url must start with http:// or https://")
        _ = urlsplit(url).port  # raises ValueError for a port or an IPv6 address that makes no sense
        return url

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, str] | None) -> dict[str, str] | None:
        for name, value in (headers or {}).items():
            if not re.match(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z", name):
                raise ValueError(f"{name!r} cannot be the name of a header")
            if not value.isprintable() or not value.isascii():
                raise ValueError(f"the header {name} has a value that cannot be sent")
        return headers


class CommandTargetConfig(ReplyConfig):
    """A program that is started for each case: the case as JSON on its stdin, the reply as JSON on its stdout.

    Attributes:
        argv: The program and its arguments; no shell reads them.
    """

    kind: Literal["command"]  # pyright: ignore[reportIncompatibleVariableOverride]
    argv: list[Word] = Field(min_length=1)

    @property
    def runs_here(self) -> bool:
        """It is."""
        return True

    @property
    def calls(self) -> str:
        """The command line."""
        return shlex.join(self.argv)


class PythonTargetConfig(ReplyConfig):
    """A Python callable, which is given the case and returns the reply.

    Attributes:
        call: `package.module:callable`; must stand on the command line.
    """

    kind: Literal["python"]  # pyright: ignore[reportIncompatibleVariableOverride]
    call: str

    @property
    def runs_here(self) -> bool:
        """It is."""
        return True

    @property
    def calls(self) -> str:
        """The callable."""
        return self.call

    @field_validator("call")
    @classmethod
    def _named(cls, call: str) -> str:
        if not re.match(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z", call):
            raise ValueError(f"{call!r} names no callable: package.module:callable")
        return call
