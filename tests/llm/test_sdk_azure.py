"""What reaches Azure OpenAI: the path, the API version and one way to sign in, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from evalflow.config.judges import OpenAIJudgeConfig
from evalflow.errors import InfrastructureError, UserError
from evalflow.llm import sdk
from evalflow.llm.judge import OpenAIJudge
from evalflow.records import Ask, Message

pytestmark = pytest.mark.anyio
KEY = "azure-key-0123456789abcdef"
VERSION = "2024-10-21"


class Verdict(BaseModel):
    reason: str


ASK = Ask(metric="m", step="s", task=None, messages=(Message("user", "?"),), reply_model=Verdict, variables={})
REPLY = json.dumps({"choices": [{"message": {"content": '{"reason": "so"}'}, "finish_reason": "stop"}]}).encode()


@dataclass
class Resource:
    """Answers every request well, and keeps its first lines and headers."""

    port: int = 0
    lines: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                line, *rest = head.strip().splitlines()
                headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
                await reader.readexactly(int(headers.get("content-length", "0")))
                self.lines.append(line)
                self.headers.append(headers)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(REPLY), REPLY))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def resource(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Resource]:
    monkeypatch.setenv("MY_KEY", KEY)
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "OPENAI_API_KEY", "OPENAI_API_VERSION"):
        monkeypatch.setenv(name, "of-somebody-else")
    state = Resource()
    async with await asyncio.start_server(state.serve, "127.0.0.1", 0) as listening:
        state.port = listening.sockets[0].getsockname()[1]
        yield state


def config(base_url: str, **keys: Any) -> OpenAIJudgeConfig:
    fixed = {"kind": "openai", "model": "dep", "base_url": base_url, "api_key_env": "MY_KEY", "client": "sdk"}
    return OpenAIJudgeConfig.model_validate({**fixed, **keys})


async def asked(resource: Resource, path: str = "", **keys: Any) -> tuple[str, dict[str, str]]:
    judge = OpenAIJudge(config(f"http://127.0.0.1:{resource.port}{path}", **keys), "judge")
    try:
        assert (await judge.ask(ASK)).parsed == Verdict(reason="so")
    finally:
        await judge.close()
    assert "of-somebody-else" not in str(resource.headers)
    return resource.lines[-1], resource.headers[-1]


async def test_an_api_version_and_a_key(resource: Resource) -> None:
    line, headers = await asked(resource, azure={"api_version": VERSION})
    assert line == f"POST /openai/deployments/dep/chat/completions?api-version={VERSION} HTTP/1.1"
    assert headers["api-key"] == KEY
    assert "authorization" not in headers


class Credential:
    """Stands in for whoever is signed in."""

    closed = 0

    async def get_token(self, *scopes: str, **_: Any) -> Any:
        from azure.core.credentials import AccessToken

        assert scopes == (sdk.SCOPE,)
        return AccessToken("a-token", 2**40)

    async def close(self) -> None:
        Credential.closed += 1


@pytest.mark.parametrize(
    ("path", "version", "wanted"),
    [
        ("", VERSION, f"/openai/deployments/dep/chat/completions?api-version={VERSION}"),
        ("/openai/v1", None, "/openai/v1/chat/completions"),
    ],
)
async def test_a_token_of_entra(
    path: str, version: str | None, wanted: str, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = pytest.importorskip("azure.identity.aio")
    monkeypatch.setattr(identity, "DefaultAzureCredential", Credential)
    before = Credential.closed
    keys = {"api_key_env": None, "azure": {"api_version": version, "sign_in": "entra"}}
    line, headers = await asked(resource, path, **keys)
    assert line == f"POST {wanted} HTTP/1.1"
    assert headers["authorization"] == "Bearer a-token"
    assert "api-key" not in headers
    assert Credential.closed == before + 1


async def test_nobody_signed_in_ends_the_run(resource: Resource, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = pytest.importorskip("azure.identity.aio")
    exceptions = pytest.importorskip("azure.core.exceptions")

    class Nobody(Credential):
        async def get_token(self, *scopes: str, **_: Any) -> Any:
            raise exceptions.ClientAuthenticationError("no credential was found\nand a long story")

    monkeypatch.setattr(identity, "DefaultAzureCredential", Nobody)
    with pytest.raises(InfrastructureError, match=r"Entra ID gave no token: no credential was found\n") as failed:
        await asked(resource, api_key_env=None, azure={"api_version": VERSION, "sign_in": "entra"})
    assert "az login" in failed.value.hint
    assert not resource.lines


def test_a_missing_package_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sdk, "_is_installed", lambda: False)
    with pytest.raises(UserError, match="azure-identity") as failed:
        OpenAIJudge(config("http://127.0.0.1:1", api_key_env=None, azure={"sign_in": "entra"}), "judge")
    assert "'azure-identity>=" in failed.value.problems[0].hint


@pytest.mark.parametrize("keys", [{"client": "http"}, {"base_url": None}])
def test_what_azure_needs_is_said(keys: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="azure needs client: sdk, and base_url"):
        config(**{"base_url": "https://mine.openai.azure.com", "azure": {"api_version": VERSION}, **keys})
