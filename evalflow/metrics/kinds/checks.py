"""The kind `checks`: the checks that each case lists."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from evalflow.calls.program import NO_SHELL
from evalflow.config.explain import problems_of
from evalflow.config.schema import MetricConfig, Strict, Word
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.base import BaseMetric, UnitMetricConfig
from evalflow.metrics.case_checks import (
    JUDGED,
    PARAMS,
    CheckGroup,
    CommandParams,
    Conformity,
    DisabledCheck,
    GroupedCheck,
    JudgedCheck,
    JudgedKind,
    RuledCheck,
    RuleParams,
    SemanticSimilarity,
    SimilarityCheck,
    StringMatching,
    circular,
    filled,
    meaning_of,
    named_checks,
    rulebook_of,
)
from evalflow.metrics.chain import ChainConfig
from evalflow.metrics.check_commands import CommandCheck, CommandConfig, Commands
from evalflow.metrics.check_groups import GroupCheck, Weighted
from evalflow.metrics.returns import Examples
from evalflow.prompts import Prompts
from evalflow.protocols import Judge, Metric
from evalflow.records import CASES, Answer, Case, Outcome
from evalflow.values.jsonvalues import as_map

_KEPT_PARAMS = 1000
_CALLING = frozenset({*JUDGED, "semantic_similarity"})
"""The checks that call a judge or the embedder."""
JUDGED_GROUP = "judged_group"
"""The name of an unnamed group that needs a judge or an embedder: a row of scores has only one judge."""
CaseCheck = JudgedCheck | RuledCheck | SimilarityCheck | GroupCheck | CommandCheck | DisabledCheck


def _identifier(text: str) -> str:
    if not re.fullmatch(r"[^\s#]+", text):
        raise ValueError(f"the identifier {text!r} must have no spaces and no #")
    if text in PARAMS:
        raise ValueError(f"{text!r} is a built-in check; choose another identifier")
    if text == CASES:
        raise ValueError(f"{text!r} is the figure for cases that pass everything; choose another identifier")
    return text


class CustomCheck(Strict):
    """A check that is declared once, and that many cases can name.

    Attributes:
        name, description: Shown to people.
        type: The built-in check behind it.
        params: Default parameters of that check; a case may override them.
        cases: The cases it applies to: `named` (those that name it), `every`, or a list of tags.
    """

    name: str | None = None
    description: str = ""
    type: Word
    params: dict[str, object] = Field(default_factory=dict[str, object])
    cases: Literal["named", "every"] | list[str] = "named"


class ChecksMetricConfig(UnitMetricConfig):
    """The checks of the cases.

    Attributes:
        custom: Your own checks, by identifier.
        commands: Programs that checks of the type `command` may start, by name; on the command line only. Cases and
            datasets cannot define programs.
        examples: Few-shot examples for judged checks, by type. Each has fields of the prompt and the `reply`. Or the
            name of a YAML file of them in a prompt folder.
        only: Identifiers to run; null runs all.
        stop_on_fail: Whether to run a case's checks in order and skip those after the first failure.
    """

    kind: Literal["checks"]  # pyright: ignore[reportIncompatibleVariableOverride]
    threshold: float | None = Field(default=1.0, ge=0, le=1)
    custom: dict[Annotated[str, AfterValidator(_identifier)], CustomCheck] | None = None
    commands: dict[str, CommandConfig] | None = None
    examples: dict[JudgedKind, Examples] | None = None
    only: list[str] | None = None
    stop_on_fail: bool = False

    @property
    def programs(self) -> Sequence[Sequence[str]]:
        return [command.argv for command in (self.commands or {}).values()]

    def without_programs(self) -> Self:
        commands = {name: one.model_copy(update={"argv": []}) for name, one in (self.commands or {}).items()}
        return self.model_copy(update={"commands": commands or None})


class ChecksMetric(BaseMetric[ChecksMetricConfig]):
    """Runs the checks that a case lists; each score has the check's identifier."""

    Config = ChecksMetricConfig
    asks = True
    embeds = True

    def __init__(self, name: str, config: ChecksMetricConfig, judged: Mapping[str, JudgedCheck]) -> None:
        super().__init__(name, config)
        self.stops = config.stop_on_fail
        self.prompts = tuple(prompt for check in judged.values() for prompt in check.prompts)
        self._judged = judged
        self._custom = config.custom or {}
        self._commands = Commands(config.commands)
        self._known: dict[tuple[str, str], BaseModel] = {}
        self._configs: dict[tuple[str, str, tuple[str, ...] | None], ChainConfig] = {}
        self._last: tuple[Case, Sequence[Metric], Sequence[Problem]] | None = None

    @classmethod
    def build(cls, name: str, config: ChecksMetricConfig, prompts: Prompts) -> Self:
        where = f"metric.{name}"
        known = [*PARAMS, *(config.custom or {})]
        problems = [
            Problem(f"there is no check {one.type!r}", f"{where}.custom.{key}.type", did_you_mean(one.type, PARAMS))
            for key, one in (config.custom or {}).items()
            if one.type not in PARAMS
        ]
        circles = circular({key: one.params for key, one in (config.custom or {}).items()})
        problems += [Problem("its group contains itself", f"{where}.custom.{key}", "leave it out") for key in circles]
        problems += [
            Problem(f"there is no check {one!r}", f"{where}.only", did_you_mean(one, known))
            for one in config.only or ()
            if one not in known
        ]
        problems += [
            Problem(f"there is no program {one.argv[0]!r}", f"{where}.commands.{key}.argv", NO_SHELL)
            for key, one in (config.commands or {}).items()
            if one.argv and shutil.which(one.argv[0]) is None
        ]
        judged: dict[str, JudgedCheck] = {}
        for kind in JUDGED:
            given = (config.examples or {}).get(kind)
            try:
                judged[kind] = JudgedCheck.of(kind, _config(config, kind), prompts, given)
            except UserError as error:
                there = f"metric.{kind}.steps[0].examples"
                problems += [
                    replace(one, where=one.where.replace(there, f"{where}.examples.{kind}")) for one in error.problems
                ]
        if problems:
            raise UserError(problems)
        return cls(name, config, judged)

    def bind(self, case: Case) -> Sequence[Metric]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The checks of the case, in its order: one score per name. A repeated identifier gets a number."""
        if not self.config.covers(case.dataset):
            return ()
        if self._last is None or self._last[0] is not case:  # several callers look at the same case in a row
            bound, problems = self._bound(case)
            self._last = case, bound, problems
        else:
            _, bound, problems = self._last
        if problems:
            raise UserError(problems)
        return bound

    def _bound(self, case: Case) -> tuple[Sequence[Metric], Sequence[Problem]]:
        """The metrics of the case's checks, and what is wrong with those that cannot be built."""
        problems: list[Problem] = []
        named: dict[str, list[Weighted]] = {}
        seen: Counter[str] = Counter()
        for place, declared in self._declared(case):
            identifier = str(declared["identifier"])
            if self.config.only is not None and identifier not in self.config.only:
                continue
            try:
                weight = _weight_of(declared)
                metric = self._made(identifier, declared, case)
            except _WrongCheckError as error:
                problems += [_problem(case, f"{place}{error.place}", one.what, one.hint) for one in error.problems]
                continue
            name = declared.get("name")
            if not isinstance(name, str):
                name = JUDGED_GROUP if metric.name == "group" and (metric.asks or metric.embeds) else metric.name
                seen[name] += 1
                name = name if seen[name] == 1 else f"{name}#{seen[name]}"
            metric.name = name
            named.setdefault(name, []).append(Weighted(name, metric, weight))
        return [self._together(name, members) for name, members in named.items()], problems

    def may_call(self, case: Case) -> bool:
        """Whether a check of the case may need a judge or the embedder; False only if none does."""
        waiting = [check for _, check in self._declared(case)]
        for name, _ in named_checks({"checks": waiting}):
            custom = self._custom.get(name)
            kinds = [name] if custom is None else [custom.type, *(one for one, _ in named_checks(custom.params))]
            if any(kind in self._custom or kind in _CALLING for kind in kinds):
                return True
        return False

    def _together(self, name: str, members: Sequence[Weighted]) -> Metric:
        """The metric for all checks of one name: a single check, or a group of those that are enabled."""
        numbered = [replace(member, name=f"{name}#{n}") for n, member in enumerate(members, 1)]
        on = [member for member in numbered if not isinstance(member.metric, DisabledCheck)]
        if len(members) == 1 or not any(member.weight for member in on):
            return members[0].metric
        return GroupCheck(name, self._config_of("group"), on, None, self.prompts)

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        raise NotImplementedError("bind the case first")

    def _declared(self, case: Case) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The case's own checks with their key paths, then the custom checks that apply to it unnamed."""
        own = case.checks or ()
        for position, check in enumerate(own):
            yield f"checks[{position}]", check
        named = {check["identifier"] for check in own}
        for identifier, custom in self._custom.items():
            tagged = any(tag == own or tag.startswith(f"{own} > ") for tag in case.tags for own in custom.cases)
            if identifier not in named and (custom.cases == "every" or (custom.cases != "named" and tagged)):
                yield f"custom check {identifier}", {"identifier": identifier}

    def _made(self, name: str, declared: Mapping[str, object], case: Case) -> CaseCheck:
        """Build the metric of one check; _WrongCheckError if the check is invalid."""
        identifier = str(declared["identifier"])
        custom = self._custom.get(identifier)
        kind = custom.type if custom else identifier
        try:
            if kind not in PARAMS:
                hint = did_you_mean(identifier, [*PARAMS, *self._custom])
                raise _WrongCheckError([Problem(f"there is no check {identifier!r}", hint=hint)])
            self._expect_free(declared.get("name"))
            return self._check(name, kind, custom, declared, case)
        except ValidationError as error:
            problems = param_problems(error, kind)
            raise _WrongCheckError([replace(one, what=f"{identifier}: {one.what}") for one in problems]) from None
        except ValueError as error:
            raise _WrongCheckError([Problem(str(error))]) from None

    def _check(
        self, name: str, kind: str, custom: CustomCheck | None, declared: Mapping[str, object], case: Case
    ) -> CaseCheck:
        description = custom.description or custom.name or "" if custom else ""
        config = self._config_of(kind, description)
        if not declared.get("enabled", True):
            return DisabledCheck(name, config)
        given = as_map(declared.get("params") or {})
        params = self._params(kind, {**(custom.params if custom else {}), **given})
        match params:
            case CheckGroup():
                members = self._members(params.checks, case)
                if not any(member.weight for member in members):
                    return DisabledCheck(name, config)
                return GroupCheck(name, config, members, params.threshold, self.prompts)
            case CommandParams():
                if params.command not in self._commands.declared:
                    raise _WrongCheckError([self._undeclared(params.command)])
                return CommandCheck(name, config, self._commands, params.command, params.options)
            case SemanticSimilarity():
                return SimilarityCheck(name, config, params)
            case _ if kind in JUDGED:
                return self._judged[kind].bound(name, config, _variables(params, case))
            case _:
                keyword = params.keyword if isinstance(params, StringMatching) else None
                rulebook = rulebook_of(kind, params)
                if isinstance(params, RuleParams):
                    config = self._config_of(kind, description, tuple(rulebook.reads))
                return RuledCheck(name, config, rulebook, keyword)

    def _config_of(self, kind: str, description: str = "", needs: tuple[str, ...] | None = None) -> ChainConfig:
        """The configuration of a check; cached, since many cases share it."""
        key = kind, description, needs
        if key not in self._configs:
            if len(self._configs) >= _KEPT_PARAMS:
                self._configs.clear()
            made = _config(self.config, kind, description)
            self._configs[key] = made if needs is None else made.model_copy(update={"needs": list(needs)})
        return self._configs[key]

    def _params(self, kind: str, values: dict[str, object]) -> BaseModel:
        """Validated parameters with compiled patterns, paths and schemas; cached, since many cases share them."""
        key = kind, json.dumps(values, default=repr)
        if key not in self._known:
            if len(self._known) >= _KEPT_PARAMS:
                self._known.clear()
            self._known[key] = PARAMS[kind].model_validate(values)
        return self._known[key]

    def _members(self, checks: Sequence[GroupedCheck], case: Case) -> list[Weighted]:
        members: list[Weighted] = []
        for position, check in enumerate(checks):
            if not check.enabled:
                continue
            name = check.name or check.identifier
            declared = {"identifier": check.identifier, "params": check.params}
            try:
                members.append(Weighted(name, self._made(name, declared, case), check.weight))
            except _WrongCheckError as error:
                raise _WrongCheckError(error.problems, f".params.checks[{position}]{error.place}") from None
        return members

    def _undeclared(self, command: str) -> Problem:
        what = f"the metric declares no program {command!r}; a case cannot define one, only the command line can"
        if self._commands.declared:
            return Problem(what, hint=did_you_mean(command, self._commands.declared))
        hint = f"if you trust the program: metric.{self.name}.commands={{{command}:{{argv:[PROGRAM,ARGUMENT]}}}}"
        return Problem(what, hint=hint)

    def _expect_free(self, name: object) -> None:
        if name is None:
            return
        if not isinstance(name, str):
            raise ValueError(f"the name {name!r} is not text")
        if name in self._custom:
            raise ValueError(f"{name!r} is one of your own checks; choose another name")
        _identifier(name)


