"""The values of a JSON document, of which lists and objects only say if they are empty."""

from __future__ import annotations

import json
from pathlib import Path

from evalflow.datasets.json_files import document_values


def test_a_list_or_an_object_is_true_unless_it_is_empty(tmp_path: Path) -> None:
    full = {"number": [5], "blank": ["", "lost"], "null": [None], "inner": [[]], "deep": [{}, 1], "map": {"": {"x": 1}}}
    plain = {"text": "a", "zero": 0, "half": 0.5, "no": False, "null_value": None}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**full, "list": [], "object": {}, **plain, "below": {**full, "list": [], **plain}}))
    expected = {**dict.fromkeys(full, True), "list": None, **plain}
    assert document_values(path) == {**expected, "object": None, "below": True}
    assert document_values(path, "below") == expected
