"""A device that makes passkeys and signs with them, as browsers send it; only its faults are its own."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

PRESENT, VERIFIED, HAS_KEY = 0x01, 0x04, 0x40


@dataclass
class Device:
    """`origin`: of the page that asks; `verifies`: whether it asks for a PIN; `count`: its signatures so far."""

    origin: str
    verifies: bool = True
    count: int = 0
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    id: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    def make(self, options: dict[str, Any]) -> dict[str, Any]:
        """The answer to the options of a new passkey."""
        public = self.key.public_key().public_numbers()
        point = {-2: public.x.to_bytes(32, "big"), -3: public.y.to_bytes(32, "big")}
        about = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + cbor2.dumps({1: 2, 3: -7, -1: 1, **point})
        proof = {"fmt": "none", "attStmt": {}, "authData": self._data(options["rp"]["id"], HAS_KEY) + about}
        client = self._client("webauthn.create", options)
        return self._answer(clientDataJSON=client, attestationObject=cbor2.dumps(proof))

    def sign(self, options: dict[str, Any]) -> dict[str, Any]:
        """The answer to the options of a sign-in."""
        self.count += 1
        data, client = self._data(options["rpId"], 0), self._client("webauthn.get", options)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        return self._answer(clientDataJSON=client, authenticatorData=data, signature=signature)

    def _data(self, server: str, flags: int) -> bytes:
        flags |= PRESENT | (VERIFIED if self.verifies else 0)
        return hashlib.sha256(server.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, kind: str, options: dict[str, Any]) -> bytes:
        return json.dumps({"type": kind, "challenge": options["challenge"], "origin": self.origin}).encode()

    def _answer(self, **response: bytes) -> dict[str, Any]:
        named = {"id": text(self.id), "rawId": text(self.id), "type": "public-key", "clientExtensionResults": {}}
        return {**named, "response": {name: text(value) for name, value in response.items()}}


def text(content: bytes) -> str:
    """Bytes as browsers send them."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
