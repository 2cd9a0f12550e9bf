"""Templates of the messages that a target sends to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from evalflow.errors import UserError
from evalflow.prompts import Prompts, is_file_name, not_given, render
from evalflow.records import Case

VARIABLES = ("question", "history", "messages", "contexts", "metadata", "vars")
"""The variables of a template: a case's fields except reference, expected outcome and answer."""


@dataclass(frozen=True, slots=True)
class TurnTemplate:
    """A template of a message to a model."""

    render: Callable[[Mapping[str, object]], str]
    digest: str

    def text_for(self, case: Case, unknown: str) -> str:
        """The message for a case; `unknown` if it cannot be rendered."""
        try:
            return self.render({name: getattr(case, name) for name in VARIABLES})
        except UserError:
            return unknown


def turn_template(source: str | None, where: str, prompts: Prompts) -> TurnTemplate | None:
    """The template in text or in a file of prompts; None without one. UserError if a target cannot fill it."""
    if source is None:
        return None
    if is_file_name(source):
        template, used, digest = prompts.get(source), prompts.variables(source), prompts.digest([source])
    else:
        template, used, digest = prompts.inline(source, where), prompts.inline_variables(source), source
    if problems := [*not_given(used, VARIABLES, where, "a target")]:
        raise UserError(problems)
    return TurnTemplate(partial(render, template, where=where), digest)
