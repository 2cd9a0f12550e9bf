"""A case that nobody wrote, on which a metric's templates are rendered before they are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalflow.errors import Problem, UserError
from evalflow.protocols import Metric
from evalflow.records import Case, Context, Message
from evalflow.targets.recorded import recorded_answer

_OF_JINJA = ("alters_data", "jinja_pass_arg", "unsafe_callable")
"""Attributes that Jinja looks for on what it calls."""


def unrenderable(metric: Metric) -> list[Problem]:
    """What keeps a metric's prompts from being rendered for any case; nothing where one can be.

    Fields of a case whose values may be of any type stand there as a text that can be used like any value, and then as
    a number, so that nothing is refused that some data could be rendered with.

    Args:
        metric: Ready to be asked.
    """
    problems: list[Problem] = []
    for unknown in (_Unknown("…"), 1.0):
        case = _case(unknown)
        try:
            metric.preview(case, recorded_answer(case, "made up", 0))
        except UserError as error:
            problems = problems or list(error.problems)
        else:
            return []
    return problems


def placed(problem: Problem, own: Mapping[str, str]) -> Problem:
    """A problem with one of a metric's own templates has that one's name for a key."""
    file = next((file for file in own if file in problem.where), None)
    return Problem(problem.what, problem.where, problem.hint, file) if file else problem


def _case(unknown: Any) -> Case:
    return Case(
        dataset="made up",
        index=0,
        id="made up",
        messages=(Message("user", "Hello?"), Message("assistant", "Hello."), Message("user", "What does it cost?")),
        answer="It costs 40 pounds. That is for a year.",
        reference="40 pounds a year",
        contexts=(Context("The licence costs 40 pounds a year."), Context("It can be paid by card.")),
        expected=unknown,
        actual=unknown,
        metadata=_Anything(unknown),
        demo_answer=Message("assistant", "40 pounds."),
        vars=_Anything(unknown),
    )


class _Anything(dict[str, Any]):
    """A map that has a value under every key."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    def __missing__(self, key: str) -> Any:
        return self._value

    def get(self, key: str, default: Any = None) -> Any:
        return self._value


class _Unknown(str):
    """A text that can be used like a value of any type."""

    __slots__ = ()

    def __getattr__(self, name: str) -> _Unknown:
        if name.startswith("_") or name in _OF_JINJA:
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> _Unknown:
        return self

    def __iter__(self) -> Iterator[str]:
        return iter((self, self))

    def __call__(self, *_: Any, **__: Any) -> _Unknown:
        return self

    def _same(self, *_: Any) -> _Unknown:
        return self

    def _yes(self, _: Any) -> bool:
        return True

    def __int__(self) -> int:
        return 1

    def __float__(self) -> float:
        return 1.0

    def __round__(self, _: int = 0) -> int:
        return 1

    __index__ = __int__
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _same  # pyright: ignore
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __neg__ = __abs__ = _same
    __lt__ = __le__ = __gt__ = __ge__ = _yes  # pyright: ignore
