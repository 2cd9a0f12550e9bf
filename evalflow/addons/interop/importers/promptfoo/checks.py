"""The checks and metrics of an import, and the result for each assertion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.located import place, placed
from evalflow.addons.interop.importers.nunjucks import render
from evalflow.addons.interop.importers.promptfoo.asserts import NOTES, AssertionReader, Translated, name_of
from evalflow.addons.interop.importers.readers import object_in, text_in, text_of
from evalflow.metrics.case_checks import JUDGED
from evalflow.values.jsonvalues import as_list, as_map, as_number


@dataclass(slots=True)
class _Fate:
    """The result for a declared assertion, over all cases that have it."""

    part: str
    what: str
    where: str
    failure: Untranslatable | None = None


@dataclass(slots=True)
class CheckWriter:
    """Turns the assertions of case after case into checks.

    Attributes:
        reader: Translates one assertion.
        metrics: Metrics of evalflow over all cases, with the assertions' thresholds.
        judged: Whether any check asks a judge.
        judges: The providers that assertions name as their judges, by name.
        count: How many checks were written.
        notes: Differences to promptfoo.
    """

    reader: AssertionReader
    metrics: dict[str, float | None] = field(default_factory=dict[str, "float | None"])
    judged: bool = False
    judges: dict[str, object] = field(default_factory=dict[str, object])
    count: int = 0
    notes: dict[str, None] = field(default_factory=dict[str, None])
    _names: Counter[str] = field(default_factory=Counter[str])
    _helped: dict[str, bool] = field(default_factory=dict[str, bool])
    _fates: dict[int, _Fate] = field(default_factory=dict[int, "_Fate"])
    _kept: list[object] = field(default_factory=list[object])

    def write(
        self, asserts: Sequence[object], variables: Mapping[str, object], where: str, threshold: float | None
    ) -> tuple[list[dict[str, object]], dict[str, object]]:
        """The checks of a case, and the case fields that metrics need.

        If the test has a threshold or weights, all checks become one group with the test's score.
        """
        fields: dict[str, object] = {}
        self._names.clear()
        made = [self._checks(item, variables, spot, fields) for item, spot in placed(asserts, where)]
        checks = [check for several in made for check in several]
        if threshold is None and all(check.get("weight", 1.0) == 1.0 for check in checks):
            return checks, fields
        fate = self._fate(asserts, "groups", "the weights and the threshold of a test", where)
        if any(len(several) != 1 for several in made):
            hint = "the other assertions become single checks; without this one their sum would mean something else"
            fate.failure = Untranslatable("an assertion of the test has no equivalent check", hint)
        fate.failure = fate.failure or _no_share(checks, threshold)
        if fate.failure:
            return checks, fields
        return [*checks, self._entry("test_score", "group", _group(checks, threshold), 1.0)], fields

    def settle(self, ledger: Ledger) -> None:
        """Count every assertion once, for any number of cases."""
        for fate in self._fates.values():
            ledger.found(fate.part)
            if fate.failure is None:
                ledger.took(fate.part)
            else:
                ledger.left(fate.part, fate.what, fate.where, fate.failure.reason, fate.failure.hint)
        self._fates.clear()
        self._kept.clear()

    def _checks(
        self, declared: object, variables: Mapping[str, object], where: str, fields: dict[str, object]
    ) -> list[dict[str, object]]:
        """The checks of an assertion: none if it is a metric or has no equivalent, several if it is a broken set."""
        assertion = object_in(declared)
        kind = assertion.get("type") if assertion is not None else declared
        if assertion is not None and kind == "assert-set":
            return self._set(assertion, variables, where, fields)
        fate = self._fate(declared, "asserts", f"assert {kind}", place(declared, where))
        try:
            if assertion is None:
                raise Untranslatable("it is not an object", "write `type:` and `value:`")
            translated = self.reader.translated(assertion, variables)
            name = name_of(assertion)
            self._note(assertion)
            if translated.metric:
                self._metric(translated, assertion, variables, fields)
                return []
        except Untranslatable as failure:
            fate.failure = fate.failure or failure
            return []
        return [self._entry(self._name(assertion, name), translated.kind, translated.params, translated.weight)]

    def _set(
        self, declared: Mapping[str, object], variables: Mapping[str, object], where: str, fields: dict[str, object]
    ) -> list[dict[str, object]]:
        """An assert-set as a group; as single checks if one of them has no equivalent."""
        fate = self._fate(declared, "groups", "assert-set", place(declared, where))
        listed = as_list(declared.get("assert"))
        made = [self._checks(item, variables, spot, fields) for item, spot in placed(listed, where)]
        checks = [check for several in made for check in several]
        threshold = declared.get("threshold")
        if not made or any(len(several) != 1 for several in made):
            hint = "the other assertions become single checks; without this one their sum would mean something else"
            fate.failure = fate.failure or Untranslatable("an assertion in it has no equivalent check", hint)
        fate.failure = fate.failure or _no_share(checks, threshold)
        if fate.failure is not None:
            return checks
        try:
            name = self._name(declared, name_of(declared))
        except Untranslatable as failure:
            fate.failure = failure
            return checks
        weight = as_number(declared.get("weight"))
        return [self._entry(name, "group", _group(checks, threshold), 1.0 if weight is None else weight)]

    def _metric(
        self,
        translated: Translated,
        declared: Mapping[str, object],
        variables: Mapping[str, object],
        fields: dict[str, object],
    ) -> None:
        if translated.metric != "answer_relevancy":
            contexts = variables.get("context")
            if not isinstance(contexts, str | list) or not contexts:
                raise Untranslatable("the test has no variable `context`", "give it one, or the cases `contexts`")
            fields["contexts"] = as_list(contexts) if isinstance(contexts, list) else [contexts]
        if translated.metric == "context_recall":
            reference = declared.get("value")
            if not isinstance(reference, str):
                raise Untranslatable("it has no text to search for in the context", "give it a `value`")
            fields["reference"] = render(reference, variables)
        self.judged = True
        self.metrics.setdefault(translated.metric, translated.threshold)

    def _name(self, declared: Mapping[str, object], name: str) -> str:
        """The name of the row. Assertions of one `metric` share it, and count together; others get a number."""
        if declared.get("metric"):
            return name
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}_{self._names[name]}"

    def _entry(self, name: str, kind: str, params: Mapping[str, object], weight: float) -> dict[str, object]:
        """A check. One name is never used for checks with and without a judge, since a row has one judge or none."""
        grouped = map(as_map, as_list(params.get("checks"))) if kind == "group" else ()
        asks = kind in JUDGED or any(check["identifier"] in JUDGED for check in grouped)
        self.judged = self.judged or asks
        self.count += 1
        helped = asks or kind == "semantic_similarity"
        if self._helped.setdefault(name, helped) != helped:
            name = f"{name}_{'judged' if helped else 'plain'}"
            self._helped.setdefault(name, helped)
        check: dict[str, object] = {"identifier": kind, "name": name, "params": dict(params)}
        return check if weight == 1.0 else {**check, "weight": weight}

    def _fate(self, declared: object, part: str, what: str, where: str) -> _Fate:
        key = id(declared)
        if key not in self._fates:
            self._kept.append(declared)  # keeps the object, so that its id is not reused
            self._fates[key] = _Fate(part, what, where)
        return self._fates[key]

    def _note(self, declared: Mapping[str, object]) -> None:
        if provider := declared.get("provider"):
            grader = object_in(provider)
            judge = text_of(provider, "provider") if grader is None else text_in(grader, "id")
            self.judges.setdefault(judge or "a provider without an id", provider)
        note = NOTES.get(text_in(declared, "type").removeprefix("not-"))
        if note:
            self.notes.setdefault(note)


def _no_share(checks: Sequence[Mapping[str, object]], threshold: object) -> Untranslatable | None:
    """Why the checks have no weighted share to compare a threshold with."""
    share = as_number(threshold)
    if threshold is not None and (share is None or not 0 <= share <= 1):
        return Untranslatable(f"its threshold {threshold} is not a share in 0..1", "write a number from 0 to 1")
    if any("threshold" in as_map(check["params"]) for check in checks if check["identifier"] == "group"):
        hint = "remove the set's threshold, or the test's weights and threshold"
        return Untranslatable("it counts the share of a set that has its own threshold", hint)
    if not any(check.get("weight", 1.0) for check in checks):
        return Untranslatable("all its weights are 0", "give one a weight")
    return None


def _group(checks: Sequence[Mapping[str, object]], threshold: object) -> dict[str, object]:
    share = as_number(threshold)
    return {"checks": list(checks), **({} if share is None else {"threshold": share})}
