"""An OpenID Connect provider on loopback that does what it is told, also what none should do."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "evalflow", "the client's secret"


@dataclass
class Provider:
    """What the provider says; a test may change all of it."""

    issuer: str
    keys: list[RSAKey] = field(default_factory=lambda: [new_key()])
    discovery: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    issued: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = field(default_factory=dict)

    def authorize(self, url: str, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Agree to a sign-in; returns the path and query to go back to. A claim that is None is left out."""
        wanted = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert (wanted["response_type"], wanted["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_urlsafe(8)
        now = int(time.time())
        own = {"iss": self.issuer, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 60, "nonce": wanted["nonce"]}
        told = {name: value for name, value in {**own, **claims}.items() if value is not None}
        self.issued[code] = (wanted["code_challenge"], told, header or {})
        back = urlsplit(wanted["redirect_uri"])
        return f"{back.path}?{urlencode({'code': code, 'state': wanted['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any]:
        """Give the ID token for a code, to whoever has the verifier and the secret."""
        challenge, claims, header = self.issued.pop(form["code"])
        digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
        basic = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '+')}".encode()).decode()
        plain = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if digest.rstrip(b"=").decode() != challenge or authorization not in (f"Basic {basic}", f"Basic {plain}"):
            return {"error": "invalid_grant"}
        key = header.pop("_key", self.keys[-1])
        if header.get("alg") == "none":
            parts = (json.dumps(part).encode() for part in (header, claims))
            id_token = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
        else:
            id_token = jwt.encode(
                {"alg": "RS256", "kid": key.kid, **header}, claims, key, algorithms=["RS256", "HS256"]
            )
        return {"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": id_token}


def new_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4)})


@contextmanager
def provided() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.asked.append(self.path)
            here = provider.issuer
            self._reply(
                {
                    "/.well-known/openid-configuration": {
                        "issuer": here,
                        "authorization_endpoint": f"{here}/authorize",
                        "token_endpoint": f"{here}/token",
                        "jwks_uri": f"{here}/keys",
                        "userinfo_endpoint": f"{here}/userinfo",
                        "id_token_signing_alg_values_supported": ["none", "HS256", "RS256"],
                        **provider.discovery,
                    },
                    "/keys": {"keys": [key.as_dict(private=False) for key in provider.keys]},
                    "/userinfo": provider.userinfo,
                }[self.path]
            )

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._reply(provider.token(form, self.headers.get("Authorization", "")))

        def _reply(self, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(400 if "error" in content else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = Provider(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield provider
        server.shutdown()
        thread.join()
