"""The body of a request to a service: JSON whose values come from the case."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.prompts import Prompts, render
from evalflow.records import Case, Message
from evalflow.targets.payload import payload

VARIABLES = ("id", "question", "history", "messages", "contexts", "metadata", "vars")
"""What its templates may use: the payload, and the messages before the last user message."""
_EXPRESSION = re.compile(r"\{\{-?(?P<inner>(?:(?!\{\{|\}\}).)*?)-?\}\}", re.DOTALL)
_ENCODED = re.compile(r"\|\s*(tojson|json)\s*(\([^()]*\))?\s*\Z")

Make = Callable[[Mapping[str, Any]], Any]


class Body:
    """Makes the JSON that is sent for a case.

    Values never are part of the JSON's own text, so that none can break it. In a map or list, each text is a template:
    one that is a single expression gives its value as it is, a list say, and any other one gives text. A body that is
    text is one template of a whole JSON document, in which every expression is put as JSON.

    Args:
        source: As it stands in YAML; None: the payload.
        where: The key path, for messages.
        prompts: The templates.

    Raises:
        UserError: A template is broken, uses what it must not see, or makes no JSON.
    """

    def __init__(self, source: Any, where: str, prompts: Prompts) -> None:
        self._prompts = prompts
        problems: list[Problem] = []
        self._make: Make | None = None
        if source is None:
            return
        make = self._document(source, where, problems) if isinstance(source, str) else None
        self._make = make or self._part(source, where, problems)
        if problems:
            raise UserError(problems)
        if isinstance(source, str):
            self._refuse_no_json()

    def value(self, case: Case) -> Any:
        """The JSON value for a case.

        Raises:
            UserError: A template cannot be rendered with this case, or makes no JSON of it.
        """
        plain = payload(case)
        if self._make is None:
            return plain
        history = plain["messages"][: len(case.history)]
        return self._make({**plain, "history": history})

    def _refuse_no_json(self) -> None:
        """Try the document on an example; what it cannot be rendered with, a case may still have."""
        try:
            self.value(_EXAMPLE)
        except _NoJsonError:
            raise
        except UserError:
            pass

    def _part(self, source: Any, where: str, problems: list[Problem]) -> Make:
        if isinstance(source, dict):
            made = {
                str(key): self._part(part, f"{where}.{key}", problems)
                for key, part in cast("dict[Any, Any]", source).items()
            }
            return lambda variables: {key: make(variables) for key, make in made.items()}
        if isinstance(source, list):
            parts = [self._part(part, f"{where}[{i}]", problems) for i, part in enumerate(cast("list[Any]", source))]
            return lambda variables: [make(variables) for make in parts]
        if isinstance(source, str) and "{" in source:
            return self._text(source, where, problems)
        return lambda _: source

    def _text(self, source: str, where: str, problems: list[Problem]) -> Make:
        single = _EXPRESSION.fullmatch(source.strip())
        if single:
            return self._template(f"{{{{ ({single['inner']}) | json }}}}", where, problems, _parsed)
        return self._template(source, where, problems, lambda text, _: text)

    def _document(self, source: str, where: str, problems: list[Problem]) -> Make:
        return self._template(_EXPRESSION.sub(_as_json, source), where, problems, _parsed)

    def _template(self, source: str, where: str, problems: list[Problem], finish: Callable[[str, str], Any]) -> Make:
        try:
            template, used = self._prompts.inline(source, where), self._prompts.inline_variables(source)
        except UserError as error:
            problems += error.problems
            return lambda _: None
        problems += _forbidden(used, where)
        return lambda variables: finish(render(template, variables, where), where)


class _NoJsonError(UserError):
    """A template was rendered, and what it made is no JSON."""


_EXAMPLE = Case(
    dataset="", index=0, id="id", messages=tuple(Message(role, "text") for role in ("user", "assistant", "user"))
)
"""To see before the run whether a document is JSON."""


def _as_json(expression: re.Match[str]) -> str:
    inner = expression["inner"]
    return expression[0] if _ENCODED.search(inner) else f"{{{{ ({inner}) | json }}}}"


def _forbidden(used: set[str], where: str) -> Iterator[Problem]:
    for name in sorted(used - set(VARIABLES)):
        what = f"the template uses {name!r}, which a target is not given"
        yield Problem(what, where, did_you_mean(name, VARIABLES))


def _parsed(text: str, where: str) -> Any:
    from pydantic_core import from_json

    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        hint = 'values come as JSON, with quotes of their own: {"question": {{ question }}}'
        raise _NoJsonError(Problem(f"the template makes no JSON: {error}", where, hint)) from None
