"""The tags of a project's cases: suggestions, one spelling, and a new name everywhere."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable

from evalflow import datasets as readers
from evalflow.app.studio.access import requires
from evalflow.app.studio.space import Workspace
from evalflow.store import cases as table

_NEAR = 0.85
"""Share of equal letters from which two tags are taken for spellings of one."""


@requires("read")
def project_tags(space: Workspace) -> list[tuple[str, int]]:
    """Every tag of the project's cases with the number of cases that have it or a sub-tag."""
    with space.database.reading() as connection:
        return table.project_tag_counts(connection, space.project_id)


def similar_tag(tag: str, known: Iterable[str]) -> str:
    """The known tag that differs from a new one in case, accents or a few letters only; empty if there is none."""
    name, plain = readers.tag_name(tag), _plain(tag)
    others = {_plain(one): one for one in known}
    if not plain or name in others.values():
        return ""
    close = difflib.get_close_matches(plain, others, n=1, cutoff=_NEAR)
    return others[close[0]] if close else ""


def _plain(tag: str) -> str:
    letters = unicodedata.normalize("NFKD", readers.tag_name(tag).casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
