"""Another tool's scores as numbers by key, people's scores apart; what its verdicts say about each score's rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isinf

from evalflow.addons.interop.importers.columns import is_missing
from evalflow.addons.interop.importers.files import key_for
from evalflow.addons.interop.importers.ledger import Ledger, Untranslated
from evalflow.records.scores import Direction, passes
from evalflow.values.cells import number_of
from evalflow.values.jsonvalues import as_list

NO_NUMBER = frozenset({"", "nan", "none", "null", "n/a"})
"""Cell texts that mean a missing number."""
_MANY = 500  # names of scores
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")


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

    keys: dict[str, str] = field(default_factory=dict[str, str])
    names: dict[str, None] = field(default_factory=dict[str, None])

    def read(self, scores: Iterable[tuple[str, object]], where: str, ledger: Ledger) -> dict[str, float]:
        """The numbers of one case. Other values are listed."""
        numbers: dict[str, float] = {}
        for name, value in scores:
            ledger.found("scores")
            if len(self.names) < _MANY:
                self.names.setdefault(name)
            number = score_number(value)
            if number is not None and name not in self.keys and len(self.keys) < _MANY:
                self.keys[name] = key_for(name, [*self.keys.values()], "score")
            key = self.keys.get(name)
            if is_missing(value) or (isinstance(value, str) and value.strip().lower() in NO_NUMBER):
                ledger.left("scores", f"score {name}", where, "it has no value")
            elif number is None and is_infinite(value):
                ledger.left("scores", f"score {name}", where, "it is not a finite number")
            elif number is None:
                reason, hint = "its value is not one number", "write one number for it, and import again"
                if isinstance(value, str):
                    with_comma = _COMMA.fullmatch(value.strip())
                    reason = "it has a comma, not a point" if with_comma else "its value is a label, not a number"
                ledger.left("scores", f"score {name}", where, reason, hint)
            elif key is None:
                ledger.left("scores", "score", where, f"there are more than {_MANY} names of scores")
            elif key in numbers:
                ledger.left("scores", f"score {name}", where, "the case already has a score of this name")
            else:
                numbers[key] = number
                ledger.took("scores")
        return numbers


def score_number(value: object) -> float | None:
    """A score as a number, also from a cell or a list of one; None for anything else."""
    if isinstance(value, list):
        items = as_list(value)
        return score_number(items[0]) if len(items) == 1 else None
    if isinstance(value, str) and (word := value.strip().lower()) in ("true", "false"):
        return float(word == "true")
    number = value if isinstance(value, bool) else number_of(value)
    return None if number is None else float(number)


def is_infinite(value: object) -> bool:
    """Whether a score, also as a cell's text, is infinite, or too large for a float."""
    try:
        return isinstance(value, int | float | str) and isinf(float(value))
    except OverflowError:
        return True
    except ValueError:
        return False


_THRESHOLDS = 50  # maximum different ones of one metric
_HIGHER: Direction = "higher_is_better"
_LOWER: Direction = "lower_is_better"


@dataclass(slots=True)
class Verdicts:
    """The scores, thresholds and verdicts of one metric, kept as bounds, so memory does not grow with their number.

    Attributes:
        thresholds: How often each threshold was declared.
        passed, failed: The lowest and the highest score of those that passed, and of those that failed.
        wrong: By direction, the rows that contradict it.
    """

    thresholds: Counter[float] = field(default_factory=Counter[float])
    passed: tuple[float, float] = (inf, -inf)
    failed: tuple[float, float] = (inf, -inf)
    wrong: Mapping[Direction, Untranslated] = field(
        default_factory=lambda: {way: Untranslated("thresholds", "score", "") for way in (_HIGHER, _LOWER)}
    )

    def add(self, score: float, threshold: float | None, success: bool | None, where: str) -> None:
        """Add a score, with its threshold and the tool's verdict, if known."""
        if threshold is not None and (threshold in self.thresholds or len(self.thresholds) < _THRESHOLDS):
            self.thresholds[threshold] += 1
        if success is None:
            return
        low, high = self.passed if success else self.failed
        bounds = (min(low, score), max(high, score))
        self.passed, self.failed = (bounds, self.failed) if success else (self.passed, bounds)
        for direction, wrong in self.wrong.items() if threshold is not None else ():
            if passes(score, threshold, higher_is_better=direction == _HIGHER) != success:
                wrong.add(f"{where} (score {score:g}, threshold {threshold:g}, success {str(success).lower()})")

    @property
    def judged(self) -> bool:
        """Whether the tool gave a verdict on any score."""
        return self.passed[0] < inf or self.failed[0] < inf

    def agrees(self, direction: Direction, threshold: float) -> bool:
        """Whether each score passes exactly if it passed in the tool."""
        higher = direction == _HIGHER
        weakest, best = (self.passed[0], self.failed[1]) if higher else (self.passed[1], self.failed[0])
        passed = self.passed[0] == inf or passes(weakest, threshold, higher_is_better=higher)
        return passed and (self.failed[0] == inf or not passes(best, threshold, higher_is_better=higher))

    def rule(self, prior: Direction | None) -> tuple[Direction | None, float | None]:
        """The direction and threshold that agree with all verdicts; None if undecided.

        If both directions fit, `prior` is taken; of several thresholds, the most frequent.
        """
        thresholds = [threshold for threshold, _ in self.thresholds.most_common()]
        fitting: list[tuple[Direction, float]] = [
            (way, item) for way in self.wrong for item in thresholds if self.agrees(way, item)
        ]
        ways = {way for way, _ in fitting}
        if not self.judged:
            return prior, thresholds[0] if prior and len(thresholds) == 1 else None
        if not ways:
            return self._spread(), None
        way: Direction | None = prior if prior in ways else None
        if len(ways) == 1:
            way = fitting[0][0]
        return way, next((item for direction, item in fitting if direction == way), None)

    def _spread(self) -> Direction | None:
        """The direction, if all failed scores are on one side of those that passed."""
        if self.passed[0] > self.failed[1]:
            return _HIGHER if self.failed[0] < inf and self.passed[0] < inf else None
        return _LOWER if self.passed[1] < self.failed[0] < inf and self.passed[0] < inf else None

    def list_unread(self, name: str, rule: tuple[Direction | None, float | None], ledger: Ledger, file: str) -> None:
        """List why scores were imported without a threshold although the file has thresholds or verdicts."""
        direction, threshold = rule
        if threshold is not None or not (self.judged or self.thresholds):
            return
        wrong = min(self.wrong.values(), key=lambda fault: fault.count)
        hint = "its scores are imported without pass or fail; set `threshold` and `direction` in conf/metric yourself"
        if not self.thresholds:
            what = "the file has no threshold for it"
        elif self.judged and wrong.count:
            what = "its `success` contradicts score and threshold"
        elif self.judged and len(self.thresholds) > 1:
            shown = ", ".join(f"{item:g}" for item in sorted(self.thresholds)[:5])
            what = f"none of its thresholds ({shown}) agrees with every `success`"
        elif direction is None:
            what = "the file does not show whether higher or lower is better"
        else:
            what = "it has several thresholds"
        where = wrong.where if self.judged and wrong.count else file
        ledger.leave("thresholds", f"pass or fail of {name}", where, what, hint)
