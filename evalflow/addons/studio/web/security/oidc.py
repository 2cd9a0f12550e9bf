"""An OpenID Connect provider: authorization code with PKCE, state and nonce. Authlib checks the claims of ID tokens."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

from evalflow.addons.studio.work.identities import ProvidedIdentity
from evalflow.addons.studio.work.people import is_email
from evalflow.errors import InfrastructureError, Problem, UserError

OIDC = "/sign-in/oidc"
"""The path that leads people to the provider."""
CALLBACK = f"{OIDC}/callback"
"""The path that the provider sends people back to."""
TIMEOUT_S = 10.0
LEEWAY_S = 60
"""Seconds by which the provider's clock may differ from ours."""
_PAUSES_S = (1.0, 3.0)
"""Before discovery is tried again at the start of the server."""
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by the provider's own key: neither `none` nor one by the shared secret."""
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """How the server is registered at the provider.

    Attributes:
        issuer: The provider's address, exactly as it writes it itself.
        name: As people know it.
        signs_up: Whether people without an account get one, without a role.
        has_second_factor: Whether everybody needs a second factor there, also if the ID token does not say so.
    """

    issuer: str
    client_id: str
    secret: str
    name: str
    signs_up: bool
    has_second_factor: bool = False


class RefusedIdentityError(UserError):
    """The provider's reply does not prove an identity."""


