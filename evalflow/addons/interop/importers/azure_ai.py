"""Import of files of Azure AI evaluation and prompt flow: data, rows with scores, and results of evaluations.

Columns are inputs.NAME and outputs.NAME, or keys of the objects `inputs` and `outputs`. An evaluator's score is
outputs.EVALUATOR.METRIC; its reason, threshold and result are beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns, is_missing, joined
from evalflow.addons.interop.importers.conversation import (
    HISTORY,
    are_messages,
    conversation_case,
    history_in,
    message_rows,
    passage,
    read_turns,
)
from evalflow.addons.interop.importers.exports import answer_of, asks_nothing, input_of, reference_of
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.readers import parsed
from evalflow.addons.interop.importers.recorded import Counterparts, RecordedCases, recorded_cases
from evalflow.addons.interop.importers.scores import score_name, score_number
from evalflow.addons.interop.importers.sources import begins_with, leave_document_keys, read_objects, read_rows
from evalflow.datasets.json_files import document_values
from evalflow.datasets.sources import SourceRow
from evalflow.values.jsonvalues import as_list, as_map, as_number, present

_ASKED = ("query", "question", "chat_input", "user_input", "input", "prompt", "text")
_SAID = ("response", "answer", "chat_output", "output", "completion", "result")
_REFERENCE = ("ground_truth", "expected_response", "expected_output", "reference")
_CONTEXTS = ("context", "contexts", "documents", "retrieved_documents")
_ID = ("id", "case_id", "line_number")
_ABOUT_A_SCORE = re.compile(
    r".*_(?:threshold|tokens|finish_reason|model|sample_input|sample_output|label|reason|result|passed|details|status)"
)
_LOWER = frozenset(
    {
        "violence",
        "sexual",
        "self_harm",
        "hate_unfairness",
        "hate_fairness",
        "protected_material",
        "xpia",
        "code_vulnerability",
        "ungrounded_attributes",
        "indirect_attack",
    }
)
_RESULTS: Mapping[object, bool] = {"pass": True, "fail": False, True: True, False: False}
_HINT = "import the rows that `evaluate(..., output_path=...)` wrote, or the data, with a column query or question"
_GRADE = ", a share instead of a grade from 1 to 5"
_COUNTERPARTS = Counterparts(
    like={"f1_score": "token_f1", "meteor_score": "meteor"},
    hints={
        "groundedness": f"metric=faithfulness{_GRADE}",
        "relevance": f"metric=relevance{_GRADE}",
        "retrieval": f"metric=context_precision{_GRADE}",
        "coherence": "metric=coherence, which has another scale",
        "fluency": "metric=fluency, which has another scale",
        "similarity": "metric=semantic_similarity, or metric=factual_correctness",
        "response_completeness": "metric=answer_completeness",
        "bleu_score": "metric=bleu, which uses another smoothing",
        "intent_resolution": "metric=task_completion",
        "task_adherence": "metric=task_completion",
        "tool_call_accuracy": "metric=[tool_choice,argument_correctness]",
    },
)


def read_azure_ai(source: ImportSource) -> ImportedConfig:
    """Import one file; UserError if it has no rows, or none has a question. Broken rows are listed."""
    path = source.file(hint=_HINT)
    is_table = path.suffix.lower() == ".csv"
    with recorded_cases(source, "Azure AI", "azure_ai", _COUNTERPARTS) as cases:
        for item in _rows(path, cases.ledger):
            row = Columns(_flat(item.data, is_table), item.where)
            cases.take(row, partial(_case, row, cases.ledger), list(_scores(row, cases)), _HINT)
    return cases.imported


def _rows(path: Path, ledger: Ledger) -> Iterator[SourceRow]:
    if path.suffix.lower() == ".json" and begins_with(path, b"{"):
        keys = document_values(path)
        if "rows" in keys:
            leave_document_keys(path, keys, ("rows",), ledger)
            yield from read_objects(path, "rows", ledger)
            return
    yield from read_rows(path, ledger, broken=ledger.leave_broken)


def _flat(data: Mapping[str, object], is_table: bool) -> dict[str, object]:
    """The row with its columns as inputs.NAME and outputs.NAME; columns of plain data are inputs."""
    columns: dict[str, object] = {}
    cells = {name: _cell(value) if is_table else value for name, value in data.items()}
    is_plain = not any(name.partition(".")[0] in ("inputs", "outputs", "datasource_item") for name in cells)
    for name, value in cells.items():
        side = {"inputs": "inputs", "outputs": "outputs", "datasource_item": "inputs"}.get(name)
        if side and isinstance(value, Mapping):
            for key, inner in as_map(value).items():
                columns |= _spread(f"{side}.{key}", inner) if side == "outputs" else {f"{side}.{key}": inner}
        else:
            columns[f"inputs.{name}" if is_plain and name != "line_number" else name] = value
    return columns


def _cell(value: object) -> object:
    return value if isinstance(value, str) and value.startswith('"') else parsed(value)


def _spread(name: str, value: object) -> dict[str, object]:
    """The parts of an evaluator's output, each under its own name."""
    parts = as_map(value)
    is_evaluator = any(score_number(part) is not None and not isinstance(part, str) for part in parts.values())
    return {f"{name}.{key}": part for key, part in parts.items()} if is_evaluator else {name: value}


