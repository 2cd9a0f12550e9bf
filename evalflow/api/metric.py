"""Metrics that are Python callables: what `metrics=` takes, and the decorator that says how they score."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

from evalflow.calls.given import called_name, code_of, name_of
from evalflow.config.overrides import assignment
from evalflow.config.schema import IDENTIFIER
from evalflow.errors import Problem, UserError
from evalflow.records import Answer, Case
from evalflow.values.jsonvalues import is_mapping

_MetricCall = Callable[[Case, Answer], object]
F = TypeVar("F", bound=_MetricCall)
Metrics = Iterable[_MetricCall] | Mapping[str, _MetricCall]
"""Callables by the names of their metrics, or those that have names."""
_KEYS = "evalflow_metric"


@overload
def metric(function: F, /) -> F: ...
@overload
def metric(
    *,
    name: str | None = None,
    needs: Sequence[str] = ("answer",),
    threshold: float | None = None,
    direction: Literal["higher_is_better", "lower_is_better"] = "higher_is_better",
    values: Mapping[str, float] | None = None,
    bounded: bool = True,
    description: str | None = None,
    version: int = 1,
) -> Callable[[F], F]: ...
def metric(function: Any = None, /, **keys: Any) -> Any:
    """Say how a function scores, for `evalflow.run(metrics=[...])`; the function itself stays as it is.

    It takes a case and an answer, and returns a number, true or false, a label, an `Outcome`, or None where there is
    no score. It may be a coroutine function.

    Args:
        function: The function, where the decorator is written without brackets.
        name: The metric's name in results; by default the function's.
        needs: The case fields that must be there; a case that lacks one is skipped.
        threshold: The lowest passing score (the highest, if lower is better); by default 1 where the function is
            annotated to return a bool, else none.
        direction: Which end of the scale is good.
        values: The score of each label, where it returns labels.
        bounded: Whether scores lie in 0..1; false for another scale.
        description: What the score means; by default the first line of the docstring.
        version: Raise it when a change makes old and new scores incomparable.

    Example:
        >>> @metric(threshold=1)
        ... def polite(case, answer):
        ...     return "please" in answer.text
        >>> polite.__name__
        'polite'
    """

    def declared(function: Any) -> Any:
        setattr(function, _KEYS, keys)
        return function

    return declared if function is None else declared(function)


def metric_words(metrics: Metrics | None) -> list[str]:
    """The overrides that add the metrics; UserError lists those without a usable name."""
    by_name: dict[str, Callable[..., object]] = {}
    problems: list[Problem] = []
    for number, (name, call) in enumerate(_named(metrics)):
        where = f"metrics[{number}]"
        if not callable(call):
            got = type(call).__name__
            problems.append(Problem(f"expected a callable, got {got}", where, "name shipped metrics by metric=NAME"))
        elif not name or not IDENTIFIER.match(name):
            what = f"a metric cannot be called {name!r}: use small letters, digits and _, a letter first"
            problems.append(Problem(what, where, "give it one: metrics={'polite': ...}"))
        elif by_name.setdefault(name, call) is not call:
            problems.append(Problem(f"two metrics are called {name}", where, "give each a name: metrics={'a': ...}"))
    if problems:
        raise UserError(problems)
    return [word for name, call in by_name.items() for word in _words(name, call)]


def _named(metrics: Metrics | None) -> Iterator[tuple[str | None, Any]]:
    if is_mapping(metrics):
        yield from ((str(name), call) for name, call in metrics.items())
    elif callable(metrics):
        raise UserError(Problem("metrics is a list of callables, or a dictionary by name", "metrics", "metrics=[...]"))
    else:
        for call in metrics or ():
            yield getattr(call, _KEYS, {}).get("name") or (called_name(call) if callable(call) else None), call


def _words(name: str, call: Callable[..., object]) -> Iterator[str]:
    given: dict[str, Any] = {"description": _first_line(call), "threshold": 1 if _returns_bool(call) else None}
    given |= {key: value for key, value in getattr(call, _KEYS, {}).items() if key != "name" and value is not None}
    keys = {"kind": "python", "call": name_of(call), **given}
    for key, value in keys.items():
        if value is not None:
            try:
                yield assignment(f"+metric.{name}.{key}", list(value) if key == "needs" else value)
            except ValueError as error:
                hint = "return other labels, or their scores"
                raise UserError(Problem(str(error), f"metrics.{name}.{key}", hint)) from None


def _first_line(call: Callable[..., object]) -> str | None:
    text = inspect.getdoc(code_of(call))
    return text.split("\n", 1)[0] if text else None


def _returns_bool(call: Callable[..., object]) -> bool:
    try:
        return inspect.signature(call).return_annotation in (bool, "bool")
    except (TypeError, ValueError):  # of some callables that are not written in Python
        return False
