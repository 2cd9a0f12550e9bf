"""The target for a model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from evalflow.calls.cache_store import Entry, short
from evalflow.calls.client import CallSession
from evalflow.calls.faults import excerpt
from evalflow.calls.http import HttpRequest
from evalflow.config.targets import OpenAITargetConfig
from evalflow.errors import CallError, TargetError, UserError
from evalflow.llm.chat import ChatClient, Completion, entry_of, identity
from evalflow.prompts import Prompts
from evalflow.records import CUT_OFF, FILTERED, Answer, Case, Message
from evalflow.targets.answer_step import EXTRACT, Said, step_of
from evalflow.targets.recorded import blank, failed
from evalflow.targets.reply import Form
from evalflow.targets.turn_template import VARIABLES, turn_template
from evalflow.values.jsonvalues import is_object, parsed
from evalflow.values.label_names import label_name

_FENCED = re.compile(r"```(?:json)?(.*)```", re.DOTALL)
DECISIVE = ("base_url", "model", "temperature", "max_tokens", "parameters", "system_prompt", "prompt")


class OpenAITarget:
    """Asks a model. The reply's text is the answer, or the prediction if the dataset generates `actual`.

    If the dataset composes predictions of parts, the text is a JSON object with these parts or with its columns.
    """

    def __init__(
        self,
        config: OpenAITargetConfig,
        name: str,
        prompts: Prompts,
        forms: Mapping[str, Form],
        session: CallSession | None = None,
        *,
        client: ChatClient | None = None,
    ) -> None:
        self.name = name
        self._forms = forms
        self._system = turn_template(config.system_prompt, "target.system_prompt", prompts)
        self._prompt = turn_template(config.prompt, "target.prompt", prompts)
        texts = [template.digest if template else None for template in (self._system, self._prompt)]
        self._step = step_of(config)
        self.identity = self._step.identity(identity("openai", config, DECISIVE, texts))
        self._client = client or ChatClient(config, "target", session)

    def render(self, case: Case) -> tuple[Message, ...]:
        """The messages for a case; UserError if a template cannot be rendered for it."""
        variables = {name: getattr(case, name) for name in VARIABLES}
        messages = [replace(self._step.heard(message), metadata=None) for message in case.messages]
        if self._prompt:
            turn = Message("user", self._prompt.render(variables))
            asked = max((i for i, message in enumerate(messages) if message.role == "user"), default=len(messages))
            messages[asked : asked + 1] = [turn]
        if self._system:
            messages.insert(0, Message("system", self._system.render(variables)))
        return tuple(messages)

    def messages(self, case: Case) -> list[dict[str, object]]:
        """The same as an endpoint takes them; TargetError without any."""
        sent: list[dict[str, object]] = [message.sent for message in self.render(case)]
        if not sent:
            raise TargetError("no_question", "the case has no message and target.prompt is not set")
        return sent

    async def answer(self, case: Case, repeat: int) -> Answer:
        begun = blank(case, self.name, repeat)
        try:
            request = self._client.request({"messages": self.messages(case)})
            key = self._client.key(request, repeat)
            form = self._forms[case.dataset]
            paid = partial(self._paid, request, key, form)
            completion, cached = await self._client.single_flight(key, paid, self._remembered, self._client.cost)
            part, is_actual = self._read(completion), form.generates == "actual"
            prediction = predicted(part.text, form) if is_actual else None
        except UserError as error:
            return replace(begun, status="error", error_type="prompt", error=str(error))
        except CallError as error:
            return failed(begun, error)
        spend = replace(completion.spend, paid=(short(key),))
        about = {**part.about, "finish_reason": completion.finish_reason}
        answer = None if is_actual else part.text
        return (spend.reused if cached else spend).fill(begun, answer=answer, actual=prediction, **about)

    async def close(self) -> None:
        await self._client.close()

    async def _paid(self, request: HttpRequest, key: bytes, form: Form) -> tuple[tuple[Completion, bool], Entry]:
        """Ask for an answer. A reply without a usable answer is paid for but not cached."""
        completion = await self._client.complete(request, key)
        fault = self._fault(completion, form)
        if fault:
            raise unusable(completion, *fault)
        return (completion, False), entry_of(completion, completion.spend)

    def _read(self, completion: Completion) -> Said:
        """Return the scored part of a reply; TargetError if searching it fails."""
        try:
            return self._step.read(answer_text(completion), completion.reasoning)
        except ValueError as error:
            raise TargetError(EXTRACT, f"target.extract: {error}", spend=completion.spend) from None

    def _fault(self, completion: Completion, form: Form) -> tuple[str, str] | None:
        if completion.finish_reason == FILTERED:
            return "refused", "the content filter withheld the answer"
        part = self._read(completion)
        if not part.text:
            return "empty", no_answer(completion, part.thoughts)
        if form.generates == "actual":
            try:
                predicted(part.text, form)
            except TargetError as error:
                return error.error_type, str(error)
        return None

    def _remembered(self, entry: Entry, free: bool) -> tuple[Completion, bool]:
        completion = self._client.recall(entry)
        return replace(completion, usage=entry.usage, cost_usd=self._client.cost(entry)), free


def answer_text(completion: Completion) -> str:
    """The text of the answer. A refusal is an answer too, and often the right one."""
    return completion.text or completion.refusal or ""


def no_answer(completion: Completion, thoughts: str | None, without: str = "no text") -> str:
    """Why a reply is not an answer: it has no text, or only thoughts."""
    what = f"the reply has thoughts, but {without}" if thoughts else f"the reply has {without}"
    reasoned = completion.finish_reason == CUT_OFF
    more = "; it was cut off: raise target.max_tokens, or let it think less" if reasoned else ""
    if called := ", ".join(dict.fromkeys(call.name for call in completion.tool_calls)):
        more = f"; it calls {called}: a target of the kind agent has tools that answer (docs/agents.md){more}"
    return f"{what} (finish_reason: {completion.finish_reason}){more}"


def unusable(completion: Completion, error_type: str, what: str) -> TargetError:
    """The error of a reply that was paid for and is not an answer."""
    error = TargetError(error_type, what, spend=completion.spend)
    error.finish_reason = completion.finish_reason
    return error


def predicted(text: str, form: Form) -> object:
    """The prediction in a reply's text; TargetError if the dataset wants an object of parts and the text is not one."""
    if not form.parts:
        return scalar(text)
    fenced = _FENCED.fullmatch(text.strip())
    try:
        value: object = parsed((fenced[1].strip() if fenced else text).encode())
    except ValueError:
        value = text
    row = value if is_object(value) else {}
    try:
        prediction = form.find("actual", row) or value
        form.check(prediction)
    except ValueError as error:
        raise TargetError("malformed", f"{error}: {excerpt(text.encode())}", text) from None
    return prediction


def scalar(text: str) -> object:
    """Parse a prediction: a boolean (True and TRUE too), a number or a JSON string, else the text.

    A number that could be written more simply, such as 3.10, stays text: it may be a code.
    """
    bare = text.strip()
    try:
        value: object = parsed((bare.lower() if bare.lower() in {"true", "false"} else bare).encode())
    except ValueError:
        return bare
    if isinstance(value, bool | str):
        return value
    return value if isinstance(value, int | float) and label_name(value) == bare else bare
