"""Titles: what people call bots, metrics, datasets, judges and projects, and the names that are derived from them.

A title is any text in any script; the name is an identifier, which addresses, files, columns and overrides have.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from textwrap import shorten
from typing import Any

from evalflow.addons.studio.store import definitions
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.addons.studio.work.validate import LONGEST_NAME, no_names
from evalflow.app.core.options import Option, options
from evalflow.config.schema import IDENTIFIER
from evalflow.errors import Problem, UserError
from evalflow.paths import conf_dirs
from evalflow.records import CASES

LONGEST_TITLE = 120
"""In characters."""
LONGEST_CASE_TITLE = 90
"""In characters."""
_LONGEST_DERIVED = 60
_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
"""Latin letters that Unicode does not decompose."""
_REORDERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of what follows them, and so could make a title look like another."""
_NAMED = re.compile(
    r"(?<!\w)(?:'[^']*'|\"[^\"]*\")"
    r"|\A(?P<dataset>[a-z]\w*), (?P<metric>[a-z]\w*)(?=[:,])"
    r"|(?<![\w./=-])(?:(?P<word>metric|for|judge:?|dataset|labels on|on|files of|bot) )?"
    r"(?P<name>(?!(?:metric|dataset|judge:?) )[a-z]\w*)(?![\w/=-]|\.\w)"
)
"""A name in a sentence, behind the word that says what has it; or a note's dataset and metric; or something quoted."""
_SURE = ("metric", "dataset", "judge:", "labels on")
"""Words before a name of their kind; behind others, such as `for`, a name without _ may be a plain word."""
_KINDS_BY_WORD = {
    **{"metric": ("metric",), "for": ("metric",), "judge": ("judge",), "judge:": ("judge",)},
    **{
        "dataset": ("dataset",),
        "labels on": ("dataset",),
        "on": ("dataset",),
        "files of": ("dataset",),
        "bot": ("bot",),
    },
}
_GROUPS = {"target": "bot", "metric": "metric", "dataset": "dataset", "judge": "judge"}


def checked_title(title: str, what: str) -> str:
    """The title with normalised Unicode and single spaces; UserError if it cannot be one."""
    normalised = " ".join(unicodedata.normalize("NFC", title).split())
    key = f"{what}.title"
    if not any(unicodedata.category(letter)[0] in "LNPS" for letter in normalised):
        raise UserError(Problem(f"the {what} has no name", key, "a text that can be read"))
    if len(normalised) > LONGEST_TITLE:
        raise UserError(
            Problem(f"the name has {len(normalised):,} characters, of at most {LONGEST_TITLE}", key, "shorten it")
        )
    if any(unicodedata.category(letter) in ("Cc", "Cs") or letter in _REORDERING for letter in normalised):
        raise UserError(Problem("the name has a control character", key, "remove it"))
    if "${" in normalised:
        raise UserError(Problem("the name has ${, which configuration would replace", key, "leave it out"))
    return normalised


def case_title(question: str | None, case_id: str | None) -> str:
    """The title of a case: the first words of its question in one line, or its id if it has no question."""
    text = " ".join((question or case_id or "").split())
    if len(text) <= LONGEST_CASE_TITLE:
        return text
    title = shorten(text, LONGEST_CASE_TITLE, placeholder=" …")
    half = LONGEST_CASE_TITLE // 2  # a text without spaces, such as Chinese, is cut within its only word
    return title if len(title) > half else f"{text[: LONGEST_CASE_TITLE - 2]} …"


def same_title(title: str) -> str:
    """A form of a title; titles that people would read as the same have equal forms."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", title).casefold())


def name_for(title: str, taken: Collection[str], what: str) -> str:
    """A free name for a title: `Kundenservice – Köln` becomes `kundenservice_koln`; a name is unchanged.

    What has no letter of a to z gets the name `what`. A taken or reserved name gets a number.
    """
    name = title if IDENTIFIER.match(title) and len(title) <= LONGEST_NAME - 10 else _folded(title, what)
    numbered = (f"{name}_{i}" for i in count(2))
    return next(free for free in chain([name], numbered) if free not in taken and free not in no_names(what))


def _folded(title: str, what: str) -> str:
    letters = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", title).casefold().translate(_LETTERS))
    plain = "".join(
        one if one.isascii() and one.isalnum() else " " for one in letters if not unicodedata.combining(one)
    )
    name = "_".join(plain.split())
    if not name[:1].isalpha():
        name = f"{what}_{name}" if name else what
    return name[:_LONGEST_DERIVED].rstrip("_")


def lifted(values: Mapping[str, Any], title: str | None) -> tuple[dict[str, Any], str | None]:
    """A configuration without its key `title`, and the title: the given one, or else the key's."""
    others, own = dict(values), values.get("title")
    if others.pop("title", None) is not None and not isinstance(own, str):
        raise UserError(Problem("the title must be a text", "title", "put it in quotes"))
    return others, title or own


