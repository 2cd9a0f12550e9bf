"""The way to a target that is a service behind HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from evalflow.calls.gateway import Gateway
from evalflow.calls.http import HttpTransport
from evalflow.calls.retry import RetryPolicy
from evalflow.calls.service import SERVICE
from evalflow.calls.session import CallSession
from evalflow.calls.transport import Request, Response
from evalflow.config.address import SECRET_NAME, public_address, without_user
from evalflow.config.targets import HttpTargetConfig
from evalflow.llm.chat import canonical
from evalflow.prompts import Prompts
from evalflow.records import Case, Usage
from evalflow.targets.body import Body
from evalflow.targets.service import Heard, account, digest


@dataclass(frozen=True, slots=True)
class _Received:
    """A 2xx response. What it took in tokens, nobody says."""

    body: bytes
    usage: Usage | None = None


class HttpWay:
    """Sends the case to a service, under its limiter and the run's budget, and tries again what may pass.

    Args:
        config: The service.
        prompts: The templates.
        session: Shared by all clients of a run.
        policy: For tests.

    Raises:
        UserError: The body's template is wrong, or a budget in dollars is set.
    """

    def __init__(
        self, config: HttpTargetConfig, prompts: Prompts, session: CallSession, *, policy: RetryPolicy | None = None
    ) -> None:
        self._config = config
        self._body = Body(config.body, "target.body", prompts)
        bounds = config.concurrency
        self._gateway = Gateway(
            HttpTransport(config.url, None, bounds.max, headers=config.headers),
            session.limiters.get(("http", config.url), bounds.start, bounds.max),
            policy or RetryPolicy(attempts=config.attempts),
            public_address(config.url),
            key_hint="check target.headers",
            secrets=config.secrets,
            account=account(session),
            dialect=SERVICE,
        )

    @property
    def identity(self) -> str:
        """The request without the body, which `render` makes, and without secrets."""
        config = self._config
        headers = {name: value for name, value in (config.headers or {}).items() if not SECRET_NAME.search(name)}
        return digest(["http", config.method, without_user(config.url), headers, config.body])

    def render(self, case: Case) -> bytes:
        """The body. See `Way`."""
        return canonical(self._body.value(case))

    async def ask(self, data: bytes) -> Heard:
        """Send it. See `Way`."""
        request = Request(self._config.method, "", data, self._config.timeout_s)
        sent = await self._gateway.send(request, _received)
        return Heard(sent.value.body, sent.latency_s)

    async def close(self) -> None:
        """Release connections."""
        await self._gateway.close()


def _received(response: Response) -> _Received:
    return _Received(response.body)
