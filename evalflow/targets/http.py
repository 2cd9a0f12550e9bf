"""The connector to a service behind HTTP."""

from __future__ import annotations

from evalflow.calls.client import SERVICE, CallSession, Gateway, RetryPolicy
from evalflow.calls.http import HttpRequest, HttpTransport
from evalflow.config.targets import HttpTargetConfig
from evalflow.llm.chat import canonical
from evalflow.prompts import Prompts
from evalflow.records import Case
from evalflow.redaction import SECRET_NAME, public_address, without_user
from evalflow.targets.request_body import Body
from evalflow.targets.service import Connector, RawReply, account, digest


class HttpConnector(Connector):
    """Sends the case to a service, within the rate limit and the budget, and retries transient faults."""

    def __init__(
        self, config: HttpTargetConfig, prompts: Prompts, session: CallSession, *, policy: RetryPolicy | None = None
    ) -> None:
        self._config = config
        headers = {name: value for name, value in (config.headers or {}).items() if not SECRET_NAME.search(name)}
        self.identity = digest(["http", config.method, without_user(config.url), headers, config.body])
        self._body = Body(config.body, "target.body", prompts)
        bounds = config.concurrency
        networks = session.connections and session.connections.of_service(config.url, (), "target").reach
        self._gateway = Gateway(
            HttpTransport(config.url, None, bounds.max, headers=config.headers, networks=networks),
            session.limiters.get(("http", config.url), bounds.start, bounds.max),
            policy or RetryPolicy(attempts=config.attempts),
            public_address(config.url),
            key_hint="check target.headers",
            secrets=config.secrets,
            account=account(session),
            dialect=SERVICE,
        )

    def render(self, case: Case) -> bytes:
        return canonical(self._body.value(case))

    async def ask(self, data: bytes) -> RawReply:
        request = HttpRequest(self._config.method, "", data, self._config.timeout_s)
        response = await self._gateway.send(request, lambda response: response)
        return RawReply(response.body, response.elapsed_s)

    async def close(self) -> None:
        await self._gateway.close()
