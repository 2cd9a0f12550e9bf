"""Import of deepeval's goldens (JSON, JSON lines, CSV), and of runs with scores (.deepeval/.latest_run_full.json).

Keys are in snake_case in goldens, and in camelCase in runs. In JSON lines and CSV lists of texts are joined by `|`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns, joined
from evalflow.addons.interop.importers.conversation import conversation_case, passage, plain_calls, read_turns, steps_in
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import parsed, parsed_object, plain_text
from evalflow.addons.interop.importers.recorded import Counterparts, RecordedCases, recorded_cases
from evalflow.addons.interop.importers.scores import score_name, score_number
from evalflow.addons.interop.importers.sources import begins_with, leave_document_keys, read_objects, read_rows
from evalflow.datasets.json_files import document_values
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.records.answers import Message
from evalflow.values.jsonvalues import as_list, as_map, as_number, present

_LISTS = ("testCases", "conversationalTestCases", "goldens", "conversationalGoldens")
_LIKE: Mapping[str, str] = {
    "answer relevancy": "relevance",
    "faithfulness": "faithfulness_lenient",
    "contextual relevancy": "context_relevance",
    "contextual recall": "context_recall",
    "contextual precision": "context_precision",
    "hallucination": "contradiction",
    "bias": "bias",
    "toxicity": "toxicity",
    "summarization": "summarisation",
    "pii leakage": "pii_leakage",
    "prompt alignment": "prompt_alignment",
    "task completion": "task_completion",
    "tool correctness": "tool_correctness",
    "argument correctness": "argument_correctness",
    "exact match": "exact_match",
    "conversation completeness": "conversation_completeness",
    "turn relevancy": "turn_relevance",
    "turn faithfulness": "turn_faithfulness",
    "turn contextual relevancy": "turn_context_relevancy",
    "knowledge retention": "knowledge_retention",
}
_HINTS: Mapping[str, str] = {
    "geval": "write its criteria as a metric of the kind g_eval: docs/g-eval.md",
    "conversational geval": "write its criteria as a metric of the kind g_eval: docs/g-eval.md",
    "dag": "write it as a metric of the kind graph: docs/graphs.md",
    "json correctness": "metric=json_correctness, with your schema",
    "pattern match": "a check `regex_matching`, or a metric of the kind check",
    "role adherence": "metric=role_adherence, with a column chatbot_role",
    "role violation": "metric=role_violation, with a column chatbot_role",
    "misuse": "metric=misuse, with a column purpose",
    "topic adherence": "metric=topic_adherence, with a column allowed_topics",
    "non advice": "metric=unsafe_advice",
    "goal accuracy": "metric=goal_accuracy, which judges only the goal, not the plan",
    "plan quality": "metric=plan_quality",
    "plan adherence": "metric=plan_adherence",
    "step efficiency": "metric=step_efficiency, a share of steps instead of a grade",
}
_LOWER = frozenset({"hallucination", "bias", "toxicity"})
"""Metrics for which lower was better until version 3."""
_VARYING = _LOWER | {"misuse", "pii leakage", "role violation", "non advice"}
"""Metrics whose direction differs between versions: only the file decides."""
_OPPOSITE = frozenset({"pii leakage"})
"""Metrics whose scores run opposite to evalflow's metric."""
_FILES = "name the file: goldens in .json, .jsonl or .csv, or .deepeval/.latest_run_full.json"
_ABOUT = ("name", "comments", "completion_time", "token_cost")
_SOURCE = re.compile(r"deepeval_source=(?P<path>.*?),deepeval_context=(?P<text>.*)", re.DOTALL)
_JOINED = "passages in a cell are separated by |, which they may also contain"


def _keys(name: str) -> tuple[str, str]:
    """A key in the form of goldens, and in that of runs."""
    return name, re.sub(r"_([a-z])", lambda letter: letter[1].upper(), name)


