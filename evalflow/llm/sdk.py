"""The transport through the openai SDK, needed for Azure; the SDK's own retries are off."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from evalflow.calls.http import (
    CONNECT_S,
    HttpRequest,
    Response,
    TransportError,
    beginning,
    certificate_error,
    forbidden_error,
    trusted_certificates,
)
from evalflow.calls.networks import ForbiddenAddressError, Networks
from evalflow.config.judges import AzureConfig
from evalflow.errors import InfrastructureError, Problem, UserError
from evalflow.extras import install_command
from evalflow.llm.sdk_networks import within

if TYPE_CHECKING:
    from openai import APIConnectionError, AsyncOpenAI, Omit

    from evalflow.llm.sdk_http import httpx


_LONGEST: ContextVar[int] = ContextVar("longest")  # maximum reply size for this task's request
_UNPACKED = {"identity", "gzip", "deflate"}  # others may grow ten thousandfold, all at once in openai 2's httpx
OPENAI_URL = "https://api.openai.com/v1"


class SdkTransport:
    """Connections to one OpenAI-compatible endpoint.

    The first request creates the client, in its event loop, so openai is imported only when something is sent, and a
    closed transport can be reused. With networks, it connects only to these, without a proxy.
    """

    def __init__(
        self,
        base_url: str | None,
        api_key: str | None,
        max_connections: int,
        first_byte_s: float | None = None,
        *,
        networks: Networks | None = None,
    ) -> None:
        self._base_url = base_url or OPENAI_URL
        self._api_key = api_key
        self._max_connections = max_connections
        self._first_byte_s = first_byte_s
        self._networks = networks
        self._client: AsyncOpenAI | None = None

    async def send(self, request: HttpRequest) -> Response:
        from openai import APIConnectionError, APIStatusError

        from evalflow.llm.sdk_http import httpx

        client = self._client = self._client or self._connect()
        headers = await self._headers()
        options: Any = {"headers": {**headers, "Content-Type": request.content_type}}
        _LONGEST.set(request.longest)
        begun = time.monotonic()
        try:
            async with asyncio.timeout(request.timeout_s):
                if request.method == "GET":
                    response = await client.get(request.path, cast_to=httpx.Response, options=options)
                else:
                    response = await client.post(
                        request.path, cast_to=httpx.Response, content=request.body, options=options
                    )
        except APIStatusError as error:
            response = error.response
        except APIConnectionError as error:
            raise self._transport_error(error, request) from None
        except TimeoutError:
            raise _timeout(request) from None
        received = {name.lower(): value for name, value in response.headers.items()}
        return Response(response.status_code, received, response.content, time.monotonic() - begun)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _headers(self) -> dict[str, str | Omit]:
        """Override headers that the SDK takes from its own variables: OpenAI's key must not reach another server."""
        from openai import Omit

        headers: dict[str, str | Omit] = {}
        if self._networks:  # a connection gets its own key, and no other header from this variable
            lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
            headers = {name.strip(): Omit() for name, colon, _ in (line.partition(":") for line in lines) if colon}
            headers["Authorization"] = f"Bearer {self._api_key}"
        if self._api_key is None:
            headers["Authorization"] = Omit()
        if self._base_url != OPENAI_URL:
            headers |= {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
        return headers

    def _connect(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        http = self._http_client()
        return AsyncOpenAI(
            api_key=self._api_key or "none",
            base_url=self._base_url,
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )

    def _http_client(self) -> httpx.AsyncClient:
        from openai import DefaultAsyncHttpxClient

        from evalflow.llm.sdk_http import httpx

        class BoundedClient(DefaultAsyncHttpxClient):
            """Reads as much of a body as `beginning` does; the SDK would read and unpack all of it."""

            async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
                options["stream"] = True
                response = await super().send(request, **options)
                coding = response.headers.get("content-encoding", "identity").lower()
                parts = response.aiter_bytes() if coding in _UNPACKED else response.aiter_raw()
                try:
                    body = await beginning(parts, _LONGEST.get())
                finally:
                    await response.aclose()
                unpacked = [
                    (name, value)
                    for name, value in response.headers.multi_items()
                    if name.lower() not in {"content-encoding", "content-length", "transfer-encoding"}
                ]
                return httpx.Response(
                    response.status_code,
                    headers=unpacked,
                    content=body,
                    request=request,
                    extensions=response.extensions,
                )

        # `send` limits the time of the whole exchange. One more connection than the limiter allows calls, for the
        # watchdog's probe, so that no request waits for the pool. No redirects: they could send the key to another
        # server.
        timeout = httpx.Timeout(None, connect=CONNECT_S, read=self._first_byte_s)
        limits = httpx.Limits(
            max_connections=self._max_connections + 1, max_keepalive_connections=self._max_connections
        )
        try:
            trust = trusted_certificates()
            way = within(self._networks, limits, trust) if self._networks else None
            return BoundedClient(
                headers={"Accept-Encoding": "identity"},
                verify=trust,
                limits=limits,
                timeout=timeout,
                follow_redirects=False,
                transport=way,
            )
        except (ImportError, ValueError, OSError) as error:  # an unusable proxy, or unreadable certificates
            raise TransportError("unreachable", f"no connection: {error}") from None

    def _transport_error(self, error: APIConnectionError, request: HttpRequest) -> TransportError:
        from evalflow.llm.sdk_http import httpcore, httpx

        cause = error.__cause__  # httpx's own, or httpcore's within networks
        if isinstance(cause, ForbiddenAddressError):
            return forbidden_error(cause)
        if isinstance(cause, httpx.ConnectTimeout | httpcore.ConnectTimeout):
            return TransportError("unreachable", f"no connection within {CONNECT_S:g} s")
        if isinstance(cause, httpx.ReadTimeout | httpcore.ReadTimeout):
            return TransportError("timeout", f"nothing came for {self._first_byte_s:g} s")
        if isinstance(cause, httpx.TimeoutException | httpcore.TimeoutException):
            return _timeout(request)
        if isinstance(cause, httpx.ConnectError | httpcore.ConnectError):
            return certificate_error(cause) or TransportError("unreachable", f"no connection: {cause}")
        return TransportError("broken", f"the connection was lost: {cause or error}")


def _timeout(request: HttpRequest) -> TransportError:
    return TransportError("timeout", f"no whole response within {request.timeout_s:g} s")


SCOPE = "https://cognitiveservices.azure.com/.default"
"""The scope of an Entra ID token for Azure OpenAI."""


class AzureTransport(SdkTransport):
    """Connections to one Azure OpenAI resource, with a key or an Entra ID token.

    The deployment is part of the address if there is an API version; else the address ends in /openai/v1.
    """

    def __init__(
        self,
        azure: AzureConfig,
        deployment: str,
        base_url: str,
        api_key: str | None,
        max_connections: int,
        first_byte_s: float | None = None,
        *,
        networks: Networks | None = None,
    ) -> None:
        super().__init__(base_url, api_key, max_connections, first_byte_s, networks=networks)
        self._azure = azure
        self._deployment = deployment
        self._token: Callable[[], Awaitable[str]] | None = None
        self._credential: Any = None
        if azure.sign_in == "entra" and not _is_installed():
            hint = f"{install_command('azure')}, or azure.sign_in=key"
            raise UserError(Problem("signing in by Entra ID needs the package azure-identity", "azure.sign_in", hint))

    async def close(self) -> None:
        await super().close()
        credential, self._credential, self._token = self._credential, None, None
        if credential is not None:
            await credential.close()

    async def _headers(self) -> dict[str, str | Omit]:
        from openai import Omit

        headers = await super()._headers()
        if self._azure.sign_in == "key":
            return {**headers, "api-key": self._api_key or Omit(), "Authorization": Omit()}
        return {**headers, "api-key": Omit(), "Authorization": f"Bearer {await self._signed_in()}"}

    async def _signed_in(self) -> str:
        from azure.core.exceptions import AzureError
        from azure.identity.aio import DefaultAzureCredential, get_bearer_token_provider

        if self._token is None:
            self._credential = DefaultAzureCredential()
            self._token = get_bearer_token_provider(self._credential, SCOPE)
        try:
            return await self._token()
        except AzureError as error:
            first = str(error).strip().partition("\n")[0]
            raise InfrastructureError(f"Entra ID gave no token: {first}", "az login, or azure.sign_in=key") from None

    def _connect(self) -> AsyncOpenAI:
        if self._azure.api_version is None:
            return super()._connect()
        from openai import AsyncAzureOpenAI

        http = self._http_client()
        return AsyncAzureOpenAI(
            api_key=self._api_key or "none",
            azure_endpoint=self._base_url,
            azure_deployment=self._deployment,
            api_version=self._azure.api_version,
            max_retries=0,
            timeout=http.timeout,
            http_client=http,
        )


def _is_installed() -> bool:
    try:
        return find_spec("azure.identity") is not None
    except ModuleNotFoundError:  # `azure` itself is missing
        return False
