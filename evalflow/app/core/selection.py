"""Which cases of its datasets a run used: all, a random sample, or a part not representative of the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalflow.records.manifest import Manifest
from evalflow.report.wording import counted

_CHOSEN = re.compile(r"\+*dataset\.(?P<dataset>[^.=]+)\.(?P<key>tags|ids)=(?!null$)")


@dataclass(frozen=True, slots=True)
class TakenCases:
    """The selection of cases that a run used; nothing is set if it used all.

    Tags that a dataset declares for itself are not set: the cases that have them are all of that dataset.

    Attributes:
        picked: How many cases were chosen one by one, such as those that failed.
        tags: The tags that the run was limited to.
        limit: The first so many cases of each dataset, unless it has fewer.
        sample: So many cases of each dataset, drawn at random, unless it has fewer.
        unfinished: Whether the run ended before all cases were asked.
        stopped: Whether it stopped early because its gates or its race were decided.
    """

    picked: int = 0
    tags: Sequence[str] = ()
    limit: int | None = None
    sample: int | None = None
    unfinished: bool = False
    stopped: bool = False

    @property
    def is_part(self) -> bool:
        """Whether the run has only some of the cases; then it does not count as 'last time' or in a trend."""
        return bool(self.picked or self.tags or self.limit is not None or self.unfinished)

    @property
    def in_words(self) -> str:
        """Describe it, e.g. `3 picked cases` or `random sample of 50`; empty for all cases."""
        return ", ".join(self._words())

    def _words(self) -> Iterator[str]:
        if self.picked:
            yield counted(self.picked, "picked case")
        if self.tags:
            yield f"only cases tagged {', '.join(self.tags)}"
        if self.limit is not None:
            yield f"the first {counted(self.limit)}" if self.limit > 1 else "the first case"
        if self.sample is not None:
            yield f"random sample of {counted(self.sample)}"
        if self.unfinished:
            yield "ended early"
        elif self.stopped:
            yield "stopped early"


def taken_cases(manifest: Manifest) -> TakenCases:
    """Return a run's selection from its manifest. Tags and ids count if its command line chose them."""
    config, cases = manifest.config, {name: facts.cases for name, facts in manifest.datasets.items()}
    matches = (_CHOSEN.match(word) for word in manifest.overrides)
    changed = {(word["dataset"], word["key"]) for word in matches if word}
    own: Mapping[str, Mapping[str, Any]] = config["dataset"]
    chosen = {
        name: {key: values.get(key) for key in ("tags", "ids") if (name, key) in changed}
        for name, values in own.items()
    }
    reached = {key: config.get(key) for key in ("limit", "sample")}
    return TakenCases(
        **chosen_cases(chosen),
        **{key: most for key, most in reached.items() if most is not None and most <= max(cases.values(), default=0)},
        unfinished=not manifest.stopped and 0 < sum(manifest.asked.values()) < sum(cases.values()),
        stopped=bool(manifest.stopped),
    )


def chosen_cases(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The cases that the keys `tags` and `ids` of datasets choose, by dataset, as arguments of `TakenCases`."""
    tags = dict.fromkeys(tag for one in values.values() for tag in one.get("tags") or ())
    return {"picked": sum(len(one.get("ids") or ()) for one in values.values()), "tags": tuple(tags)}