def _scores(row: Columns, cases: RecordedCases) -> Iterator[tuple[object, object]]:
    """The scores of a row, with the evaluators' verdicts; reasons stay in the variable `outputs`."""
    for place in row.declared:
        score = row.peek(place)
        evaluator, _, metric = place.removeprefix("outputs.").rpartition(".")
        name = metric if not evaluator or metric.startswith(evaluator) else f"{evaluator} {metric}"
        if not (name in cases.scores.names if score is None else _is_score(row, place, score)):
            continue
        number = score_number(score)
        if number is not None:
            row.get(place)
            base = place if f"{place}_result" in row else place.removesuffix("_score")
            success, threshold = row.peek(f"{base}_result"), as_number(row.peek(f"{base}_threshold"))
            verdict = _RESULTS.get(success) if isinstance(success, str | bool) else None
            _judge(cases, name, number, threshold, verdict, row.where)
        yield name, score
    for item in as_list(row.peek("results")):
        result = as_map(item)
        named, number = score_name(result, "metric", "name"), score_number(result.get("score"))
        passed = result.get("passed")
        verdict = passed if isinstance(passed, bool) else None
        if number is not None and isinstance(named, str):
            _judge(cases, named, number, as_number(result.get("threshold")), verdict, row.where)
        yield named, result.get("score")


def _judge(
    cases: RecordedCases, name: str, score: float, threshold: float | None, success: bool | None, where: str
) -> None:
    cases.lower |= {name} if name.rpartition(" ")[2].removesuffix("_score") in _LOWER else set()
    cases.verdicts[name].add(score, threshold, success, where)


def _is_score(row: Columns, place: str, value: object) -> bool:
    """Whether a column is an evaluator's score, not a remark on it or a copy under an older name."""
    key = place.removeprefix("outputs.")
    metric = key.rpartition(".")[2]
    if key == place or key in _SAID or key in _ID or _ABOUT_A_SCORE.fullmatch(metric):
        return False
    newer = place.removesuffix(metric) + metric.removeprefix("gpt_")
    if newer != place and row.peek(newer) == value:
        row.get(place)
        return False
    is_number = isinstance(value, int | float) or (isinstance(value, str) and score_number(value) is not None)
    return is_number or (f"{place}_threshold" in row and f"{place}_score" not in row)


