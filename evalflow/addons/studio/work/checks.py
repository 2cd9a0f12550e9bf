"""Reusable checks, which cases refer to by name; `check_uses` enables them on cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import ConfigDict, ValidationError

from evalflow.addons.studio.store import uses
from evalflow.addons.studio.store.rows import Hidden, Row, from_row, storable
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.definitions import DefinitionStore
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.addons.studio.work.validate import NO_PROGRAMS, check_name, one_line
from evalflow.errors import Problem, Subject, UserError, did_you_mean
from evalflow.metrics.case_checks import (
    JUDGED,
    PARAMS,
    CheckGroup,
    CommandParams,
    SemanticSimilarity,
    circular,
    meaning_of,
    named_checks,
    rulebook_of,
    starts_program,
)
from evalflow.metrics.kinds.checks import param_problems
from evalflow.values.jsonvalues import DEEPEST, is_too_deep


@dataclass(frozen=True, slots=True)
class CheckExample:
    """An answer that must pass, or must fail, the check.

    Attributes:
        metadata: The answer's metadata, if any.
        question: The question, for a judge that reads the conversation.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")
    answer: str
    passes: bool
    metadata: Mapping[str, object] | None = None
    question: str = ""


@dataclass(frozen=True, slots=True)
class CheckDraft:
    """A check to be saved. It is defined once, and many cases can name it.

    Attributes:
        name: The identifier that cases use: lower-case letters, digits and _.
        type: The built-in check that it is based on.
        params: Its parameters; a case may override them.
    """

    name: str
    type: str
    params: Mapping[str, Any]
    title: str = ""
    description: str = ""
    examples: Sequence[CheckExample] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(CheckDraft):
    """A saved check."""

    id: Hidden[int]
    version: int
    created_at: str
    updated_at: str


def _read(row: Row) -> Check:
    return from_row(Check, row, examples=[CheckExample(**one) for one in row["examples"]])


@dataclass(frozen=True, slots=True)
class BuiltInCheck:
    """A built-in check.

    Attributes:
        params: The JSON Schema of its parameters.
    """

    identifier: str
    description: str
    is_judged: bool
    params: Mapping[str, Any]


@requires("read")
def list_check_types(_: Workspace) -> list[BuiltInCheck]:
    """The built-in checks, by identifier."""
    from evalflow.app.core.json_schema import documented_generator

    generator = documented_generator()
    return [
        BuiltInCheck(name, meaning_of(name), name in JUDGED, model.model_json_schema(schema_generator=generator))
        for name, model in sorted(PARAMS.items())
    ]


CHECKS = DefinitionStore("check", _read)
MOST_EXAMPLES = 50
_EMPTY = ("missing", "too_short", "string_too_short")
"""Pydantic's error types for a missing value."""


@requires("read")
def list_checks(space: Workspace) -> list[Check]:
    """All reusable checks, by name."""
    return CHECKS.own(space)


@requires("read")
def get_check(space: Workspace, name: str) -> Check:
    """One reusable check."""
    return CHECKS.get(space, name)


@requires("edit")
def create_check(space: Workspace, draft: CheckDraft) -> Check:
    """Define a check."""
    _expect_members(space, draft)
    CHECKS.create(space, check_values(draft))
    return get_check(space, draft.name)


@requires("edit")
def update_check(space: Workspace, expected: int, draft: CheckDraft) -> Check:
    """Replace a check; its name stays."""
    _expect_members(space, draft)
    CHECKS.change(space, CHECKS.get(space, draft.name), expected, check_values(draft))
    return get_check(space, draft.name)


@requires("edit")
def delete_check(space: Workspace, name: str, expected: int) -> int:
    """Delete a check that no case names; returns its id in the trash."""
    check = CHECKS.get(space, name)
    used, _ = space.read(uses.check_counts, space.project_id).get(name, (0, 0))
    if used:
        what = f"{used:,} case{'' if used == 1 else 's'} use{'s' if used == 1 else ''} the check {name!r}"
        raise TakenError(Problem(what, "check", "remove it from them first", see=(Subject("check", name),)))
    for other in CHECKS.own(space):
        if name in (member for member, _ in named_checks(other.params)):
            what = f"the check {other.name!r} has {name!r} in its group"
            see = (Subject("check", other.name),)
            raise TakenError(Problem(what, "check", "remove it there first", see=see))
    return CHECKS.delete(space, check, expected)


