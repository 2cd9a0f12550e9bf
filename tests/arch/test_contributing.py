"""CONTRIBUTING.md draws the layers as they are, names each package and each door, and no file that is gone."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import evalflow

PACKAGE = Path(evalflow.__file__).parent
ROOT = PACKAGE.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def layers(text: str) -> list[set[str]]:
    return [set(re.findall(r"\w+", layer)) for layer in text.split(">")]


def test_the_layers_are_those_of_the_import_rule() -> None:
    (rule,) = (one for one in PROJECT["tool"]["importlinter"]["contracts"] if one["id"] == "layers")
    (drawn,) = re.findall(r"^    __main__ > (?:.+\n)+", PAGE, re.MULTILINE)
    assert layers(drawn) == layers(" > ".join(rule["layers"]))


def test_each_package_has_a_row() -> None:
    table = PAGE.partition("\n| package | what is in it |")[2].partition("\n\n## ")[0]
    named = set(
        re.findall(r"`([\w/]+)(?:\.py)?`", "\n".join(row.split("|")[1] for row in table.splitlines() if "|" in row))
    )
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"addons"}
    assert packages <= named
    assert {path.parent.name for path in (PACKAGE / "addons").glob("*/__init__.py")} <= {
        one.rpartition("/")[2] for one in named
    }


def test_each_door_is_named_there_and_on_the_page_on_extensions() -> None:
    doors = (PACKAGE / "doors.py").read_text(encoding="utf-8")
    extending = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    for group in re.findall(r"`(evalflow\.\w+)`", doors.partition("| group |")[2].partition('"""')[0]):
        assert f"`{group}`" in PAGE or f"`{group.removeprefix('evalflow')}`" in PAGE
        assert f"`{group}`" in extending


def test_files_that_are_named_exist() -> None:
    named = set(re.findall(r"`([\w./-]+\.py)`", PAGE))
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).exists() and not any(PACKAGE.glob(f"**/{name}"))] == []
