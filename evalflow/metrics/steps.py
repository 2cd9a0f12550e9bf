"""A chain's steps: their inputs, the validation of their declarations, and placeholder replies."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ValidationError

from evalflow.config.schema import FIELDS
from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.metrics.case_fields import LISTS, is_in_case, root
from evalflow.metrics.returns import (
    BoolType,
    LabelType,
    ListType,
    NumberType,
    RecordType,
    item_type,
    reply_model,
)
from evalflow.records import numbered_results
from evalflow.values.jsonvalues import as_map, is_mapping, is_sequence

if TYPE_CHECKING:
    from evalflow.metrics.returns import StepConfig
    from evalflow.metrics.rules import PartsRule, Rule
    from evalflow.prompts import Prompts, PromptTemplate


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A checked step with its compiled template and reply model."""

    config: StepConfig
    template: PromptTemplate
    reply_model: type[BaseModel]
    examples: Sequence[Mapping[str, object]] = ()
    examples_name: str = ""

    @property
    def texts(self) -> Sequence[str]:
        """The names, in the run's prompts, of the texts that its prompt uses."""
        return [self.config.prompt, *([self.examples_name] if self.examples_name else [])]


def build_steps(
    metric: str,
    steps: Sequence[StepConfig],
    rule: Rule | PartsRule,
    needs: Collection[str],
    prompts: Prompts,
    extras: Collection[str] = (),
    prompt_keys: Mapping[str, str] | None = None,
) -> tuple[PreparedStep, ...]:
    """Check steps and score rule against each other, the prompts and `needs`, and compile them.

    `extras` are further variables that the kind gives to every template; `prompt_keys` are the key paths of prompts,
    if they differ from `steps[i].prompt`. UserError lists every problem.
    """
    where = f"metric.{metric}"
    problems: list[Problem] = []
    earlier: dict[str, StepConfig] = {}
    for position, step in enumerate(steps):
        key = f"{where}.steps[{position}]"
        if step.id in earlier:
            problems.append(Problem(f"there already is a step {step.id!r}", f"{key}.id", "choose another id"))
        problems += step_problems(step, earlier, needs, prompts, key, extras, (prompt_keys or {}).get(step.id))
        earlier[step.id] = step
    problems += unsaid_problems({f"{where}.steps[{at}]": step for at, step in enumerate(steps)}, prompts)
    problems += rule.problems(earlier, f"{where}.score")
    if problems:
        raise UserError([*dict.fromkeys(problems)])  # two steps may share a prompt
    return tuple(prepared_step(step, prompts) for step in steps)


def prepared_step(step: StepConfig, prompts: Prompts) -> PreparedStep:
    """A checked step, ready to be asked."""
    model = reply_model(step.id, step.returns, bool(step.one_per))
    name, examples = examples_of(step, model, prompts)
    return PreparedStep(step, prompts.get(step.prompt), model, examples, name)


def step_problems(
    step: StepConfig,
    earlier: Mapping[str, StepConfig],
    needs: Collection[str],
    prompts: Prompts,
    key: str,
    extras: Collection[str] = (),
    prompt_key: str | None = None,
    uncertain: Collection[str] = (),
) -> Iterator[Problem]:
    """Problems of a step's references.

    `earlier` are the steps that always come before it, `uncertain` a graph's other steps.
    """
    yield from _reference_problems(step, earlier, needs, key)
    for name, given in (step.if_empty or {}).items():
        yield from _given_problems(step, name, given, earlier, needs, f"{key}.if_empty.{name}")
    own = {"source": step.source_field, "against": step.against_field, "items": step.one_per}
    known = {*map(root, needs), *earlier, *extras, *(name for name, value in own.items() if value is not None)}
    yield from _prompt_problems(step.prompt, known, prompts, prompt_key or f"{key}.prompt", uncertain)
    if step.examples is not None:
        model = reply_model(step.id, step.returns, bool(step.one_per))
        place = prompt_key.rpartition(".")[0] if prompt_key else key
        yield from example_problems(step, model, {*known, *needs}, prompts, f"{place}.examples")


