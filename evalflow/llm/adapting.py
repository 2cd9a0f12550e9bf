"""Requests without the settings that their endpoint refuses."""

from __future__ import annotations

import json
from dataclasses import replace

from evalflow.calls.client import CallSession
from evalflow.calls.http import HttpRequest
from evalflow.calls.refusals import RefusedSettings, longest_of, override, refused
from evalflow.config.judges import EndpointConfig
from evalflow.errors import CallError, InfrastructureError
from evalflow.llm.sdk import OPENAI_URL
from evalflow.notes import note
from evalflow.redaction import public_address

CallFailure = CallError | InfrastructureError


class AdaptedRequests:
    """Leaves out of a judge's or target's requests what the endpoint has refused for this model before."""

    def __init__(self, config: EndpointConfig, role: str, session: CallSession) -> None:
        base_url = config.base_url or OPENAI_URL
        self._refused = session.refused.setdefault((base_url, config.model), RefusedSettings())
        self._parameters = tuple(config.parameters or ())
        self._model, self._address = config.model, public_address(base_url)
        self._role = role

    @property
    def gives_logprobs(self) -> bool:
        return "logprobs" not in self._refused.unsent

    @property
    def gives_several(self) -> bool:
        return "n" not in self._refused.unsent

    def gives_one(self) -> None:
        if self.gives_several:
            self._refused.unsent.append("n")

    def applied(self, request: HttpRequest) -> HttpRequest:
        """Return the request without the settings known to be refused."""
        body = self._refused.applied(request.body or b"")
        return request if body == request.body else replace(request, body=body)

    def adapts(self, sent: HttpRequest, error: CallFailure) -> bool:
        """Learn from a refusal, with a note, and return whether the request can be sent again in another form."""
        refusal = error.refusal
        if refusal is None:
            return False
        if self.applied(sent).body != sent.body:  # another request has been refused in the meantime
            return True
        body = json.loads(sent.body or b"{}")
        setting = refused(body, refusal, self._parameters)
        done = setting and self._refused.learn(setting, refusal)
        if setting is None or not done:
            return False
        reason = str(error).partition("\n")[0].removeprefix(f"{self._address}: ")
        instead = override(setting, self._role, refusal, body)
        note(f"{self._model} at {self._address} refuses {setting} ({reason}); {done} from now on, as with {instead}")
        return True

    def named(self, sent: HttpRequest, error: CallFailure) -> CallFailure:
        """Return the error with the refused setting and how to leave it out."""
        refusal = error.refusal
        if refusal is None:
            return error
        body = json.loads(sent.body or b"{}")
        setting = refused(body, refusal, self._parameters)
        if setting is not None:
            remedy = override(setting, self._role, refusal, body)
            hint = f"leave {setting} out: {remedy}"
        elif most := longest_of(refusal):
            remedy = f"{self._role}.max_tokens={most}"
            hint = f"allow no more: {remedy}"
        else:
            return error
        if isinstance(error, InfrastructureError):
            return InfrastructureError(error.what, hint)
        return type(error)(error.error_type, f"{error}; {hint}", error.raw, error.spend, remedy)
