"""The kinds `check`, rules over a case field, and `checks`, the checks that each case lists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from evalflow.config.explain import problems_of
from evalflow.config.schema import MetricConfig, Strict, Word
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.base import BaseMetric, FieldMetric, UnitMetricConfig, expect_declared
from evalflow.metrics.case_checks import (
    JUDGED,
    PARAMS,
    Conformity,
    DisabledCheck,
    JudgedCheck,
    RuledCheck,
    SemanticSimilarity,
    SimilarityCheck,
    StringMatching,
    filled,
    rulebook_of,
)
from evalflow.metrics.chain import ChainConfig
from evalflow.metrics.operations import Combine, Operation, Rulebook
from evalflow.prompts import Prompts
from evalflow.protocols import Judge, Metric
from evalflow.records import Answer, Case, Outcome


class CheckMetricConfig(UnitMetricConfig):
    """Rules over one case field.

    Attributes:
        field: The case field, or a dotted path into metadata or vars.
        checks: The rules.
        combine: `all` and `any` give 1 or 0; `mean` gives the share of the rules that hold.
    """

    kind: Literal["check"]  # pyright: ignore[reportIncompatibleVariableOverride]
    field: Word = "answer"
    checks: list[Operation] = Field(min_length=1)
    combine: Combine = "all"


class CheckMetric(FieldMetric[CheckMetricConfig]):
    """Applies rules without a judge."""

    Config = CheckMetricConfig

    def __init__(self, name: str, config: CheckMetricConfig) -> None:
        super().__init__(name, config)
        self._rulebook = Rulebook(config.field, config.checks, config.combine)

    @classmethod
    def build(cls, name: str, config: CheckMetricConfig, prompts: Prompts) -> Self:
        others = {
            f"checks[{position}].against": field
            for position, check in enumerate(config.checks)
            for field in check.others()
        }
        expect_declared(name, config.needs, {"field": config.field, **others})
        return super().build(name, config, prompts)

    async def compare(self, fields: dict[str, Any]) -> Outcome:
        return await self._rulebook.score(fields)


def _identifier(text: str) -> str:
    if not re.fullmatch(r"[^\s#]+", text):
        raise ValueError(f"the identifier {text!r} must have no spaces and no #")
    if text in PARAMS:
        raise ValueError(f"{text!r} is a built-in check; choose another identifier")
    return text


class CustomCheck(Strict):
    """A check that is declared once and named by many cases.

    Attributes:
        name, description: Shown to people.
        type: The built-in check behind it.
        params: Default parameters of that check; a case may override them.
        cases: `named`: the cases that name it; `every`; or a list of tags.
    """

    name: str | None = None
    description: str = ""
    type: Word
    params: dict[str, Any] = Field(default_factory=dict[str, Any])
    cases: Literal["named", "every"] | list[str] = "named"


class ChecksMetricConfig(UnitMetricConfig):
    """The checks of the cases.

    Attributes:
        custom: Your own checks, by identifier.
        only: Identifiers to run; null runs all.
        stop_on_fail: Whether a case's checks run in order, skipping those after the first failure.
    """

    kind: Literal["checks"]  # pyright: ignore[reportIncompatibleVariableOverride]
    threshold: float | None = Field(default=1.0, ge=0, le=1)
    custom: dict[Annotated[str, AfterValidator(_identifier)], CustomCheck] | None = None
    only: list[str] | None = None
    stop_on_fail: bool = False


class ChecksMetric(BaseMetric[ChecksMetricConfig]):
    """Binds to the checks that a case lists; the scores carry their identifiers."""

    Config = ChecksMetricConfig
    asks = True
    embeds = True

    def __init__(self, name: str, config: ChecksMetricConfig, judged: Mapping[str, JudgedCheck]) -> None:
        super().__init__(name, config)
        self.stops = config.stop_on_fail
        self.prompts = tuple(prompt for check in judged.values() for prompt in check.prompts)
        self._judged = judged
        self._custom = config.custom or {}

    @classmethod
    def build(cls, name: str, config: ChecksMetricConfig, prompts: Prompts) -> Self:
        where = f"metric.{name}"
        known = [*PARAMS, *(config.custom or {})]
        problems = [
            Problem(f"there is no check {one.type!r}", f"{where}.custom.{key}.type", did_you_mean(one.type, PARAMS))
            for key, one in (config.custom or {}).items()
            if one.type not in PARAMS
        ]
        problems += [
            Problem(f"there is no check {one!r}", f"{where}.only", did_you_mean(one, known))
            for one in config.only or ()
            if one not in known
        ]
        if problems:
            raise UserError(problems)
        return cls(name, config, {kind: JudgedCheck.of(kind, _config(config, kind), prompts) for kind in JUDGED})

    def bind(self, case: Case) -> Sequence[Metric]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The checks of the case, in its order; a repeated identifier gets a number."""
        if not self.config.covers(case.dataset):
            return ()
        problems: list[Problem] = []
        found: list[Metric] = []
        seen: Counter[str] = Counter()
        for place, declared in self._declared(case):
            identifier = str(declared["identifier"])
            if self.config.only is not None and identifier not in self.config.only:
                continue
            seen[identifier] += 1
            name = identifier if seen[identifier] == 1 else f"{identifier}#{seen[identifier]}"
            try:
                found.append(self._check(name, declared, case))
            except ValidationError as error:
                kind = self._custom[identifier].type if identifier in self._custom else identifier
                problems += [
                    _problem(case, place, f"{identifier}: {fault.what}", fault.hint)
                    for fault in param_problems(error, kind)
                ]
            except (ValueError, LookupError) as error:
                hint = did_you_mean(identifier, [*PARAMS, *self._custom]) if isinstance(error, LookupError) else ""
                problems.append(_problem(case, place, str(error.args[0]), hint))
        if problems:
            raise UserError(problems)
        return found

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        raise NotImplementedError("bind the case first")

    def _declared(self, case: Case) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The case's own checks with their key paths, then the custom checks that apply without being named."""
        own = case.checks or ()
        for position, check in enumerate(own):
            yield f"checks[{position}]", check
        named = {check["identifier"] for check in own}
        for identifier, custom in self._custom.items():
            tagged = any(tag == own or tag.startswith(f"{own} > ") for tag in case.tags for own in custom.cases)
            if identifier not in named and (custom.cases == "every" or (custom.cases != "named" and tagged)):
                yield f"custom check {identifier}", {"identifier": identifier}

    def _check(self, name: str, declared: Mapping[str, Any], case: Case) -> Metric:
        identifier = str(declared["identifier"])
        custom = self._custom.get(identifier)
        kind = custom.type if custom else identifier
        if kind not in PARAMS:
            raise LookupError(f"there is no check {identifier!r}")
        description = custom.description or custom.name or "" if custom else ""
        config = _config(self.config, kind, description)
        if not declared.get("enabled", True):
            return DisabledCheck(name, config)
        given = cast("dict[str, Any]", declared.get("params") or {})
        params = PARAMS[kind].model_validate({**(custom.params if custom else {}), **given})
        if kind in JUDGED:
            return self._judged[kind].bound(name, config, _variables(params, case))
        if isinstance(params, SemanticSimilarity):
            return SimilarityCheck(name, config, params)
        keyword = params.keyword if isinstance(params, StringMatching) else None
        return RuledCheck(name, config, rulebook_of(kind, params), keyword)


def _variables(params: BaseModel, case: Case) -> dict[str, Any]:
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
    meaning = description or " ".join((PARAMS[kind].__doc__ or "").split())
    # Skip validation: the parent's values are valid, and this runs for every check of every case.
    shared = {name: getattr(parent, name) for name in MetricConfig.model_fields}
    changes: dict[str, Any] = {"needs": ["answer"], "description": meaning, "weighting": None}
    return ChainConfig.model_construct(_fields_set=None, **{**shared, **changes})


def param_problems(error: ValidationError, kind: str) -> Sequence[Problem]:
    """The problems of a check's parameters, without the key paths of operations that users did not write."""
    found = error.errors(include_url=False)
    if any(isinstance(place, int) for one in found for place in one["loc"][:1]):
        return [Problem(one["msg"].removeprefix("Value error, ")) for one in found]
    faults = problems_of(error, PARAMS[kind], "params", None, ())
    return [
        replace(fault, hint="") if one["type"] == "missing" else fault for one, fault in zip(found, faults, strict=True)
    ]


def _problem(case: Case, place: str, what: str, hint: str = "") -> Problem:
    return Problem(f"case {case.id!r}, {place}: {what}", f"dataset.{case.dataset}", hint)
