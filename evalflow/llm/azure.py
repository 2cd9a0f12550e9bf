"""The transport to Azure OpenAI for what only the SDK can do: addresses by API version, and sign-in by Entra ID."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from evalflow.config.endpoints import AzureConfig
from evalflow.errors import InfrastructureError, Problem, UserError
from evalflow.llm.sdk import SdkTransport

if TYPE_CHECKING:
    from openai import AsyncOpenAI, Omit

SCOPE = "https://cognitiveservices.azure.com/.default"
"""What an Entra ID token for Azure OpenAI is asked for."""


class AzureTransport(SdkTransport):
    """Connections to one Azure OpenAI resource.

    Args:
        azure: How it is addressed, and how to sign in.
        deployment: The model's deployment; part of the address where there is an API version.
        base_url: https://RESOURCE.openai.azure.com, and with /openai/v1 where there is no API version.
        api_key: None where Entra ID is asked for a token.
        max_connections, first_byte_s: See `SdkTransport`.

    Raises:
        UserError: Entra ID is to be asked, and the package for that is not installed.
    """

    def __init__(
        self,
        azure: AzureConfig,
        deployment: str,
        base_url: str,
        api_key: str | None,
        max_connections: int,
        first_byte_s: float | None = None,
    ) -> None:
        super().__init__(base_url, api_key, max_connections, first_byte_s)
        self._azure = azure
        self._deployment = deployment
        self._token: Callable[[], Awaitable[str]] | None = None
        self._credential: Any = None
        if azure.sign_in == "entra" and not _is_installed():
            hint = "pip install 'evalflow[azure]', or azure.sign_in=key"
            raise UserError(Problem("signing in by Entra ID needs the package azure-identity", "azure.sign_in", hint))

    async def close(self) -> None:
        """Release connections; a later `send` opens new ones."""
        await super().close()
        credential, self._credential, self._token = self._credential, None, None
        if credential is not None:
            await credential.close()

    async def _headers(self) -> dict[str, str | Omit]:
        """The key or the token; nothing that the SDK would take from variables of its own."""
        from openai import Omit

        headers = await super()._headers()
        if self._azure.sign_in == "key":
            return {**headers, "api-key": self._api_key or Omit(), "Authorization": Omit()}
        return {**headers, "api-key": Omit(), "Authorization": f"Bearer {await self._signed_in()}"}

    async def _signed_in(self) -> str:
        """A token; asked for anew when it runs out."""
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
    except ModuleNotFoundError:  # there is no `azure` at all
        return False
