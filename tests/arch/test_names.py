"""A class name means one thing in the whole package, private ones too."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

import evalflow

pytestmark = pytest.mark.slow

PACKAGE = Path(evalflow.__file__).parent


def test_a_class_name_exists_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].append(str(path.relative_to(PACKAGE)))
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