_CALLED, _RETRIEVED = _keys("tools_called"), _keys("retrieval_context")


def _plain(name: str) -> str:
    """The name of a metric in lower case; for one with its own criteria, such as `Tone [GEval]`, its kind."""
    bracket = re.search(r"\[([^\]]+)\]\s*\Z", name)
    return (bracket[1] if bracket else name).strip().lower().replace("-", " ").removesuffix(" metric")


_COUNTERPARTS = Counterparts(_LIKE, _HINTS, _plain, _OPPOSITE)


def read_deepeval(source: ImportSource) -> ImportedConfig:
    """Import goldens, test cases or a run; UserError for any other file."""
    names = (".latest_run_full.json", ".deepeval/.latest_run_full.json")
    path = source.file(*names, hint=_FILES, lacking="the folder contains no run of deepeval")
    joined = 0
    with recorded_cases(source, "deepeval", "deepeval", _COUNTERPARTS, path=path) as cases:
        for item in _rows(path, cases.ledger):
            row = Columns(item.data, item.where)
            row.leave("it is a trace of the application", "trace", hint="import traces: docs/import.md#traces")
            cells = [parsed(row.peek(name)) for name in (*_RETRIEVED, "context")]
            joined += any(isinstance(cell, str) and "|" in cell for cell in cells)
            cases.take(row, partial(_case, row, cases.ledger), list(_scores(row, cases)))
    if joined:
        rows = f"{joined:,} rows" if joined > 1 else "1 row"
        cases.imported.notes.append(f"contexts of {rows}: {_JOINED}; to be safe, save the dataset as JSON")
    return cases.imported


def _scores(row: Columns, cases: RecordedCases) -> Iterator[tuple[object, object]]:
    """The scores of a row. Their further keys, such as the reason, stay in the variable metrics_data."""
    for metric in map(as_map, as_list(row.peek(*_keys("metrics_data")))):
        name, success, score = score_name(metric, "name"), metric.get("success"), score_number(metric.get("score"))
        yield name, metric.get("score")
        if not isinstance(name, str):
            continue
        plain = _plain(name)
        cases.lower |= {name} if plain in _LOWER else set()
        cases.undirected |= {name} if plain in _VARYING else set()
        if score is not None:
            verdict = success if isinstance(success, bool) else None
            cases.verdicts[name].add(score, as_number(metric.get("threshold")), verdict, row.where)


def _rows(path: Path, ledger: Ledger) -> Iterator[SourceRow]:
    if path.suffix.lower() != ".json" or begins_with(path, b"["):
        yield from read_rows(path, ledger)
        return
    keys = document_values(path)
    place = "testRunData." if "testRunData" in keys else ""
    below = document_values(path, "testRunData") if place else keys
    lists = [name for name in _LISTS if name in below]
    if not lists:
        if {"testRunLink", "testRunData"} & set(keys):
            hint = "the whole run is in .latest_run_full.json beside it"
            raise UserError(Problem("it has only a link to a run, no cases", shown(path), hint))
        what = f"it has none of {', '.join(_LISTS)}"
        raise UserError(Problem(f"it is not a run of deepeval: {what}", shown(path), "goldens are a list of objects"))
    leave_document_keys(path, below, lists, ledger)
    for name in lists:
        yield from read_objects(path, f"{place}{name}", ledger)


def _case(row: Columns, ledger: Ledger) -> dict[str, object]:
    is_talk = "turns" in row or isinstance(row.peek("scenario"), str)
    case = _conversation(row, ledger) if is_talk else _single(row)
    about = [row.take(parsed_object, *_keys(name)) or {} for name in ("additional_metadata", "metadata")]
    about.append(present(**{name: row.get(*_keys(name)) for name in _ABOUT}))
    return case | present(
        id=row.case_id("id"),
        metadata=joined(as_map(case.get("metadata")), *about) or None,
        group=row.take(plain_text, *_keys("source_file")),
        vars=row.take(parsed_object, *_keys("custom_column_key_values")),
        tags=row.tags("tags"),
    )


