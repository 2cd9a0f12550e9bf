"""Reads expressions, and function bodies of a few kinds of statements, of JavaScript into a tree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalflow.addons.interop.importers.ledger import Untranslatable

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\ufeff|//[^\n\r\u2028\u2029]*|/\*.*?\*/)+)
    |(?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w$])
    |(?P<name>[A-Za-z_$\u00aa-\uffff][\w$]*)
    |(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<template>`(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{))
    |(?P<sign>\.\.\.|=>|===|!==|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|[-+*/%<>=!?:;,.()\[\]{}&|^~])""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/((?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/([A-Za-z]*)")
_MIDDLE = re.compile(r"((?:[^`\\$]|\\.|\$(?!\{))*)(`|\$\{)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|[\s\S]))")
_CONTROLS: Mapping[str, str] = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "0": "\0",
    "\n": "",
    "\r\n": "",
    "\u2028": "",
    "\u2029": "",
}
_BINARY: Sequence[tuple[str, ...]] = (
    ("??",),
    ("||",),
    ("&&",),
    ("===", "!==", "==", "!="),
    ("<", ">", "<=", ">=", "in", "instanceof"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Operators with two operands; those that bind less come first."""
_CONSTANTS: Mapping[str, object] = {"true": True, "false": False, "null": None}
_KEYWORDS = frozenset(
    {
        "return",
        "typeof",
        "in",
        "instanceof",
        "new",
        "void",
        "delete",
        "case",
        "else",
        "do",
        "throw",
        "await",
        "yield",
    }
)
_STATEMENTS = frozenset({"for", "while", "do", "switch", "throw", "class", "async", "function", "import", "delete"})
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a script.

    Attributes:
        kind: What it is, such as `call`.
        name: The name or operator that it has.
        parts: The parts within it.
        names: Several names: the parameters of a function, the names of a destructuring; a regex's source and flags.
        value: The value of a constant.
    """

    kind: str
    name: str = ""
    parts: tuple[Node, ...] = ()
    names: tuple[str, ...] = ()
    value: object = None


@dataclass(frozen=True, slots=True)
class _JsToken:
    kind: str
    text: str
    at: int
    end: int
    on_new_line: bool = False


def read_body(source: str) -> tuple[Node, ...]:
    """The statements of a function's body; Untranslatable if they are of other kinds."""
    reader = _Reader(source)
    statements: list[Node] = []
    while reader.token.kind != "end":
        statements += reader.statement()
    return tuple(statements)


