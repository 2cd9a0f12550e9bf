"""Recognise which setting of a request an endpoint refuses, and what to send instead."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from evalflow.calls.faults import CONTEXT
from evalflow.config.parameters import LIMIT
from evalflow.errors import Refusal
from evalflow.values.jsonvalues import as_list, as_map, is_object

_LENGTHS = ("max_tokens", LIMIT)
STATUSES = frozenset({400, 403, 404, 422})
_WORDS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "top_logprobs": re.compile(r"\btop_?logprobs\b|sample logprobs", re.IGNORECASE),
        "logprobs": re.compile(r"\blog_?probs?\b|\blog[ -]prob|\btop_?logprobs\b", re.IGNORECASE),
        "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
        LIMIT: re.compile(rf"\b{LIMIT}\b", re.IGNORECASE),
        "max_tokens": re.compile(r"\bmax_tokens\b", re.IGNORECASE),
        "strict": re.compile(r"\bstrict\b|additionalProperties", re.IGNORECASE),
    }
)
_REFUSED = re.compile(
    r"support|not allowed|unknown|unrecogni[sz]ed|unexpected|extra (inputs|fields)|not permitted|deprecated|"
    r"not available|not enabled|invalid|may only|must be|can ?not|only the default|no longer|removed|instead|ignored|"
    r"not found|not valid|compatible|does not (take|accept)|disallowed|(greater|more) than",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"(?:at most|less than or equal to|<=|≤|>|between \d+ and|maximum|up to|exceed|(?:greater|larger|more) than)"
    r"[^.\d]{0,40}(\d[\d,]*)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class RefusedSettings:
    """The settings of one model's requests that an endpoint has refused so far.

    Attributes:
        unsent: The settings left out, in the order in which they were refused.
    """

    unsent: list[str] = field(default_factory=list[str])
    _renamed: dict[str, str] = field(default_factory=dict[str, str])
    _most: dict[str, int] = field(default_factory=dict[str, int])

    def applied(self, body: bytes) -> bytes:
        """Return the body of a request without the refused settings."""
        if not (self.unsent or self._renamed or self._most):
            return body
        sent = json.loads(body)
        for name in self.unsent:
            _remove(sent, name)
        for old, new in self._renamed.items():
            if old in sent:
                sent[new] = sent.pop(old)
        for name, most in self._most.items():
            if name in sent:
                sent[name] = min(sent[name], most)
        return json.dumps(sent, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def learn(self, setting: str | None, refusal: Refusal) -> str | None:
        """Adapt to a refused setting and return what is done from now on; None if nothing safe can be done."""
        most = _limit_in(refusal.text) if setting == "top_logprobs" else None
        match setting:
            case "max_tokens" if LIMIT in refusal.text:
                self._renamed["max_tokens"] = LIMIT
                return f"sending it as {LIMIT}"
            case "max_completion_tokens":
                self._renamed.pop("max_tokens", None)
                self._renamed[LIMIT] = "max_tokens"
                return "sending it as max_tokens"
            case "top_logprobs" if most:
                self._most[setting] = most
                return f"asking for {most}"
            case "logprobs" | "top_logprobs":
                self.unsent.append("logprobs")
                return "not sent, and scores that it would weight are sampled, or not weighted,"
            case "temperature" | "strict":
                self.unsent.append(setting)
                return "not sent"
            case _:
                return None


def refused(sent: Mapping[str, object], refusal: Refusal, parameters: Collection[str] = ()) -> str | None:
    """Return the setting that an endpoint's error message refuses; None if it refuses something else.

    `parameters` are the names of the user's further parameters.
    """
    if refusal.status not in STATUSES:
        return None
    text = refusal.text
    known = refusal.param.rpartition(".")[2] if refusal.param else ""
    about = known if known in sent else None  # other settings that the text mentions are not the refused one
    for name, pattern in _WORDS.items():
        if not _is_sent(sent, name) or about not in {None, name, "response_format", "logprobs"}:
            continue
        if known == name or (pattern.search(text) and _REFUSED.search(text)):
            too_long = CONTEXT.search(text) or (_limit_in(text) and LIMIT not in text)
            return None if name in _LENGTHS and too_long else name
    if not _REFUSED.search(text):
        return None
    return next((name for name in parameters if known == name or re.search(rf"\b{re.escape(name)}\b", text)), None)


def override(setting: str, role: str, refusal: Refusal, sent: Mapping[str, object]) -> str:
    """Return the override that leaves out a refused setting."""
    match setting:
        case "logprobs" | "top_logprobs":
            return f"{role}.logprobs=false"
        case "temperature":
            return f"{role}.temperature=null"
        case "strict":
            return f"{role}.strict=false"
        case "max_tokens" if LIMIT in refusal.text:
            return f"++{role}.parameters.{LIMIT}={sent['max_tokens']}"
        case "max_tokens" | "max_completion_tokens":
            return f"{role}.max_tokens=null"
        case _:
            return f"{role}.parameters.{setting}=null"


def longest_of(refusal: Refusal) -> int | None:
    """Return an endpoint's maximum reply tokens, if it refused a larger limit; None otherwise."""
    text = refusal.text
    if refusal.status not in STATUSES or CONTEXT.search(text) or not _WORDS["max_tokens"].search(text):
        return None
    return _limit_in(text)


def _limit_in(text: str) -> int | None:
    """Return the number that a text names as the maximum."""
    match = _LIMIT.search(text)
    return int(match[1].replace(",", "")) if match else None


def _is_sent(sent: Mapping[str, object], name: str) -> bool:
    return _strict_place(sent) is not None if name == "strict" else name in sent


def _strict_place(sent: Mapping[str, object]) -> dict[str, object] | None:
    """Return the map in a request that has the schema's `strict` key."""
    tools = as_list(sent.get("tools"))
    schema: object = as_map(sent.get("response_format")).get("json_schema")
    function: object = as_map(tools[0]).get("function") if tools else None
    return next((place for place in (schema, function) if is_object(place) and place.get("strict")), None)


def _remove(sent: dict[str, object], name: str) -> None:
    if name == "strict":
        if place := _strict_place(sent):
            del place["strict"]
        return
    sent.pop(name, None)
    if name == "logprobs":
        sent.pop("top_logprobs", None)
