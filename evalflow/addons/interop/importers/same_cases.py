"""Cases of an existing dataset for which an imported file has another system's answers.

Tools with one result file per system use no ids common to the files, nor always the same order. So a case is
recognised by what the user asks in it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evalflow import datasets
from evalflow.app.core.assemble import composed_settings
from evalflow.datasets.messages import read_messages
from evalflow.errors import Problem, UserError
from evalflow.records import Message
from evalflow.values.jsonvalues import as_list


@dataclass(slots=True)
class SameCases:
    """The ids of a dataset's cases, by what the user asks in them.

    Attributes:
        option, name: The dataset's file in conf/dataset, and its name in results.
        ids: All ids.
        waiting: The ids not yet used by an imported case, by a digest of what is asked.
        matched: How many imported cases have one.
        is_used: Whether an importer used it; importers without one system's results do not.
    """

    option: str
    name: str
    ids: set[str] = field(default_factory=set[str])
    waiting: dict[bytes, deque[str]] = field(default_factory=lambda: defaultdict(deque))
    matched: int = 0
    is_used: bool = False

    @classmethod
    def of(cls, option: str) -> SameCases:
        """The cases of a dataset; UserError if it does not exist."""
        config = composed_settings([f"dataset={option}", "metric=exact_match"], None).run.dataset[option]
        same = cls(option, config.name or option)
        for case in datasets.read(same.name, config):
            same.ids.add(case.id)
            same.waiting[_digest(case.messages)].append(case.id)
        return same

    def id_of(self, case: Mapping[str, object]) -> str | None:
        """The id of the next unused case in which the user asks the same; None if there is none."""
        ids = self.waiting.get(_digest(read_messages(turns_of(case))))
        if not ids:
            return None
        self.matched += 1
        return ids.popleft()

    def note(self, cases: int, file: str) -> str:
        """Report how many imported cases are in the dataset; UserError if none is."""
        if not self.matched:
            what = f"none of its {cases:,} cases has a question of {self.option}"
            raise UserError(Problem(what, file, "name the dataset that has these questions, or leave out --dataset"))
        return f"{self.matched:,} of {cases:,} cases have questions of {self.option} and get their ids"


def turns_of(case: Mapping[str, object]) -> list[object]:
    """The turns of an imported case, whose last question may stand alone."""
    question = case.get("question")
    asked = [{"role": "user", "content": question}] if isinstance(question, str) else as_list(case.get("messages"))
    return [*as_list(case.get("history")), *asked]


def _digest(messages: Iterable[Message]) -> bytes:
    asked = [" ".join(one.text.split()) for one in messages if one.role == "user"]
    return hashlib.blake2b("\0".join(asked).encode("utf-8", "replace"), digest_size=16).digest()
