"""MLflow's files: records of evaluation datasets, tables of evaluations (mlflow.genai and mlflow.evaluate), traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from evalflow.addons.interop.importers.columns import Columns, is_missing
from evalflow.addons.interop.importers.exports import Platform, Scores
from evalflow.addons.interop.importers.ledger import Ledger
from evalflow.addons.interop.importers.readers import WRITE_TEXT, parsed, texts_in
from evalflow.addons.interop.importers.scores import PersonsScore, score_name
from evalflow.addons.interop.importers.sources import begins_with, read_document, read_objects, read_rows
from evalflow.datasets.json_files import document_values
from evalflow.datasets.sources import SourceRow
from evalflow.errors import Problem, UserError
from evalflow.paths import shown
from evalflow.values.jsonvalues import as_list, as_map, kind

_REFERENCES = ("expected_response", "expected_answer", "expected_output", "ground_truth", "answer", "target")
_YES = {"yes": 1.0, "no": 0.0}
_STEPS = "it is the steps of the trace"
_OTLP = "for tool calls and contexts, export the traces as OTLP: docs/import.md#traces"
_WRAPPED = "mlflow_wrapped"


def _rows(path: Path, ledger: Ledger) -> Iterator[SourceRow]:
    """The rows of a table, records or traces; a trace is a row with its request, response and assessments."""
    if path.suffix.lower() != ".json" or not begins_with(path, b"{"):
        yield from map(_prepared, read_rows(path, ledger))
        return
    keys = document_values(path)
    if {"info", "data"} <= set(keys):
        yield _prepared(SourceRow(shown(path), dict(as_map(read_document(path)))))
        return
    if {"columns", "data"} <= set(keys):
        yield from _of_columns(path)
        return
    place = next((name for name in ("traces", "records", "rows", "data") if name in keys), None)
    yield from map(_prepared, read_rows(path, ledger) if place is None else read_objects(path, place, ledger))


def _of_columns(path: Path) -> Iterator[SourceRow]:
    """A table in pandas' split format, as mlflow.evaluate logs it."""
    table = as_map(read_document(path))
    names = texts_in(table.get("columns")) if table.get("columns") else []
    if len(set(names or ())) < len(names or ()):
        raise UserError(Problem("`columns` names a column more than once", shown(path), "give each its own name"))
    for number, row in enumerate(as_list(table.get("data"))):
        cells = as_list(row)
        where = f"{shown(path)}:data[{number}]"
        if names is None or len(cells) != len(names):
            raise UserError(Problem("the row does not have one cell for each of `columns`", where))
        yield _prepared(SourceRow(where, dict(zip(names, cells, strict=True))))


def _prepared(row: SourceRow) -> SourceRow:
    data = row.data
    if isinstance(data.get("info"), Mapping):
        data = _of_trace(data)
    texts = ("inputs", "expectations", "assessments", "tags")  # Databricks and CSV keep them as JSON
    values = {name: parsed(value) if name in texts else value for name, value in data.items()}
    expected = dict(_expected(values.get("assessments")))
    values |= {"expectations": expected} if expected and is_missing(values.get("expectations")) else {}
    outputs = as_map(values.get("outputs"))
    return SourceRow(row.where, values | ({"outputs": outputs[_WRAPPED]} if set(outputs) == {_WRAPPED} else {}))


def _expected(assessments: object) -> Iterator[tuple[str, object]]:
    """The expectations among the assessments of a trace, by their names."""
    for assessment in map(as_map, as_list(assessments)):
        if isinstance(assessment.get("expectation"), Mapping):
            declared = as_map(assessment["expectation"])
            value = declared.get("value", parsed(as_map(declared.get("serialized_value")).get("value")))
            name = assessment.get("assessment_name") or assessment.get("name") or "expectation"
            if isinstance(name, str):
                yield name, value


def _of_trace(trace: Mapping[str, object]) -> dict[str, object]:
    """A trace as a row: its own data, and inputs and outputs of its outermost span."""
    info, data = as_map(trace["info"]), as_map(trace.get("data"))
    spans = [as_map(span) for span in as_list(data.get("spans"))]
    roots = [span for span in spans if is_missing(span.get("parent_span_id", span.get("parent_id")))]
    attributes = as_map(roots[0].get("attributes") if roots else None)
    request = parsed(attributes.get("mlflow.spanInputs", data.get("request")))
    response = parsed(attributes.get("mlflow.spanOutputs", data.get("response")))
    rest = {name: value for name, value in data.items() if name not in ("request", "response", "spans")}
    others = {name: value for name, value in trace.items() if name not in ("info", "data")}
    return {**others, **info, **rest, "request": request, "response": response, "spans": spans}


def _scores(row: Columns) -> Scores:
    """Scores of tables and assessments; people's scores are labels. MLflow's yes and no are 1 and 0."""
    row.leave(_STEPS, "spans", "trace", hint=_OTLP)
    named: set[str] = set()
    for column in row.declared:
        name, _, last = column.rpartition("/")
        if last in ("value", "score") and name and not name.startswith("expected_"):
            named.add(name)
            value = row.peek(column)
            number = _YES.get(value, value) if isinstance(value, str) else value
            if isinstance(number, int | float):
                row.get(column)
            yield name.removesuffix("/v1"), number
    for item in as_list(parsed(row.peek("assessments"))):
        assessment = as_map(item)
        name = score_name(assessment, "assessment_name", "name")
        if "feedback" not in assessment and "value" not in assessment:
            if not isinstance(name, str):  # an expectation
                row.leave(f"the name of an expectation is {kind(name)}, not text", "assessments", hint=WRITE_TEXT)
            continue
        value = as_map(assessment.get("feedback")).get("value", assessment.get("value"))
        source = as_map(assessment.get("source"))
        at = assessment.get("create_time", assessment.get("create_time_ms"))
        if source.get("source_type") == "HUMAN":
            yield name, PersonsScore(value, source.get("source_id"), assessment.get("rationale"), at)
        elif not (isinstance(name, str) and name in named):
            yield name, _YES.get(value, value) if isinstance(value, str) else value


def _seconds(row: Columns) -> float | None:
    for name in ("execution_duration_ms", "execution_duration"):
        if (seconds := row.milliseconds(name)) is not None:
            return seconds
    return row.number("latency")


MLFLOW = Platform(
    tool="MLflow",
    column="mlflow",
    asked=("inputs", "request", "request_preview", "question"),
    answer=("outputs", "response", "response_preview", "predictions"),
    expected=("expectations", "targets", "ground_truth", "expected_response"),
    scores=_scores,
    hint="export a dataset (dataset.to_df().to_json(..., orient='records')), a result (result.result_df), or traces",
    number=("dataset_record_id", "trace_id", "request_id", "client_request_id"),
    seconds=_seconds,
    references=_REFERENCES,
    opened=_rows,
)
