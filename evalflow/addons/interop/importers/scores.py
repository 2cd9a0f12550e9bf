"""Another tool's scores as numbers by key; people's scores are separate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite, isinf

from evalflow.addons.interop.importers.columns import is_missing
from evalflow.addons.interop.importers.files import key_for
from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.values.jsonvalues import as_list

NO_NUMBER = frozenset({"", "nan", "none", "null", "n/a"})
"""Cell texts that mean a missing number."""
_MANY = 500  # names of scores


@dataclass(frozen=True, slots=True)
class PersonsScore:
    """A person's score as recorded by the tool: a number or a label, with the label's further data."""

    value: object
    by: object = None
    comment: object = None
    at: object = None


def score_name(declared: Mapping[str, object], *keys: str) -> object:
    """The name of a score, from the first of these keys, else `score`.

    A name that is not text is listed with its case.
    """
    return next((name for key in keys if (name := declared.get(key)) not in (None, "")), "score")


@dataclass(slots=True)
class RecordedScores:
    """The tool's scores as numbers, by the keys of their names.

    Attributes:
        keys: The key of each score name that has a number.
        names: All names of scores.
    """

    ledger: Ledger
    keys: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, None] = field(default_factory=dict[str, None])

    def read(self, scores: Iterable[tuple[str, object]], where: str) -> dict[str, float]:
        """The numbers of one case. Other values are listed."""
        numbers: dict[str, float] = {}
        for name, value in scores:
            self.ledger.found("scores")
            if len(self.names) < _MANY:
                self.names.setdefault(name)
            number = score_number(value)
            if number is not None and name not in self.keys and len(self.keys) < _MANY:
                self.keys[name] = key_for(name, [*self.keys.values()], "score")
            key = self.keys.get(name)
            if is_missing(value) or (isinstance(value, str) and value.strip().lower() in NO_NUMBER):
                self.ledger.left("scores", f"score {name}", where, "it has no value")
            elif number is None and is_infinite(value):
                self.ledger.left("scores", f"score {name}", where, "it is not a finite number")
            elif number is None:
                is_label = isinstance(value, str)
                reason = "its value is a label, not a number" if is_label else "its value is not one number"
                hint = "write one number for it, and import again"
                self.ledger.left("scores", f"score {name}", where, reason, hint)
            elif key is None:
                self.ledger.left("scores", "score", where, f"there are more than {_MANY} names of scores")
            elif key in numbers:
                self.ledger.left("scores", f"score {name}", where, "the case already has a score of this name")
            else:
                numbers[key] = number
                self.ledger.took("scores")
        return numbers


def score_number(value: object) -> float | None:
    """A score as a number, also from a cell or a list of one; None for anything else."""
    if isinstance(value, list):
        items = as_list(value)
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


def is_infinite(value: object) -> bool:
    """Whether a score, also as a cell's text, is infinite."""
    try:
        return isinstance(value, int | float | str) and isinf(float(value))
    except (ValueError, OverflowError):
        return False
