"""Which columns of a case's `vars` a template reads, and which of them a case may lack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from jinja2 import nodes

_SAFE_TESTS = frozenset({"defined", "undefined", "none"})
"""Tests that an undefined value passes or fails without an error."""
_DEFAULTS = frozenset({"default", "d"})
_SCOPES = (nodes.Block, nodes.Macro, nodes.CallBlock)
"""Nodes whose content may be rendered elsewhere, so that a condition around them proves nothing."""
Present = frozenset[str]


@dataclass(slots=True)
class PromptColumns:
    """The columns of `vars` that a template reads by name, in order, and whether rendering fails without them.

    Rendering fails if an undefined value is printed, compared or tested for truth. It does not fail in a test such as
    `is defined`, below a condition that ensures the value, in `vars.x | default(...)`, and in `vars.get("x")`, unless
    an attribute of its None is used. Aliases are not followed: after `{% set p = vars.x %}`, a condition on `p` ensures
    nothing, and `vars.x` counts as needed.
    """

    needed: dict[str, bool] = field(default_factory=dict[str, bool])

    @classmethod
    def of(cls, tree: nodes.Template) -> PromptColumns:
        """Read a template."""
        columns = cls()
        columns._read(tree, frozenset())
        return columns

    def _note(self, name: str, *, needed: bool) -> None:
        self.needed[name] = self.needed.get(name, False) or needed

    def _read_all(self, some: Iterable[nodes.Node], present: Present) -> None:
        for node in some:
            self._read(node, present)

    def _read(self, node: nodes.Node, present: Present) -> None:
        """Note the columns below a node, if those that are `present` cannot be undefined."""
        match node:
            case nodes.If():
                self._read_branches(node, present)
            case nodes.CondExpr(test=test, expr1=then, expr2=otherwise):
                self._read(test, present)
                self._read(then, present | _shown_by(test, when=True))
                if otherwise is not None:
                    self._read(otherwise, present | _shown_by(test, when=False))
            case nodes.And(left=left, right=right) | nodes.Or(left=left, right=right):
                self._read(left, present)
                self._read(right, present | _shown_by(left, when=isinstance(node, nodes.And)))
            case nodes.Test(node=tested, name=test) if test in _SAFE_TESTS and (name := _checked(tested)):
                self._note(name, needed=False)
            case nodes.Filter(node=nodes.Expr() as tested, name=name, args=args, kwargs=named) if (
                name in _DEFAULTS and (column := _checked(tested))
            ):
                self._note(column, needed=False)
                self._read_all([*args, *named], present)
            case nodes.Call(node=nodes.Getattr(node=nodes.Name(name="vars")), args=args, kwargs=named):
                if (column := _gotten(node)) is not None:
                    self._note(column, needed=False)
                self._read_all([*args, *named], present)
            case _ if (column := _checked(node)) is not None:
                self._note(column, needed=column not in present)
            case _:
                self._read_all(node.iter_child_nodes(), frozenset() if isinstance(node, _SCOPES) else present)

    def _read_branches(self, node: nodes.If, present: Present) -> None:
        for branch in (node, *node.elif_):
            self._read(branch.test, present)
            self._read_all(branch.body, present | _shown_by(branch.test, when=True))
            present |= _shown_by(branch.test, when=False)
        self._read_all(node.else_, present)


def _column(node: nodes.Node) -> str | None:
    match node:
        case nodes.Getattr(node=nodes.Name(name="vars"), attr=name):
            return name
        case nodes.Getitem(node=nodes.Name(name="vars"), arg=nodes.Const(value=str(name))):
            return name
        case _:
            return None


def _gotten(node: nodes.Node) -> str | None:
    match node:
        case nodes.Call(
            node=nodes.Getattr(node=nodes.Name(name="vars"), attr="get"), args=[nodes.Const(value=str(name)), *_]
        ):
            return name
        case _:
            return None


def _attribute_of_gotten(node: nodes.Node) -> str | None:
    """The column of `vars.get("x").y`, which is undefined if the case lacks the column."""
    match node:
        case (
            nodes.Getattr(node=nodes.Call(args=[_]) as call)
            | nodes.Getitem(node=nodes.Call(args=[_]) as call, arg=nodes.Const())
        ):
            return _gotten(call)
        case _:
            return None


def _checked(node: nodes.Node) -> str | None:
    """The column of what `is defined` or `default` may be asked of without an error."""
    return _column(node) or _attribute_of_gotten(node)


def _shown_by(test: nodes.Node, *, when: bool) -> Present:
    """The columns that are there when a condition holds, or when it does not."""
    match test:
        case nodes.Not(node=inner):
            return _shown_by(inner, when=not when)
        case nodes.And(left=left, right=right) | nodes.Or(left=left, right=right):
            one, other = _shown_by(left, when=when), _shown_by(right, when=when)
            return one | other if isinstance(test, nodes.And) == when else one & other
        case nodes.Test(node=tested, name="defined" | "undefined" as name) if column := _column(tested):
            return frozenset({column}) if (name == "defined") == when else frozenset()
        case nodes.Compare(
            expr=nodes.Const(value=str(name)),
            ops=[nodes.Operand(op="in" | "notin" as op, expr=nodes.Name(name="vars"))],
        ):
            return frozenset({name}) if (op == "in") == when else frozenset()
        case nodes.Test(node=nodes.Call(args=[_]) as call, name="none") if not when and (column := _gotten(call)):
            return frozenset({column})
        case nodes.Call(args=[_]) if when and (column := _gotten(test)):
            return frozenset({column})
        case _:
            return frozenset()
