"""The exports of Langfuse, LangSmith, Braintrust, Phoenix and MLflow, each as a table of names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from math import inf

from evalflow.addons.interop.importers.columns import Columns, number_of
from evalflow.addons.interop.importers.exports import CONTEXTS, Platform, Scores
from evalflow.addons.interop.importers.mlflow import MLFLOW
from evalflow.addons.interop.importers.readers import parsed
from evalflow.addons.interop.importers.scores import PersonsScore, score_name, score_number
from evalflow.values.jsonvalues import as_list, as_map

# Lists in Langfuse's rows that are not scores; scores are columns with lists of values.
_LANGFUSE_LISTS = frozenset(
    {
        "tags",
        "comments",
        "observations",
        "scores",
        "traceTags",
        "toolCallNames",
        "toolCalls",
        "input",
        "output",
        "expectedOutput",
        "expected_output",
        "metadata",
        *CONTEXTS,
    }
)


def _langfuse_scores(row: Columns) -> Scores:
    for item in as_list(parsed(row.peek("scores"))):
        declared = as_map(item)
        kind = declared.get("dataType", declared.get("data_type", ""))
        label = declared.get("stringValue", declared.get("string_value"))
        value = declared.get("value") if kind in ("", "NUMERIC", "BOOLEAN") or label is None else label
        by = declared.get("authorUserId", declared.get("author_user_id"))
        at = declared.get("timestamp", declared.get("createdAt", declared.get("created_at")))
        is_label = declared.get("source") == "ANNOTATION"
        score = PersonsScore(value, by, declared.get("comment"), at) if is_label else value
        yield score_name(declared, "name"), score
    for column in row.names:
        values = as_list(parsed(row.peek(column)))
        if column not in _LANGFUSE_LISTS and values and not any(isinstance(entry, dict | list) for entry in values):
            yield column, _scored(row, column, values)


def _langfuse_scored(row: Columns) -> str:
    """The id of the trace that a row of scores is about."""
    is_score = row.declares("name") and row.declares("value") and any(map(row.declares, ("dataType", "data_type")))
    return str(row.peek("traceId", "trace_id") or "") if is_score else ""


def _langfuse_part(row: Columns) -> str:
    row.leave("it is a step of the trace", "observations", hint="import them as traces: docs/import.md#traces")
    if _langfuse_scored(row):
        return "it is a score without its trace"
    if row.peek("parentObservationId", "parent_observation_id") is not None:
        return "it is a step of a trace"
    return "it is archived" if row.peek("status") == "ARCHIVED" else ""


def _scored(row: Columns, column: str, value: object) -> object:
    """The score in a column, read if it is a number, else kept unchanged."""
    if score_number(value) is not None:
        row.get(column)
    return value


def _spread_scores(row: Columns, start: str) -> Scores:
    for name in row.names:
        if name.startswith(start):
            yield name.removeprefix(start), _scored(row, name, row.peek(name))


LANGFUSE = Platform(
    tool="Langfuse",
    column="langfuse",
    asked=("input",),
    answer=("output",),
    expected=("expectedOutput", "expected_output"),
    scores=_langfuse_scores,
    hint="export the table of traces, which has a column for each score, or a dataset's items; of traces and scores in "
    "two files, import their folder",
    scored=_langfuse_scored,
    scores_in="scores",
    part_of=_langfuse_part,
    group=("sessionId", "session_id"),
    failure=("statusMessage", "status_message"),
    seconds=lambda row: row.number("latency"),
    dollars=lambda row: row.number("totalCost") if "totalCost" in row else row.number("total_cost"),
    encoded=True,
)


def _langsmith_scores(row: Columns) -> Scores:
    for name, stats in as_map(parsed(row.peek("feedback_stats"))).items():
        declared = as_map(stats)
        yield name, declared.get("avg") if declared else stats
    feedback = parsed(row.peek("feedback"))
    for item in as_list(feedback):
        declared = as_map(item)
        score = declared.get("value") if declared.get("score") is None else declared["score"]
        source = as_map(parsed(declared.get("feedback_source")))
        by = source.get("user_name") or source.get("user_id")
        label = PersonsScore(score, by, declared.get("comment"), declared.get("created_at"))
        yield score_name(declared, "key"), label if source.get("type") == "app" else score
    yield from as_map(feedback).items()
    yield from _spread_scores(row, "feedback.")


def _langsmith_scored(row: Columns) -> str:
    """The id of the run that a row of feedback is about."""
    is_score = row.declares("key") and (row.declares("score") or row.declares("value"))
    return str(row.peek("run_id") or "") if is_score else ""


def _langsmith_part(row: Columns) -> str:
    row.leave("it is a part of the trace", "serialized", "events", "child_runs", "child_run_ids")
    return "" if row.peek("parent_run_id") is None else "it is a step of a run"


def _between(start: object, end: object) -> float | None:
    """Seconds between two times, as ISO 8601 or in seconds; None for anything else, or in the wrong order."""
    begun, ended = number_of(start), number_of(end)
    if begun is not None and ended is not None:
        seconds = ended - begun
    elif isinstance(start, str) and isinstance(end, str):
        try:
            seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
        except (ValueError, TypeError):
            return None
    else:
        return None
    return seconds if 0 <= seconds < inf else None


def _langsmith_seconds(row: Columns) -> float | None:
    seconds = row.number("execution_time")
    return _between(row.peek("start_time"), row.peek("end_time")) if seconds is None else seconds


LANGSMITH = Platform(
    tool="LangSmith",
    column="langsmith",
    asked=("inputs", "input"),
    answer=("outputs", "output"),
    expected=("reference_outputs", "reference", "expected"),
    scores=_langsmith_scores,
    hint="export a dataset's examples, or a project's root runs, as JSON lines or CSV",
    scored=_langsmith_scored,
    scores_in="feedback",
    runs=("run_type", "trace_id", "reference_example_id", "feedback_stats", "feedback", "reference", "error"),
    part_of=_langsmith_part,
    lists=("examples", "runs"),
    number=("id", "run_id"),
    group=("reference_example_id", "example_id", "thread_id"),
    seconds=_langsmith_seconds,
    dollars=lambda row: row.number("total_cost"),
)


def _braintrust_scores(row: Columns) -> Scores:
    yield from as_map(parsed(row.peek("scores"))).items()
    yield from _spread_scores(row, "scores.")


def _braintrust_part(row: Columns) -> str:
    root, span, is_root = row.peek("root_span_id"), row.peek("span_id"), row.peek("is_root")
    is_step = root and span and root != span if is_root is None else str(is_root).lower() == "false"
    return "it is a step of a case" if is_step else ""


def _braintrust_seconds(row: Columns) -> float | None:
    metrics = as_map(parsed(row.peek("metrics")))
    seconds = number_of(metrics.get("duration"))
    return _between(metrics.get("start"), metrics.get("end")) if seconds is None else seconds


BRAINTRUST = Platform(
    tool="Braintrust",
    column="braintrust",
    asked=("input",),
    answer=("output",),
    expected=("expected",),
    scores=_braintrust_scores,
    hint="export an experiment or a dataset as JSON or CSV",
    part_of=_braintrust_part,
    lists=("events", "objects", "rows"),
    group=("dataset_record_id",),
    seconds=_braintrust_seconds,
    dollars=lambda row: number_of(as_map(parsed(row.peek("metrics"))).get("estimated_cost")),
)


def _phoenix_scores(row: Columns) -> Scores:
    for item in as_list(parsed(row.peek("annotations"))):
        annotation = as_map(item)
        result = {**annotation, **as_map(annotation.get("result"))}
        score = result.get("label") if result.get("score") is None else result["score"]
        label = PersonsScore(score, annotation.get("user_id"), result.get("explanation"), annotation.get("created_at"))
        is_label = annotation.get("annotator_kind") == "HUMAN"
        yield score_name(annotation, "name"), label if is_label else score
    pattern = re.compile(r"annotation_(.*)_(?:score|label)")
    for name in dict.fromkeys(match[1] for column in row.names if (match := pattern.fullmatch(column))):
        column = f"annotation_{name}_score"
        yield name, _scored(row, column, row.peek(column)) if column in row else row.peek(f"annotation_{name}_label")


PHOENIX = Platform(
    tool="Phoenix",
    column="phoenix",
    asked=("input",),
    answer=("output",),
    expected=("reference_output", "expected"),
    scores=_phoenix_scores,
    hint="download a dataset's examples, or an experiment, as JSON or CSV",
    runs=("reference_output", "repetition_number", "annotations", "error"),
    lists=("data.examples", "examples"),
    number=("example_id", "id"),
    group=("example_id",),
    seconds=lambda row: row.milliseconds("latency_ms"),
)


PLATFORMS: Mapping[str, Platform] = {
    "braintrust": BRAINTRUST,
    "langfuse": LANGFUSE,
    "langsmith": LANGSMITH,
    "mlflow": MLFLOW,
    "phoenix": PHOENIX,
}
