"""The base class of all configuration models."""

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
