"""Import of ragas: samples, test sets, and results with their scores, as CSV, JSON lines, JSON or Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns, is_missing
from evalflow.addons.interop.importers.conversation import conversation_case, plain_calls, read_turns, steps_in
from evalflow.addons.interop.importers.exports import asks_nothing
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource, as_json
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import texts_in
from evalflow.addons.interop.importers.recorded import Counterparts, recorded_cases
from evalflow.addons.interop.importers.scores import NO_NUMBER, score_number
from evalflow.addons.interop.importers.sources import LARGEST_FILE, begins_with, read_document, read_rows
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem
from evalflow.paths import shown
from evalflow.values.cells import opened
from evalflow.values.jsonvalues import as_list, as_map, present

_ASKED = ("user_input", "question", "query")
_SAID = ("response", "answer")
_REFERENCE = ("reference", "ground_truth", "ground_truths")
_CONTEXTS = ("retrieved_contexts", "contexts")
_IDEAL = ("reference_contexts",)
_CALLS = "reference_tool_calls"
_ORIGIN = ("synthesizer_name", "evolution_type")
_FIELDS = frozenset((*_ASKED, *_SAID, *_REFERENCE, *_CONTEXTS, *_IDEAL, _CALLS, *_ORIGIN))
_IDS = ("id", "sample_id", "question_id")
_NUMBERING = ("", "Unnamed: 0", "__index_level_0__", "index", "idx", "row")
_HINT = "write the table with to_csv, to_jsonl or to_parquet: evaluate(...).to_pandas(), EvaluationDataset or Testset"
_RUBRIC = "write its definition as a metric of the kind rubric: docs/metrics.md"
_COUNTERPARTS = Counterparts(
    like={
        "faithfulness": "faithfulness",
        "answer_relevancy": "answer_relevancy",
        "response_relevancy": "answer_relevancy",
        "context_precision": "context_precision",
        "llm_context_precision_with_reference": "context_precision",
        "context_recall": "context_recall",
        "factual_correctness": "factual_correctness",
        "factual_correctness(mode=f1)": "factual_correctness",
        "factual_correctness(mode=precision)": "factual_precision",
        "factual_correctness(mode=recall)": "factual_recall",
        "semantic_similarity": "semantic_similarity",
        "answer_similarity": "semantic_similarity",
        "exact_match": "exact_match",
        "context_entity_recall": "context_entity_recall",
        "context_utilization": "context_utilization",
        "llm_context_precision_without_reference": "context_utilization",
        "noise_sensitivity": "noise_sensitivity_relevant",
        "noise_sensitivity(mode=relevant)": "noise_sensitivity_relevant",
        "noise_sensitivity(mode=irrelevant)": "noise_sensitivity_irrelevant",
        "noise_sensitivity_relevant": "noise_sensitivity_relevant",
        "noise_sensitivity_irrelevant": "noise_sensitivity_irrelevant",
    },
    hints={
        "answer_correctness": "metric=[answer_correctness,factual_correctness,semantic_similarity]",
        "topic_adherence": "metric=topic_adherence, with a column allowed_topics; a right refusal counts too",
        "nv_accuracy": "metric=factual_accuracy",
        "nv_context_relevance": "metric=context_relevance, a share of statements instead of a grade",
        "nv_response_groundedness": "metric=faithfulness, a share instead of a grade",
        "tool_call_accuracy": "metric=tool_correctness; another number of calls does not give 0",
        "tool_call_f1": "metric=tool_f1",
        "agent_goal_accuracy": "metric=goal_accuracy",
        "summary_score": "metric=summarisation, which uses other questions",
        "string_present": "a check of the type rule: docs/rules.md",
        "domain_specific_rubrics": _RUBRIC,
        "instance_rubrics": _RUBRIC,
    },
)
_NUMPY_TEXT = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.DOTALL)
_NUMPY = re.compile(rf"\[\s*(?:{_NUMPY_TEXT.pattern}\s*)+\]", re.DOTALL)
"""A list of texts as NumPy prints it, without commas."""
_ARRAY = re.compile(r"\s*array\((\[.*\])(?:,\s*dtype=[\w'<>]+)?\)\s*\Z", re.DOTALL)
"""A list as NumPy writes it with its type."""
_LOWER = ("noise_sensitivity",)


def read_ragas(source: ImportSource) -> ImportedConfig:
    """Import one table; UserError if it has no column of ragas' samples."""
    path = source.file(hint=_HINT)
    columns = _score_columns(path)
    with recorded_cases(source, "ragas", "ragas", _COUNTERPARTS) as cases:
        cases.lower |= {name for name in columns if name.startswith(_LOWER)}
        for item in _rows(path, cases.ledger, cases.ledger.leave_broken):
            row = Columns(item.data, item.where)
            row.leave("it numbers the rows", *_NUMBERING)
            scores = [(name, row.peek(name)) for name in columns]
            for name, value in scores:
                if _is_nan(value) or score_number(value) is not None:  # other values are kept as they are
                    row.get(name)
            cases.take(row, partial(_case, row, cases.ledger), scores)
    return cases.imported


