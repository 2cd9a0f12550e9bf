"""Prepare a target's text for metrics: split off the thoughts and extract the part that is scored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Literal

from evalflow.config.extraction import Extraction
from evalflow.config.schema import TargetConfig
from evalflow.llm.thoughts import split_thoughts
from evalflow.records import Answer, Message
from evalflow.targets.extraction import extracted

EXTRACT = "extract"
"""The `error_type` of an answer in which the part that is scored could not be looked for."""


@dataclass(slots=True)  # not enforced, as in `CallCosts`
class Said:
    """The part of a text that metrics read.

    `thoughts` are those split off; `full` is the text without them if only a part of it is scored. `extracted` says
    whether that part was found; None if all of the text counts.
    """

    text: str
    thoughts: str | None = None
    full: str | None = None
    extracted: bool | None = None

    @property
    def about(self) -> dict[str, object]:
        """Return the facts about the text as fields of an answer, without the text itself."""
        return {"thoughts": self.thoughts, "full_answer": self.full, "extracted": self.extracted}


class AnswerStep:
    """Reads texts as a target declares it by `thoughts` and `extract`."""

    def __init__(self, thoughts: Literal["drop", "keep"] = "drop", extract: Extraction | None = None) -> None:
        self._drops = thoughts == "drop"
        self._extract = extract

    def identity(self, target: str) -> str:
        """The identity of a target whose texts are read like this."""
        declared = [not self._drops, self._extract and self._extract.model_dump(mode="json")]
        if not any(declared):
            return target
        return f"{target}+{hashlib.sha256(json.dumps(declared).encode()).hexdigest()[:16]}"

    def apart(self, text: str, thoughts: str | None = None) -> tuple[str | None, str]:
        """Split a text into thoughts, separately sent ones included, and the rest; all if thoughts are kept."""
        if not self._drops:
            return thoughts, text
        own, rest = split_thoughts(text)
        return (f"{thoughts}\n\n{own}" if thoughts and own else own or thoughts), rest

    def heard(self, message: Message) -> Message:
        """An earlier turn as the target and metrics read it: the assistant's without its thoughts."""
        if message.role != "assistant":
            return message
        _, rest = self.apart(message.content)
        return message if rest is message.content else replace(message, content=rest)

    def read(self, text: str, thoughts: str | None = None) -> Said:
        """Return the part of a text that metrics read; its thoughts may have been sent separately.

        If the part that is scored is not found, this is the whole text, with `extracted` false.
        LimitExceeded if the pattern or path takes too long on this text.
        """
        thoughts, text = self.apart(text, thoughts)
        if self._extract is None:
            return Said(text, thoughts)
        part = extracted(self._extract, text)
        return Said(text, thoughts, None, False) if part is None else Said(part, thoughts, text, True)

    def applied(self, answer: Answer, generates: str) -> Answer:
        """Return the answer as metrics read it; `generates` is the field with the target's output."""
        messages = tuple(map(self.heard, answer.messages))
        if messages != answer.messages:
            answer = replace(answer, messages=messages)
        if generates != "answer" and answer.answer is not None:
            thoughts, rest = self.apart(answer.answer, answer.thoughts)
            answer = answer if rest is answer.answer else replace(answer, answer=rest, thoughts=thoughts)
        text: object = getattr(answer, generates)
        if not isinstance(text, str) or answer.status == "error":
            return answer
        try:
            part = self.read(answer.full_answer if self._extract and answer.full_answer else text, answer.thoughts)
        except ValueError as error:
            return replace(answer, status="error", error_type=EXTRACT, error=f"target.extract: {error}")
        if part.text is text and part.extracted is None:
            return answer
        return replace(answer, **{generates: part.text}, **part.about)


def step_of(config: TargetConfig) -> AnswerStep:
    """Return the step that a target declares."""
    return AnswerStep(config.thoughts, config.extract)
