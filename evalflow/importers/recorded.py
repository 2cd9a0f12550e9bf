"""Cases with the scores that another tool gave them: each name of a score becomes a metric of the kind `recorded`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, cast

from evalflow.errors import Problem, UserError
from evalflow.importers.files import DataFile, ImportedConfig, ImportSource, dataset_option, key_for, recorded_option
from evalflow.importers.ledger import Ledger
from evalflow.importers.values import as_list

PARTS = ("cases", "scores")
_MANY = 500  # names of scores
_SECRET_NAME = re.compile(
    r"(?:.*[-_.])?(?:api[-_]?key|secret(?:[-_]?key)?|password|passwd|authorization|cookie|(?:access|auth)[-_]?token)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(?:sk|pk|rk)-[\w-]{8,}|lsv2_\w{8,}|(?:Bearer|Basic) \S{8,}|gh[pousr]_\w{16,}|AIza[\w-]{20,}"
)


@dataclass(slots=True)
class RecordedCases:
    """The cases of one data file, and the names of their scores.

    Attributes:
        tool: The tool's name, for people.
        column: The column of data/ that holds the scores.
        scores: The key of each name of a score.
        names: All names of scores, also of those without a number.
        lower: Names of scores of which less is better.
    """

    imported: ImportedConfig
    file: DataFile
    tool: str
    column: str
    scores: dict[str, str] = field(default_factory=dict[str, str])
    names: set[str] = field(default_factory=set[str])
    lower: set[str] = field(default_factory=set[str])
    recorded: int = 0
    answered: int = 0

    @property
    def ledger(self) -> Ledger:
        return self.imported.ledger

    def write(self, case: Mapping[str, Any], scores: Iterable[tuple[str, Any]], where: str) -> None:
        """Write a case without the keys in it, and count its scores."""
        row = {"id": str(self.file.count + 1), **case}
        row |= {name: self._without_keys(row[name], where) for name in ("vars", "metadata") if name in row}
        found = self._numbers(scores, where)
        self.file.write(row | ({self.column: found} if found else {}))
        self.answered += "answer" in case
        self.recorded += "answer" in case or "failure" in case

    def leave(self, reason: str, hint: str, scores: Sequence[tuple[str, Any]], where: str) -> None:
        """List a row that is no case, and its scores."""
        self.ledger.left("cases", "row", where, reason, hint)
        if scores:
            self.ledger.found("scores", len(scores))
            self.ledger.left("scores", "score", where, "its row is no case", count=len(scores))

    def declare(self, source: ImportSource, key: str, file: str) -> None:
        """Add the dataset, a metric for each score, and the experiment; UserError if there are no cases."""
        if not self.file.count:
            problems = [Problem(entry.reason, entry.where, entry.hint) for entry in self.ledger.left_out]
            raise UserError(problems or [Problem("it has no cases", file)])
        imported = self.imported
        imported.datasets[key] = dataset_option(key, f"Cases of {file}.", name=source.name)
        chosen: list[str] = []
        for label, score in self.scores.items():
            metric = key_for(f"{key} {score}", imported.metrics, "metric")
            option = recorded_option(f"{self.column}.{score}", f"{self.tool}'s own score: {label}.", "number")
            imported.metrics[metric] = option | ({"direction": "lower_is_better"} if label in self.lower else {})
            chosen.append(metric)
        only_scores = bool(chosen) and not self.answered
        complete = self.recorded == self.file.count and self.answered
        imported.experiments[key] = {
            "defaults": [{"override /dataset": key}, {"override /metric": chosen or ["relevance"]}],
            "generate": False if complete or only_scores else "missing" if self.answered else True,
        }
        if chosen:
            imported.unjudged.add(key)
        else:
            imported.notes.append("the file has no scores: the experiment has metric=relevance; choose your own")

    def _numbers(self, scores: Iterable[tuple[str, Any]], where: str) -> dict[str, float]:
        found: dict[str, float] = {}
        for name, value in scores:
            self.ledger.found("scores")
            number = score_number(value)
            if len(self.names) < _MANY:
                self.names.add(name)
            if number is not None and name not in self.scores and len(self.scores) < _MANY:
                self.scores[name] = key_for(name, [*self.scores.values()], "score")
            key = self.scores.get(name)
            if value is None:
                self.ledger.left("scores", f"score {name}", where, "it has no value")
            elif number is None:
                reason = "it has several values" if len(as_list(value)) > 1 else "its value is a label, not a number"
                self.ledger.left("scores", f"score {name}", where, reason, "write one number for it, and import again")
            elif key is None:
                self.ledger.left("scores", "score", where, f"there are more than {_MANY} names of scores")
            elif key in found:
                self.ledger.left("scores", f"score {name}", where, "the case has a score of this name already")
            else:
                found[key] = number
                self.ledger.took("scores")
        return found

    def _without_keys(self, value: Any, where: str) -> Any:
        """The value without API keys and the like, which are listed."""
        if isinstance(value, list):
            return [self._without_keys(inner, where) for inner in cast("list[Any]", value)]
        if not isinstance(value, Mapping):
            return value
        found: dict[str, Any] = {}
        for name, inner in cast("Mapping[str, Any]", value).items():
            if isinstance(inner, str) and inner and (_SECRET_NAME.fullmatch(name) or _SECRET_VALUE.fullmatch(inner)):
                self.ledger.found("keys")
                self.ledger.left("keys", f"key {name}", where, "a key is never copied")
            else:
                found[name] = self._without_keys(inner, where)
        return found


def score_number(value: Any) -> float | None:
    """A score as a number, also where a cell or a list of one holds it; None if it is none."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return score_number(items[0]) if len(items) == 1 else None
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("true", "false"):
            return float(word == "true")
        try:
            value = float(word)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and isfinite(value) else None