def declared_title(option: Option) -> str:
    """The title of a definition of conf/; without one, its name with spaces, such as `context recall`."""
    return option.title if option.title != option.name else option.name.replace("_", " ")


def titled(values: Mapping[str, object], name: str, title: str) -> dict[str, object]:
    """The configuration for a file, which has the key `title` if the title is not just the name; see `lifted`."""
    return {"title": title, **values} if title != name else dict(values)


@dataclass(frozen=True, slots=True)
class Titles:
    """The titles of a project, to show for names: those that differ from their names, by kind, bot and name.

    Metrics are listed also without a title of their own, so that none gets the title of a check.
    """

    given: Mapping[tuple[str, str, str], str]

    def of(self, kind: str, name: str, bot: str = "") -> str:
        """The title of a bot, metric, dataset, judge, check or project; its name if it has no other title.

        `bot`: whose metric it is; without one it is the library's. Scores of a reusable check have its name, and a
        number if a case repeats it; if a metric has this name, it is the metric's. A bot may have its model behind a
        colon, as in the scores of a run.
        """
        if (kind, name) == ("metric", CASES):
            return "Cases that pass everything"
        owner, (check, *number) = bot.partition(":")[0], name.split("#", 1)
        known = [title for of in (owner, "") if (title := self.given.get((kind, of, name))) is not None]
        own_title = next((title for title in known if title not in ("", name)), None)
        if not known and kind == "metric" and (title := self.given.get(("check", "", check))):
            return " ".join([title, *number])
        if own_title is None and kind == "bot" and ":" in name:
            return self.given.get((kind, "", name.partition(":")[0])) or name
        return own_title or name

    def in_text(self, sentence: str, *bots: str) -> str:
        """A sentence with the titles of the metrics, datasets, judges and bots whose names it has.

        A name without _ may also be a word of the sentence, so it needs "metric", "dataset" or "judge:" before it, or
        to begin a note. What is quoted, such as the id of a case, is no name. `bots`: the owners of the metrics.

        >>> titles = Titles({("dataset", "", "fees"): "Fees", ("metric", "", "is_kind"): "Kind"})
        >>> titles.in_text("is_kind, 9 labels of dataset fees, without case 'is_kind'")
        "Kind, 9 labels of dataset Fees, without case 'is_kind'"
        """

        def title_of(kind: str, name: str) -> str:
            titles = (self.of(kind, name, bot) for bot in bots or ("",))
            return next((title for title in titles if title != name), name)

        def titled(match: re.Match[str]) -> str:
            if match["dataset"]:
                return f"{title_of('dataset', match['dataset'])}, {title_of('metric', match['metric'])}"
            word, name = match["word"], match["name"]
            if name is None or ("_" not in name and word not in _SURE):
                return match[0]
            kinds = _KINDS_BY_WORD[word] if word else ("metric", "dataset", "judge", "bot")
            title = next((title for kind in kinds if (title := title_of(kind, name)) != name), name)
            return f"{word} {title}" if word else title

        return _NAMED.sub(titled, sentence)

    def with_run(self, owners: Iterable[str], metrics: Mapping[str, str]) -> Titles:
        """These titles, and for metrics of a run that have none here, such as of a taught judge, those of the run.

        `owners`: the names of its bot. `metrics`: titles by name.
        """
        added = {
            ("metric", owner, name): title
            for owner in owners
            for name, title in metrics.items()
            if self.of("metric", name, owner) == name
        }
        return Titles({**self.given, **added})


NO_TITLES = Titles({})


@requires("account")
def titles_of(space: Workspace) -> Titles:
    """The titles of the workspace's project and of conf/, as they are now."""
    own = space.read(definitions.other_titles, space.project_id)
    declared = space.remembered.get("titles", conf_dirs(), _declared)
    shipped = {(kind, "", name): title for kind, titles in declared.items() for name, title in titles.items()}
    return Titles({**shipped, **own})


@requires("admin")
def titles_of_projects(space: Workspace, projects: Iterable[str]) -> dict[str, Titles]:
    """The titles of projects, as they are now, by project; those that were deleted have none."""
    by_project: dict[str, Titles] = {}
    for name in dict.fromkeys(projects):
        with suppress(NotFoundError):
            by_project[name] = titles_of(space.in_project(name))
    return by_project


def _declared() -> dict[str, dict[str, str]]:
    return {
        kind: {
            option.name: title
            for option in options(None, group)
            if (title := declared_title(option)) != option.name or kind == "metric"
        }
        for group, kind in _GROUPS.items()
    }
