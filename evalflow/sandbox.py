"""Jinja's sandbox with a meter, so that every template ends soon and within bounded memory.

Users of the application write templates too. No thread or signal is needed: `template_costs` estimates the cost of an
operation, which is counted before the operation runs. Operations that cannot multiply a size are not metered, so that
an ordinary prompt has no overhead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sized
from itertools import islice
from typing import Any, cast

from jinja2 import (
    Template,  # noqa: TID251 - its type; Prompts makes them
    meta,
    nodes,
)
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from evalflow import template_costs
from evalflow.template_costs import weight

STEPS = 2_000_000
"""Maximum parts of a template, such as expressions, that loops, macros and includes run in one rendering."""
CHARACTERS = 32_000_000
"""Maximum text produced or scanned in one rendering; the longest prompts of models take a few million."""
_CALL = 20  # steps
_AT_ONCE = 256
_OF_DICT = frozenset(dir(dict))
_OF_LOOP = frozenset(("index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem"))


class TooMuch(SecurityError):
    """A template produces more than any prompt can need."""


class _Opaque(Namespace):
    """A namespace whose text leaves out its content, since nested namespaces could double it at each level."""

    def __repr__(self) -> str:
        return "<Namespace>"


class _Generator(CodeGenerator):
    """Outputs text unchanged, and measures any other value before converting it to text."""

    def _output_child_pre(self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo) -> None:
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            super()._output_child_pre(node, frame, finalize)
            self.write("environment.text_of(")
        else:
            self.write("(piece if (piece := (")

    def _output_child_post(self, node: nodes.Expr, frame: Frame, finalize: CodeGenerator._FinalizeInfo) -> None:
        if frame.eval_ctx.volatile or frame.eval_ctx.autoescape:
            self.write(")")
            super()._output_child_post(node, frame, finalize)
        else:
            self.write(")).__class__ is str else str(piece) if piece.__class__ is int else environment.text_of(piece))")

    def visit_Getattr(self, node: nodes.Getattr, frame: Frame) -> None:
        """Look up an item of a plain dictionary without a call."""
        if node.attr in _OF_DICT:
            super().visit_Getattr(node, frame)
            return
        name = repr(node.attr)
        self.write(f"(owner[{name}] if (owner := ")
        self.visit(node.node, frame)
        self.write(f").__class__ is dict and {name} in owner else environment.getattr(owner, {name}))")

    def visit_Include(self, node: nodes.Include, frame: Frame) -> None:
        """Reuse the text of an include that is the same in every rendering."""
        name = node.template.value if isinstance(node.template, nodes.Const) else None
        if not isinstance(name, str) or node.ignore_missing or not node.with_context:
            super().visit_Include(node, frame)
            return
        local = self.dump_local_context(frame)
        self.writeline(f"if (text := environment.shared_text(context, {name!r}, {local})) is not None:", node)
        self.indent()
        self.simple_write("text", frame)
        self.outdent()
        self.writeline("else:")
        self.indent()
        super().visit_Include(node, frame)
        self.outdent()


class Shared(dict[str, Any]):
    """Variables that are the same in every rendering of a run; and the included texts that use no others, rendered."""

    def __init__(self, **variables: Any) -> None:
        super().__init__(variables)
        self.texts: dict[str, str | None] = {}


class Sandbox(ImmutableSandboxedEnvironment):
    """An environment whose templates are metered. `begin` starts the meter anew for each rendering."""

    intercepted_binops = frozenset({"+", "*", "**", "//", "%"})
    code_generator_class = _Generator

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._loaded: dict[str, Template] = {}
        self._sizes: dict[str | None, int] = {}
        self.concat = self._joined  # pyright: ignore[reportIncompatibleMethodOverride, reportAttributeAccessIssue]
        known = cast("dict[str, Any]", self.globals)  # pyright: ignore[reportUnknownMemberType]
        known.pop("lipsum")
        known["namespace"] = _Opaque
        filters = cast("dict[str, Any]", self.filters)  # pyright: ignore[reportUnknownMemberType]
        self.add_filters(dict(filters))
        filters |= {" over": self._over, " joined": self._concatenated, " measured": self._weighed}
        tests = cast("dict[str, Any]", self.tests)  # pyright: ignore[reportUnknownMemberType]
        for name, test in tests.items():
            tests[name] = self._counted(test, template_costs.of_test(name))
        self.begin()

    def add_filters(self, made: dict[str, Callable[..., Any]]) -> None:
        filters = cast("dict[str, Any]", self.filters)  # pyright: ignore[reportUnknownMemberType]
        for name, filter in made.items():
            filters[name] = self._counted(filter, template_costs.of_filter(name))

    def begin(self, shared: Shared | None = None) -> None:
        """Start a rendering. `shared` are the variables that are the same in other renderings too."""
        self._shared = shared
        self._steps = STEPS
        self._characters = CHARACTERS

    def step(self, steps: int) -> None:
        """Count parts of the template before they run."""
        self._steps -= steps
        if self._steps < 0:
            raise TooMuch(f"its loops take more than {STEPS:,} steps")

    def spend(self, characters: int) -> None:
        """Count text before it is produced or scanned."""
        self._characters -= characters
        if self._characters < 0:
            raise TooMuch(f"it makes more than {CHARACTERS:,} characters of text")

    def text_of(self, value: Any) -> str:
        if type(value) is not int:  # Python itself limits an int to a few thousand digits
            self.spend(weight(value))
        return str(value)

    def make_globals(self, d: MutableMapping[str, Any] | None) -> MutableMapping[str, Any]:
        """The globals in a plain dictionary; Jinja's chain of two would be copied for every rendering and include."""
        return {**self.globals, **(d or {})}  # pyright: ignore[reportUnknownMemberType]

    def get_template(
        self, name: str | Template, parent: str | None = None, globals: MutableMapping[str, Any] | None = None
    ) -> Template:
        """A template by its name. Avoids the lock that Jinja takes each time, even for a common include."""
        if globals or not isinstance(name, str):
            return super().get_template(name, parent, globals)
        if name not in self._loaded:
            self._loaded[name] = super().get_template(name, parent)
        self._steps -= self._sizes.get(name, _CALL)
        if self._steps < 0:
            self.step(0)
        return self._loaded[name]

    def shared_text(self, context: Context, name: str, local: Mapping[str, Any]) -> str | None:
        """The text of an included template that uses only shared variables; None for any other."""
        shared = self._shared
        if shared is None or not (shared.keys().isdisjoint(local) and shared.keys().isdisjoint(context.vars)):
            return None
        if name not in shared.texts:
            shared.texts[name] = None
            if self._uses_only(name, shared):
                template = self.get_template(name)
                shared.texts[name] = self._joined(template.root_render_func(template.new_context(dict(shared))))
        return shared.texts[name]

    def _uses_only(self, name: str, shared: Shared) -> bool:
        """Whether a template and its includes depend on these variables only."""
        seen: set[str | None] = set()
        left: list[str | None] = [name]
        while left:
            part = left.pop()
            if part is None:
                return False
            if part in seen:
                continue
            seen.add(part)
            self.get_template(part)
            assert self.loader
            tree = self.parse(self.loader.get_source(self, part)[0])
            draws = any(one.name == "random" for one in tree.find_all(nodes.Filter))
            if draws or not meta.find_undeclared_variables(tree) <= shared.keys():
                return False
            left += meta.find_referenced_templates(tree)
        return True

    def getattr(self, obj: Any, attribute: str) -> Any:
        """An attribute, else an item. Jinja itself finds a dictionary's item only through an exception."""
        kind = cast("type[Any]", type(obj))
        if kind is dict:
            if attribute not in _OF_DICT and attribute in obj:
                return cast("dict[str, Any]", obj)[attribute]
        elif (kind is LoopContext and attribute in _OF_LOOP) or (
            attribute[0] != "_" and attribute in getattr(kind, "__dataclass_fields__", ())
        ):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """An item. Looking up a tuple as a key scans all of it."""
        if type(argument) is tuple:
            self.spend(weight(cast("tuple[Any, ...]", argument)))
        return super().getitem(obj, cast("Any", argument))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Refuse an operation whose result would be too large, before it is made."""
        self.spend(template_costs.of_operator(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        if type(__obj) is Macro:
            __self._steps -= __self._sizes.get(__obj.name, _CALL) + len(args)
            if __self._steps < 0:
                __self.step(0)
            return __context.call(__obj, *args, **kwargs)
        method = getattr(__obj, "__wrapped__", __obj)  # the sandbox wraps `format`
        owner: Any = getattr(method, "__self__", None)
        args = tuple([_whole(arg) for arg in args])
        __self.step(_CALL)
        if isinstance(__obj, LoopContext):
            __self.step(_CALL * sum(len(arg) for arg in args if isinstance(arg, Sized)))
        elif isinstance(owner, str | bytes | int | float | list | tuple | dict):
            cost = template_costs.of_method(cast("Any", owner), method.__name__)
            __self._charge(cost, (cast("Any", owner), *args), kwargs)
        else:
            __self._charge(template_costs.of_filter(""), args, kwargs)
        return super().call(__context, __obj, *args, **kwargs)

    def _charge(self, cost: template_costs.Cost | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Count the cost of a call. A call with wrong arguments is not counted, as it fails anyway."""
        try:
            taken = cost(*args, **kwargs) if cost else 0
        except TypeError:
            taken = template_costs.of_operator("+", args, tuple(kwargs.values()))
        self.spend(taken)

    def _counted(self, made: Callable[..., Any], cost: template_costs.Cost | None) -> Callable[..., Any]:
        if cost is None:
            return made
        skipped = 1 if hasattr(made, "jinja_pass_arg") else 0  # such as the environment
        plain = cost is template_costs.of_filter("fenced") and not skipped

        @functools.wraps(made)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if plain and not kwargs and args[0].__class__ is str:
                # The usual case, without another call.
                for arg in args:
                    self._characters -= len(arg) if arg.__class__ is str else weight(arg)
                if self._characters < 0:
                    self.spend(0)
                return made(*args)
            args = (*args[:skipped], *[_whole(arg) for arg in args[skipped:]])
            self._charge(cost, args[skipped:], kwargs)
            return made(*args, **kwargs)

        return counted

    def _over(self, iterable: Any, size: int) -> Any:
        """The items of a loop whose body has `size` parts."""
        if hasattr(iterable, "__next__"):
            iterable = list[Any](islice(iterable, STEPS // size + 1))
        self._steps -= len(iterable) * size
        if self._steps < 0:
            self.step(0)
        return iterable

    def _concatenated(self, *parts: Any) -> str:
        self.spend(sum(map(weight, parts)))
        return "".join(map(str, parts))

    def _weighed(self, value: Any) -> Any:
        self.spend(weight(value))
        return value

    def _joined(self, pieces: Iterable[str]) -> str:
        remaining: Iterator[str] = iter(pieces)
        found: list[str] = []
        while part := tuple(islice(remaining, _AT_ONCE)):
            self._characters -= sum(map(len, part))
            if self._characters < 0:
                self.spend(0)
            found += part
        return "".join(found)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        self._sizes[name] = _size(tree)
        for macro in tree.find_all((nodes.Macro, nodes.CallBlock)):
            called = macro.name if isinstance(macro, nodes.Macro) else "caller"
            self._sizes[called] = max(_size(macro), self._sizes.get(called, 0))
        _Metered().visit(tree)
        return tree


class _Metered(NodeTransformer):
    def visit_For(self, node: nodes.For) -> nodes.Node:
        node.iter = _filter(" over", cast("nodes.Expr", node.iter), nodes.Const(_size(node)))
        return self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        first, *others = node.nodes
        return _filter(" joined", first, *others)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        """Meter compared values, unless one side is certainly short."""
        self.generic_visit(node)
        for operand in node.ops:
            if operand.op in ("in", "notin"):
                operand.expr = _measured(operand.expr)
            elif not isinstance(operand.expr, nodes.Const):
                node.expr = _measured(node.expr)
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        """Meter a slice, which is a copy."""
        self.generic_visit(node)
        return _filter(" measured", node) if isinstance(node.arg, nodes.Slice) else node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:
        """Meter a dictionary's key: it may be a tuple, which is scanned."""
        self.generic_visit(node)
        node.key = _measured(node.key)
        return node


def _measured(value: nodes.Expr) -> nodes.Expr:
    constant = isinstance(value, nodes.Const) or (
        isinstance(value, nodes.Tuple | nodes.List) and all(isinstance(item, nodes.Const) for item in value.items)
    )
    return value if constant else _filter(" measured", value)


def _filter(name: str, value: nodes.Expr, *args: nodes.Expr) -> nodes.Filter:
    made = nodes.Filter(value, name, list(args), [], None, None)
    made.set_lineno(value.lineno).set_environment(cast("Any", value.environment))
    return made


def _size(node: nodes.Node) -> int:
    return 1 + sum(map(_size, node.iter_child_nodes()))


def _whole(value: Any) -> Any:
    """A one-time iterator as a list, so that it can be measured."""
    return list(cast("Iterator[Any]", value)) if hasattr(value, "__next__") else value
