"""The tags of a project's cases: suggestions, one spelling, and a new name everywhere."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence

from evalflow import datasets as readers
from evalflow.app.studio.access import requires
from evalflow.app.studio.cases import case_columns
from evalflow.app.studio.space import Workspace
from evalflow.errors import Problem, UserError
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


@requires("edit")
def rename_tag(space: Workspace, tag: str, name: str) -> int:
    """Rename a tag and its sub-tags in all datasets of the project; returns the number of changed cases."""
    old, new = readers.tag_name(tag), readers.tag_name(name)
    if not new:
        raise UserError(Problem("is required", "name", key="name"))
    with space.changing("update", "tag", old, [f"name {new}"]) as connection:
        changed: dict[int, dict[int, dict[str, object]]] = {}
        for row in table.project_bodies(connection, space.project_id):
            before: Sequence[str] = row["body"].get("tags") or ()
            after = list(dict.fromkeys(_renamed(one, old, new) for one in before))
            if after != list(before):
                changed.setdefault(row["dataset_id"], {})[row["id"]] = case_columns({**row["body"], "tags": after})
        for dataset, rows in changed.items():
            table.rewrite(connection, dataset, rows)
    return sum(map(len, changed.values()))


def _renamed(tag: str, old: str, new: str) -> str:
    return new + tag[len(old) :] if tag == old or tag.startswith(f"{old} > ") else tag


def _plain(tag: str) -> str:
    letters = unicodedata.normalize("NFKD", readers.tag_name(tag).casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
