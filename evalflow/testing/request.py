"""A request as a script sees it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

Mode = Literal["tools", "json_schema", "json_object", "text"]


@dataclass(frozen=True, slots=True)
class Request:
    """A received request.

    Attributes:
        number: 0 for the first request of any kind, then 1, 2, ...
        method: GET or POST.
        path: Path below the base URL: `/chat/completions`, `/embeddings`, `/models`.
        headers: By lower-case name.
        body: The parsed JSON; empty if there is none.
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The requested model, or an empty string."""
        return str(self.body.get("model", ""))

    @property
    def text(self) -> str:
        """The text of all messages, separated by blank lines."""
        return "\n\n".join(_texts(self.body.get("messages", [])))

    @property
    def user(self) -> str:
        """The text of the last user message."""
        messages = [m for m in self.body.get("messages", []) if m.get("role") == "user"]
        return "\n\n".join(_texts(messages[-1:]))

    @property
    def inputs(self) -> list[str]:
        """The texts of an embeddings request."""
        given: str | list[str] = self.body.get("input", [])
        return [given] if isinstance(given, str) else list(given)

    @property
    def mode(self) -> Mode:
        """How the request asks for a typed reply."""
        if self.body.get("tools"):
            return "tools"
        wanted: dict[str, Any] = self.body.get("response_format") or {"type": "text"}
        return wanted["type"]

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of the requested reply: the tool's, the response format's, else one found in a prompt."""
        if self.mode == "tools":
            return self.body["tools"][0]["function"]["parameters"]
        if self.mode == "json_schema":
            return self.body["response_format"]["json_schema"]["schema"]
        return next((found for text in _texts(self.body.get("messages", [])) for found in _schemas(text)), None)

    @property
    def schema_name(self) -> str | None:
        """The name of the tool or of the response format, else the title of the schema."""
        if self.mode == "tools":
            return self.body["tools"][0]["function"]["name"]
        if self.mode == "json_schema":
            return self.body["response_format"]["json_schema"]["name"]
        return (self.schema or {}).get("title")


def _texts(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """The text of each message, whose content is a string, null, or a list of parts."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        texts.append("".join(str(part.get("text", "")) for part in parts))
    return texts


def _schemas(text: str) -> Iterable[Mapping[str, Any]]:
    """JSON schemas of objects found in a text, in order."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            found, end = decoder.raw_decode(text, start)
        except ValueError:
            found, end = None, start + 1
        if isinstance(found, dict) and "properties" in found:
            yield cast("dict[str, Any]", found)
        start = text.find("{", end)