def _reference_problems(
    step: StepConfig, earlier: Mapping[str, StepConfig], needs: Collection[str], key: str
) -> Iterator[Problem]:
    if step.one_per is not None and step.one_per in LISTS:
        for field in LISTS[step.one_per]:
            if field not in needs:
                yield _undeclared(field, needs, f"{key}.one_per", f"`one_per: {step.one_per}` reads")
    elif step.one_per is not None and is_in_case(step.one_per):
        if step.one_per not in needs:
            yield _undeclared(step.one_per, needs, f"{key}.one_per", "`one_per` is")
    elif step.one_per is not None:
        try:
            item_type(step.one_per, earlier)
        except ValueError as error:
            yield Problem(str(error), f"{key}.one_per")
    for name, field in (("source", step.source_field), ("against", step.against_field)):
        if field is not None and field not in needs:
            yield _undeclared(field, needs, f"{key}.{name}", f"`{name}` is")


def _given_problems(
    step: StepConfig, name: str, given: object, earlier: Mapping[str, StepConfig], needs: Collection[str], key: str
) -> Iterator[Problem]:
    """Problems of a reply declared in `if_empty`."""
    if root(name) in earlier:
        try:
            item_type(name, earlier)
        except ValueError as error:
            yield Problem(str(error), key)
    elif name not in needs:
        yield _undeclared(name, needs, key, "`if_empty` names")
    if given == [] and step.one_per is None:
        yield Problem("[] means no items, but this step has no `one_per`", key, "give the reply, or `ask`")
    if is_mapping(given):
        try:
            reply_model(step.id, step.returns, one_per=False).model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            what = f"not a reply of this step: {'.'.join(map(str, first['loc']))}: {first['msg']}"
            yield Problem(what, key, f"it returns {', '.join(step.returns)}")


def unsaid_problems(steps: Mapping[str, StepConfig], prompts: Prompts) -> Iterator[Problem]:
    """Steps that read a field which may be empty (another step has `if_empty` for it), without `if_empty` for it."""
    may_be_empty = dict.fromkeys(
        name for step in steps.values() for name in step.if_empty or () if root(name) in FIELDS
    )
    for key, step in steps.items():
        for name in may_be_empty:
            if name not in (step.if_empty or ()) and name in _read_by(step, prompts):
                what = f"the step {step.id!r} reads {name}, which may be empty: another step has `if_empty` for it"
                yield Problem(what, key, f"add if_empty: {{{name}: ...}}, a reply or `ask`")


def _read_by(step: StepConfig, prompts: Prompts) -> Collection[str]:
    try:
        shown = prompts.variables(step.prompt)
    except UserError:  # reported where the prompt is checked
        shown = set[str]()
    listed = LISTS.get(step.one_per or "", (step.one_per,))
    return {*shown, *filter(None, (*listed, step.source_field, step.against_field))}


def _prompt_problems(
    prompt: str, known: Collection[str], prompts: Prompts, key: str, uncertain: Collection[str]
) -> Iterator[Problem]:
    try:
        used = prompts.variables(prompt)
    except UserError as error:
        for problem in error.problems:
            yield replace(problem, where=f"{key} ({problem.where})" if problem.where else key)
        return
    for variable in sorted(used - set(known)):
        if variable in FIELDS:
            columns = prompts.columns(prompt) if variable == "vars" else {}
            problem = _undeclared(variable, known, key, "the prompt uses", columns)
        elif variable in uncertain:
            what = f"the prompt uses the reply {variable!r}, which not every path to this node has"
            problem = Problem(what, key, f"lead every path through {variable}, or put this question into two nodes")
        else:
            what = f"the prompt uses {variable!r}, which it does not get"
            problem = Problem(what, key, did_you_mean(variable, known))
        yield replace(problem, where=f"{key} ({prompts.place_of(prompt, variable)})", key=key)


def _undeclared(
    field: str, needs: Collection[str], key: str, user: str, columns: Mapping[str, bool] = MappingProxyType({})
) -> Problem:
    """A field that is used but not declared. For `vars`, the hint names the `columns`, and which a case may lack."""
    if root(field) not in FIELDS:
        return Problem(f"{user} {field!r}, which is not a case field", key, did_you_mean(field, FIELDS))
    declared = [need for need in needs if root(need) in FIELDS]
    needed = [f"{field}.{name}" for name, is_needed in columns.items() if is_needed]
    optional = [f"{field}.{name}" for name, is_needed in columns.items() if not is_needed]
    lines = [f"needs: [{', '.join([*declared, *(needed if columns else [field])])}]"] if needed or not columns else []
    lines += [f"optional: [{', '.join(optional)}]"] if optional else []
    return Problem(f"{user} {field!r}, which `needs` does not declare", key, " and ".join(lines))


