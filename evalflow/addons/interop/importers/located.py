"""YAML 1.2 and JSON of other tools, with the line of every key and item.

Hydra's files are YAML 1.1, where `no` is false and `22:22` a number. JavaScript tools read YAML 1.2, and so does this.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import yaml

from evalflow.config.yaml_text import DEEPEST, LARGEST, expanded_size, expect_shallow
from evalflow.datasets.sources import parse_json
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import as_list, as_map

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_PLAIN: Sequence[tuple[re.Pattern[str], Callable[[str], object]]] = (
    (re.compile(r"(?:~|null|Null|NULL|)\Z"), lambda text: None),  # noqa: ARG005
    (re.compile(r"(?i:true|false)\Z"), lambda text: text.lower() == "true"),
    (re.compile(r"[-+]?[0-9]{1,300}\Z"), int),
    (re.compile(r"0o[0-7]{1,300}\Z"), lambda text: int(text, 8)),
    (re.compile(r"0x[0-9a-fA-F]{1,300}\Z"), lambda text: int(text, 16)),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,2})?\Z"), float),
)  # the core schema of YAML 1.2; an infinity is text
_MOST_REFERRED = 200_000  # values with all references written out
_TAGS = frozenset({"!!str", "!!int", "!!float", "!!bool", "!!null", "!"})
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


class Broken(ValueError):
    """Raised if a text cannot be read; `problem` says why and where."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class LocatedMap(dict[str, object]):
    """An object of a file: `where` is its place, `lines` has the line of each key."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file = file
        self.line = line
        self.lines: dict[str, int] = {}

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"

    def at(self, key: str) -> str:
        """The place of a key, or of the object if it has no such key."""
        return f"{self.file}:{self.lines.get(key, self.line)}"


class LocatedList(list[object]):
    """A list of a file, with the line of each item."""

    def __init__(self, file: str, line: int) -> None:
        super().__init__()
        self.file = file
        self.line = line
        self.lines: list[int] = []

    def at(self, position: int) -> str:
        return f"{self.file}:{self.lines[position] if position < len(self.lines) else self.line}"


def place(value: object, otherwise: str) -> str:
    """The place of an object in its file."""
    return value.where if isinstance(value, LocatedMap) else otherwise


def placed(declared: object, where: str) -> Iterator[tuple[object, str]]:
    """Each item of a list, or the only one, with its place; nothing for null."""
    for number, item in enumerate(as_list(declared) if isinstance(declared, list) else [declared]):
        if declared is not None:
            yield item, place(item, declared.at(number) if isinstance(declared, LocatedList) else where)


def located_yaml(text: str, file: str) -> object:
    """Parse YAML 1.2; Broken if it is not YAML, repeats a key, or is too large with its aliases written out."""
    try:
        expect_shallow(text)
        top = cast("yaml.Node | None", yaml.compose(text, _LOADER))  # pyright: ignore - untyped
    except yaml.YAMLError as error:
        raise Broken(_yaml_problem(error, file)) from None
    except ValueError as error:
        raise Broken(Problem(f"it is not readable YAML: {error}", file)) from None
    return None if top is None else _Builder(file, text).whole(top)


def located_json(text: str, file: str) -> object:
    """Parse JSON; Broken if it is not JSON. A repeated key is refused, as in YAML."""
    value = parse_json(text.encode(), file)
    if isinstance(value, Problem):
        raise Broken(value)
    # JSON is YAML 1.2 except for tabs and surrogate pairs, which do not affect line numbers.
    as_yaml = _PAIR.sub("??????", text.replace("\t", " "))
    try:
        expect_shallow(as_yaml)
        top = cast("yaml.Node | None", yaml.compose(as_yaml, _LOADER))  # pyright: ignore - untyped
    except (yaml.YAMLError, ValueError):
        return value
    return value if top is None else _Builder(file, text).beside(value, top)


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds values from the nodes of one file."""

    file: str
    text: str

    def whole(self, top: yaml.Node) -> object:
        # Aliases may expand a file, but only to a few times its size.
        if not expanded_size(top, {}) <= max(LARGEST, len(self.text) * 4):
            what = "with its aliases (*NAME) expanded it has too many values"
            raise Broken(Problem(what, self._at(top), "replace aliases by their values"))
        return self._value(top, 0)

    def beside(self, value: object, node: yaml.Node) -> object:
        """The value parsed as JSON, with the line numbers of the same text parsed as YAML."""
        if isinstance(value, dict) and isinstance(node, yaml.MappingNode):
            built = LocatedMap(self.file, self._line(node))
            declared = _pairs(node)
            pairs = {str(key.value): (key, inner) for key, inner in declared}
            if len(pairs) != len(declared):
                self._repeated(node)
            for key, inner in as_map(value).items():
                at = pairs.get(key)
                built[key] = inner if at is None else self.beside(inner, at[1])
                built.lines[key] = built.line if at is None else self._line(at[0])
            return built
        if isinstance(value, list) and isinstance(node, yaml.SequenceNode):
            items = LocatedList(self.file, self._line(node))
            for inner, item in zip(as_list(value), _items(node), strict=True):
                items.append(self.beside(inner, item))
                items.lines.append(self._line(item))
            return items
        return cast("object", value)

    def _value(self, node: yaml.Node, depth: int) -> object:
        if depth > DEEPEST:
            raise Broken(Problem(f"lists and objects are nested more than {DEEPEST} deep", self._at(node)))
        if isinstance(node, yaml.MappingNode):
            return self._map(node, depth)
        if isinstance(node, yaml.SequenceNode):
            items = LocatedList(self.file, self._line(node))
            for item in _items(node):
                items.append(self._value(item, depth + 1))
                items.lines.append(self._line(item))
            return items
        return self._scalar(node)

    def _map(self, node: yaml.MappingNode, depth: int) -> LocatedMap:
        built = LocatedMap(self.file, self._line(node))
        merged: list[tuple[str, object, int]] = []
        for key, inner in _pairs(node):
            if not isinstance(key, yaml.ScalarNode):
                raise Broken(Problem("a key must be text", self._at(key), "write a template in quotes: '{{x}}'"))
            text = str(key.value)
            if text == "<<":
                merged += self._merged(inner, depth)
                continue
            if text in built:
                raise Broken(Problem(f"the key {text!r} is given twice", self._at(key), "keep one of them"))
            built[text] = self._value(inner, depth + 1)
            built.lines[text] = self._line(key)
        for name, value, line in merged:
            if name not in built:
                built[name] = value
                built.lines[name] = line
        return built

    def _merged(self, node: yaml.Node, depth: int) -> list[tuple[str, object, int]]:
        """The keys of `<<: *NAME`, or of a list of such."""
        sources = _items(node) if isinstance(node, yaml.SequenceNode) else [node]
        keys: list[tuple[str, object, int]] = []
        for source in sources:
            value = self._value(source, depth + 1)
            if not isinstance(value, LocatedMap):
                raise Broken(Problem("<< needs an object", self._at(source)))
            keys += [(key, inner, value.lines[key]) for key, inner in value.items()]
        return keys

    def _scalar(self, node: yaml.Node) -> object:
        text, tag = str(node.value), str(node.tag).replace("tag:yaml.org,2002:", "!!")
        if tag not in _TAGS:
            raise Broken(Problem(f"the tag {tag} has no meaning here", self._at(node), "write a plain value"))
        if getattr(node, "style", None):  # it is quoted
            return text
        return next((read(text) for pattern, read in _PLAIN if pattern.match(text)), text)

    def _repeated(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, _ in _pairs(node):
            if key.value in seen:
                raise Broken(Problem(f"the key {key.value!r} is given twice", self._at(key), "keep one of them"))
            seen.add(key.value)

    def _line(self, node: yaml.Node) -> int:
        return int(node.start_mark.line) + 1

    def _at(self, node: yaml.Node) -> str:
        return f"{self.file}:{self._line(node)}"


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.Node, yaml.Node]]:
    return cast("list[tuple[yaml.Node, yaml.Node]]", node.value)


