"""Import of ragas: samples, test sets, and results with their scores, as CSV, JSON lines, JSON or Parquet."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from evalflow.datasets.sources import SourceRow
from evalflow.importers.exports import field_of, message_of, parsed
from evalflow.importers.files import ImportedConfig, ImportSource
from evalflow.importers.ledger import Ledger, Untranslatable
from evalflow.importers.recorded import PARTS, Counterparts, recorded_cases, score_number
from evalflow.importers.sources import LARGEST_FILE, begins_with, read_document, read_rows
from evalflow.jsonvalues import as_list, as_map
from evalflow.paths import shown

_ASKED = ("user_input", "question", "query")
_SAID = ("response", "answer")
_REFERENCE = ("reference", "ground_truth", "ground_truths")
_CONTEXTS = ("retrieved_contexts", "contexts")
_IDEAL = ("reference_contexts",)
_CALLS = ("reference_tool_calls",)
_ORIGIN = ("synthesizer_name", "evolution_type")
_FIELDS = frozenset((*_ASKED, *_SAID, *_REFERENCE, *_CONTEXTS, *_IDEAL, *_CALLS, *_ORIGIN))
_NUMBERING = frozenset({"", "Unnamed: 0", "__index_level_0__", "index", "idx", "id", "row", "sample_id", "question_id"})
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
        "nv_context_relevance": "metric=context_relevancy, a share instead of a grade",
        "nv_response_groundedness": "metric=faithfulness, a share instead of a grade",
        "tool_call_accuracy": "metric=tool_correctness; it gives no 0 for another number of calls",
        "tool_call_f1": "metric=tool_correctness, the share of expected calls",
        "agent_goal_accuracy": "metric=task_completion",
        "summary_score": "metric=summarisation, which asks other questions",
        "string_present": "a check of the type rule: docs/rules.md",
        "domain_specific_rubrics": _RUBRIC,
        "instance_rubrics": _RUBRIC,
    },
)
_LOWER = ("noise_sensitivity",)

_Row = Mapping[str, Any]


def read_ragas(source: ImportSource) -> ImportedConfig:
    """Import one table; UserError if it has no column of ragas' samples."""
    path = source.path
    source.expect_file(_HINT)
    imported = ImportedConfig(ledger=Ledger(PARTS))
    columns = _score_columns(path)
    with recorded_cases(source, imported, "ragas", "ragas", path, _COUNTERPARTS) as cases:
        cases.lower |= {name for name in columns if name.startswith(_LOWER)}
        for row in _rows(path):
            scores = [(name, row.data.get(name) if row.data.get(name) != "" else None) for name in columns]
            cases.take(row.where, partial(_case, row, columns, imported.ledger), scores)
    return imported


def _score_columns(path: Path) -> list[str]:
    """The columns that have numbers and nothing else: scores, since all fields of samples are texts and lists."""
    is_score: dict[str, bool] = {}
    for row in _rows(path):
        for name, value in row.data.items() if len(is_score) < 1000 else ():
            if value not in (None, "") and name not in _FIELDS and name not in _NUMBERING:
                is_score[name] = is_score.get(name, True) and score_number(value) is not None
    return [name for name, numbers in is_score.items() if numbers]


def _rows(path: Path) -> Iterator[SourceRow]:
    if path.suffix.lower() == ".json" and _is_of_columns(path):
        table = as_map(read_document(path))
        for key in dict.fromkeys(key for column in table.values() for key in as_map(column)):
            cells = {name: as_map(column).get(key) for name, column in table.items()}
            yield SourceRow(f"{shown(path)}:{key}", cells)
        return
    yield from read_rows(path)


def _is_of_columns(path: Path) -> bool:
    """Whether the file is an object of columns, as pandas' to_json writes it, and no row of JSON lines."""
    marks = tuple(f'{{"{name}":{{'.encode() for name in _FIELDS)
    return begins_with(path, marks) and path.stat().st_size <= LARGEST_FILE


