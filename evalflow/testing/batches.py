"""Scripted batches of an endpoint, in the formats of OpenAI, Anthropic and Gemini."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from evalflow.testing.replies import Request

if TYPE_CHECKING:
    from aiohttp import web

    Answer = Callable[[Request, web.Request], Awaitable[web.StreamResponse]]

Format = Literal["openai", "anthropic", "gemini"]
_CHAT = "/chat/completions"
_GEMINI = ":batchGenerateContent"  # is sent to its model


@dataclass
class ScriptedBatch:
    """A batch that was submitted; `rows` are its requests."""

    id: str
    name: str
    rows: Sequence[Mapping[str, Any]]
    format: Format
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    looks: int = 0
    status: str = "in_progress"
    results: list[Mapping[str, object]] = field(default_factory=list[Mapping[str, object]])
    message: str = ""


@dataclass
class Batches:
    """The batches of an endpoint: `Endpoint(script, batches=Batches())`. The script answers each of their requests.

        with Endpoint(grade, batches=Batches(looks=2)) as endpoint:
            ...  # a batch has ended when it is looked at for the second time

    Attributes:
        looks: How often a batch is looked at until it has ended.
        ends: How batches end, in their order and the last for all further ones: completed, failed, expired or
            cancelled. The second half of an expired or cancelled one has no replies.
        unheard: How many submissions take effect, with an error as their response.
        extra: Rows added to the results of each batch.
        lose, twice: The numbers of the rows of a batch that its results lack, and have twice.
        submitted: All batches.
    """

    looks: int = 1
    ends: Sequence[str] = ("completed",)
    unheard: int = 0
    extra: Sequence[Mapping[str, object]] = ()
    lose: int | None = None
    twice: int | None = None
    submitted: list[ScriptedBatch] = field(default_factory=list[ScriptedBatch])
    _files: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def serves(self, path: str) -> bool:
        return path.startswith(("/files", "/batches", "/messages/batches")) or path.endswith(_GEMINI)

    async def answer(self, request: Request, http: web.Request, script: Answer) -> web.StreamResponse:
        from aiohttp import web

        match request.method, *request.path.strip("/").removeprefix("messages/").split("/"):
            case "POST", "files":
                return web.json_response({"id": await self._upload(http), "object": "file"})
            case "GET", "files", file, "content":
                return web.Response(body=self._files[file])
            case ("POST", "batches") | ("POST", "models", _):
                batch = self._submit(request)
                if self.unheard > 0:
                    self.unheard -= 1
                    return web.json_response({"error": {"message": "no receipt"}}, status=500)
                return web.json_response(_described(batch))
            case "GET", "batches" if "x-goog-api-key" in request.headers:
                return web.json_response({"operations": [_described(one) for one in self.submitted]})
            case "GET", "batches":
                return web.json_response({"data": [_described(one) for one in reversed(self.submitted)]})
            case "GET", "batches", name, "results":
                return web.Response(body=_lines(self._find(name).results))
            case "GET", "batches", name:
                batch = self._find(name)
                await self._look(batch, request, http, script)
                return web.json_response(_described(batch))
            case _:
                return web.json_response({"error": {"message": f"no {request.path} here"}}, status=404)

    async def _upload(self, http: web.Request) -> str:
        form = await http.post()
        file: Any = form["file"]
        name = f"file-{len(self._files)}"
        self._files[name] = file.file.read()
        return name

    def _submit(self, request: Request) -> ScriptedBatch:
        number, body = len(self.submitted), request.body
        own: Mapping[str, Any] = body.get("batch") or {}
        metadata: Mapping[str, Any] = body.get("metadata") or {}
        name = str(own.get("displayName") or metadata.get("evalflow_batch", ""))
        if own:
            rows, kind = own["inputConfig"]["requests"]["requests"], "gemini"
        elif "requests" in body:
            rows, kind = body["requests"], "anthropic"
        else:
            rows, kind = _rows(self._files[body["input_file_id"]]), "openai"
        batch = ScriptedBatch(f"batch_{number}", name, rows, kind)
        self.submitted.append(batch)
        return batch

    def _find(self, name: str) -> ScriptedBatch:
        return next(batch for batch in self.submitted if batch.id == name)

    async def _look(self, batch: ScriptedBatch, request: Request, http: web.Request, script: Answer) -> None:
        batch.looks += 1
        if batch.status != "in_progress" or batch.looks < self.looks:
            return
        batch.status = self.ends[min(self.submitted.index(batch), len(self.ends) - 1)]
        if batch.status == "failed":
            batch.message = "the batch is too large for this account"
            return
        answered = len(batch.rows) if batch.status == "completed" else len(batch.rows) // 2
        for number, row in enumerate(batch.rows[:answered]):
            if number != self.lose:
                result = await _result(batch, row, request, http, script)
                batch.results += [result, result] if number == self.twice else [result]
        if batch.format == "anthropic":
            kind = "expired" if batch.status == "expired" else "canceled"
            for row in batch.rows[answered:]:
                batch.results.append({"custom_id": row["custom_id"], "result": {"type": kind}})
        elif batch.format == "openai" and batch.status == "expired":
            error = {"code": "batch_expired", "message": "not done within 24 h"}
            lost = [{"custom_id": row["custom_id"], "response": None, "error": error} for row in batch.rows[answered:]]
            self._files[f"{batch.id}-errors"] = _lines(lost)
        batch.results += list(self.extra)
        self._files[f"{batch.id}-output"] = _lines(batch.results)


async def _result(
    batch: ScriptedBatch, row: Mapping[str, Any], request: Request, http: web.Request, script: Answer
) -> dict[str, object]:
    body = {"openai": _as_it_is, "anthropic": _chat_of_message, "gemini": _chat_of_content}[batch.format](row)
    made: Any = await script(Request(request.number, "POST", _CHAT, request.headers, body), http)
    content = json.loads(made.body)
    if batch.format == "openai":
        return {"custom_id": row["custom_id"], "response": {"status_code": made.status, "body": content}, "error": None}
    if batch.format == "gemini":
        if made.status != 200:
            code = {429: 8, 401: 16}.get(made.status, 3)
            return {"metadata": row["metadata"], "error": {"code": code, "message": content["error"]["message"]}}
        return {"metadata": row["metadata"], "response": _generated(content)}
    if made.status != 200:
        kind = {429: "rate_limit_error", 401: "authentication_error"}.get(made.status, "invalid_request_error")
        error = {"type": "error", "error": {"type": kind, "message": content["error"]["message"]}}
        return {"custom_id": row["custom_id"], "result": {"type": "errored", "error": error}}
    return {"custom_id": row["custom_id"], "result": {"type": "succeeded", "message": _message(content)}}


def _described(batch: ScriptedBatch) -> dict[str, object]:
    total, done = len(batch.rows), len(batch.results)
    if batch.format == "gemini":
        state = {"in_progress": "RUNNING", "completed": "SUCCEEDED"}.get(batch.status, batch.status.upper())
        stats = {"requestCount": str(total), "successfulRequestCount": str(done)}
        facts = {"displayName": batch.name, "state": f"BATCH_STATE_{state}", "batchStats": stats}
        return {
            "name": f"batches/{batch.id}",
            "metadata": facts,
            "done": state != "RUNNING",
            **({"error": {"code": 3, "message": batch.message}} if batch.message else {}),
            **({"response": {"inlinedResponses": {"inlinedResponses": batch.results}}} if batch.results else {}),
        }
    if batch.format == "anthropic":
        counts = {"processing": total - done, "succeeded": done, "errored": 0, "expired": 0, "canceled": 0}
        ended = "in_progress" if batch.status == "in_progress" else "ended"
        if batch.status == "cancelled":
            counts |= {"canceled": 1, "succeeded": done - 1}
        created_at = batch.created_at.isoformat()
        return {"id": batch.id, "processing_status": ended, "request_counts": counts, "created_at": created_at}
    files = {"output_file_id": f"{batch.id}-output", "error_file_id": f"{batch.id}-errors"}
    return {
        "id": batch.id,
        "object": "batch",
        "status": batch.status,
        "metadata": {"evalflow_batch": batch.name},
        "request_counts": {"total": total, "completed": done, "failed": 0},
        "errors": {"data": [{"message": batch.message}]} if batch.message else None,
        **(files if batch.status == "expired" else {"output_file_id": files["output_file_id"]}),
    }


def _as_it_is(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row["body"]


def _chat_of_message(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of Anthropic's as the chat request that a script expects."""
    params: Mapping[str, Any] = row["params"]
    tools = [
        {"type": "function", "function": {"name": one["name"], "parameters": one["input_schema"]}}
        for one in params.get("tools", ())
    ]
    system = [{"role": "system", "content": params["system"]}] if "system" in params else []
    return {
        "model": params["model"],
        "messages": [*system, *({"role": one["role"], "content": _text(one)} for one in params["messages"])],
        **({"tools": tools, "tool_choice": {}} if tools else {}),
    }