class _WrongCheckError(Exception):
    """A check is invalid; `place` is the key path of the fault within the case's check."""

    def __init__(self, problems: Sequence[Problem], place: str = "") -> None:
        self.problems = problems
        self.place = place
        super().__init__(str(problems))


def _weight_of(declared: Mapping[str, object]) -> float:
    weight = declared.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
        raise _WrongCheckError([Problem(f"the weight {weight!r} is not a number of at least 0")])
    if "weight" in declared and declared.get("name") is None:
        hint = "put the checks into a `group`, or give checks that belong together the same `name`"
        raise _WrongCheckError([Problem("a weight only counts among checks of one name or group", hint=hint)])
    return float(weight)


def _variables(params: BaseModel, case: Case) -> dict[str, object]:
    if not isinstance(params, Conformity):
        return params.model_dump()
    rules: list[str] = []
    for rule in params.rules:
        try:
            rules.append(filled(rule, case))
        except ValueError as error:
            raise ValueError(f"{error}, in the rule: {rule}") from None
    return {"rules": rules}


def _config(parent: ChecksMetricConfig, kind: str, description: str = "") -> ChainConfig:
    meaning = description or meaning_of(kind)
    # Skip validation: the parent's values are valid.
    shared = {name: getattr(parent, name) for name in MetricConfig.model_fields}
    changes: dict[str, object] = {"needs": ["answer"], "description": meaning, "weighting": None}
    return ChainConfig.model_construct(_fields_set=None, **{**shared, **changes})


def param_problems(error: ValidationError, kind: str) -> Sequence[Problem]:
    """The problems of a check's parameters, with key paths as users wrote them."""
    details = error.errors(include_url=False)
    if any(isinstance(place, int) for one in details for place in one["loc"][:1]):
        return [Problem(one["msg"].removeprefix("Value error, ")) for one in details]
    faults = problems_of(error, PARAMS[kind], "params", None, ())
    return [
        replace(fault, hint="") if one["type"] == "missing" else fault
        for one, fault in zip(details, faults, strict=True)
    ]


def _problem(case: Case, place: str, what: str, hint: str = "") -> Problem:
    return Problem(f"case {case.id!r}, {place}: {what}", f"dataset.{case.dataset}", hint)
