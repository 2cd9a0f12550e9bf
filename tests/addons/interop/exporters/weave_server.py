"""A server over real HTTP for the client of W&B Weave, as far as an export needs one; it keeps what it is sent."""

from __future__ import annotations

import gzip
import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.loopback import LoopbackServer

PERSON = {"id": "u", "username": "ana", "defaultEntity": {"name": "team"}}
PROJECT = {"id": "p", "internalId": "p", "name": "desk", "entity": {"name": "team"}}


class WeaveServer(LoopbackServer):
    """Its `calls` are by id; `lost` is how many of them it drops, while it says that it has them."""

    def __init__(self, lost: int = 0) -> None:
        self.calls: dict[str, dict[str, Any]] = {}
        self.feedback: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.unknown: list[str] = []
        self.bodies: list[str] = []
        self._lost = lost
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.headers.get("Content-Encoding") == "gzip":
                    raw = gzip.decompress(raw)
                with server._lock:
                    server.keys.add(self.headers.get("Authorization", ""))
                    server.bodies.append(raw.decode("utf-8", "replace"))
                    body: Any = None
                    with suppress(ValueError):
                        body = json.loads(raw)
                    found = server._answer(self.path.removeprefix("/traces"), body)
                text = json.dumps(found).encode() if not isinstance(found, bytes) else found
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(Handler)

    def _answer(self, path: str, body: Any) -> Any:
        kind = path.rstrip("/").split("?")[0]
        if kind == "/server_info":
            return {"min_required_weave_python_version": "0.0.1"}
        if kind == "/graphql":
            return {"data": {"viewer": PERSON, "project": PROJECT, "model": PROJECT}}
        if kind.startswith(("/obj/", "/table/", "/file")):
            return {"digest": "d" * 43, "object_id": "o", "row_digests": []}
        if kind.endswith("/calls/complete"):
            for call in body["batch"]:
                self._keep(call)
            return {"res": []}
        if kind.endswith("/call/start"):
            self._keep(body["start"])
            return {"id": body["start"]["id"], "trace_id": body["start"]["trace_id"]}
        if kind.endswith("/call/end"):
            self.calls.setdefault(body["end"]["id"], {}).update(body["end"])
            return {}
        if kind.endswith("/feedback/batch/create"):
            self.feedback += body["batch"]
            return {
                "res": [{"id": "f", "created_at": "2026-01-01T00:00:00Z", "wb_user_id": "u", "payload": {}}]
                * len(body["batch"])
            }
        if kind == "/calls/delete":
            traces = {self.calls[one]["trace_id"] for one in body["call_ids"] if one in self.calls}
            self.calls = {key: call for key, call in self.calls.items() if call["trace_id"] not in traces}
            return {"num_deleted": 1}
        if kind == "/calls/query_stats":
            traces = body["filter"]["trace_ids"]
            return {"count": sum(call["trace_id"] in traces for call in self.calls.values())}
        if kind == "/calls/stream_query":
            wanted = (body.get("filter") or {}).get("call_ids") or []
            found = [{"summary": {}, **call} for key, call in self.calls.items() if key in wanted]
            return "\n".join(map(json.dumps, found)).encode()
        self.unknown.append(path)
        return {}

    def _keep(self, call: dict[str, Any]) -> None:
        if self._lost and call.get("parent_id"):
            self._lost -= 1
            return
        self.calls[call["id"]] = {**self.calls.get(call["id"], {}), **call}
