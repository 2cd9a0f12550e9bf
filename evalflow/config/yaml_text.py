"""Read untrusted YAML within limits, and write values as YAML that Hydra reads back unchanged."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import yaml

from evalflow.values.jsonvalues import is_mapping, is_sequence, json_text

LARGEST = 100_000
"""Maximum number of keys and values in a file, aliases expanded; a long text counts one per thousand characters."""
DEEPEST = 100
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING = re.compile(r"(?<!\\)(\\*+)\$\{")
_ENVIRONMENT = re.compile(r"\$\{oc\.env:[A-Za-z_][A-Za-z0-9_]*\}")
# Characters that JSON allows and YAML does not, or reads as a line end.
_UNPRINTABLE = re.compile("[^\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
MISSING = "???"  # OmegaConf's marker for a mandatory value, so it cannot be a value itself
SCHEMA_MARK = "yaml-language-server:"
"""The beginning of the comment by which an editor finds the schema of a file that evalflow wrote."""
T = TypeVar("T")


def safe_yaml(text: str) -> Any:
    """Parse YAML; yaml.YAMLError if it is invalid, or too large after aliases are expanded."""
    expect_bounded(text)
    return yaml.load(text, Loader=_LOADER)  # noqa: TID251, S506 - as safe as `yaml.safe_load`, and eight times as fast


def expect_bounded(text: str) -> None:
    """Refuse YAML that is nested too deeply, or whose aliases expand beyond the limit ("billion laughs") or recur."""
    expect_shallow(text)
    if "*" not in text:
        return
    top = cast("yaml.Node | None", yaml.compose(text, _LOADER))  # pyright: ignore - untyped
    if top is not None and not expanded_size(top, {}) <= LARGEST:
        problem = f"with its aliases (*NAME) written out it has more than {LARGEST:,} values"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=top.start_mark)


def expect_shallow(text: str) -> None:
    """Refuse YAML that is nested too deeply to be read: libyaml would exhaust the stack and end the process."""
    if sum(map(text.count, "[{:-?")) <= DEEPEST:  # each level of nesting starts with one of these tokens
        return
    depth = 0
    for event in cast("Iterator[yaml.Event]", yaml.parse(text, _LOADER)):  # pyright: ignore - untyped
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                what = f"lists and objects are nested more than {DEEPEST} deep"
                raise yaml.MarkedYAMLError(problem=what, problem_mark=event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def expanded_size(node: yaml.Node, known: dict[int, float]) -> float:
    """Count the values below a node; infinite if it contains itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        if isinstance(node, yaml.ScalarNode):
            known[id(node)] = 1 + len(str(node.value)) // 1000
        else:
            inner: list[Any] = node.value
            parts = [part for pair in inner for part in pair] if isinstance(node, yaml.MappingNode) else inner
            known[id(node)] = 1 + sum(expanded_size(part, known) for part in parts)
    return known[id(node)]


def yaml_of(values: Mapping[str, object] | Sequence[object]) -> str:
    """Return a configuration or a list as YAML, with interpolations unchanged."""
    from omegaconf import OmegaConf

    return OmegaConf.to_yaml(OmegaConf.create(dict(values) if isinstance(values, Mapping) else list(values)))


def yaml_value(text: str | None) -> str:
    """Return a text as a YAML value, quoted if it could be read as something else."""
    return yaml_of({"": escaped(text)}).partition(": ")[2].strip().replace("\n  ", " ")


def escaped(value: T) -> T:
    """Escape `${` in all texts of the value."""
    return with_texts(value, lambda text: _OPENING.sub(lambda match: f"{match[1] * 2}\\${{", text))


def escaped_but_environment(value: T) -> T:
    """Escape `${` in all texts, except in `${oc.env:NAME}`."""
    return with_texts(value, lambda text: _between(text, escaped))


def unescaped(value: T) -> T:
    """Undo `escaped`; ValueError if the value has a real interpolation."""

    def opened(opening: re.Match[str]) -> str:
        if len(opening[1]) % 2 == 0:
            raise ValueError(f"{opening.string!r} takes its value from elsewhere")
        return f"{opening[1][: len(opening[1]) // 2]}${{"

    return with_texts(value, lambda text: _OPENING.sub(opened, text))


