"""The exports of Langfuse, LangSmith, Braintrust and Phoenix, each as a table of the names that it uses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from evalflow.importers.exports import Platform, Row, Scores, field_of, number_of, parsed
from evalflow.importers.recorded import PersonsScore
from evalflow.jsonvalues import as_list, as_map

# Lists in Langfuse's rows that are no scores; scores are columns with lists of values.
_LANGFUSE_LISTS = frozenset({"tags", "comments", "observations", "scores", "traceTags", "toolCallNames", "toolCalls",
                             "input", "output", "expectedOutput", "expected_output", "metadata"})  # fmt: skip


def _langfuse_scores(row: Row) -> Scores:
    for one in as_list(parsed(row.get("scores"))):
        known = as_map(one)
        kind = str(known.get("dataType", known.get("data_type", "")))
        label = known.get("stringValue", known.get("string_value"))
        value = known.get("value") if kind in ("", "NUMERIC", "BOOLEAN") or label is None else label
        by = known.get("authorUserId", known.get("author_user_id"))
        at = known.get("timestamp", known.get("createdAt", known.get("created_at")))
        is_label = known.get("source") == "ANNOTATION"
        found = PersonsScore(value, by, known.get("comment"), at) if is_label else value
        yield str(known.get("name") or "score"), found
    for column, cell in row.items():
        values = as_list(parsed(cell))
        if column not in _LANGFUSE_LISTS and values:
            yield column, values


def _langfuse_scored(row: Row) -> str:
    """The trace that a row of a file of scores is about."""
    is_score = "name" in row and "value" in row and ("dataType" in row or "data_type" in row)
    return str(row.get("traceId", row.get("trace_id")) or "") if is_score else ""


def _langfuse_part(row: Row) -> str:
    if _langfuse_scored(row):
        return "it is a score without its trace"
    if field_of(row, ("parentObservationId", "parent_observation_id")) is not None:
        return "it is a step of a trace"
    return "it is archived" if row.get("status") == "ARCHIVED" else ""


LANGFUSE = Platform(
    tool="Langfuse",
    column="langfuse",
    asked=("input",),
    said=("output",),
    expected=("expectedOutput", "expected_output"),
    scores=_langfuse_scores,
    hint="export the table of traces, which has a column for each score, or a dataset's items; of traces and scores in "
    "two files, import their folder",
    scored=_langfuse_scored,
    scores_in="scores",
    part_of=_langfuse_part,
    group=("sessionId", "session_id"),
    failure=("statusMessage", "status_message"),
    seconds=lambda row: row.get("latency"),
    dollars=lambda row: row.get("totalCost", row.get("total_cost")),
    others=("scores", "latency", "totalCost", "total_cost"),
    encoded=True,
)


def _langsmith_scores(row: Row) -> Scores:
    for name, stats in as_map(parsed(row.get("feedback_stats"))).items():
        known = as_map(stats)
        yield name, known.get("avg") if known else stats
    feedback = parsed(row.get("feedback"))
    for one in as_list(feedback):
        known = as_map(one)
        score = known.get("value") if known.get("score") is None else known["score"]
        source = as_map(parsed(known.get("feedback_source")))
        by = source.get("user_name") or source.get("user_id")
        label = PersonsScore(score, by, known.get("comment"), known.get("created_at"))
        yield str(known.get("key") or "score"), label if source.get("type") == "app" else score
    yield from as_map(feedback).items()
    yield from ((name[9:], cell) for name, cell in row.items() if name.startswith("feedback.") and cell != "")


def _langsmith_scored(row: Row) -> str:
    """The run that a row of a file of feedback is about."""
    return str(row.get("run_id") or "") if "key" in row and ("score" in row or "value" in row) else ""


def _langsmith_part(row: Row) -> str:
    parent = field_of(row, ("parent_run_id",))
    return "it is a step of a run" if parent is not None else ""


def _between(start: Any, end: Any) -> float | None:
    """Seconds between two times, as ISO 8601 or in seconds."""
    if number_of(start) is not None and number_of(end) is not None:
        return float(end) - float(start)
    try:
        return (datetime.fromisoformat(str(end)) - datetime.fromisoformat(str(start))).total_seconds()
    except (ValueError, TypeError):
        return None


LANGSMITH = Platform(
    tool="LangSmith",
    column="langsmith",
    asked=("inputs", "input"),
    said=("outputs", "output"),
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
    seconds=lambda row: row.get("execution_time", _between(row.get("start_time"), row.get("end_time"))),
    dollars=lambda row: row.get("total_cost"),
    others=("feedback", "feedback_stats", "execution_time", "start_time", "end_time", "total_cost"),
)


def _braintrust_scores(row: Row) -> Scores:
    yield from as_map(parsed(row.get("scores"))).items()
    yield from ((name[7:], cell) for name, cell in row.items() if name.startswith("scores.") and cell != "")


def _braintrust_part(row: Row) -> str:
    root, span = row.get("root_span_id"), row.get("span_id")
    is_root = row.get("is_root", not root or not span or root == span)
    return "" if str(is_root).lower() != "false" else "it is a step of a case"


def _braintrust_seconds(row: Row) -> Any:
    metrics = as_map(parsed(row.get("metrics")))
    return metrics.get("duration", _between(metrics.get("start"), metrics.get("end")))


BRAINTRUST = Platform(
    tool="Braintrust",
    column="braintrust",
    asked=("input",),
    said=("output",),
    expected=("expected",),
    scores=_braintrust_scores,
    hint="export an experiment or a dataset as JSON or CSV",
    part_of=_braintrust_part,
    lists=("events", "objects", "rows"),
    group=("dataset_record_id",),
    seconds=_braintrust_seconds,
    dollars=lambda row: as_map(parsed(row.get("metrics"))).get("estimated_cost"),
    others=("scores", "metrics"),
)


def _phoenix_scores(row: Row) -> Scores:
    for one in as_list(parsed(row.get("annotations"))):
        known = as_map(one)
        result = {**known, **as_map(known.get("result"))}
        score = result.get("label") if result.get("score") is None else result["score"]
        label = PersonsScore(score, known.get("user_id"), result.get("explanation"), known.get("created_at"))
        yield str(known.get("name") or "score"), label if known.get("annotator_kind") == "HUMAN" else score
    for column, cell in row.items():
        name = column.removeprefix("annotation_").removesuffix("_score")
        if column == f"annotation_{name}_score":
            label = row.get(f"annotation_{name}_label")
            if cell not in (None, "") or label not in (None, ""):
                yield name, label if cell in (None, "") else cell


PHOENIX = Platform(
    tool="Phoenix",
    column="phoenix",
    asked=("input",),
    said=("output",),
    expected=("reference_output", "expected"),
    scores=_phoenix_scores,
    hint="download a dataset's examples, or an experiment, as JSON or CSV",
    runs=("reference_output", "repetition_number", "annotations", "error"),
    lists=("data.examples", "examples"),
    number=("example_id", "id"),
    group=("example_id",),
    seconds=lambda row: _thousandth(row.get("latency_ms")),
    others=("annotations", "annotation", "latency_ms"),
)


def _thousandth(value: Any) -> float | None:
    found = number_of(value)
    return None if found is None else found / 1000


PLATFORMS: Mapping[str, Platform] = {
    "braintrust": BRAINTRUST,
    "langfuse": LANGFUSE,
    "langsmith": LANGSMITH,
    "phoenix": PHOENIX,
}
