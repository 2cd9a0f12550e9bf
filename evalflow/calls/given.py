"""Callables passed to `evalflow.run` that Python cannot import by name.

A configuration names a callable as `package.module:callable`. A lambda, bound method, partial or nested function has no
such name and gets one here, valid in this process only.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from threading import Lock
from types import ModuleType
from typing import Any

from evalflow.errors import Problem, UserError

_KEPT: dict[str, Callable[..., object]] = {}
_LOCK = Lock()


def name_of(call: Callable[..., object]) -> str:
    """Return the name by which a configuration finds a callable: its own, or one registered for this process.

    Example:
        >>> import json
        >>> name_of(json.dumps)
        'json:dumps'
    """
    module, name = getattr(call, "__module__", None), getattr(call, "__qualname__", None)
    member: Any = sys.modules.get(module or "")
    for part in (name or "").split("."):
        member = getattr(member, part, None)
    if member is call and module != __name__:
        return f"{module}:{name}"
    plain = re.sub(r"\W+", "_", (called_name(call) or "callable")).strip("_")
    with _LOCK:
        taken, number = plain, 1
        while not _is_same(_KEPT.setdefault(taken, call), call):
            number += 1
            taken = f"{plain}_{number}"
    return f"{__name__}:{taken}"


def _is_same(one: Callable[..., object], other: Callable[..., object]) -> bool:
    """Return whether two callables are the same; each access to a bound method creates a new object."""
    return one is other or (inspect.ismethod(one) and inspect.ismethod(other) and one == other)


def called_name(call: Callable[..., object]) -> str | None:
    """Return a callable's name in its definition, e.g. `lambda`; for an object, its class's name."""
    code = code_of(call)
    return getattr(code, "__name__", None)


def registered(name: str, where: str) -> tuple[ModuleType, Callable[..., object]]:
    """Return a registered callable and the module that defines it; UserError in another process."""
    call = _KEPT.get(name)
    if call is None:
        what = f"the callable {name!r} was given to evalflow.run() in another process"
        hint = (
            "start the run again in Python; a run can only be resumed if the callable is defined at the top of a module"
        )
        raise UserError(Problem(what, where, hint))
    return inspect.getmodule(code_of(call)) or sys.modules[__name__], call


def code_of(call: Callable[..., object]) -> Callable[..., object]:
    """Return the function or class that has a callable's code.

    Example:
        >>> code_of(functools.partial(max, 1)) is max
        True
    """
    while isinstance(call, functools.partial):
        call = call.func
    if inspect.ismethod(call):
        call = call.__func__
    return call if inspect.isroutine(call) or inspect.isclass(call) else type(call)