def _chat_of_content(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A request of Gemini's as the chat request that a script expects."""
    request: Mapping[str, Any] = row["request"]
    system = request.get("systemInstruction", {}).get("parts", ())
    messages = [{"role": "system", "content": part["text"]} for part in system]
    for one in request["contents"]:
        text = "".join(part.get("text") or json.dumps(part) for part in one["parts"])
        messages.append({"role": "assistant" if one["role"] == "model" else "user", "content": text})
    body: dict[str, Any] = {"model": "", "messages": messages}
    if "responseJsonSchema" in request["generationConfig"]:
        schema = request["generationConfig"]["responseJsonSchema"]
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "Reply", "schema": schema}}
    for one in request.get("tools", ())[:1]:
        [declared] = one["functionDeclarations"]
        function = {"name": declared["name"], "parameters": declared["parametersJsonSchema"]}
        body |= {"tools": [{"type": "function", "function": function}], "tool_choice": {}}
    return body


def _generated(completion: Mapping[str, Any]) -> dict[str, object]:
    message, usage = completion["choices"][0]["message"], completion["usage"]
    parts: list[dict[str, object]] = [{"text": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls") or ():
        given = json.loads(call["function"]["arguments"])
        parts.append({"functionCall": {"name": call["function"]["name"], "args": given}})
    counts = {"promptTokenCount": usage["prompt_tokens"], "candidatesTokenCount": usage["completion_tokens"]}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": completion["model"]}


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else json.dumps(content)


def _message(completion: Mapping[str, Any]) -> dict[str, object]:
    message, usage = completion["choices"][0]["message"], completion["usage"]
    parts: list[dict[str, object]] = [{"type": "text", "text": message["content"]}] if message["content"] else []
    for call in message.get("tool_calls") or ():
        given = json.loads(call["function"]["arguments"])
        parts.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given})
    return {
        "id": completion["id"],
        "model": completion["model"],
        "content": parts,
        "stop_reason": "tool_use" if message.get("tool_calls") else "end_turn",
        "usage": {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]},
    }


def _rows(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def _lines(rows: Sequence[Mapping[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