def _case(source: SourceRow, columns: list[str], ledger: Ledger) -> dict[str, Any]:
    row = source.data
    asked = field_of(row, _ASKED)
    if asked is None:
        raise Untranslatable(f"it has none of {', '.join(_ASKED)}", _HINT)
    listed = as_list(_literal(asked))
    if not listed and str(asked).lstrip().startswith("[{"):
        raise Untranslatable("its turns cannot be read as a list", "write the table as JSON lines")
    found = _conversation(listed, ledger, source.where) if listed else {"question": str(asked)}
    if not listed and not found["question"].strip():
        raise Untranslatable("its user_input is empty", "write the question")
    said, reference = field_of(row, _SAID), field_of(row, _REFERENCE)
    first = (as_list(_literal(reference)) or [reference])[0]
    found |= {} if said is None else {"answer": str(said)}
    found |= {} if first is None else {"reference": str(first)}
    for name, names in (("contexts", _CONTEXTS), ("ideal_contexts", _IDEAL)):
        texts = [str(one) for one in _list(row, names) if str(one).strip()]
        found |= {name: texts} if texts else {}
    calls = _list(row, _CALLS)
    found |= {"expected": [_call(call) for call in calls]} if calls else {}
    origin = field_of(row, _ORIGIN)
    found |= {"tags": [str(origin)]} if origin is not None and str(origin).strip(" >") else {}
    unused = (name for name in row if name not in _FIELDS and name not in _NUMBERING and name not in columns)
    others = {name: _literal(row[name]) for name in unused if row[name] not in (None, "")}
    return found | ({"vars": others} if others else {})


def _list(row: _Row, names: tuple[str, ...]) -> list[Any]:
    """The list in the first of the columns that has one, also where a cell of CSV holds its text."""
    value = field_of(row, names)
    found = _literal(value)
    if isinstance(found, str):
        if found.lstrip().startswith("["):
            raise Untranslatable(f"its {names[0]} cannot be read as a list", "write the table as JSON lines")
        return [found]
    return as_list(found)


def _literal(value: Any) -> Any:
    """What a cell holds as JSON, as Python writes it, or as NumPy writes a list of texts: without commas."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    found = parsed(value.strip())
    if not isinstance(found, str):
        return found
    try:
        tokens = [one for one in tokenize.generate_tokens(io.StringIO(value.strip()).readline) if one.string.strip()]
        kinds = [one.type for one in tokens]
        if (tokenize.STRING, tokenize.STRING) in pairwise(kinds):
            return [ast.literal_eval(one.string) for one in tokens if one.type == tokenize.STRING]
        return ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        return value


def _conversation(turns: list[Any], ledger: Ledger, where: str) -> dict[str, Any]:
    """Messages up to the last of the user; what the assistant said after it is the answer."""
    calls = [_call(call) for turn in turns for call in as_list(as_map(turn).get("tool_calls"))]
    messages = [message for turn in turns if (message := message_of(turn))]
    texts = [one for one in messages if one["role"] in ("system", "user", "assistant") and one["content"].strip()]
    ledger.found("messages", len(turns))
    asked = max((number for number, one in enumerate(texts) if one["role"] == "user"), default=-1)
    replies = [one["content"] for one in texts[asked + 1 :]]
    left = len(turns) - len(texts)
    if asked < 0:
        ledger.left("messages", "message", where, "its conversation has no turn of a user", count=len(turns))
        raise Untranslatable("it has no turn of a user", "give it one")
    ledger.took("messages", len(texts))
    if left:
        what = "messages of tools, and calls of tools without a text, are no turns of a conversation"
        ledger.left("messages", "message", where, what, "the calls are in the column `actual`", left)
    found: dict[str, Any] = {"messages": texts[: asked + 1], **({"answer": "\n".join(replies)} if replies else {})}
    return found | ({"actual": calls} if calls else {})


def _call(value: Any) -> Any:
    known = as_map(value)
    arguments = {name: one for name, one in as_map(known.get("args")).items() if one is not None}
    return {"name": str(known.get("name")), **({"arguments": arguments} if arguments else {})}
