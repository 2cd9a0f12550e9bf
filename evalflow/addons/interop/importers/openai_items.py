"""Items of OpenAI's evals as cases: a row of data, a model's reply, and the graders' scores."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from evalflow.addons.interop.importers.columns import Columns
from evalflow.addons.interop.importers.conversation import (
    about_answer,
    answer_in,
    are_messages,
    message_rows,
    plain_calls,
    read_turns,
    steps_in,
)
from evalflow.addons.interop.importers.files import question_of
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import parsed, plain_text
from evalflow.addons.interop.importers.scores import score_name, score_number
from evalflow.values.jsonvalues import as_list, as_map, kind, present

_ITEMS = ("item", "datasource_item")
_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


@dataclass(frozen=True, slots=True)
class GraderScore:
    """A grader's score of an answer, and whether the answer passed."""

    name: object
    value: object
    passed: bool | None

    @property
    def number(self) -> float | None:
        return score_number(self.value)


def item_of(row: Mapping[str, object]) -> object:
    """The item of a row of data or of an output item; None if it has none."""
    return next((item for name in _ITEMS if (item := parsed(row.get(name))) is not None), None)


def read_scores(row: Columns) -> Iterator[GraderScore]:
    """The scores of a row, one for each grader. `results` stays unread, because it has the graders' further remarks."""
    for result in map(as_map, as_list(parsed(row.peek("results")))):
        passed, score = result.get("passed"), result.get("score")
        verdict = passed if isinstance(passed, bool) else None
        name = score_name(result, "name")
        plain = _UUID.sub("", name) if isinstance(name, str) else name
        yield GraderScore(plain, verdict if score is None else score, verdict)


def case_of(row: Columns, ledger: Ledger, expected: Collection[str] = ()) -> dict[str, object]:
    """The case of a row, with the columns of its item as variables; Untranslatable if the row has no case.

    `expected` are the columns that the answer is compared with, which are not part of the question.
    """
    name = next((name for name in _ITEMS if name in row), "")
    item = parsed(row.peek(name))
    if not isinstance(item, Mapping):
        raise Untranslatable("it has no object item or datasource_item", "give it one")
    row.get(name)
    variables, sample = dict(as_map(item)), row.child("sample")
    case: dict[str, object] = {
        **_asked(variables, sample, ledger, expected),
        **_answer(sample, ledger),
        "vars": variables,
    }
    own = variables.get("id")
    if not isinstance(own, str | int) or isinstance(own, bool):
        own = row.get("datasource_item_id")
    return case if own is None else {"id": own, **case}


def _asked(item: Mapping[str, object], sample: Columns, ledger: Ledger, expected: Collection[str]) -> dict[str, object]:
    """The conversation sent to the model, if it can be sent again; else the question among the columns."""
    declared = as_list(sample.peek("input"))
    if are_messages(declared) and as_map(declared[-1]).get("role") == "user":
        try:
            turns = read_turns(declared, ledger, sample.where, ordered=True)
        except Untranslatable:
            turns = []
        if turns:
            sample.get("input")
            return {"messages": message_rows(turns)}
    question = question_of({name: value for name, value in item.items() if name not in expected}, "")
    if not question.strip():
        raise Untranslatable("it asks nothing: its item has no text", "give the item a column `question`")
    return {"question": question}


def _answer(sample: Columns, ledger: Ledger) -> dict[str, object]:
    """The answer with its tool calls, or why it is missing."""
    text, outputs = sample.peek("output_text"), as_list(sample.peek("output"))
    if text is not None and not isinstance(text, str):
        raise Untranslatable(f"its output_text is {kind(text)}, not text", "write the text of the answer")
    turns = read_turns(outputs, ledger, sample.where) if are_messages(outputs) else []
    about: dict[str, object] = {}
    if turns and text in (None, answer_in(turns)):
        sample.get("output")
        about, text = about_answer(turns), answer_in(turns)
    sample.get("output_text")
    calls = steps_in(turns) or plain_calls(sample.peek("output_tools"))
    if calls:
        sample.get("output_tools")
    failure = None
    if text is None:
        failure = sample.take(plain_text, "error") or sample.child("error").take(plain_text, "message")
        text = "" if failure is None and sample.recorded_answer("output_text") == "" else None
    return present(
        answer=text,
        actual=calls or None,
        finish_reason=sample.take(plain_text, "finish_reason"),
        failure=failure,
        metadata=about or None,
    )
