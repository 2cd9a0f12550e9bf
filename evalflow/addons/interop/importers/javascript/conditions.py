"""Conditions of a script: by which rule it is true, and by which it is false. If neither holds, it throws."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from evalflow.addons.interop.importers.ledger import Untranslatable
from evalflow.values.jsonvalues import as_list, as_map

Rule = dict[str, object]
Formula = Rule | bool
"""A rule, or what always or never holds."""
Guards = frozenset[str]
"""What must hold lest a script throws: `json`, the answer is JSON; `exists PATH`, there is a value other than null;
`text PATH`, the value is a text."""
NO_GUARDS: Guards = frozenset()
LARGEST = 400  # rules of one script


def all_of(*parts: Formula) -> Formula:
    """That all hold."""
    return _combined("all", parts, neutral=True)


def any_of(*parts: Formula) -> Formula:
    """That one of them holds."""
    return _combined("any", parts, neutral=False)


def not_of(part: Formula) -> Formula:
    """That it does not hold."""
    if isinstance(part, bool):
        return not part
    return inner_of(part) if part["op"] == "not" else {"op": "not", "rule": part}


def parts_of(rule: Rule) -> list[Rule]:
    """The rules that an `any` or `all` joins."""
    return [dict(as_map(part)) for part in as_list(rule["rules"])]


def inner_of(rule: Rule) -> Rule:
    """The rule that a `not` turns."""
    return dict(as_map(rule["rule"]))


def _combined(op: str, parts: Iterable[Formula], *, neutral: bool) -> Formula:
    rules: dict[str, Rule] = {}  # by their text, since 0 and false differ
    for part in parts:
        if isinstance(part, bool):
            if part != neutral:
                return part
            continue
        for rule in parts_of(part) if part["op"] == op else [part]:
            if repr(not_of(rule)) in rules:
                return not neutral
            rules.setdefault(repr(rule), rule)
    if len(rules) > LARGEST:
        raise Untranslatable("it has too many conditions")
    joined = list(rules.values())
    return {"op": op, "rules": joined} if len(joined) > 1 else joined[0] if joined else neutral


def guarded(guards: Guards) -> Formula:
    """That all guards hold."""
    implied = {"json" for guard in guards if guard != "json"}
    implied |= {guard for guard in guards for other in guards if _above(guard, other)}
    return all_of(*(_guard(item) for item in sorted(guards - implied)))


def _above(guard: str, other: str) -> bool:
    """Whether a guard holds wherever the other does."""
    kind, _, path = guard.partition(" ")
    other_kind, _, below = other.partition(" ")
    if kind != "exists" or other == guard or other_kind == "json":
        return False
    return below == path or below.startswith((f"{path}.", f"{path}["))


def _guard(guard: str) -> Formula:
    kind, _, path = guard.partition(" ")
    match kind:
        case "json":
            return {"op": "json_schema", "schema": {}}
        case "text":
            return {"op": "jsonpath", "path": path, "matches": "^"}
        case _:
            null: Rule = {"op": "jsonpath", "path": path, "equals": None}
            return all_of({"op": "jsonpath", "path": path, "missing": False}, not_of(null))


@dataclass(frozen=True, slots=True)
class JsCondition:
    """Something that is true or false, unless it throws.

    Attributes:
        when_true, when_false: By which rule; None if no rule can say it.
        guards: What holds exactly where it does not throw; None if that is not known as guards.
        true_implies, false_implies: Further guards that hold where it is true, or false.
    """

    when_true: Formula | None
    when_false: Formula | None
    guards: Guards | None = NO_GUARDS
    true_implies: Guards = NO_GUARDS
    false_implies: Guards = NO_GUARDS

    @classmethod
    def of(cls, rule: Formula, guards: Guards = NO_GUARDS, *, implies: bool = True) -> JsCondition:
        """A rule that says it where the guards hold. `implies`: it holds nowhere else."""
        when_true = rule if implies else all_of(guarded(guards), rule)
        return cls(when_true, all_of(guarded(guards), not_of(rule)), guards)

    @property
    def true(self) -> Formula:
        return _known(self.when_true)

    @property
    def false(self) -> Formula:
        return _known(self.when_false)

    @property
    def known(self) -> bool | None:
        """Its value if it is always the same."""
        if self.when_true is True:
            return True
        return False if self.when_false is True else None

    @property
    def ends(self) -> Formula:
        """Where it does not throw."""
        return any_of(self.true, self.false) if self.guards is None else guarded(self.guards)

    def negated(self) -> JsCondition:
        return JsCondition(self.when_false, self.when_true, self.guards, self.false_implies, self.true_implies)

    def and_then(self, other: JsCondition) -> JsCondition:
        """`&&`."""
        return self.negated().or_else(other.negated()).negated()

    def or_else(self, other: JsCondition) -> JsCondition:
        """`||`: what throws ends it, so that what comes later does not count."""
        if self.known is not None:
            return self if self.known else other
        common = self.guards is not None and self.guards <= other._where_true
        when_true = _maybe(any_of, self.when_true, other.when_true if common else self._after_false(other.when_true))
        same = self.guards is not None and other.guards is not None and other.guards <= self.guards
        when_false = _maybe(all_of, self.when_false, other.when_false)
        if self.guards is not None and self.guards <= other._where_false and self.when_false == guarded(self.guards):
            when_false = other.when_false
        return JsCondition(
            when_true,
            when_false,
            self.guards if same else None,
            self._where_true & (other._where_true | (self._where_false if self.guards is None else self.guards)),
            self._where_false | other._where_false,
        )

    @property
    def _where_true(self) -> Guards:
        return self.true_implies | (self.guards or NO_GUARDS)

    @property
    def _where_false(self) -> Guards:
        return self.false_implies | (self.guards or NO_GUARDS)

    def _after_false(self, rule: Formula | None) -> Formula | None:
        """A rule where this does not throw; where this is true, it does not matter."""
        if self.guards is not None:
            return None if rule is None else all_of(guarded(self.guards), rule)
        return _maybe(all_of, self.when_false, rule)

    def choose(self, then: JsCondition, other: JsCondition) -> JsCondition:
        """`this ? then : other`."""
        if then.known is True and other.known is False:
            return self
        if then.known is False and other.known is True:
            return self.negated()
        if other.known is False:
            return self.and_then(then)
        if then.known is True:
            return self.or_else(other)
        if then.known is False:
            return self.negated().and_then(other)
        if other.known is True:
            return self.negated().or_else(then)
        both = self.and_then(then), self.negated().and_then(other)
        falses = self.and_then(then.negated()), self.negated().and_then(other.negated())
        return JsCondition(
            _maybe(any_of, both[0].when_true, both[1].when_true),
            _maybe(any_of, falses[0].when_true, falses[1].when_true),
            None,
            both[0]._where_true & both[1]._where_true,
            falses[0]._where_true & falses[1]._where_true,
        )

    def or_caught(self, handler: JsCondition) -> JsCondition:
        """`try this catch handler`."""
        if self.guards == NO_GUARDS:
            return self
        fails = not_of(self.ends)
        return JsCondition(
            _maybe(any_of, self.when_true, _maybe(all_of, fails, handler.when_true)),
            _maybe(any_of, self.when_false, _maybe(all_of, fails, handler.when_false)),
            NO_GUARDS if handler.guards == NO_GUARDS else None,
        )


ALWAYS = JsCondition(True, False)
NEVER = JsCondition(False, True)


def _known(rule: Formula | None) -> Formula:
    if rule is None:
        raise Untranslatable("")
    return rule


def _maybe(combine: Callable[..., Formula], rule: Formula | None, other: Formula | None) -> Formula | None:
    """The combination; None if no rule says one of them, unless the other decides."""
    if rule is None or other is None:
        neutral = combine is all_of
        return (not neutral) if (not neutral) in (rule, other) else None
    return combine(rule, other)
