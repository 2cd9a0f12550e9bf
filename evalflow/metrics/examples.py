"""Few-shot examples of a step: case fields and the reply that the judge should give, in YAML or in a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ValidationError

from evalflow.config.yaml_text import safe_yaml
from evalflow.errors import Problem, UserError, did_you_mean
from evalflow.records import numbered_results
from evalflow.values.jsonvalues import as_map, is_mapping, is_sequence

if TYPE_CHECKING:
    from evalflow.metrics.returns import StepConfig
    from evalflow.prompts import Prompts

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
    """What is wrong with a step's examples. They may use `known`, the variables of its prompt, and their tags."""
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
    """Add the YAML's examples to the prompts, named by their content; so they are hashed and shown like prompts."""
    text = yaml.safe_dump(step.examples, allow_unicode=True, sort_keys=False)
    name = f"{step.prompt} examples {hashlib.sha256(text.encode()).hexdigest()[:8]}"
    prompts.keep(name, text)
    return name


def _reply(step: StepConfig, model: type[BaseModel], reply: object) -> object:
    if step.one_per is None:
        return json.loads(model.model_validate(reply).model_dump_json())
    if not is_sequence(reply):
        raise ValueError("a step with one_per needs a list of replies, one for each item of the example")
    return json.loads(model.model_validate(numbered_results(map(as_map, reply))).model_dump_json())
