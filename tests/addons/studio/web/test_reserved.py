"""No address has a word in a place where a name of people's own may stand, unless that word is not a name."""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import evalflow.addons.studio.web
from evalflow.addons.studio.work.validate import RESERVED

NAMED = {"{bot}", "{dataset}", "{metric}"}


def test_every_word_that_an_address_has_in_the_place_of_a_name_is_reserved() -> None:
    paths = [path.strip("/").split("/") for path in pages()]
    assert ["bots", "{bot}"] in paths
    shadowed = {
        word
        for first, second in permutations(paths, 2)
        for place, (name, word) in enumerate(zip(first, second, strict=False))
        if name in NAMED and first[:place] == second[:place] and not word.startswith("{")
    }
    assert "new" in shadowed
    assert shadowed <= RESERVED


def pages() -> list[str]:
    """The addresses of the pages, and those of the REST API below their prefixes."""
    found: list[str] = []
    for file in Path(evalflow.addons.studio.web.__file__).parent.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        found += re.findall(r'@guarded_page\("([^"]+)"', text)
        for router, prefix in re.findall(r'^(\w*router) = APIRouter\((?:prefix="([^"]+)")?', text, re.MULTILINE):
            found += [prefix + path for path in re.findall(rf'@{router}\.[a-z]+\("([^"]*)"', text)]
    return found
