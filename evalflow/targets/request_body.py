"""The JSON body of a request, from templates in YAML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from evalflow.errors import Problem, UserError
from evalflow.prompts import Prompts, not_given, render
from evalflow.records import Case, Message
from evalflow.targets.service import payload
from evalflow.values.jsonvalues import is_list, is_object

VARIABLES = ("id", "question", "history", "messages", "contexts", "metadata", "vars")
"""The variables of its templates: the payload, and `history`, the messages before the last user message."""
_EXPRESSION = re.compile(r"\{\{-?(?P<inner>(?:(?!\{\{|\}\}).)*?)-?\}\}", re.DOTALL)
_ENCODED = re.compile(r"\|\s*(tojson|json)\s*(\([^()]*\))?\s*\Z")


def variables_of(case: Case) -> dict[str, object]:
    """The variables of a target's templates for a case, all of them JSON values."""
    return {**payload(case), "history": [message.sent for message in case.history]}


Make = Callable[[Mapping[str, object]], object]


class Body:
    """Builds the JSON request body for a case: the payload, or what YAML declares.

    Values are encoded, so none can break the JSON. In a map or list, each text is a template; one that is a single
    expression gives its value with its type, such as a list. A body that is text is one template of a whole JSON
    document, in which every expression is encoded as JSON.
    """

    def __init__(self, source: object, where: str, prompts: Prompts, variables: Sequence[str] = VARIABLES) -> None:
        self._prompts = prompts
        self._variables = variables
        problems: list[Problem] = []
        self._make: Make | None = None
        if source is None:
            return
        document = isinstance(source, str)
        self._make = (
            self._template(_EXPRESSION.sub(_as_json, source), where, problems, _parsed)
            if document
            else self._part(source, where, problems)
        )
        if problems:
            raise UserError(problems)
        if document:
            try:
                self.value(variables_of(_EXAMPLE))
            except _NotJsonError:
                raise
            except UserError:
                pass  # a real case may have what the example lacks

    def value(self, variables: Mapping[str, object]) -> object:
        """The JSON body; UserError if a template cannot be rendered with these variables, or does not give JSON."""
        if self._make is None:
            return {name: variables[name] for name in VARIABLES if name != "history"}
        return self._make(variables)

    def _part(self, source: object, where: str, problems: list[Problem]) -> Make:
        if is_object(source):
            made = {str(key): self._part(part, f"{where}.{key}", problems) for key, part in source.items()}
            return lambda variables: {key: make(variables) for key, make in made.items()}
        if is_list(source):
            parts = [self._part(part, f"{where}[{i}]", problems) for i, part in enumerate(source)]
            return lambda variables: [make(variables) for make in parts]
        if isinstance(source, str) and "{" in source:
            return self._text(source, where, problems)
        return lambda _: source

    def _text(self, source: str, where: str, problems: list[Problem]) -> Make:
        single = _EXPRESSION.fullmatch(source.strip())
        if single:
            return self._template(f"{{{{ ({single['inner']}) | json }}}}", where, problems, _parsed)
        return self._template(source, where, problems, lambda text, _: text)

    def _template(self, source: str, where: str, problems: list[Problem], finish: Callable[[str, str], object]) -> Make:
        try:
            template, used = self._prompts.inline(source, where), self._prompts.inline_variables(source)
        except UserError as error:
            problems += error.problems
            return lambda _: None
        problems += not_given(used, self._variables, where, "a target")
        return lambda variables: finish(render(template, variables, where), where)


class _NotJsonError(UserError):
    """A template was rendered, but the result is not JSON."""


_EXAMPLE = Case(
    dataset="", index=0, id="id", messages=tuple(Message(role, "text") for role in ("user", "assistant", "user"))
)  # example values to check before the run whether a document is JSON


def _as_json(expression: re.Match[str]) -> str:
    inner = expression["inner"]
    return expression[0] if _ENCODED.search(inner) else f"{{{{ ({inner}) | json }}}}"


def _parsed(text: str, where: str) -> object:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        hint = 'values come as JSON, with quotes of their own: {"question": {{ question }}}'
        raise _NotJsonError(Problem(f"the template does not make JSON: {error}", where, hint)) from None
