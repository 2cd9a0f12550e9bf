"""Prompts and schemas for typed replies, made by Instructor and stored on disk: importing it takes half a second."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError

from evalflow.llm.reader import InvalidReply, ReadReply, read_reply
from evalflow.paths import private_folder, write_atomically
from evalflow.records import Message

if TYPE_CHECKING:
    from evalflow.llm.chat import Completion


ReplyMode = Literal["json_schema", "tools", "json", "md_json"]


@dataclass(frozen=True, slots=True)
class PreparedContract:
    """Instructor's request for a reply model without our messages, made once for all calls.

    Attributes:
        system: Appended to the system message; may be empty.
        last: Appended to the last message; may be empty.
        schema: The remaining keys of the request.
    """

    system: str
    last: str
    schema: dict[str, Any]


def prepare(reply_model: type[BaseModel], mode: ReplyMode, strict: bool) -> PreparedContract:
    """Let Instructor make the request for a reply model. See `Contract` for the arguments."""
    _, schema = _handlers(mode).request_handler(reply_model, {"messages": []})
    added: dict[str, str] = {message["role"]: message["content"] for message in schema.pop("messages")}
    if strict and mode == "json_schema":
        schema["response_format"]["json_schema"]["strict"] = True
    elif strict and mode == "tools":
        schema["tools"][0]["function"]["strict"] = True
    return PreparedContract(added.get("system", ""), added.get("user", ""), schema)


class Contract:
    """Requests, parses and re-asks one reply model.

    Its name is the schema's, so it must match `[a-zA-Z0-9_-]{1,64}`. Modes: json_schema (response format), tools (a
    forced tool call), json (JSON mode), md_json (a fenced block); the last two put the schema in the system message.
    """

    def __init__(
        self,
        reply_model: type[BaseModel],
        mode: ReplyMode,
        strict: bool = False,
        prepared: PreparedContract | None = None,
    ) -> None:
        self._reply_model = reply_model
        self._mode: ReplyMode = mode
        self._prepared = prepared or prepare(reply_model, mode, strict)

    def request(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the contract's part of a request: the messages and the reply's format."""
        added = self._prepared
        made = [{"role": message.role, "content": message.content} for message in messages]
        if added.last:
            made[-1]["content"] += f"\n\n{added.last}"
        if added.system and made[0]["role"] == "system":
            made[0]["content"] += f"\n\n{added.system}"
        elif added.system:
            made.insert(0, {"role": "system", "content": added.system})
        return {"messages": made, **added.schema}

    def parse(self, completion: Completion, items: Sequence[Any] | None = None) -> ReadReply:
        """Return the valid reply; InvalidReply also for the wrong number of results."""
        tools, fenced = self._mode == "tools", self._mode == "md_json"
        return read_reply(completion, self._reply_model, items, tools=tools, fenced=fenced)

    def reask(self, request: Mapping[str, Any], completion: Completion, error: InvalidReply) -> dict[str, Any]:
        """Return the request that shows the model its reply and the errors in it. `request` is not changed."""
        again: dict[str, Any] = {**request, "messages": list(request["messages"])}
        if self._mode == "tools" and not completion.tool_calls:  # Instructor 1.15 fails on this
            turns = [("assistant", completion.text or ""), ("user", f"The reply was rejected: {error}")]
            again["messages"] += [{"role": role, "content": text} for role, text in turns]
            return again
        return _handlers(self._mode).reask_handler(again, _as_sdk(completion), error)


def _handlers(mode: ReplyMode) -> Any:
    """Return Instructor's `ModeHandlers` of a mode, which make requests and re-asks."""
    from instructor.v2 import Mode, Provider, mode_registry

    return mode_registry.get_handlers(Provider.OPENAI, Mode[mode.upper()])


def _as_sdk(completion: Completion) -> Any:
    from openai.types.chat import ChatCompletion

    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in completion.tool_calls
    ]
    message = {"role": "assistant", "content": completion.text, "tool_calls": calls or None}
    choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
    envelope = {"id": "", "object": "chat.completion", "created": 0, "model": "", "choices": [choice]}
    return ChatCompletion.model_validate_json(json.dumps(envelope))


log = logging.getLogger("evalflow")

FORMAT = 2  # increment when the output of `prepare` changes

Prepare = Callable[[type[BaseModel], ReplyMode, bool], PreparedContract]


def prepared(
    folder: Path, reply_model: type[BaseModel], mode: ReplyMode, strict: bool, prepare: Prepare = prepare
) -> PreparedContract:
    """Return the prepared contract of a reply model, read from the folder or made and stored there."""
    path = folder / f"{_key(reply_model, mode, strict)}.json"
    contract = _read(path)
    if contract is None:
        contract = prepare(reply_model, mode, strict)
        _write(path, contract)
    return contract


def _key(reply_model: type[BaseModel], mode: ReplyMode, strict: bool) -> str:
    decisive = [FORMAT, version("instructor"), mode, strict, reply_model.__name__, reply_model.model_json_schema()]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:32]


def _read(path: Path) -> PreparedContract | None:
    try:
        kept: dict[str, Any] = TypeAdapter(dict[str, Any]).validate_json(path.read_bytes())
        if kept["sha256"] != _digest(kept["contract"]):
            raise ValueError("the digest differs")
        return TypeAdapter(PreparedContract).validate_python(kept["contract"])
    except FileNotFoundError:
        return None
    except (OSError, KeyError, ValueError, ValidationError) as error:
        log.info("%s is prepared again: %s", path, error)
        return None


def _write(path: Path, prepared: PreparedContract) -> None:
    """Store it for later runs; if that fails, they prepare it again."""
    contract = TypeAdapter(PreparedContract).dump_python(prepared)
    text = json.dumps({"sha256": _digest(contract), "contract": contract})
    try:
        private_folder(path.parent)
        write_atomically(path, text)
    except OSError as error:
        log.info("%s cannot be written: %s", path, error)


def _digest(contract: Any) -> str:
    return hashlib.sha256(json.dumps(contract).encode()).hexdigest()
