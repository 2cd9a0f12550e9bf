"""The connector to a target that is a Python callable."""

from __future__ import annotations

import inspect

from pydantic_core import from_json

from evalflow.calls.callables import Threads, called, imported, seen
from evalflow.calls.client import CallSession
from evalflow.config.targets import PythonTargetConfig
from evalflow.errors import CallError, TargetError
from evalflow.targets.service import UNPRICED, Connector, LimitedCalls, RawReply, digest, version_of
from evalflow.values.pythonvalues import json_text, plain


class PythonConnector(Connector):
    """Calls a coroutine function in the event loop, and any other callable in its own thread."""

    def __init__(self, config: PythonTargetConfig, session: CallSession) -> None:
        module, self._callable = imported(config.call)
        self._calls = LimitedCalls(("python", config.call), config, session)
        self._threads = Threads(config.call, config.concurrency.max, config.timeout_s)
        self.identity = digest(["python", config.call, *seen(module, self._callable), *version_of(config.version)])
        self.is_reusable = config.version is not None

    async def ask(self, data: bytes) -> RawReply:
        threaded = not inspect.iscoroutinefunction(self._callable)
        return await self._calls.run(data, self._call, self._threads.room if threaded else None)

    async def _call(self, data: bytes) -> bytes:
        try:
            reply = await called(self._callable, self._threads, from_json(data))
        except TargetError:
            raise
        except CallError as error:
            raise TargetError(error.error_type, str(error), spend=UNPRICED) from error
        try:
            return json_text(plain(reply)).encode()
        except ValueError as error:
            what = f"the callable returned a value that is not JSON: {error}"
            raise TargetError("malformed", what, spend=UNPRICED) from None