class OidcProvider:
    """A provider, with what it says of itself. Its methods block, and may be called from several threads."""

    def __init__(self, settings: OidcSettings, metadata: Mapping[str, Any], public_url: str) -> None:
        self.settings = settings
        self._metadata = metadata
        self._callback = public_url + CALLBACK
        self._keys: Mapping[str, Any] | None = None

    def start(self) -> tuple[str, dict[str, str]]:
        """The URL to send a browser to, and what to keep for it until it is back."""
        kept = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        with self._client() as client:
            url, _ = client.create_authorization_url(
                self._metadata["authorization_endpoint"],
                state=kept["state"],
                nonce=kept["nonce"],
                code_verifier=kept["verifier"],
            )
        return url, kept

    def finish(self, kept: Mapping[str, str], query: Mapping[str, str]) -> ProvidedIdentity:
        """Whom the provider has sent back.

        Raises:
            RefusedIdentityError: The provider refused, or its answer is not for this browser, server or sign-in.
            InfrastructureError: The provider does not answer.
        """
        from authlib.common.errors import AuthlibBaseError  # pyright: ignore[reportMissingTypeStubs]
        from httpx2 import HTTPError
        from joserfc.errors import JoseError

        self._check_answer(kept, query)
        try:
            token = self._exchange(query.get("code", ""), kept["verifier"])
            claims = self._claims(token, kept["nonce"])
            return self._identity(claims, token)
        except HTTPError as error:
            raise InfrastructureError(f"{self.settings.name} does not answer: {error}") from None
        except (AuthlibBaseError, JoseError, ValueError, KeyError) as error:
            raise _refused(f"{self.settings.name} sent no valid proof of who you are: {error}") from None

    def _check_answer(self, kept: Mapping[str, str], query: Mapping[str, str]) -> None:
        """State, and the issuer of RFC 9207, which tells several providers apart."""
        if not hmac.compare_digest(kept["state"].encode(), query.get("state", "").encode()):
            raise _refused("this sign-in was not started in this browser, or another one was started since")
        issuer = query.get("iss")
        is_told = self._metadata.get("authorization_response_iss_parameter_supported") is True
        if issuer != self.settings.issuer and (issuer is not None or is_told):
            raise _refused(f"the answer does not come from {self.settings.name}")
        if "error" in query:
            raise _refused(f"{self.settings.name} refused: {query['error'][:100]}")

    def _exchange(self, code: str, verifier: str) -> Mapping[str, Any]:
        with self._client() as client:
            return client.fetch_token(
                self._metadata["token_endpoint"],
                grant_type="authorization_code",
                code=code,
                code_verifier=verifier,
            )

    def _claims(self, token: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        from authlib.oidc.core import CodeIDToken  # pyright: ignore[reportMissingTypeStubs]

        decoded = self._decoded(str(token["id_token"]))
        one: dict[str, Any] = {"iss": self.settings.issuer, "aud": self.settings.client_id}
        options: dict[str, Any] = {key: {"essential": True, "value": value} for key, value in one.items()}
        known = {"nonce": nonce, "client_id": self.settings.client_id, "access_token": token.get("access_token")}
        claims: Any = CodeIDToken(decoded.claims, decoded.header, options, known)
        claims.validate(leeway=LEEWAY_S)
        return claims

    def _decoded(self, id_token: str) -> Any:
        """The ID token; if its signature fits no known key, the keys are fetched again, since providers rotate them."""
        from joserfc import jwt
        from joserfc.errors import BadSignatureError, InvalidKeyIdError
        from joserfc.jwk import KeySet
        from joserfc.jws import JWSRegistry

        named = self._metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        registry = JWSRegistry(algorithms=[one for one in _ALGORITHMS if one in named], strict_check_header=False)
        known, self._keys = self._keys, self._keys or self._get("jwks_uri")
        try:
            return jwt.decode(id_token, KeySet.import_key_set(cast("Any", self._keys)), registry=registry)
        except (BadSignatureError, InvalidKeyIdError):
            if known is None:
                raise
            self._keys = self._get("jwks_uri")
            return jwt.decode(id_token, KeySet.import_key_set(cast("Any", self._keys)), registry=registry)

    def _identity(self, claims: Mapping[str, Any], token: Mapping[str, Any]) -> ProvidedIdentity:
        """Claims of the ID token; some providers give the e-mail address only at their userinfo endpoint."""
        about: Mapping[str, Any] = claims
        if "email" not in claims and "userinfo_endpoint" in self._metadata:
            more = self._get("userinfo_endpoint", {"Authorization": f"Bearer {token['access_token']}"})
            about = more if more.get("sub") == claims["sub"] else claims
        subject, email = claims["sub"], about.get("email")
        if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
            raise ValueError("no subject")
        is_verified = isinstance(email, str) and is_email(email) and about.get("email_verified") is True
        return ProvidedIdentity(
            issuer=self.settings.issuer,
            subject=subject,
            email=email if is_verified else None,
            user_name=str(about.get("preferred_username") or email or ""),
            full_name=str(about.get("name") or ""),
            has_second_factor=self.settings.has_second_factor or _has_second_factor(claims),
            proved_at=_moment(claims.get("auth_time")),
        )

    def _get(self, endpoint: str, headers: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        import httpx2

        reply = httpx2.get(self._metadata[endpoint], headers=dict(headers or {}), timeout=TIMEOUT_S)
        return cast("Mapping[str, Any]", reply.raise_for_status().json())

    def _client(self) -> Any:
        from authlib.integrations.httpx_client import (  # pyright: ignore[reportMissingTypeStubs]
            OAuth2Client,  # pyright: ignore[reportUnknownVariableType]
        )

        methods = self._metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return OAuth2Client(
            self.settings.client_id,
            self.settings.secret,
            token_endpoint_auth_method="client_secret_basic" if "client_secret_basic" in methods else methods[0],
            redirect_uri=self._callback,
            scope="openid email profile",
            code_challenge_method="S256",
            timeout=TIMEOUT_S,
        )


def _has_second_factor(claims: Mapping[str, Any]) -> bool:
    """Whether the provider names several factors among the methods (RFC 8176)."""
    methods = claims.get("amr")
    return isinstance(methods, list) and "mfa" in methods


def _moment(auth_time: object) -> str:
    """When somebody has signed in at the provider, as in the tables; empty if it does not say."""
    if not isinstance(auth_time, int | float) or not 0 < auth_time < 2**40:
        return ""
    moment = datetime.fromtimestamp(min(auth_time, time.time()), UTC)
    return moment.isoformat(timespec="milliseconds")


def _refused(what: str) -> RefusedIdentityError:
    return RefusedIdentityError(Problem(what, hint="start again"))


def discover(settings: OidcSettings, public_url: str) -> OidcProvider:
    """Ask the provider for its endpoints; a few times, if it does not answer.

    Raises:
        UserError: It does not answer, or is not the provider.
    """
    import httpx2

    url = settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
    if not _is_private(url):
        raise _wrong(f"{settings.issuer!r} is not reached by https", "such as https://login.example.org")
    for pause in (*_PAUSES_S, None):
        try:
            document = httpx2.get(url, timeout=TIMEOUT_S).raise_for_status().json()
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            if pause is None:
                raise _wrong(f"{url} cannot be read: {error}", "start again once the provider answers") from None
            time.sleep(pause)
        else:
            return OidcProvider(settings, _checked(document, settings.issuer), public_url)
    raise AssertionError("unreachable")


def _checked(document: Any, issuer: str) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise _wrong("the provider describes itself in another form", "name the address of an OpenID Connect provider")
    metadata = cast("dict[str, Any]", document)
    if metadata.get("issuer") != issuer:
        raise _wrong(f"the provider calls itself {metadata.get('issuer')!r}, not {issuer!r}", "write it so")
    missing = [name for name in _ENDPOINTS if not _is_private(str(metadata.get(name, "")))]
    if missing:
        raise _wrong(f"the provider names no https address as {' and '.join(missing)}", "ask the person who runs it")
    return metadata


def _is_private(url: str) -> bool:
    """Whether nobody on the way can read or change what is sent: https, or this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_here))


def _wrong(what: str, hint: str) -> UserError:
    return UserError(Problem(what, "--oidc-issuer", hint))
