"""Asks a judge in steps, each with a rendered prompt. A chain asks one step after the other, then scores by a rule.

In the lists of a reply, equal items count once, and a list is no longer than its text allows (`checked_lists`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from pydantic import Field, field_validator

from evalflow.config.schema import FIELDS
from evalflow.errors import JudgeError, UserError, did_you_mean
from evalflow.metrics.base import BaseMetric, UnitMetricConfig, failed
from evalflow.metrics.case_fields import (
    blocked_outcome,
    fields_of,
    is_empty,
    is_in_case,
    items_in,
    reference_in,
    root,
    tuple_of,
)
from evalflow.metrics.references import any_right, best_outcome
from evalflow.metrics.returns import Examples, ItemKind, ListType, Observed, RecordType, StepConfig, StrType, rows_at
from evalflow.metrics.rules import PartsRule, Rule
from evalflow.metrics.steps import PreparedStep, placeholder_reply
from evalflow.prompts import messages
from evalflow.protocols import Judge
from evalflow.records import NUMBER, Answer, Ask, Case, Outcome, Path, Reply, texts_of
from evalflow.values.jsonvalues import as_list, as_map, look_up, written
from evalflow.values.segments import words


class ChainConfig(UnitMetricConfig):
    """The settings of every metric that asks a judge.

    Attributes:
        optional: Further fields, for prompts to show if the case has them.
        weighting: `probability`: scores are expectations over the judge's probabilities, if it gives any.
        verbose: Whether to print each score with its steps as it is computed.
        most_items: The maximum number of items in a list of a reply; null: as many as the text can have.
    """

    optional: tuple[str, ...] = ()
    weighting: Literal["probability"] | None = None
    verbose: bool = False
    most_items: int | None = Field(default=None, ge=1)

    @property
    def shown(self) -> tuple[str, ...]:
        """The fields that prompts may show."""
        return (*self.needs, *self.optional)

    @field_validator("optional")
    @classmethod
    def _known(cls, optional: tuple[str, ...]) -> tuple[str, ...]:
        unknown = next((name for name in optional if root(name) not in FIELDS), None)
        if unknown:
            raise ValueError(f"unknown case field {unknown!r}; {did_you_mean(unknown, FIELDS)}")
        return optional


class QuestionConfig(ChainConfig):
    """A metric whose score is the reply to one question.

    Attributes:
        examples: Few-shot examples for the prompt, each with fields of a case, named as in the prompt, and the `reply`;
            or a YAML file of them in the folders of prompts, such as mine/examples.yaml.
    """

    examples: Examples = None


@dataclass(slots=True)
class Scope:
    """The state of one score: the variables of its prompts, and the replies so far.

    `fields` are those of case and answer as judges read them, `data` as rules read them. `trail` has the steps as the
    score's record shows them.
    """

    metric: str
    repeat: int
    fields: Mapping[str, object]
    data: Mapping[str, object]
    variables: Mapping[str, object]
    logprobs: bool
    replies: dict[str, Observed]
    trail: list[dict[str, object]]
    samples: int = 1

    def items(self, step: StepConfig) -> tuple[object, ...] | None:
        ref = step.one_per
        if ref is None:
            return None
        return items_in(ref, self.fields) if is_in_case(ref) else tuple(rows_at(ref, self.replies).rows)

    def given(self, step: StepConfig, items: tuple[object, ...] | None) -> tuple[str, object] | None:
        """The reply to use without asking, and why; None if the judge must be asked."""
        if items == ():
            return "there are no items", []  # the judge would only invent some
        for name, reply in (step.if_empty or {}).items():
            earlier = root(name) in self.replies
            empty = not rows_at(name, self.replies).rows if earlier else is_empty(name, self.fields)
            if empty and reply != "ask":
                return f"{name} is empty", reply if items is None or reply == [] else [reply] * len(items)
        return None

    def ask(self, step: PreparedStep, items: tuple[object, ...] | None) -> Ask:
        config = step.config
        variables = {**self.variables}
        for name, reply in self.replies.items():
            variables[name] = reply.reply
        if config.source_field:
            variables["source"] = look_up(config.source_field, self.fields)
        if config.against_field:
            variables["against"] = look_up(config.against_field, self.fields)
        if items is not None:
            variables["items"] = items
        where = f"metric.{self.metric}, step {config.id}, {config.prompt}"
        return Ask(
            metric=self.metric,
            step=config.id,
            task=config.task,
            messages=messages(step.template, variables, where, step.examples),
            reply_model=step.reply_model,
            variables=variables,
            items=items,
            samples=self.samples,
            logprobs=self.logprobs,
            repeat=self.repeat,
        )

    def path(self, weighted: bool) -> Path:
        """The steps of the score; `weighted` says that the score is an expectation."""
        reasked = any(entry.get("reasks") for entry in self.trail)
        return "weighted" if weighted else "reasked" if reasked else "direct"


C = TypeVar("C", bound=ChainConfig)


class AskingMetric(BaseMetric[C], Generic[C]):
    """A metric that asks a judge in steps. A kind defines the steps and their score in `_run` and `_previewed`."""

    asks = True

    def __init__(self, name: str, config: C, steps: Sequence[PreparedStep]) -> None:
        super().__init__(name, config)
        self.tasks = {step.config.id: step.config.task for step in steps}
        self.prompts = tuple(dict.fromkeys(text for step in steps for text in step.texts))
        self._steps = tuple(steps)
        self._fixed = self._constants()
        self._needed = tuple(dict.fromkeys(map(root, config.shown)))
        self._may_be_empty = {name for step in steps for name in step.config.if_empty or ()}
        self._takes_apart = any(step.config.source_field == "reference" for step in steps)

    def preview(self, case: Case, answer: Answer) -> Sequence[Ask]:
        """The asks of scoring, with placeholders for the replies; empty if nothing would be asked."""
        fields = fields_of(case, answer)
        if self._blocked(fields, answer):
            return ()
        try:
            return [ask for one in self._readings(fields) for ask in self._previewed(self._scope(one, repeat=0))]
        except ValueError:  # a list cannot be read; `score` reports why
            return ()

    async def score(self, case: Case, answer: Answer, judge: Judge | None, repeat: int) -> Outcome:
        """Ask the steps, then score. If a call fails for good, the score is in state error."""
        if judge is None:
            raise ValueError(f"metric {self.name} needs a judge")
        fields = fields_of(case, answer)
        if blocked := self._blocked(fields, answer):
            return blocked
        readings = self._readings(fields)
        outcomes = [await self._run(self._scope(one, repeat), judge) for one in readings]
        references = [text for one in readings if isinstance(text := one["reference"], str)]
        outcome = best_outcome(outcomes, references, self.config.direction)
        note = _without(tuple_of(object, fields["turn_contexts"])) if "turn_contexts" in self._needed else ""
        return replace(outcome, reason=f"{outcome.reason}; {note}") if note and outcome.reason else outcome

    def _blocked(self, fields: Mapping[str, object], answer: Answer) -> Outcome | None:
        needs, may_be_empty = self.config.needs, self._may_be_empty
        return blocked_outcome(needs, fields, answer, blank_is_text=False, may_be_empty=may_be_empty)

    async def _run(self, scope: Scope, judge: Judge) -> Outcome:
        raise NotImplementedError

    def _previewed(self, scope: Scope) -> Sequence[Ask]:
        """The asks, with placeholders for replies; ValueError if a list of the case cannot be read."""
        raise NotImplementedError

    def _placeholder_ask(self, scope: Scope, step: PreparedStep) -> Ask | None:
        """A step's ask, or None if nothing is asked. Later asks get a placeholder for its reply."""
        items = scope.items(step.config)
        if given := scope.given(step.config, items):
            scope.replies[step.config.id] = Observed(step.config, given[1], None, items)
            return None
        ask = scope.ask(step, items)
        reply = placeholder_reply(step.config.returns, ask.variables.get("source"))
        content = reply if items is None else [reply] * len(items)
        scope.replies[step.config.id] = Observed(step.config, content, None, items)
        return ask

    async def _ask(self, scope: Scope, step: PreparedStep, judge: Judge) -> Outcome | None:
        """Ask a step and add the reply to the scope. Returns the outcome of the score if that fails, else None."""
        config = step.config
        try:
            items = scope.items(config)
        except ValueError as error:
            return Outcome(status="error", error_type="data", error=str(error), steps=tuple(scope.trail))
        entry: dict[str, object] = {
            "id": config.id,
            "task": config.task,
            "items": None if items is None else list(items),
            "reply": None,
            "reasks": 0,
        }
        scope.trail.append(entry)
        if given := scope.given(config, items):
            entry |= {"reply": given[1], "probabilities": None, "not_asked": given[0]}
            scope.replies[config.id] = Observed(config, given[1], None, items)
            return None
        try:
            ask = scope.ask(step, items)
            reply = await judge.ask(ask)
            _record(entry, config, ask, reply, self.config.most_items)
        except UserError as error:  # a prompt that fails for one case does not stop the run
            entry |= {"raw": None, "error": str(error)}
            return Outcome(status="error", error_type="prompt", error=str(error), steps=tuple(scope.trail))
        except JudgeError as error:
            entry |= {"raw": error.raw, "error": str(error)}
            return failed(error, scope.trail)
        scope.replies[config.id] = Observed(config, entry["reply"], reply.probabilities, items)
        return None

    def _readings(self, fields: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
        """The fields. If a step splits the reference into parts, one copy for each of several references."""
        if isinstance(fields["reference"], str) or not self._takes_apart:
            return [fields]
        return [{**fields, "reference": one} for one in texts_of(reference_in(fields)) if one.strip()] or [fields]

    def _scope(self, data: Mapping[str, object], repeat: int) -> Scope:
        fields = {**data, "reference": any_right(reference_in(data))}
        variables = dict(zip(self._needed, map(fields.__getitem__, self._needed), strict=True))
        variables |= self._fixed
        variables |= self._extras(fields)
        logprobs = self.config.weighting == "probability"
        return Scope(self.name, repeat, fields, data, variables, logprobs, replies={}, trail=[])

    def _constants(self) -> Mapping[str, object]:
        """Prompt variables from the kind that do not depend on the case."""
        return {}

    def _extras(self, fields: Mapping[str, object]) -> Mapping[str, object]:
        """Further prompt variables from the kind, besides the fields in `needs` and `optional`."""
        return {}

    def _given(self, fields: Mapping[str, object], without: Collection[str] = ()) -> Mapping[str, object]:
        """The fields to show, by name. `optional` ones that the case lacks are left out."""
        shown = {name: look_up(name, fields) for name in self.config.shown if name not in without}
        return {
            name: value
            for name, value in shown.items()
            if name not in self.config.optional or value not in (None, "", (), [], {})
        }


class ChainMetric(AskingMetric[C], Generic[C]):
    """A metric that asks a judge a chain of steps and applies a score rule to the replies."""

    def __init__(self, name: str, config: C, steps: Sequence[PreparedStep], rule: Rule | PartsRule) -> None:
        super().__init__(name, config, steps)
        self._rule = rule

    def _previewed(self, scope: Scope) -> Sequence[Ask]:
        return [ask for step in self._steps if (ask := self._placeholder_ask(scope, step))]

    async def _run(self, scope: Scope, judge: Judge) -> Outcome:
        for step in self._steps:
            if failure := await self._ask(scope, step, judge):
                return failure
        return self._conclude(scope, weighted=judge.info.weighted or scope.logprobs)

    def _conclude(self, scope: Scope, weighted: bool) -> Outcome:
        result = self._rule.evaluate(scope.replies, weighted)
        if result.score is None:
            return Outcome(status="undefined", reason=result.undefined, steps=tuple(scope.trail))
        return Outcome(
            status="scored",
            score=result.score,
            value=result.value,
            reason=self._rule.reason(scope.replies, self.config.direction, weighted),
            steps=tuple(scope.trail),
            path=scope.path(result.weighted),
        )


def _without(turns: Sequence[object]) -> str:
    """Names the assistant's turns that were not judged because nothing was retrieved for them; "" if there are none."""
    lacking = [str(number) for number, contexts in enumerate(turns, 1) if not contexts]
    if not lacking or len(lacking) == len(turns):
        return ""
    named = f"turn {lacking[0]}" if len(lacking) == 1 else f"turns {', '.join(lacking)}"
    return f"{named} of {len(turns)} not judged: nothing was retrieved for them"


def _record(entry: dict[str, object], step: StepConfig, ask: Ask, reply: Reply, most_items: int | None) -> None:
    """Add the reply to a step's entry; JudgeError unless it covers all items and its lists are plausible."""
    content, probabilities = as_map(reply.parsed.model_dump(mode="json")), reply.probabilities
    expected = 1 if ask.items is None else len(ask.items)
    rows: list[Mapping[str, object]] = [content]
    if ask.items is not None:
        results = map(as_map, as_list(content["results"]))
        rows = [{name: value for name, value in row.items() if name != NUMBER} for row in results]
        if len(rows) != expected:
            raise JudgeError("schema", f"the judge returned {len(rows)} results for {expected} items", reply.raw)
    if probabilities is not None and len(probabilities) != expected:
        what = f"the judge returned {len(probabilities)} distributions for {expected} items"
        raise JudgeError("schema", what, reply.raw)
    try:
        replies, left_out = checked_lists(step, ask, rows, most_items)
    except JudgeError as error:
        raise JudgeError(error.error_type, str(error), reply.raw) from None
    entry |= {"reply": replies[0] if ask.items is None else replies, "probabilities": None, "reasks": reply.reasks}
    if left_out:
        entry["equal_items_left_out"] = left_out
    if probabilities is not None:
        entry["probabilities"] = [
            {name: {_key(value): chance for value, chance in chances.items()} for name, chances in one.items()}
            for one in probabilities
        ]
    if reply.mended:
        entry |= {"mended": list(reply.mended), "raw": reply.raw}
    if reply.samples > 1:
        entry["samples"] = reply.samples
    if reply.failed:
        entry["failed"] = reply.failed
    if reply.mass is not None:
        entry["mass"] = dict(reply.mass)


def _key(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_ENDS = re.compile(r"[^\w '\"]")
_SPARE = 5
_STOPS = " .。!;"
"""Final signs that do not change the meaning; NFKC has already replaced full-width signs."""


def most_items(text: str) -> int:
    """How many items a list about a text may have: a third of its words, plus one per separator, plus 5.

    A separator is any character but letters, digits, spaces and quotation marks, so that a list of names passes
    whatever separates them.

    Example:
        >>> most_items("The pool opens at 9 and costs 4 euros.")
        9
    """
    return len(words(text)) // 3 + len(_ENDS.findall(text)) + _SPARE


def checked_lists(
    step: StepConfig, ask: Ask, rows: Sequence[Mapping[str, object]], most: int | None = None
) -> tuple[list[object], int]:
    """The rows of a reply without duplicates in their lists, and the number of duplicates.

    Items are equal if they differ only in white space, case, character width or a final full stop. A model in a loop
    may write the same claim hundreds of times, or invent claims without end; either would distort the score.

    JudgeError if a list still has more than `most` items. With None its text is the limit: the step's `source`, else
    all that the judge was shown.
    """
    if not any(isinstance(declared, ListType) for declared in step.returns.values()):
        return list(rows), 0
    source = ask.variables.get("source") if step.source_field else None
    text = "\n".join(message.content for message in ask.messages) if source is None else written(source)
    reader = _ListReader(ask, text, most)
    return [reader.record(step.returns, row) for row in rows], reader.left_out


class _ListReader:
    def __init__(self, ask: Ask, text: str, most: int | None) -> None:
        self._ask = ask
        self._text = text
        self._most = most_items(text) if most is None else most
        self.left_out = 0

    def record(self, fields: Mapping[str, object], row: Mapping[str, object]) -> dict[str, object]:
        return {name: self._value(name, fields.get(name), value) for name, value in row.items()}

    def _value(self, name: str, declared: object, value: object) -> object:
        if not isinstance(declared, ListType):
            return value
        kind = declared.items
        items = [self._item(name, kind, item) for item in as_list(value)]
        kept = items
        if isinstance(kind, StrType) or (isinstance(kind, RecordType) and _says_something(kind)):
            kept = list({json.dumps(_comparable(item)): item for item in reversed(items)}.values())[::-1]
        self.left_out += len(items) - len(kept)
        if len(kept) > self._most:
            noun, count = name.replace("_", " "), len(words(self._text))
            what = f"the judge listed {len(kept):,} {noun} for a text of {count:,} words (step {self._ask.step})"
            advice = "if it invents or repeats items, use another model or raise judge.temperature"
            allowed = f"if the text really has so many, allow them: ++metric.{self._ask.metric}.most_items={len(kept)}"
            raise JudgeError("schema", f"{what}, and {self._most:,} are allowed: {advice}; {allowed}")
        return kept

    def _item(self, name: str, kind: ItemKind, item: object) -> object:
        return self.record(kind.fields, as_map(item)) if isinstance(kind, RecordType) else self._value(name, kind, item)


def _says_something(kind: RecordType) -> bool:
    """Whether the items contain text. Then equal items are duplicates; without text they are just equal verdicts."""
    return any(isinstance(declared, StrType) for declared in kind.fields.values())


def _comparable(value: object) -> object:
    if isinstance(value, str):
        plain = " ".join(unicodedata.normalize("NFKC", value).split()).casefold()
        return plain.rstrip(_STOPS) or plain
    if isinstance(value, dict):
        return {name: _comparable(one) for name, one in as_map(value).items()}
    return [_comparable(one) for one in as_list(value)] if isinstance(value, list) else value