def _case(row: Columns, ledger: Ledger) -> dict[str, object]:
    about: dict[str, object] = {}
    talk = parsed(row.peek("inputs.conversation"))
    if as_list(as_map(talk).get("messages")):
        row.get("inputs.conversation")
        case = _conversation(as_map(talk), ledger, row.where)
    else:
        case = _single(row, ledger, about)
    reference = row.get(*(f"inputs.{name}" for name in _REFERENCE))
    if reference is not None:
        case |= reference_of(reference, about, "ground_truth")
    case |= present(
        id=row.case_id(*(f"inputs.{name}" for name in _ID), *_ID),
        metadata=joined(as_map(case.get("metadata")), about) or None,
    )
    rest = row.rest()
    kept = {name.removeprefix("inputs."): value for name, value in rest.items() if not name.startswith("outputs.")}
    outputs = {name.removeprefix("outputs."): value for name, value in rest.items() if name.startswith("outputs.")}
    kept |= {"outputs": outputs} if outputs else {}
    return case | ({"vars": joined(as_map(case.get("vars")), kept)} if kept else {})


def _single(row: Columns, ledger: Ledger, about: dict[str, object]) -> dict[str, object]:
    asked = row.get(*(f"inputs.{name}" for name in _ASKED))
    if asked is None:
        raise Untranslatable(f"it has none of {', '.join(_ASKED)} among its inputs")
    case = input_of(asked, ledger, row.where)
    if asks_nothing(case):
        raise Untranslatable("its question is empty")
    answer = row.recorded_answer(*(f"{side}.{name}" for side in ("outputs", "inputs") for name in _SAID))
    if answer is not None:
        turns = [_turn(item) for item in as_list(answer)] if are_messages(answer) else answer
        case |= answer_of(turns, about, ledger, row.where)
    places = (f"{side}.{name}" for side in ("inputs", "outputs") for name in _CONTEXTS)
    case |= present(contexts=row.take(_passages, *places))
    names = {name: row.peek(f"inputs.{name}") for name in HISTORY}
    name, history = ("", []) if "messages" in case else history_in(names, ledger, row.where)
    if history:
        row.get(f"inputs.{name}")
        case["history"] = history
    return case


def _conversation(talk: Mapping[str, object], ledger: Ledger, where: str) -> dict[str, object]:
    """Messages, each with its contexts. The assistant's last message is the answer; its contexts are the case's."""
    turns = read_turns([_turn(message) for message in as_list(talk["messages"])], ledger, where)
    case, about = conversation_case(turns)
    steps = message_rows(turns) if any(turn.tool_calls for turn in turns) else None
    contexts = about.pop("contexts", None)
    contexts = _passages(talk.get("context")) if contexts is None else contexts
    about |= present(conversation=Columns({**talk, "messages": None, "context": None}, where).rest() or None)
    return case | present(actual=steps, contexts=contexts, metadata=about or None)


def _turn(message: object) -> object:
    """A message with contexts in evalflow's place, and tool results in the form of chat APIs."""
    turn = dict(as_map(message))
    passages = _passages(turn.get("context"))
    if passages is not None:
        turn |= {"metadata": {**as_map(turn.get("metadata")), "contexts": passages}}
        turn.pop("context")
    results = [as_map(part) for part in as_list(turn.get("content")) if "tool_result" in as_map(part)]
    if results:
        contents = [part["tool_result"] for part in results]
        turn |= {"role": "tool", "content": contents[0] if len(contents) == 1 else contents}
        turn |= {"tool_call_id": results[0]["tool_call_id"]} if "tool_call_id" in results[0] else {}
    return turn


def _passages(value: object) -> list[object] | None:
    """The passages of a context: a text, texts, or citations with their sources; None for anything else."""
    if is_missing(value):
        return None
    if isinstance(value, str):
        return [value]
    listed = as_map(value).get("citations", value)
    passages = [passage(item, ("content", "text"), ("url", "id", "document_id")) for item in as_list(listed)]
    return passages if isinstance(listed, list) and None not in passages else None