def _score_columns(path: Path) -> list[str]:
    """The columns of scores: those with only numbers, since all fields of samples are texts and lists.

    A column named like a metric of ragas may also have other values, which are listed.
    """
    kinds: dict[str, set[bool]] = {}
    for row in _rows(path, Ledger(), lambda _: None):
        for name, value in row.data.items() if len(kinds) < 1000 else ():
            if name not in _FIELDS and name not in _IDS and name not in _NUMBERING and not _is_nan(value):
                is_score = not isinstance(value, list) and score_number(value) is not None
                kinds.setdefault(name, set()).add(is_score)
    names = {*_COUNTERPARTS.like, *_COUNTERPARTS.hints}
    return [name for name, part in kinds.items() if part == {True} or name in names]


def _is_nan(value: object) -> bool:
    return is_missing(value) or (isinstance(value, str) and value.strip().lower() in NO_NUMBER)


def _rows(path: Path, ledger: Ledger, broken: Callable[[Problem], None]) -> Iterator[SourceRow]:
    if path.suffix.lower() == ".json" and _is_of_columns(path):
        table = as_map(read_document(path))
        for key in dict.fromkeys(key for column in table.values() for key in as_map(column)):
            cells = {name: as_map(column).get(key) for name, column in table.items()}
            yield SourceRow(f"{shown(path)}:{key}", cells)
        return
    yield from read_rows(path, ledger, broken=broken)


def _is_of_columns(path: Path) -> bool:
    """Whether the file is an object of columns, as pandas' to_json writes it, not a row of JSON lines."""
    marks = tuple(f'{{"{name}":{{'.encode() for name in _FIELDS)
    return begins_with(path, marks) and path.stat().st_size <= LARGEST_FILE


def _case(row: Columns, ledger: Ledger) -> dict[str, object]:
    asked = row.get(*_ASKED)
    if asked is None:
        raise Untranslatable(f"it has none of {', '.join(_ASKED)}", _HINT)
    listed = as_list(_literal(asked))
    if not listed and str(asked).lstrip().startswith("[{"):
        raise Untranslatable("its turns cannot be read as a list", "write the table as JSON lines")
    case: dict[str, object] = {} if listed else {"question": as_json(asked)}
    case |= _conversation(listed, ledger, row.where) if listed else {}
    if asks_nothing(case):
        raise Untranslatable("its user_input is empty", "write the question")
    answer, reference = row.recorded_answer(*_SAID), _literal(row.get(*_REFERENCE))
    several = [as_json(item) for item in as_list(reference) if not is_missing(item)]
    if is_missing(reference) or reference == []:
        several = []
    elif not several:
        several = [as_json(reference)]
    calls = row.take(lambda value: plain_calls(_literal(value)), _CALLS)
    origin = row.get(*_ORIGIN)
    case |= present(
        id=row.case_id(*_IDS),
        answer=None if answer is None else as_json(answer),
        reference=(several[0] if len(several) == 1 else several) if several else None,
        contexts=_texts(row, _CONTEXTS, ledger),
        ideal_contexts=_texts(row, _IDEAL, ledger),
        expected=None if calls is None else [_without_nulls(call) for call in calls],
        tags=[origin] if isinstance(origin, str) and origin.strip(" >") else None,
    )
    others = {name: _literal(value) for name, value in row.rest().items()}
    return case | ({"vars": others} if others else {})


def _texts(row: Columns, names: tuple[str, ...], ledger: Ledger) -> list[str] | None:
    """Read the texts in the first column that has a value. If they are not texts, None, and the column stays unread."""
    name = next((name for name in names if name in row), None)
    if name is None:
        return None
    content = _literal(row.peek(name))
    if isinstance(content, str) and content.lstrip().startswith("["):
        raise Untranslatable(f"its {name} cannot be read as a list", "write the table as JSON lines")
    texts = texts_in([content] if isinstance(content, str) else content)
    if texts is None:
        ledger.leave("values", f"{name} of a row", row.where, "it is not a list of texts; it is kept in `vars`")
        return None
    row.get(name)
    return texts


def _literal(value: object) -> object:
    """The value in a cell written as JSON, in Python's notation, or as NumPy's list of texts (without commas)."""
    if not isinstance(value, str):
        return value
    array = _ARRAY.match(value)
    text: str = array[1] if array else value
    return opened(_NUMPY_TEXT.sub(r"\1, ", text) if _NUMPY.fullmatch(text.strip()) else text)


def _conversation(items: list[object], ledger: Ledger, where: str) -> dict[str, object]:
    """Messages up to the user's last; the assistant's messages after it are the answer."""
    turns = read_turns(map(_with_plain_calls, items), ledger, where)
    case, about = conversation_case(turns, "give it one")
    return case | present(actual=steps_in(turns) or None, metadata=about or None)


def _with_plain_calls(turn: object) -> object:
    message = as_map(turn)
    calls = plain_calls(message.get("tool_calls"))
    return {**message, "tool_calls": [_without_nulls(call) for call in calls]} if calls else turn


def _without_nulls(call: Mapping[str, object]) -> Mapping[str, object]:
    """The call without the null arguments that Parquet and pandas fill in."""
    declared = call.get("arguments")
    if not isinstance(declared, Mapping):
        return call
    arguments = {name: value for name, value in as_map(declared).items() if value is not None}
    return {**{name: value for name, value in call.items() if name != "arguments"}, "arguments": arguments}
