"""NaN and Infinity of other programs' JSON are read as null, in blocks of any size."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.datasets.json_files import open_json, streamed_items
from evalflow.datasets.nan_literals import NanFilter, without_nan
from evalflow.datasets.sources import SourceRow
from evalflow.values.jsonvalues import as_map


def test_literals_become_null_and_texts_stay() -> None:
    text = b'{"a": [NaN, -Infinity, Infinity, 1], "NaN": "Infinity \\" NaN \\\\", "b": -1}'
    read = json.loads(without_nan(text))
    assert read == {"a": [None, None, None, 1], "NaN": 'Infinity " NaN \\', "b": -1}


TEXTS = st.text(alphabet='NaInfity"\\-u1e {}', max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | st.sampled_from([math.nan, math.inf, -math.inf]) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def expected(value: Any) -> Any:
    if isinstance(value, float):
        return None
    if isinstance(value, dict):
        return {key: expected(one) for key, one in value.items()}
    return [expected(one) for one in value] if isinstance(value, list) else value


@given(VALUES, st.integers(1, 20))
def test_any_json_of_python_is_read_alike_in_blocks(value: Any, size: int) -> None:
    text = json.dumps(value).encode()
    assert json.loads(without_nan(text)) == expected(value)
    file, blocks = NanFilter(io.BytesIO(text), block=size), []
    while block := file.read(size):
        assert len(block) <= size
        blocks.append(block)
    assert b"".join(blocks) == without_nan(text)


@pytest.mark.parametrize("text", [b"", b"{", b'"open \\', b"Na", b'{"a": "x'])
def test_broken_texts_stay_as_they_are(text: bytes) -> None:
    assert without_nan(text) == text
    assert NanFilter(io.BytesIO(text)).read() == text


def test_files_whose_texts_look_deeply_nested_are_read_with_nan_and_half_characters(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text('[{"id": "a", "text": "' + "[{" * 300 + ' \\ud83d", "loss": NaN}]', encoding="utf-8")
    [row] = open_json(path).rows
    assert isinstance(row, SourceRow)
    assert (row.data["id"], row.data["loss"]) == ("a", None)
    [item] = streamed_items(path, "item")
    assert str(as_map(item)["text"]).endswith("\ufffd")