def _items(node: yaml.SequenceNode) -> list[yaml.Node]:
    return cast("list[yaml.Node]", node.value)


def _yaml_problem(error: yaml.YAMLError, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f"{file}:{mark.line + 1}" if mark is not None else file
    reason = getattr(error, "problem", None) or " ".join(str(error).split())
    return Problem(f"broken YAML: {reason}", where)


def resolved(document: LocatedMap) -> LocatedMap:
    """The document with all references resolved; UserError for a missing or circular one."""
    value = _Resolver(document).value(document, ())
    return value if isinstance(value, LocatedMap) else document


class _Resolver:
    """Resolves references and limits the size of the result."""

    def __init__(self, document: LocatedMap) -> None:
        self._document = document
        self._count = 0

    def value(self, value: object, through: tuple[str, ...]) -> object:
        """A value with all references in it resolved."""
        self._count += bool(through)
        if self._count > _MOST_REFERRED:
            raise UserError(
                Problem(f"its references expand to more than {_MOST_REFERRED:,} values", self._document.where)
            )
        if isinstance(value, LocatedMap):
            reference = value.get("$ref")
            if isinstance(reference, str):
                return self._target(reference, value, through)
            written_out = LocatedMap(value.file, value.line)
            written_out.update({key: self.value(inner, through) for key, inner in value.items()})
            written_out.lines = value.lines
            return written_out
        if isinstance(value, LocatedList):
            items = LocatedList(value.file, value.line)
            items.extend(self.value(inner, through) for inner in value)
            items.lines = value.lines
            return items
        return value

    def _target(self, reference: str, at: LocatedMap, through: tuple[str, ...]) -> object:
        if reference in through:
            raise UserError(Problem(f"the reference {reference} is circular", at.where))
        if not reference.startswith("#/"):
            hint = "write it into this file: $ref: '#/NAME'"
            raise UserError(Problem(f"the reference {reference} leads out of the file", at.where, hint))
        target: object = self._document
        for key in reference[2:].split("/"):
            name = key.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or name not in target:
                raise UserError(Problem(f"the reference {reference} is broken: there is no {name}", at.where))
            target = as_map(target)[name]
        return self.value(target, (*through, reference))
