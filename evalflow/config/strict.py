"""The base class of all configuration models, and types of their values."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from evalflow.records.deferred import DEFER_BUILD


class ValueOfError(ValueError):
    """A wrong value, and the valid one that it was probably meant to be, if there is one."""

    def __init__(self, message: str, valid: str | None) -> None:
        self.valid = valid
        super().__init__(message)


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=DEFER_BUILD)


def unquoted_word(value: object) -> object:
    """Refuse a boolean that YAML made of an unquoted word."""
    if isinstance(value, bool):
        word = "true/yes/on" if value else "false/no/off"
        raise ValueError(f"YAML reads an unquoted {word} as a boolean; put it in quotes")
    return value


Word = Annotated[str, BeforeValidator(unquoted_word)]
"""Text that refuses YAML 1.1's unquoted yes, no, on and off, which would become booleans."""


def matching(pattern: str, message: str) -> AfterValidator:
    """Return a validator that rejects, with this message, texts that do not fully match a regular expression."""
    compiled = re.compile(pattern)

    def checked(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(message)
        return text

    return AfterValidator(checked)


_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def callable_name(text: str) -> str | None:
    """The callable that a text names: `bots/faq.py:ask`, `bots.faq.ask` and `bots.faq:ask` are the last; else None.

    Example:
        >>> callable_name("bots/faq.py:ask")
        'bots.faq:ask'
    """
    file, colon, attribute = text.partition(":")
    if not colon:
        file, _, attribute = text.rpartition(".")
    module = file.removesuffix(".py").removeprefix("./").replace("/", ".")
    name = f"{module}:{attribute}"
    return name if _CALLABLE.fullmatch(name) and attribute != "py" else None


def _checked_callable(call: str) -> str:
    if _CALLABLE.fullmatch(call) and not call.partition(":")[0].endswith(".py"):
        return call
    raise ValueOfError(f"{call!r} names no callable: package.module:callable", callable_name(call))


CallableName = Annotated[str, AfterValidator(_checked_callable)]
"""A Python callable, as `package.module:callable`."""
