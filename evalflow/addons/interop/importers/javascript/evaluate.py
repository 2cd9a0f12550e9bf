"""Carries out a script over an answer that is not known yet: what it returns, as a value that rules can be made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from evalflow.addons.interop.importers.javascript.comparisons import calculated, compared, type_of
from evalflow.addons.interop.importers.javascript.conditions import (
    ALWAYS,
    NEVER,
    NO_GUARDS,
    JsCondition,
    all_of,
    not_of,
)
from evalflow.addons.interop.importers.javascript.constants import constant_of, joined, on_constant
from evalflow.addons.interop.importers.javascript.methods import (
    at_items,
    has_key,
    json_method,
    length_of,
    pattern_of,
    text_method,
)
from evalflow.addons.interop.importers.javascript.syntax import Node
from evalflow.addons.interop.importers.javascript.values import (
    FALSY,
    SKIPPED,
    UNDEFINED_VALUE,
    After,
    Caught,
    Choice,
    Constant,
    Fields,
    Function,
    JsItems,
    Json,
    Kept,
    Match,
    Pieces,
    Regex,
    Text,
    TextPart,
    Value,
    Words,
    ends,
    spread,
    truthy,
)
from evalflow.addons.interop.importers.ledger import Untranslatable

_NOT_NOT = Node("unary", "!", (Node("unary", "!", (Node("name", "value"),)),))
_STEPS = 3000  # parts of a script that are carried out, each as often as it is


class Evaluation:
    """One script, with the names that it knows: `output`, and `context.vars`."""

    def __init__(self, variables: Mapping[str, object]) -> None:
        self._steps = 0
        self._level = 0
        variables_value = Fields({name: constant_of(value) for name, value in variables.items()})
        self._names: Mapping[str, Value] = {
            "output": Text(),
            "context": Fields({"vars": variables_value}, whole=False),
            "undefined": UNDEFINED_VALUE,
            "Boolean": Function(("value",), Node("return", parts=(_NOT_NOT,))),
        }
        self._kinds: Mapping[str, Callable[[Node, Mapping[str, Value]], Value]] = {
            "brackets": self._brackets,
            "array": self._array,
            "object": self._object,
            "template": self._template,
            "unary": self._unary,
            "binary": self._binary,
            "conditional": self._conditional,
            "member": self._read,
            "index": self._read,
            "call": self._call,
            "new": self._new,
        }

    def returned(self, body: Sequence[Node]) -> Value:
        """What the body of a function returns; undefined if it ends without a `return`."""
        result = self._carried_out(tuple(body), self._names)
        return UNDEFINED_VALUE if result is None else result

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _STEPS:
            raise Untranslatable("it has too many steps")

    def _carried_out(self, body: tuple[Node, ...], names: Mapping[str, Value]) -> Value | None:
        """What statements return, one after the other; None if they return nothing."""
        scope = dict(names)
        before = ALWAYS
        result: Value | None = None
        for number, statement in enumerate(body):
            self._step()
            rest = body[number + 1 :]
            match statement.kind:
                case "declare" | "destructure" | "expression":
                    value = self.value(statement.parts[0], scope)
                    before = before.and_then(ends(value))
                    if statement.kind == "declare":
                        scope[statement.name] = value
                    elif statement.kind == "destructure":
                        scope |= {name: self._member(value, name, maybe=False) for name in statement.names}
                        for name in statement.names:
                            before = before.and_then(ends(scope[name]))
                    continue
                case "return":
                    result = self.value(statement.parts[0], scope)
                case "block":
                    result = self._carried_out((*statement.parts, *rest), scope)
                case "if":
                    condition = truthy(self.value(statement.parts[0], scope))
                    then, other = (
                        self._carried_out((*branch, *rest), scope)
                        for branch in (
                            statement.parts[1].parts,
                            statement.parts[2].parts if len(statement.parts) > 2 else (),
                        )
                    )
                    result = _chosen(condition, then or UNDEFINED_VALUE, other or UNDEFINED_VALUE)
                case "try":
                    result = self._tried(statement, rest, scope)
                case _:
                    raise Untranslatable("")
            break
        if before.known is True:
            return result
        return After(before, UNDEFINED_VALUE if result is None else result)

    def _tried(self, statement: Node, rest: tuple[Node, ...], scope: Mapping[str, Value]) -> Value:
        """What `try` returns. If its body returns nothing, what follows is carried out outside of it."""
        body = self._carried_out(statement.parts[0].parts, scope)
        handler = self._carried_out((*statement.parts[1].parts, *rest), scope) or UNDEFINED_VALUE
        ended, value = (body.ends, body.value) if isinstance(body, After) else (ALWAYS, body)
        if value is not None and value != UNDEFINED_VALUE:
            if isinstance(value, Choice):
                _expect_return(value)
            return Caught(After(ended, value), handler)
        after = self._carried_out(rest, scope) or UNDEFINED_VALUE
        return Choice(JsCondition.of(ended.ends), after, handler)

    def value(self, node: Node, names: Mapping[str, Value]) -> Value:
        """The value of an expression."""
        self._step()
        match node.kind:
            case "constant":
                return Constant(node.value)
            case "regex":
                return Regex(node.names[0], node.names[1])
            case "function":
                return Function(node.names, node.parts[0], names)
            case "name" if node.name in names:
                return names[node.name]
            case _ if node.kind in self._kinds:
                return self._kinds[node.kind](node, names)
            case _:
                raise Untranslatable("")

    def _brackets(self, node: Node, names: Mapping[str, Value]) -> Value:
        value = self.value(node.parts[0], names)
        return UNDEFINED_VALUE if value == SKIPPED else value

    def _array(self, node: Node, names: Mapping[str, Value]) -> Value:
        return JsItems(tuple(self._items(node.parts, names)))

    def _object(self, node: Node, names: Mapping[str, Value]) -> Value:
        return Fields({part.name: self.value(part.parts[0], names) for part in node.parts})

    def _template(self, node: Node, names: Mapping[str, Value]) -> Value:
        return joined([self.value(part, names) for part in node.parts])

    def _conditional(self, node: Node, names: Mapping[str, Value]) -> Value:
        condition = truthy(self.value(node.parts[0], names))
        if condition.known is not None:
            return self.value(node.parts[1 if condition.known else 2], names)
        return _chosen(condition, self.value(node.parts[1], names), self.value(node.parts[2], names))

    def _read(self, node: Node, names: Mapping[str, Value]) -> Value:
        """What is read of a value by a name, or by an index or key in brackets."""
        inner, maybe = _of_maybe(node.parts[0])
        value = self.value(inner, names)
        if node.kind == "member":
            return self._member(value, node.name, maybe=maybe)
        return self._at(value, self.value(node.parts[1], names), maybe=maybe)

    def _new(self, node: Node, names: Mapping[str, Value]) -> Value:
        return self._made(node.name, self._items(node.parts, names))

    def _items(self, parts: Sequence[Node], names: Mapping[str, Value]) -> list[Value]:
        items: list[Value] = []
        for part in parts:
            if part.kind == "spread":
                inner = self.value(part.parts[0], names)
                if not isinstance(inner, JsItems):
                    raise Untranslatable("")
                items += inner.values
            else:
                items.append(self.value(part, names))
        return items

    def _unary(self, node: Node, names: Mapping[str, Value]) -> Value:
        operator = node.name
        value = self.value(node.parts[0], names)
        match operator:
            case "!":
                return truthy(value).negated()
            case "typeof":
                return spread(value, type_of)
            case "-" | "+" if isinstance(value, Constant) and isinstance(value.value, int | float):
                return Constant(-value.value if operator == "-" else value.value)
            case "+" if isinstance(value, JsCondition):
                return _chosen(value, Constant(1), Constant(0))
            case _:
                raise Untranslatable("")

    def _binary(self, node: Node, names: Mapping[str, Value]) -> Value:
        operator, (left, right) = node.name, node.parts
        value = self.value(left, names)
        if operator in ("&&", "||"):
            return self._connected(operator, value, right, names)
        other = self.value(right, names)
        match operator:
            case "===" | "!==" | "==" | "!=" | "<" | "<=" | ">" | ">=":
                return compared(operator, value, other)
            case "+":
                return joined([value, other])
            case "in" if isinstance(value, Constant) and isinstance(value.value, str) and isinstance(other, Json):
                return has_key(other, value.value)
            case "??" if isinstance(value, Constant):
                return other if value.value in (None, UNDEFINED_VALUE.value) else value
            case "??" if isinstance(value, Match) and value.of_all and other == JsItems(()):
                return replace(value, or_empty=True)
            case "-" | "*" | "/" | "%" if isinstance(value, Constant) and isinstance(other, Constant):
                return calculated(operator, value.value, other.value)
            case _:
                raise Untranslatable("")

    def _connected(self, operator: str, value: Value, right: Node, names: Mapping[str, Value]) -> Value:
        """`&&` and `||`, which give one of their two values."""
        condition = truthy(value)
        if condition.known is not None:
            return value if condition.known == (operator == "||") else self.value(right, names)
        other = self.value(right, names)
        if operator == "||" and isinstance(value, Match) and value.of_all and other == JsItems(()):
            return replace(value, or_empty=True)
        if isinstance(value, JsCondition) and isinstance(other, JsCondition):
            return value.and_then(other) if operator == "&&" else value.or_else(other)
        return _chosen(condition, other, _false_form(value)) if operator == "&&" else _chosen(condition, value, other)

    def _member(self, value: Value, key: str, *, maybe: bool) -> Value:
        """What is read of a value by its name."""
        return spread(value, lambda choice: self._member_of(choice, key, maybe=maybe))

    def _member_of(self, value: Value, key: str, *, maybe: bool) -> Value:
        match value:
            case Fields() if key in value.values or value.whole:
                return value.values.get(key, UNDEFINED_VALUE)
            case Constant(skips=True):
                return value
            case Constant() if maybe and value.value in (None, UNDEFINED_VALUE.value):
                return SKIPPED
            case _ if key == "length":
                return length_of(value, maybe=maybe)
            case Text() if value == Text():  # the answer as an object, as some providers give it
                return Json().member(key, maybe=maybe)
            case Json():
                return value.member(key, maybe=maybe)
            case _:
                raise Untranslatable("")

    def _at(self, value: Value, key: Value, *, maybe: bool) -> Value:
        """What is read of a value by an index or key in brackets."""
        if not isinstance(key, Constant) or not isinstance(key.value, str | int) or isinstance(key.value, bool):
            raise Untranslatable("")
        at = key.value
        match value:
            case _ if isinstance(at, str) and not at.isdigit():
                return self._member(value, at, maybe=maybe)
            case Json() if isinstance(at, int) and at >= 0:
                return value.member(at, maybe=maybe)
            case Text() if at == 0:
                return TextPart(value, 1)
            case JsItems() if isinstance(at, int) and at >= 0:
                return value.values[at] if at < len(value.values) else UNDEFINED_VALUE
            case _:
                raise Untranslatable("")

    def _call(self, node: Node, names: Mapping[str, Value]) -> Value:
        called = node.parts[0]
        arguments = self._items(node.parts[1:], names)
        if called.kind == "name":
            return self._function(called.name, arguments, names)
        if called.kind != "member":
            raise Untranslatable("")
        inner, maybe = _of_maybe(called.parts[0])
        if inner.kind == "name" and inner.name not in names:
            return self._library(f"{inner.name}.{called.name}", arguments)
        return spread(
            self.value(inner, names), lambda choice: self._method(choice, called.name, arguments, maybe=maybe)
        )

    def _function(self, name: str, arguments: Sequence[Value], names: Mapping[str, Value]) -> Value:
        function = names.get(name)
        if isinstance(function, Function):
            return self._applied(function, arguments)
        if function is not None or len(arguments) != 1:
            return self._made(name, arguments)
        value = arguments[0]
        match name:
            case "String":
                return spread(value, lambda choice: joined([choice]))
            case "Number" if isinstance(value, JsCondition):
                return _chosen(value, Constant(1), Constant(0))
            case _:
                return self._made(name, arguments)

    def _made(self, name: str, arguments: Sequence[Value]) -> Value:
        """`RegExp(...)`, with and without `new`."""
        if name != "RegExp" or not arguments:
            raise Untranslatable("")
        source, flags = arguments[0], arguments[1] if len(arguments) > 1 else Constant("")
        if not isinstance(flags, Constant) or not isinstance(flags.value, str):
            raise Untranslatable("")
        if isinstance(source, Regex):
            return Regex(source.source, flags.value if len(arguments) > 1 else source.flags)
        if not isinstance(source, Constant) or not isinstance(source.value, str):
            raise Untranslatable("")
        return Regex(source.value or "(?:)", flags.value)

    def _library(self, name: str, arguments: Sequence[Value]) -> Value:
        value = arguments[0] if arguments else UNDEFINED_VALUE
        match name:
            case "JSON.parse" if value == Text():
                return Json()
            case "JSON.parse" if isinstance(value, Json):
                return value  # of an answer that is an object already, as some write it
            case "Array.isArray" if isinstance(value, Json):
                return value.says(value.is_list)
            case "Array.isArray":
                return ALWAYS if isinstance(value, JsItems) else NEVER
            case _:
                raise Untranslatable("")

    def _applied(self, function: Function, arguments: Sequence[Value]) -> Value:
        padded = [*arguments, *[UNDEFINED_VALUE] * len(function.params)]
        names = {**function.names, **dict(zip(function.params, padded, strict=False))}
        result = self._carried_out((function.body,), names)
        return UNDEFINED_VALUE if result is None else result

    def _method(self, value: Value, name: str, arguments: Sequence[Value], *, maybe: bool) -> Value:
        self._step()
        if isinstance(value, Constant) and (value.skips or (maybe and value.value in (None, UNDEFINED_VALUE.value))):
            return SKIPPED
        match value:
            case Regex() if name in ("test", "exec") and len(arguments) == 1:
                return spread(arguments[0], lambda choice: _tested(value, name, choice))
            case JsItems():
                return self._list_method(value.values, name, arguments)
            case Constant(str(text)):
                return on_constant(text, name, arguments)
            case Pieces() if name == "filter" and len(arguments) == 1:
                return self._filtered(value, arguments[0])
            case Text():
                return text_method(value, name, arguments)
            case Json() if name in ("some", "every") and len(arguments) == 1:
                return self._quantified(value, name, arguments[0], maybe=maybe)
            case Json():
                return json_method(value, name, arguments, maybe=maybe)
            case Kept() if name == "join":
                return Words(())
            case _:
                raise Untranslatable("")

    def _filtered(self, pieces: Pieces, condition: Value) -> Value:
        """The pieces that a function keeps, if it is about their being empty or blank."""
        if not isinstance(condition, Function) or pieces.keeps != "all":
            raise Untranslatable("")
        piece, trimmed = Text("piece"), Text("piece", trim=True)
        kept = truthy(self._applied(condition, [piece]))
        if kept == truthy(piece):
            return replace(pieces, keeps="some")
        if kept == truthy(trimmed):
            return replace(pieces, keeps="visible")
        for start in _texts_in(condition.body):
            for trim in (False, True):
                if kept == Text("piece", trim=trim).has(start, "starts_with"):
                    return replace(pieces, keeps="begun", start=start, trim=trim)
        raise Untranslatable("it counts pieces by a condition")

    def _quantified(self, value: Json, name: str, condition: Value, *, maybe: bool) -> Value:
        """`some` and `every` over a list in the JSON."""
        if not isinstance(condition, Function) or value.maybe or maybe or self._level:
            raise Untranslatable("")
        self._level += 1
        holds = truthy(self._applied(condition, [Json("$", NO_GUARDS, level=self._level)]))
        self._level -= 1
        wanted = holds if name == "some" else holds.negated()
        guards = value.guards | {f"exists {value.path}"}
        none = not_of(at_items(value.path, not_of(wanted.false)))
        # An item that throws ends it, unless one before it decides, which no rule can say.
        any_item = at_items(value.path, wanted.true) if wanted.guards == NO_GUARDS else None
        holds_for_one = None if any_item is None else all_of(value.is_list, any_item)
        some = JsCondition(holds_for_one, all_of(value.is_list, none), None, guards, guards)
        return some if name == "some" else some.negated()

    def _list_method(self, items: Sequence[Value], name: str, arguments: Sequence[Value]) -> Value:
        """A method of a list whose items are known."""
        first = arguments[0] if arguments else UNDEFINED_VALUE
        if name in ("some", "every", "filter", "map") and isinstance(first, Function):
            results = [self._applied(first, [item, Constant(at)]) for at, item in enumerate(items)]
            if name == "map":
                return JsItems(tuple(results))
            conditions = [truthy(result) for result in results]
            if name == "filter":
                all_known = all(entry.known is not None for entry in conditions)
                kept = tuple(item for item, entry in zip(items, conditions, strict=True) if entry.known)
                return JsItems(kept) if all_known else Kept(tuple(conditions))
            outcome = ALWAYS if name == "every" else NEVER
            for condition in reversed(conditions):
                outcome = condition.and_then(outcome) if name == "every" else condition.or_else(outcome)
            return outcome
        match name:
            case "includes" if len(arguments) == 1:
                outcome = NEVER
                for item in reversed(items):
                    outcome = truthy(compared("===", first, item)).or_else(outcome)
                return outcome
            case "join" if all(isinstance(item, Constant) for item in items):
                mark = first if isinstance(first, Constant) and first != UNDEFINED_VALUE else Constant(",")
                parts = [part for item in items for part in (mark, item)]
                return joined([Constant(""), *parts[1:]])
            case "concat" if isinstance(first, JsItems):
                return JsItems((*items, *first.values))
            case _:
                raise Untranslatable("")


def _chosen(condition: JsCondition, then: Value, other: Value) -> Value:
    """One of two values, as one condition if both are conditions."""
    if condition.known is not None:
        return then if condition.known else other
    if _is_boolean(then) and _is_boolean(other):
        return condition.choose(truthy(then), truthy(other))
    return Choice(condition, then, other)


def _false_form(value: Value) -> Value:
    """What a value is if it is taken for false."""
    match value:
        case Text():
            return Constant("")
        case Match():
            return Constant(None)
        case _:
            return FALSY


def _is_boolean(value: Value) -> bool:
    return isinstance(value, JsCondition) or (isinstance(value, Constant) and isinstance(value.value, bool))


def _expect_return(value: Value) -> None:
    """Untranslatable if it may be undefined, since what follows the `try` would then run."""
    if isinstance(value, Choice):
        _expect_return(value.then)
        _expect_return(value.other)
    elif value == UNDEFINED_VALUE:
        raise Untranslatable("")


def _tested(regex: Regex, name: str, text: Value) -> Value:
    if isinstance(text, Constant) and isinstance(text.value, str):
        return on_constant(text.value, name, [regex])
    if not isinstance(text, Text):
        raise Untranslatable("")
    pattern = pattern_of(regex)
    return text.matches(pattern) if name == "test" else Match(text, pattern)


def _of_maybe(node: Node) -> tuple[Node, bool]:
    """A node, and whether `?.` stands behind it."""
    return (node.parts[0], True) if node.kind == "maybe" else (node, False)


def _texts_in(node: Node) -> Iterator[str]:
    """The texts that are written in a part of a script."""
    if node.kind == "constant" and isinstance(node.value, str) and node.value:
        yield node.value
    for part in node.parts:
        yield from _texts_in(part)
