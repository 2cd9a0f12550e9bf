"""Rewrites the graph of an ONNX file with quantised tables, so that loading it does not expand them.

Such a graph casts and scales a whole table, then gathers rows of it. ONNX Runtime does the first two when it loads the
file, and keeps the table at four times its size. Where rows are gathered first, only those of a text are expanded; the
numbers are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

# Numbers of fields in onnx.proto; all of these are texts or messages.
_GRAPH = 7  # of a model
_NODE = 1  # of a graph
_INPUT, _OUTPUT, _OPERATION, _ATTRIBUTE = 1, 2, 4, 5  # of a node
_VARINT, _SIZED = 0, 2
_LENGTHS = {1: 8, 5: 4}  # bytes by the other wire types of protobuf


class _Field(NamedTuple):
    number: int
    whole: memoryview
    content: memoryview


class _Node(NamedTuple):
    operation: bytes
    inputs: Sequence[bytes]
    outputs: Sequence[bytes]
    attributes: bytes = b""  # encoded


def gathered_first(model: bytes) -> bytes:
    """The model with the rows of its quantised tables gathered before they are cast and scaled."""
    fields = list(_fields(memoryview(model)))
    graph = next(_fields(field.content) for field in fields if field.number == _GRAPH)
    parts = [(part, _node(part.content) if part.number == _NODE else None) for part in graph]
    made = {node.outputs[0]: node for _, node in parts if node}
    tables = {node.inputs[0]: _table(node.inputs[0], made) for node in made.values() if node.operation == b"Gather"}
    replaced = {name for table in tables.values() for name in table}
    kept: list[bytes | memoryview] = []
    for part, node in parts:
        if node and node.operation == b"Gather" and tables[node.inputs[0]]:
            kept += (_message(_NODE, _encoded(one)) for one in _rows(node, *tables[node.inputs[0]].values()))
        elif not node or node.outputs[0] not in replaced:
            kept.append(part.whole)
    others = [field.whole for field in fields if field.number != _GRAPH]
    return b"".join([*others, _head(_GRAPH, sum(map(len, kept))), *kept])


def _table(name: bytes, made: Mapping[bytes, _Node]) -> dict[bytes, _Node]:
    """The nodes that expand a quantised table, by their output: cast, then scale; none for any other table."""
    scale = made.get(name)
    cast = made.get(scale.inputs[0]) if scale and scale.operation == b"Mul" else None
    if not scale or not cast or cast.operation != b"Cast":
        return {}
    return {cast.outputs[0]: cast, name: scale}


def _rows(gather: _Node, cast: _Node, scale: _Node) -> Iterator[_Node]:
    """The nodes that gather quantised rows and their scales, and expand these."""
    indices = gather.inputs[1]
    rows, scales, floats = (gather.outputs[0] + suffix for suffix in (b"/rows", b"/scales", b"/floats"))
    yield gather._replace(inputs=(cast.inputs[0], indices), outputs=(rows,))
    yield gather._replace(inputs=(scale.inputs[1], indices), outputs=(scales,))
    yield cast._replace(inputs=(rows,), outputs=(floats,))
    yield scale._replace(inputs=(floats, scales), outputs=gather.outputs)


def _node(content: memoryview) -> _Node:
    fields = list(_fields(content))

    def texts(number: int) -> list[bytes]:
        return [bytes(field.content) for field in fields if field.number == number]

    attributes = b"".join(field.whole for field in fields if field.number == _ATTRIBUTE)
    return _Node(texts(_OPERATION)[0], texts(_INPUT), texts(_OUTPUT), attributes)


def _encoded(node: _Node) -> bytes:
    inputs = b"".join(_message(_INPUT, name) for name in node.inputs)
    outputs = b"".join(_message(_OUTPUT, name) for name in node.outputs)
    return inputs + outputs + _message(_OPERATION, node.operation) + node.attributes


def _fields(message: memoryview) -> Iterator[_Field]:
    end = 0
    while end < len(message):
        start = end
        key, begin = _number(message, start)
        kind = key & 7
        if kind == _VARINT:
            _, end = _number(message, begin)
        else:
            length, begin = _number(message, begin) if kind == _SIZED else (_LENGTHS[kind], begin)
            end = begin + length
        yield _Field(key >> 3, message[start:end], message[begin:end])


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """A variable-length number, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _message(number: int, content: bytes) -> bytes:
    return _head(number, len(content)) + content


def _head(number: int, length: int) -> bytes:
    """What stands before a field of some bytes."""
    return _varint(number << 3 | _SIZED) + _varint(length)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
