"""Jinja's sandbox with a meter, so that every template ends, whatever loops or multiplies in it.

Templates come from the project's own files; the meter guards against mistakes, such as a loop in a loop over
everything. It counts and needs no thread or signal: each pass of a loop or call of a macro is a step, and text counts
where it is made and where it is put out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, MutableMapping, Sized
from typing import Any, cast

from jinja2 import (
    Environment,
    Template,  # noqa: TID251 - its type; Prompts makes them
    nodes,
)
from jinja2.exceptions import SecurityError
from jinja2.filters import do_format
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

STEPS = 200_000
"""Passes of loops, and calls of macros, in one rendering."""
CHARACTERS = 32_000_000
"""Text made in one rendering, what is made on the way included; the longest prompts of models take a few million."""
NUMBER = 1_000_000
"""The largest width or count that a filter or a method of a text may be given."""
_SIZED_FILTERS = ("batch", "center", "indent", "round", "slice", "tojson")
_OF_DICT = frozenset(dir(dict))
_WIDTH = re.compile(r"[:%][^{}%]{0,9}?(\d{7,})")
_WIDTH_GIVEN = re.compile(r"%[^a-zA-Z%]*\*|:[^{}]*\{")


class TooMuch(SecurityError):
    """A template makes more than any prompt can need."""


class Meter:
    """What one rendering has taken."""

    def __init__(self) -> None:
        self._steps = 0
        self._characters = 0

    def step(self, constant: int) -> None:
        """Count one pass, which puts out so many characters of the template's own text."""
        self._steps += 1
        if self._steps > STEPS:
            raise TooMuch(f"its loops take more than {STEPS:,} passes")
        self.text(constant)

    def text(self, length: int) -> None:
        """Count text that is made or put out."""
        self._characters += length
        if self._characters > CHARACTERS:
            raise TooMuch(f"it makes more than {CHARACTERS:,} characters of text")


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment whose templates are metered. `begin` starts the meter anew for each rendering.

    Args:
        options: As for Jinja's environment.
    """

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.meter = Meter()
        self._loaded: dict[str, Template] = {}
        self.finalize = self._put_out
        self.globals.pop("lipsum")  # pyright: ignore[reportUnknownMemberType]
        filters = cast("dict[str, Any]", self.filters)  # pyright: ignore[reportUnknownMemberType]
        for name in _SIZED_FILTERS:
            filters[name] = _checked(filters[name])
        filters["format"] = _format

    def begin(self) -> None:
        """Start a rendering."""
        self.meter = Meter()

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The globals of a template, in a plain dictionary.

        Jinja chains two, and copies the chain for every template that is rendered or included.
        """
        return {**self.globals, **(d or {})}  # pyright: ignore[reportUnknownMemberType]

    def get_template(
        self, name: str | Template, parent: str | None = None, globals: MutableMapping[str, Any] | None = None
    ) -> Template:
        """A template by its name; Jinja takes its lock each time, also for what every prompt includes."""
        if globals or not isinstance(name, str):
            return super().get_template(name, parent, globals)
        if name not in self._loaded:
            self._loaded[name] = super().get_template(name, parent)
        return self._loaded[name]

    def getattr(self, obj: Any, attribute: str) -> Any:
        """An attribute, else an item, which Jinja finds in a dictionary only by way of an exception."""
        if type(obj) is dict and attribute not in _OF_DICT and attribute in obj:
            return cast("dict[str, Any]", obj)[attribute]
        return super().getattr(obj, attribute)

    def step(self, constant: int) -> None:
        """Count one pass; what `_parse` puts into every body calls it."""
        self.meter.step(constant)

    def joined(self, *parts: Any) -> str:
        """What `~` gives."""
        texts = [str(part) for part in parts]
        self.meter.text(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse an operation whose result would be too large, before it is made."""
        self.meter.text(_size(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a function or method, and count the text that it makes."""
        if getattr(__obj, "__self__", None) is __self:
            return __obj(*args)  # a step, or a join
        method = getattr(__obj, "__wrapped__", __obj)  # the sandbox wraps `format`
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str | bytes):
            refuse = functools.partial(_refuse_widths, owner) if method is not __obj else _refuse_numbers
            refuse((*args, *kwargs.values()))
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, str):
            __self.meter.text(len(result))
        return result

    def _put_out(self, value: Any) -> str:
        text = value if isinstance(value, str) else str(value)
        self.meter.text(len(text))
        return text

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        _Joins().visit(tree)
        for body in [tree, *tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock))]:
            constant = nodes.Const(sum(len(data.data) for data in body.find_all(nodes.TemplateData)))
            counted = nodes.ExprStmt(_call("step", [constant], body.lineno, self), lineno=body.lineno)
            body.body.insert(0, counted.set_environment(self))
        return tree


class _Joins(NodeTransformer):
    """Turns each `~` into a call of `joined`, since Jinja lets no sandbox see it."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """Replace one, and those within it."""
        self.generic_visit(node)
        assert node.environment
        return _call("joined", list(node.nodes), node.lineno, node.environment)


def _call(method: str, arguments: list[Any], lineno: int, environment: Environment) -> nodes.Expr:
    """A call of a method of the environment, as a node of a template."""
    called = nodes.EnvironmentAttribute(method)
    call = nodes.Call(called, arguments, [], None, None)
    call.set_lineno(lineno).set_environment(environment)
    return call


def _size(operator: str, left: Any, right: Any) -> int:
    """About how long the result of an operation is; bits and items count as characters do."""
    if isinstance(left, int) and isinstance(right, int):
        return left.bit_length() * max(right, 0) if operator == "**" else left.bit_length() + right.bit_length()
    if operator == "*":
        times, repeated = (left, right) if isinstance(left, int) else (right, left)
        return _length(repeated) * max(times, 0) if isinstance(times, int) else 0
    if operator == "%" and isinstance(left, str | bytes):
        _refuse_widths(left, cast("tuple[Any, ...]", right if isinstance(right, tuple) else (right,)))
        return len(left)
    return _length(left) + _length(right)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, Sized) else 0


def _checked(made: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that refuses excessive widths and counts."""

    @functools.wraps(made)
    def checked(*args: Any, **kwargs: Any) -> Any:
        _refuse_numbers((*args[1:], *kwargs.values()))
        return made(*args, **kwargs)

    return checked


def _format(text: str, *args: Any, **kwargs: Any) -> str:
    """Jinja's filter of that name, which refuses excessive widths."""
    _refuse_widths(text, (*args, *kwargs.values()))
    return do_format(text, *args, **kwargs)


def _refuse_numbers(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, int) and value > NUMBER:
            raise TooMuch(f"it asks for a width or a count of {value:,}; at most {NUMBER:,} can be had")


def _refuse_widths(text: str | bytes, values: Iterable[Any]) -> None:
    """Refuse widths in a format string, and among the values where it takes widths from them."""
    text = str(text)
    _refuse_numbers(int(width) for width in _WIDTH.findall(text))
    if _WIDTH_GIVEN.search(text):
        _refuse_numbers(values)
