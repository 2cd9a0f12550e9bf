"""The checks and metrics of all cases of an import, and what became of each assertion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.located import LocatedList, LocatedMap, place
from evalflow.addons.interop.importers.nunjucks import render
from evalflow.addons.interop.importers.promptfoo.asserts import NOTES, AssertionReader, Translated, name_of
from evalflow.jsonvalues import as_list, as_map, as_number
from evalflow.metrics.case_checks import JUDGED


@dataclass(slots=True)
class _Fate:
    """What became of an assertion as declared, over all cases that have it."""

    part: str
    what: str
    where: str
    failure: Untranslatable | None = None


@dataclass(slots=True)
class CheckWriter:
    """Turns the assertions of case after case into checks.

    Attributes:
        reader: Translates one assertion.
        metrics: Metrics of evalflow over all cases, with the threshold that an assertion gave.
        judged: Whether any check asks a judge.
        judges: The providers that assertions name as their judges, by name.
        count: How many checks were written.
        notes: What is not the same as before.
    """

    reader: AssertionReader
    metrics: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    judged: bool = False
    judges: dict[str, Any] = field(default_factory=dict[str, Any])
    count: int = 0
    notes: dict[str, None] = field(default_factory=dict[str, None])
    _names: Counter[str] = field(default_factory=Counter[str])
    _helped: dict[str, bool] = field(default_factory=dict[str, bool])
    _fates: dict[int, _Fate] = field(default_factory=dict[int, "_Fate"])
    _kept: list[Any] = field(default_factory=list[Any])

    def write(
        self, asserts: Sequence[Any], variables: Mapping[str, Any], where: str, threshold: float | None
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The checks of a case, and the case fields that metrics need.

        Where the test has a threshold or weights, a group of all its checks has the score of the test.
        """
        fields: dict[str, Any] = {}
        self._names.clear()
        spots = [_spot(asserts, number, where) for number in range(len(asserts))]
        made = [self._checks(one, variables, spot, fields) for one, spot in zip(asserts, spots, strict=True)]
        checks = [check for several in made for check in several]
        if threshold is None and all(check.get("weight", 1.0) == 1.0 for check in checks):
            return checks, fields
        fate = self._fate(asserts, "groups", "the weights and the threshold of a test", where)
        if any(len(several) != 1 for several in made):
            hint = "its other assertions are checks; without it their sum would mean something else"
            fate.failure = Untranslatable("an assertion of the test is not among its checks", hint)
        fate.failure = fate.failure or _no_share(checks, threshold)
        if fate.failure:
            return checks, fields
        return [*checks, self._entry("test_score", "group", _group(checks, threshold), 1.0)], fields

    def settle(self, ledger: Ledger) -> None:
        """Count every assertion that was seen, once, however many cases have it."""
        for fate in self._fates.values():
            ledger.found(fate.part)
            if fate.failure is None:
                ledger.took(fate.part)
            else:
                ledger.left(fate.part, fate.what, fate.where, fate.failure.reason, fate.failure.hint)
        self._fates.clear()
        self._kept.clear()

    def _checks(
        self, declared: Any, variables: Mapping[str, Any], where: str, fields: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """The check of an assertion; none if it has no like, or is a metric; several if it is a broken set."""
        if isinstance(declared, Mapping) and cast("Mapping[str, Any]", declared).get("type") == "assert-set":
            return self._set(cast("Mapping[str, Any]", declared), variables, where, fields)
        kind = cast("Mapping[str, Any]", declared).get("type") if isinstance(declared, Mapping) else declared
        fate = self._fate(declared, "asserts", f"assert {kind}", place(declared, where))
        try:
            if not isinstance(declared, Mapping):
                raise Untranslatable("it is no object", "write `type:` and `value:`")
            known = cast("Mapping[str, Any]", declared)
            found = self.reader.translated(known, variables)
            self._note(known)
            if found.metric:
                self._metric(found, known, variables, fields)
                return []
        except Untranslatable as failure:
            fate.failure = fate.failure or failure
            return []
        return [self._entry(self._name(known), found.kind, found.params, found.weight)]

    def _set(
        self, declared: Mapping[str, Any], variables: Mapping[str, Any], where: str, fields: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """An assert-set as a group; its checks alone where one of them has no like."""
        fate = self._fate(declared, "groups", "assert-set", place(declared, where))
        listed = as_list(declared.get("assert"))
        made = [self._checks(one, variables, _spot(listed, number, where), fields) for number, one in enumerate(listed)]
        checks = [check for several in made for check in several]
        threshold = declared.get("threshold")
        if not made or any(len(several) != 1 for several in made):
            hint = "its other assertions are checks; without it their sum would mean something else"
            fate.failure = fate.failure or Untranslatable("an assertion in it is not among its checks", hint)
        fate.failure = fate.failure or _no_share(checks, threshold)
        if fate.failure is not None:
            return checks
        weight = as_number(declared.get("weight"))
        name = self._name(declared)
        return [self._entry(name, "group", _group(checks, threshold), 1.0 if weight is None else weight)]

    def _metric(
        self, found: Translated, declared: Mapping[str, Any], variables: Mapping[str, Any], fields: dict[str, Any]
    ) -> None:
        if found.metric != "answer_relevancy":
            contexts = variables.get("context")
            if not isinstance(contexts, str | list) or not contexts:
                raise Untranslatable("the test has no variable `context`", "give it one, or the cases `contexts`")
            fields["contexts"] = contexts if isinstance(contexts, list) else [contexts]
        if found.metric == "context_recall":
            if not isinstance(declared.get("value"), str):
                raise Untranslatable("it has no text to look for in the context", "give it a `value`")
            fields["reference"] = render(str(declared["value"]), variables)
        self.judged = True
        self.metrics.setdefault(found.metric, found.threshold)

    def _name(self, declared: Mapping[str, Any]) -> str:
        """The name of the row. Assertions of one `metric` share it, and count together; others get a number."""
        name = name_of(declared)
        if declared.get("metric"):
            return name
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name]}"

    def _entry(self, name: str, kind: str, params: Mapping[str, Any], weight: float) -> dict[str, Any]:
        """A check. A row has one judge or none, so one name never stands for both."""
        asks = kind in JUDGED or (kind == "group" and any(check["identifier"] in JUDGED for check in params["checks"]))
        self.judged = self.judged or asks
        self.count += 1
        helped = asks or kind == "semantic_similarity"
        if self._helped.setdefault(name, helped) != helped:
            name = f"{name}_{'judged' if helped else 'plain'}"
            self._helped.setdefault(name, helped)
        found = {"identifier": kind, "name": name, "params": dict(params)}
        return found if weight == 1.0 else {**found, "weight": weight}

    def _fate(self, declared: Any, part: str, what: str, where: str) -> _Fate:
        key = id(declared)
        if key not in self._fates:
            self._kept.append(declared)  # so that no other object gets its id
            self._fates[key] = _Fate(part, what, where)
        return self._fates[key]

    def _note(self, declared: Mapping[str, Any]) -> None:
        if own := declared.get("provider"):
            self.judges.setdefault(str(as_map(own).get("id") or own), own)
        note = NOTES.get(str(declared.get("type")).removeprefix("not-"))
        if note:
            self.notes.setdefault(note)


def _no_share(checks: Sequence[Mapping[str, Any]], threshold: Any) -> Untranslatable | None:
    """Why the checks have no weighted share that a threshold can be held against."""
    share = as_number(threshold)
    if threshold is not None and (share is None or not 0 <= share <= 1):
        return Untranslatable(f"its threshold {threshold} is no share of the weight", "write a number from 0 to 1")
    if any("threshold" in check["params"] for check in checks if check["identifier"] == "group"):
        hint = "give the set no threshold, or the test neither weights nor a threshold"
        return Untranslatable("it counts the share of a set that has a threshold of its own", hint)
    if not any(check.get("weight", 1.0) for check in checks):
        return Untranslatable("all its weights are 0", "give one a weight")
    return None


def _group(checks: Sequence[Mapping[str, Any]], threshold: Any) -> dict[str, Any]:
    return {"checks": list(checks), **({} if threshold is None else {"threshold": float(threshold)})}


def _spot(items: Sequence[Any], number: int, where: str) -> str:
    item = items[number]
    if isinstance(item, LocatedMap):
        return item.where
    return items.at(number) if isinstance(items, LocatedList) else where
