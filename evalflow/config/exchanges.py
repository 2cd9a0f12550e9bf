"""Exchanges with a service that need more than one request and one reply: threads, streams, polling."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, field_validator
from pydantic_core import CoreSchema

from evalflow.config.strict import Strict, ValueOfError, Word
from evalflow.values.jsonvalues import is_mapping, json_path

EXPRESSION = re.compile(r"\{\{((?:(?!\{\{|\}\}).)*+)\}\}", re.DOTALL)
"""Matches a template expression in an address, in time by the length of the text."""


_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d+\])*")
"""Matches a path as other tools write it, without the $ of JSONPath."""


def checked_path(path: str) -> str:
    """Return a valid JSONPath unchanged; ValueError for anything else."""
    if not path.startswith("$"):
        what = f"{path!r} is not a JSONPath: it begins with $, as in $.answer"
        raise ValueOfError(what, f"$.{path}" if _DOTTED.fullmatch(path) else None)
    try:
        json_path(path)
    except ValueError as error:
        raise ValueError(f"{path!r} is not a JSONPath: {error}") from None
    return path


JsonPath = Annotated[str, AfterValidator(checked_path)]


def example_address(url: str) -> str:
    """Return an address with `x` in place of each template expression.

    >>> example_address("http://127.0.0.1:8000/threads/{{ opened.id }}/runs")
    'http://127.0.0.1:8000/threads/x/runs'
    """
    return EXPRESSION.sub("x", url)


def split_address(url: str) -> SplitResult:
    """Split an address into its parts, keeping template expressions."""
    held: list[str] = []

    def hide(expression: re.Match[str]) -> str:
        held.append(expression[0])
        return f"\x00{len(held) - 1}\x00"

    parts = urlsplit(EXPRESSION.sub(hide, url))
    return SplitResult(*(re.sub("\x00(\\d+)\x00", lambda at: held[int(at[1])], part) for part in parts))


def _address(url: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+\S*", example_address(url)):
        raise ValueError("it must start with http:// or https://, and have no spaces outside of {{ ... }}")
    parts = split_address(url)
    if "{{" in parts.netloc:
        raise ValueError("only the path and the query may be templates, not the host")
    _ = parts.port  # raises ValueError for an invalid port or IPv6 address
    return url


def _address_or_path(url: str) -> str:
    if url.startswith("/"):
        if url.startswith("//") or re.search(r"\s", example_address(url)):
            raise ValueError("a path begins with one /, and has no spaces outside of {{ ... }}")
        return url
    return _address(url)


ServiceAddress = Annotated[str, AfterValidator(_address)]
"""An http(s) address whose path and query may have template expressions."""
SameServer = Annotated[str, AfterValidator(_address_or_path)]
"""Either such an address or a path on the server of the target's `url`."""
Method = Literal["GET", "POST", "PUT", "PATCH"]


class OpenConfig(Strict):
    """A request sent before the first turn of a conversation, e.g. to create a thread.

    Its JSON reply is the variable `opened` in the templates of the target.

    Attributes:
        url: Its address on the same server, or a path there.
        method: The HTTP method.
        body: The body to send, as for the target; null: none for GET, otherwise an empty object.
    """

    url: SameServer
    method: Method = "POST"
    body: object = None


class StreamConfig(Strict):
    """A reply that comes as a stream of events.

    Attributes:
        format: Server-sent events, or JSON lines.
        events: The names of the events to read; null: all except `errors` and keep-alives such as `ping`. An event
            without a name is a `message`. JSON lines have no names.
        take: last: the reply is the data of the last event that was read. joined: the reply is an object with `answer`,
            the joined texts of these events, and `events`, their data.
        text: With joined, the JSONPath of the text in an event's data; an event without it adds nothing. null: the data
            is the text itself, without its quotes if all events are quoted.
        errors: The names of events that report a failure of the service. Unless this is empty, an `error` in any event
            that is read is a failure too.
    """

    format: Literal["sse", "jsonl"] = "sse"
    events: list[Word] | None = Field(default=None, min_length=1)
    take: Literal["last", "joined"] = "last"
    text: JsonPath | None = None
    errors: list[Word] = Field(default_factory=lambda: ["error"])

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, object]:
        return {"anyOf": [{"enum": ["sse", "jsonl"], "description": "The format alone."}, handler(core)]}


def _written_out(value: object) -> object:
    return {"format": value} if isinstance(value, str) else value


Stream = Annotated[StreamConfig | None, BeforeValidator(_written_out)]

Conditions = dict[JsonPath, list[object]]
"""The accepted values of each JSONPath; every path must have one of its values."""


class PollConfig(Strict):
    """How to poll a service that answers in the background.

    The variable `reply` is the reply to the target's own request; the answer is read from the last poll's reply.

    Attributes:
        url: The address to poll on the same server, or a path there.
        method: The HTTP method.
        until: The answer is ready when each JSONPath has one of its values: {$.status: [completed]}.
        failed: The service has failed when each JSONPath has one of its values: {$.status: [failed, cancelled]}.
        every_s: Seconds between two requests. `timeout_s` of the target limits all of them together.
    """

    url: SameServer
    method: Literal["GET", "POST"] = "GET"
    until: Conditions = Field(min_length=1)
    failed: Conditions | None = Field(default=None, min_length=1)
    every_s: float = Field(default=1.0, gt=0, le=600, allow_inf_nan=False)

    @field_validator("until", "failed", mode="before")
    @classmethod
    def _listed(cls, conditions: object) -> object:
        """Accept a single value without a list."""
        if not is_mapping(conditions):
            return conditions
        given = conditions
        listed: dict[str, object] = {
            path: values if isinstance(values, list) else [values] for path, values in given.items()
        }
        return listed