class _Reader:
    """Reads from left to right, one token ahead."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._depth = 0
        self._before: _JsToken | None = None
        self.token = self._next(0)

    def statement(self) -> Sequence[Node]:
        """One statement; several declarations of one; none for an empty one."""
        if self._takes(";"):
            return ()
        if self._is("{"):
            return (Node("block", parts=self._block()),)
        word = self.token.text if self.token.kind == "name" else ""
        if word in ("const", "let", "var"):
            self._move()
            return self._declarations()
        if word == "return":
            self._move()
            ends = self._is(";", "}") or self.token.kind == "end" or self.token.on_new_line
            value = Node("constant", value=UNDEFINED) if ends else self._sequence()
            self._end_statement()
            return (Node("return", parts=(value,)),)
        if word == "if":
            return (self._if(),)
        if word == "try":
            return (self._try(),)
        if word in _STATEMENTS:
            raise self._unread()
        value = self._sequence()
        self._end_statement()
        return (Node("expression", parts=(value,)),)

    def _block(self) -> tuple[Node, ...]:
        self._expect("{")
        statements: list[Node] = []
        while not self._is("}"):
            statements += self.statement()
        self._expect("}")
        return tuple(statements)

    def _body(self) -> Node:
        """A statement as a block."""
        return Node("block", parts=self._block() if self._is("{") else tuple(self.statement()))

    def _declarations(self) -> Sequence[Node]:
        declarations: list[Node] = []
        while True:
            if self._is("{"):
                names = self._names("{", "}")
                self._expect("=")
                declarations.append(Node("destructure", "", (self._assigned(),), names))
            else:
                name = self._name()
                self._expect("=")
                declarations.append(Node("declare", name, (self._assigned(),)))
            if not self._takes(","):
                break
        self._end_statement()
        return declarations

    def _if(self) -> Node:
        self._move()
        self._expect("(")
        condition = self._sequence()
        self._expect(")")
        then = self._body()
        other: tuple[Node, ...] = ()
        if self._is_word("else"):
            self._move()
            other = (self._body(),)
        return Node("if", parts=(condition, then, *other))

    def _try(self) -> Node:
        self._move()
        body = Node("block", parts=self._block())
        if not self._is_word("catch"):
            raise self._unread()
        self._move()
        if self._takes("("):
            self._name()
            self._expect(")")
        return Node("try", parts=(body, Node("block", parts=self._block())))

    def _end_statement(self) -> None:
        if not self._takes(";") and not (self._is("}") or self.token.kind == "end" or self.token.on_new_line):
            raise self._unread()

    def _sequence(self) -> Node:
        value = self._assigned()
        if self._is(","):
            raise self._unread()
        return value

    def _assigned(self) -> Node:
        """An expression without a comma."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Untranslatable("it is nested too deeply")
        node = self._arrow() or self._conditional()
        self._depth -= 1
        return node

    def _arrow(self) -> Node | None:
        """A function, if one begins here."""
        if self._is_word("function"):
            self._move()
            if self.token.kind == "name":
                self._move()
            params = self._names("(", ")")
            return Node("function", "", (Node("block", parts=self._block()),), params)
        if self.token.kind == "name" and self.token.text not in _KEYWORDS and self._follows("=>", self.token.end):
            params = (self._name(),)
        elif self._is("(") and re.compile(r"\(\s*(?:[A-Za-z_$][\w$]*\s*(?:,\s*[A-Za-z_$][\w$]*\s*)*)?\)\s*=>").match(
            self._source, self.token.at
        ):
            params = self._names("(", ")")
        else:
            return None
        self._expect("=>")
        if self._is("{"):
            return Node("function", "", (Node("block", parts=self._block()),), params)
        return Node("function", "", (Node("return", parts=(self._assigned(),)),), params)

    def _names(self, opening: str, closing: str) -> tuple[str, ...]:
        self._expect(opening)
        names: list[str] = []
        while not self._is(closing):
            names.append(self._name())
            if not self._takes(","):
                break
        self._expect(closing)
        return tuple(names)

    def _conditional(self) -> Node:
        condition = self._binary(0)
        if not self._takes("?"):
            return condition
        then = self._assigned()
        self._expect(":")
        return Node("conditional", parts=(condition, then, self._assigned()))

    def _binary(self, level: int) -> Node:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while self.token.kind in ("sign", "name") and self.token.text in _BINARY[level]:
            operator = self.token.text
            self._move()
            left = Node("binary", operator, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Node:
        if self._is("!", "-", "+") or self._is_word("typeof") or self._is_word("void"):
            operator = self.token.text
            self._move()
            self._depth += 1
            if self._depth > _DEEPEST:
                raise Untranslatable("it is nested too deeply")
            node = Node("unary", operator, (self._unary(),))
            self._depth -= 1
            return node
        if self._is_word("new"):
            self._move()
            name = self._name()
            return self._after(Node("new", name, self._arguments() if self._is("(") else ()))
        return self._after(self._primary())

    def _after(self, node: Node) -> Node:
        """What is called, or read of, a value."""
        while True:
            if self._takes("."):
                node = Node("member", self._name(any_word=True), (node,))
            elif self._takes("?."):
                if self._is("("):
                    raise self._unread()
                inner = Node("maybe", parts=(node,))
                node = self._index(inner) if self._is("[") else Node("member", self._name(any_word=True), (inner,))
            elif self._is("["):
                node = self._index(node)
            elif self._is("("):
                node = Node("call", parts=(node, *self._arguments()))
            else:
                return node

    def _index(self, node: Node) -> Node:
        self._expect("[")
        at = self._assigned()
        self._expect("]")
        return Node("index", parts=(node, at))

    def _arguments(self) -> tuple[Node, ...]:
        self._expect("(")
        return self._items(")")

    def _items(self, end: str) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self._is(end):
            items.append(Node("spread", parts=(self._assigned(),)) if self._takes("...") else self._assigned())
            if not self._takes(","):
                break
        self._expect(end)
        return tuple(items)

    def _primary(self) -> Node:
        token = self.token
        match token.kind:
            case "number":
                self._move()
                return Node("constant", value=_number(token.text))
            case "text":
                self._move()
                return Node("constant", value=unescaped(token.text[1:-1]))
            case "regex":
                self._move()
                regex = _REGEX.fullmatch(token.text)
                assert regex is not None
                return Node("regex", names=(regex[1], regex[2]))
            case "template":
                return self._template()
            case "name" if token.text in _CONSTANTS:
                self._move()
                return Node("constant", value=_CONSTANTS[token.text])
            case "name" if token.text not in _KEYWORDS:
                self._move()
                return Node("name", token.text)
            case _:
                pass
        if self._takes("("):
            inner = self._sequence()
            self._expect(")")
            return Node("brackets", parts=(inner,))
        if self._takes("["):
            return Node("array", parts=self._items("]"))
        if self._is("{"):
            return self._object()
        raise self._unread()

    def _object(self) -> Node:
        """An object with plain keys: a node for each, whose value is the key."""
        self._expect("{")
        entries: list[Node] = []
        while not self._is("}"):
            if self.token.kind == "text":
                key = unescaped(self.token.text[1:-1])
                self._move()
            else:
                key = self._name(any_word=True)
            value = self._assigned() if self._takes(":") else Node("name", key)
            entries.append(Node("key", key, (value,)))
            if not self._takes(","):
                break
        self._expect("}")
        return Node("object", parts=tuple(entries))

    def _template(self) -> Node:
        """Texts and expressions in turn."""
        text = self.token.text
        parts: list[Node] = [Node("constant", value=unescaped(text[1:].removesuffix("${").removesuffix("`")))]
        while text.endswith("${"):
            self._move()
            parts.append(self._assigned())
            if not self._is("}"):
                raise self._unread()
            middle = _MIDDLE.match(self._source, self.token.end)
            if not middle:
                raise self._unread()
            text = middle[2]
            parts.append(Node("constant", value=unescaped(middle[1])))
            self.token = _JsToken("template", middle[2], middle.start(), middle.end())
        self._move()
        return Node("template", parts=tuple(parts))

    def _name(self, *, any_word: bool = False) -> str:
        token = self.token
        if token.kind != "name" or (not any_word and token.text in (*_KEYWORDS, *_CONSTANTS)):
            raise self._unread()
        self._move()
        return token.text

    def _is(self, *signs: str) -> bool:
        return self.token.kind == "sign" and self.token.text in signs

    def _is_word(self, word: str) -> bool:
        return self.token.kind == "name" and self.token.text == word

    def _takes(self, sign: str) -> bool:
        if not self._is(sign):
            return False
        self._move()
        return True

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._unread()

    def _follows(self, sign: str, at: int) -> bool:
        return re.compile(rf"\s*{re.escape(sign)}").match(self._source, at) is not None

    def _move(self) -> None:
        self._before = self.token
        self.token = self._next(self.token.end)

    def _next(self, at: int) -> _JsToken:
        match = _TOKEN.match(self._source, at)
        on_new_line = False
        if match and match["blank"]:
            on_new_line = re.search(r"[\n\r\u2028\u2029]", match[0]) is not None
            at = match.end()
            match = _TOKEN.match(self._source, at)
        if at >= len(self._source):
            return _JsToken("end", "", at, at, on_new_line)
        if self._source[at] == "/" and self._may_be_regex():
            match = _REGEX.match(self._source, at)
            if match:
                return _JsToken("regex", match[0], at, match.end(), on_new_line)
        if not match or match.lastgroup is None:
            raise Untranslatable(f"it runs JavaScript that is not read: {self._source[at : at + 40]}")
        return _JsToken(match.lastgroup, match[0], at, match.end(), on_new_line)

    def _may_be_regex(self) -> bool:
        """Whether a slash begins a pattern here, and is not a division."""
        before = self._before
        if before is None or before.kind == "sign":
            return before is None or before.text not in (")", "]", "}")
        return before.kind == "name" and before.text in _KEYWORDS

    def _unread(self) -> Untranslatable:
        rest = self._source[self.token.at : self.token.at + 40].partition("\n")[0]
        return Untranslatable(f"it runs JavaScript that is not read: {rest or 'it ends too early'}")


class _Undefined:
    """The value of what is not there."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()


def _number(text: str) -> int | float:
    plain = text.replace("_", "")
    if plain[:2].lower() in ("0x", "0b", "0o"):
        return int(plain, 0)
    if len(plain) > 1 and plain.isdigit() and plain[0] == "0":
        raise Untranslatable(f"it has the number {text}, which is octal in JavaScript")
    value = float(plain)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def unescaped(text: str) -> str:
    """The text between quotes."""
    if "\\" not in text:
        return text

    def one(escape: re.Match[str]) -> str:
        point = escape[1] or escape[2] or escape[3]
        if point:
            if int(point, 16) > 0x10FFFF:
                raise Untranslatable("it has an escape that is not a character")
            return chr(int(point, 16))
        return _CONTROLS.get(escape[4], escape[4])

    joined = _ESCAPE.sub(one, text)
    try:
        return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        raise Untranslatable("it has half a character in a text") from None
