"""The tags of a project's cases: suggestions, one spelling, and a new name everywhere."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalflow import datasets as readers
from evalflow.addons.studio.store import cases as table
from evalflow.addons.studio.store.rows import storable
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import BOTS
from evalflow.addons.studio.work.cases import case_columns
from evalflow.addons.studio.work.metrics import METRICS
from evalflow.addons.studio.work.space import TakenError, Workspace, not_found
from evalflow.errors import Problem, UserError
from evalflow.values.jsonvalues import as_list, as_map

if TYPE_CHECKING:
    from sqlalchemy import Connection

_NEAR = 0.85
"""Share of equal letters from which two tags are taken for spellings of one."""
LONGEST = 200
"""Maximum number of characters of a tag."""


@dataclass(frozen=True, slots=True)
class ProjectTag:
    """A tag, and how many cases of each dataset have it or a sub-tag."""

    tag: str
    datasets: Mapping[str, int]

    @property
    def cases(self) -> int:
        """The number of cases of all datasets."""
        return sum(self.datasets.values())


@dataclass(frozen=True, slots=True)
class TagRename:
    """The changes that a new name for a tag makes.

    Attributes:
        old, new: In their normal form.
        cases: The number of cases that have the tag or a sub-tag.
        tags: The new name of the tag and of each sub-tag, by the old one.
        merged: Those of the new names that other tags have already, with the number of cases that have them.
        metrics: The metrics (`bot/metric`) that name one of the old tags in their YAML, which stays as it is.
    """

    old: str
    new: str
    cases: int
    tags: Mapping[str, str]
    merged: Mapping[str, int] = field(default_factory=dict[str, int])
    metrics: Sequence[str] = ()


@requires("read")
def list_tags(space: Workspace) -> list[ProjectTag]:
    """Every tag of the project's cases, with its parents before it."""
    return space.read(_tags, space)


@requires("read")
def project_tags(space: Workspace) -> list[tuple[str, int]]:
    """Every tag of the project's cases with the number of cases that have it or a sub-tag."""
    return [(one.tag, one.cases) for one in list_tags(space)]


@requires("read")
def plan_rename(space: Workspace, old: str, new: str) -> TagRename:
    """The changes that renaming a tag and its sub-tags would make. The key of a problem is `old` or `new`."""
    metrics = list(_naming(space, readers.tag_name(old)))
    with space.database.reading() as connection:
        return _plan(_tags(connection, space), old, new, metrics)


@requires("edit")
def rename_tag(space: Workspace, old: str, new: str, *, merge: bool = False) -> TagRename:
    """Rename a tag on every case of the project, and its sub-tags with it; runs keep the tags that they had.

    Raises:
        TakenError: A new name is in use by another tag, and `merge` does not say that the two become one.
    """
    metrics = list(_naming(space, readers.tag_name(old)))
    name = storable(f"{readers.tag_name(old)} → {readers.tag_name(new)}")
    with space.changing("rename", "tag", name, ["tags"]) as connection:
        plan = _plan(_tags(connection, space), old, new, metrics)
        if plan.merged and not merge:
            raise _taken(plan)
        for part in table.tagged(connection, space.project_id, plan.old):
            table.rewrite(connection, {case.id: case_columns(_renamed(case.body, plan)) for case in part})
    return plan


def similar_tag(tag: str, known: Iterable[str]) -> str:
    """The known tag that differs from a new one in case, accents or a few letters only, or empty."""
    name, plain = readers.tag_name(tag), _plain(tag)
    others = {_plain(one): one for one in known}
    if not plain or name in others.values():
        return ""
    close = difflib.get_close_matches(plain, others, n=1, cutoff=_NEAR)
    return others[close[0]] if close else ""


def spellings(tags: Iterable[ProjectTag]) -> list[list[ProjectTag]]:
    """Tags that differ in case, accents, spaces and signs only, together; the one of the most cases first."""
    alike: dict[str, list[ProjectTag]] = {}
    for one in tags:
        letters = "".join(letter for letter in _plain(one.tag) if letter.isalnum() or letter == ">")
        alike.setdefault(letters, []).append(one)
    return [sorted(variants, key=lambda one: -one.cases) for variants in alike.values() if len(variants) > 1]


def _plain(tag: str) -> str:
    letters = unicodedata.normalize("NFKD", readers.tag_name(tag).casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _tags(connection: Connection, space: Workspace) -> list[ProjectTag]:
    counts: dict[str, dict[str, int]] = {}
    for tag, dataset, number in table.project_tag_counts(connection, space.project_id):
        counts.setdefault(tag, {})[dataset] = number
    by_levels = sorted(counts, key=lambda tag: [(part.casefold(), part) for part in tag.split(" > ")])
    return [ProjectTag(tag, counts[tag]) for tag in by_levels]


def _plan(known: Sequence[ProjectTag], old: str, new: str, metrics: Sequence[str]) -> TagRename:
    before, after = readers.tag_name(old), readers.tag_name(storable(new))
    counts = {one.tag: one.cases for one in known}
    if before not in counts:
        raise not_found("tag", before, list(counts))
    if not after:
        raise UserError(Problem("a tag needs a name", "new", key="new"))
    if len(after) > LONGEST:
        raise UserError(Problem(f"a tag has at most {LONGEST} characters", "new", "choose a shorter name", "new"))
    if after == before:
        raise UserError(Problem("the tag has this name", "new", "choose another name", "new"))
    tags = {tag: f"{after}{tag.removeprefix(before)}" for tag in counts if _is_within(tag, before)}
    merged = {name: counts[name] for name in tags.values() if name in counts and name not in tags}
    return TagRename(before, after, counts[before], tags, merged, metrics)


def _is_within(tag: str, other: str) -> bool:
    """Whether a tag is another one or a sub-tag of it."""
    return tag == other or tag.startswith(f"{other} > ")


def _taken(plan: TagRename) -> TakenError:
    others = ", ".join(
        f"{name!r} ({number:,} case{'' if number == 1 else 's'})" for name, number in plan.merged.items()
    )
    hint = "choose another name, or send `merge` to make one tag of both"
    return TakenError(Problem(f"there already is the tag {others}", "new", hint, "new"))


def _renamed(body: dict[str, Any], plan: TagRename) -> dict[str, Any]:
    def name_of(tag: str) -> str:
        name = readers.tag_name(tag)
        return f"{plan.new}{name.removeprefix(plan.old)}" if _is_within(name, plan.old) else tag

    return {**body, "tags": list(dict.fromkeys(name_of(tag) for tag in body.get("tags", ())))}


def _naming(space: Workspace, tag: str) -> Iterator[str]:
    """The metrics whose checks are for cases with a tag or a sub-tag."""
    for bot in BOTS.own(space):
        for metric in METRICS.own(space, bot.id):
            custom = as_map(metric.definition.get("custom"))
            named = [as_map(check).get("cases") for check in custom.values()]
            if any(_is_within(readers.tag_name(str(one)), tag) for ones in named for one in as_list(ones)):
                yield f"{bot.name}/{metric.name}"