def _single(row: Columns) -> dict[str, object]:
    question = row.take(plain_text, "input")
    if question is None:
        raise Untranslatable("its `input` is not text", "give it one")
    answer_keys = _keys("actual_output")
    answer = row.take(plain_text, *answer_keys)
    if answer is None and row.peek(*answer_keys) is None and row.recorded_answer(*answer_keys) == "":
        answer = ""
    retrieved, context = row.take(_passages, *_RETRIEVED), row.take(_passages, "context")
    return present(
        question=question,
        answer=answer,
        reference=row.take(plain_text, *_keys("expected_output"), "expected"),
        contexts=context if retrieved is None else retrieved,
        ideal_contexts=context if retrieved is not None and context and context != retrieved else None,
        actual=row.take(_calls, *_CALLED),
        expected=row.take(_calls, *_keys("expected_tools")),
    )


def _conversation(row: Columns, ledger: Ledger) -> dict[str, object]:
    """Turns as messages with their contexts, and the assistant's last as the answer; or a scenario without turns."""
    listed = as_list(parsed(row.peek("turns")))
    if not listed and row.peek("scenario"):
        parts = {"scenario": "scenario", "persona": "user_description", "goal": "expected_outcome"}
        return present(**{name: row.take(plain_text, *_keys(key)) for name, key in parts.items()})
    row.get("turns")
    turns = [_turn(turn) for turn in read_turns(map(_with_calls, listed), ledger, row.where)]
    hint = "run the conversation first: evalflow asks a target at each turn of a user"
    case, about = conversation_case(turns, hint)
    contexts = about.pop("contexts", None)
    contexts = row.take(_passages, "context") if contexts is None else contexts
    return case | present(actual=steps_in(turns) or None, contexts=contexts, metadata=about or None)


def _with_calls(turn: object) -> object:
    """A turn with its tool calls in chat format; deepeval's own keys are kept beside them."""
    message = as_map(turn)
    key = next((name for name in _CALLED if as_list(message.get(name))), None)
    calls = plain_calls(message[key]) if key else None
    return {**message, "tool_calls": calls} if calls else turn


def _turn(message: Message) -> Message:
    """The message with its contexts in evalflow's place."""
    about = as_map(message.metadata)
    passages = next((_passages(about[name]) for name in _RETRIEVED if name in about), None)
    if passages is None:
        return message
    kept = {name: part for name, part in about.items() if name not in _RETRIEVED}
    return replace(message, metadata={**kept, "contexts": passages})


def _passages(value: object) -> list[object] | None:
    """The passages of a list, or of a text that joins them; None for anything else."""
    contexts = parsed(value)
    passages = [_passage(item) for item in (_split(contexts) if isinstance(contexts, str) else as_list(contexts))]
    return None if not isinstance(contexts, str | list) or None in passages else passages


def _split(cell: str) -> list[str]:
    """Split the passages that deepeval joined; the whole cell if its lines are not passages, as in a table."""
    parts = cell.split("|")
    is_text = any(not part.strip() or part != part.strip("\n") for part in parts)
    return [cell] if is_text else [part.strip() for part in parts]


def _passage(value: object) -> object:
    """A passage as a text, or with its source; None for anything else."""
    if isinstance(value, str):
        marked = _SOURCE.fullmatch(value)
        return {"text": marked["text"], "path": marked["path"]} if marked else value
    source = as_map(value).get("source")
    if not (source is None or isinstance(source, str)):
        return None
    named = passage(value, ("context", "text", "content"), ("source",))
    return {name: part for name, part in as_map(named).items() if name != "source"} or None


def _calls(value: object) -> list[dict[str, object]] | None:
    calls = parsed(value)
    if isinstance(calls, str):
        return [{"name": name.strip()} for name in calls.split(";") if name.strip()]
    return plain_calls(calls)