@requires("read")
def custom_checks(space: Workspace) -> dict[str, dict[str, Any]]:
    """The reusable checks as the value of `custom` in a metric of the kind `checks`."""
    return {
        one.name: {"name": one.title or None, "description": one.description, "type": one.type, "params": one.params}
        for one in CHECKS.own(space)
    }


@requires("read")
def with_checks(space: Workspace, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Add the reusable checks to a metric that runs the checks of cases; its own checks take precedence."""
    if definition.get("kind") != "checks" or not (known := custom_checks(space)):
        return dict(definition)
    return {**definition, "custom": {**known, **(definition.get("custom") or {})}}


def _expect_members(space: Workspace, draft: CheckDraft) -> None:
    """Raise UserError if a check of the group is missing, or has this check in its own group."""
    known: dict[str, Mapping[str, object]] = {one.name: one.params for one in CHECKS.own(space)}
    known[draft.name] = draft.params
    problems = [
        Problem(f"there is no check {name!r}", "checks", did_you_mean(name, [*PARAMS, *known]), "checks")
        for name, _ in (() if is_too_deep(draft.params) else named_checks(draft.params))
        if name not in PARAMS and name not in known
    ]
    if not problems and draft.name in circular(known):
        problems = [Problem("the group contains itself", "checks", "leave this check out of it", "checks")]
    if problems:
        raise UserError(problems)


def check_values(draft: CheckDraft) -> dict[str, object]:
    """The columns of a check, for `CHECKS.add`. A problem's key is the name of the parameter."""
    check_name(draft.name, "check")
    problems = [] if draft.name not in PARAMS else [Problem("a built-in check has this name", "check.name")]
    if draft.type not in PARAMS:
        problems.append(Problem(f"there is no check {draft.type!r}", "check.type", did_you_mean(draft.type, PARAMS)))
    elif starts_program(draft.type, draft.params):
        problems.append(Problem(NO_PROGRAMS, "check.type", "choose another type", "type"))
    else:
        problems += wrong_params(draft.type, draft.params)
    if len(draft.examples) > MOST_EXAMPLES:
        problems.append(Problem(f"more than {MOST_EXAMPLES} examples", "check.examples"))
    if any(is_too_deep(one.metadata or {}) for one in draft.examples):
        what = f"the metadata of an example have more than {DEEPEST} maps and lists within each other"
        problems.append(Problem(what, "check.examples"))
    if problems:
        raise UserError(problems)
    return {
        "name": draft.name,
        "title": " ".join(storable(draft.title).split()),
        "description": one_line(draft.description, "check"),
        "type": draft.type,
        "params": dict(draft.params),
        "examples": [asdict(one) for one in draft.examples],
    }


def wrong_params(kind: str, params: Mapping[str, object]) -> list[Problem]:
    """The problems with the parameters of a built-in check."""
    if is_too_deep(params):
        return [Problem(f"more than {DEEPEST} maps and lists within each other", "params")]
    try:
        model = PARAMS[kind].model_validate(dict(params))
        if isinstance(model, CheckGroup):
            members = [(number, one) for number, one in enumerate(model.checks) if one.identifier in PARAMS]
            return [
                Problem(f"checks[{number}]: {problem.what}", problem.where, problem.hint, "checks")
                for number, one in members
                for problem in wrong_params(one.identifier, one.params)
            ]
        if kind not in JUDGED and not isinstance(model, SemanticSimilarity | CommandParams):
            rulebook_of(kind, model)
    except ValidationError as error:
        kinds = (one["type"] for one in error.errors(include_url=False))
        return [
            replace(problem, what=f"{problem.key}: is required", hint="") if type in _EMPTY else problem
            for type, problem in zip(kinds, param_problems(error, kind), strict=True)
        ]
    return []