def unescaped_but_environment(value: T) -> T:
    """Undo `escaped_but_environment`; ValueError if the value has another interpolation."""
    return with_texts(value, lambda text: _between(text, unescaped))


def interpolations(text: str) -> Iterator[str]:
    """Return the outermost interpolations of a text as they are written, with those that are nested in them.

    One that is not closed reaches to the end of the text.
    """
    ends = _ends_of_braces(text)
    read_to = 0
    for opening in _OPENING.finditer(text):
        start = opening.end() - 2
        if len(opening[1]) % 2 == 0 and start >= read_to:
            read_to = ends.get(start + 1, len(text))
            yield text[start:read_to]


def _ends_of_braces(text: str) -> Mapping[int, int]:
    """By the place of each opening brace that is closed, where the text after its closing brace begins."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for brace in re.finditer(r"[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            ends[opened.pop()] = brace.end()
    return ends


def _between(text: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for match in _ENVIRONMENT.finditer(text):
        if match.start() and text[match.start() - 1] == "\\":
            continue  # already escaped, or will be
        parts += [change(text[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*parts, change(text[end:])])


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return the value with every text in its maps and lists changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if is_mapping(value):
        return {key: with_texts(inner, change) for key, inner in value.items()}
    if is_sequence(value):
        return [with_texts(item, change) for item in value]
    return value


def option_text(group: str, key: str, values: Mapping[str, object]) -> str:
    """Return the YAML of one option, with its package line if it needs one. `${...}` in texts is escaped."""
    text = yaml_of(escaped(values))
    if group in ("target", "judge"):
        return text
    package = "_global_" if group == "experiment" else f"{group}.{key}"
    return f"# @package {package}\n{text}"


def with_values(text: str, values: Mapping[tuple[str | int, ...], object]) -> str:
    """Return a YAML text with the values at these paths replaced and everything else unchanged.

    `${` in the new values is escaped. A new key is put last in its map; KeyError if there is no such map.
    """
    for path, value in values.items():
        # libyaml's loader counts positions in bytes.
        node = cast("yaml.Node | None", yaml.compose(text, yaml.SafeLoader))  # pyright: ignore - untyped
        for part in path[:-1]:
            node = _below(node, part)
        if not isinstance(node, yaml.MappingNode) or not node.value:
            raise KeyError(path)
        flow = bool(node.flow_style)
        column = node.value[0][0].start_mark.column
        own = f": {_flow(value)}" if flow else f":{_block(value, column)}"
        key = next((key for key, _ in node.value if key.value == path[-1]), None)
        if key is not None:
            end = _end(cast("yaml.Node", _below(node, path[-1])), text)
            text = f"{text[: key.end_mark.index]}{own}{text[end:]}"
            continue
        end = _end(node.value[-1][1], text)
        if not flow:
            end = text.find("\n", end) if "\n" in text[end:] else len(text)
        text = f"{text[:end]}{', ' if flow else chr(10) + ' ' * column}{path[-1]}{own}{text[end:]}"
    return text


def _flow(value: object) -> str:
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text(escaped(value)))


def _block(value: object, column: int) -> str:
    """Return what follows a key's colon: a list of maps as a block, one line per key; other values on the same line."""
    if not is_sequence(value) or not value or not all(is_mapping(one) and one for one in value):
        return f" {_line(value)}"
    gap = "\n" + " " * column
    return "".join(
        f"{gap}  {'  ' if at else '- '}{_line(key)}: {_line(one)}"
        for row in value
        for at, (key, one) in enumerate(cast("Mapping[str, object]", row).items())
    )


def _line(value: object) -> str:
    return yaml_value(value) if isinstance(value, str) and value.isprintable() else _flow(value)


def _end(node: yaml.Node, text: str) -> int:
    """Return where a value ends; the end mark of a block map or list is at the start of what follows it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style:
        last: Any = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    return (
        len(text[: node.end_mark.index].rstrip())
        if node.end_mark.index > node.start_mark.index
        else node.end_mark.index
    )


def _below(node: yaml.Node | None, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
        return node.value[part]
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == part), None)
    return None