def placeholder_reply(returns: Mapping[str, object], source: object = None) -> dict[str, object]:
    """A placeholder reply of the declared types.

    A list gets one item per sentence of `source`, or three; this determines the length of later prompts.
    """
    sentences = re.split(r"(?<=[.!?。！？])\s*", source.strip()) if isinstance(source, str) else []
    texts = [text for text in sentences if text]
    return {name: _value(declared, texts) for name, declared in returns.items()}


def _value(declared: object, texts: list[str]) -> object:
    match declared:
        case BoolType():
            return True
        case NumberType():
            return declared.min if declared.min is not None else declared.max or 0
        case LabelType():
            return declared.labels[0]
        case ListType():
            return [_value(declared.items, [text]) for text in texts or ["…"] * 3]
        case RecordType():
            return {name: _value(inner, texts) for name, inner in declared.fields.items()}
        case _:
            return texts[0] if texts else "…"


REPLY = "reply"


def examples_of(step: StepConfig, model: type[BaseModel], prompts: Prompts) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """A step's examples with their name in `prompts`, and replies in the judge's format.

    UserError if they cannot be read, or if a reply does not fit `model`.
    """
    if step.examples is None:
        return "", ()
    name = step.examples if isinstance(step.examples, str) else _kept(step, prompts)
    given = _listed(name, prompts)
    return name, [{**as_map(one), REPLY: _reply(step, model, as_map(one).get(REPLY))} for one in given]


def example_problems(
    step: StepConfig, model: type[BaseModel], known: Collection[str], prompts: Prompts, key: str
) -> Iterator[Problem]:
    """Problems of a step's examples, which may use `known` (the variables of its prompt) and their tags."""
    try:
        given = step.examples if isinstance(step.examples, list) else _listed(step.examples or "", prompts)
    except UserError as error:
        yield from error.problems
        return
    known = {*known, *prompts.tags(step.prompt)}
    for number, one in enumerate(given):
        where = f"{key}[{number}]"
        if not is_mapping(one) or REPLY not in one:
            yield Problem(
                "an example has fields of a case and the `reply`", where, "such as {answer: ..., reply: {...}}"
            )
            continue
        for name in sorted({str(name) for name in one} - {REPLY, *known}):
            yield Problem(f"the prompt is not given {name!r}", where, did_you_mean(name, known))
        try:
            _reply(step, model, one[REPLY])
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            yield Problem(f"the reply is not what `returns` declares: {place}: {first['msg']}", f"{where}.{REPLY}")
        except ValueError as error:
            yield Problem(str(error), f"{where}.{REPLY}")


def _listed(name: str, prompts: Prompts) -> Sequence[object]:
    try:
        listed = safe_yaml(prompts.text(name))
    except yaml.YAMLError as error:
        raise UserError(Problem(f"the examples are not YAML: {' '.join(str(error).split())}", name)) from None
    if not is_sequence(listed) or not listed:
        raise UserError(
            Problem(
                "the examples are not a list", name, "write a list; each entry has fields of a case and the `reply`"
            )
        )
    return listed


def _kept(step: StepConfig, prompts: Prompts) -> str:
    """Add the YAML's examples to the prompts, named by their content, to be hashed and shown like prompts."""
    text = yaml.safe_dump(step.examples, allow_unicode=True, sort_keys=False)
    name = f"{step.prompt} examples {hashlib.sha256(text.encode()).hexdigest()[:8]}"
    prompts.keep(name, text)
    return name


def _reply(step: StepConfig, model: type[BaseModel], reply: object) -> object:
    """The reply of an example in the judge's format: a step with `one_per` numbers its replies.

    ValueError if it does not fit `model`.
    """
    if step.one_per is None:
        return json.loads(model.model_validate(reply).model_dump_json())
    if not is_sequence(reply):
        raise ValueError("a step with one_per needs a list of replies, one for each item of the example")
    return json.loads(model.model_validate(numbered_results(map(as_map, reply))).model_dump_json())
