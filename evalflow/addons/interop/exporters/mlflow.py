"""Send a finished run to MLflow: params, metrics and the report; for each answer a trace with feedback."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from evalflow.addons.interop.exporters.finished import FinishedRun, environment, expect_same
from evalflow.addons.interop.exporters.otel_events import shortened
from evalflow.errors import Problem, UserError
from evalflow.extras import packages_of
from evalflow.records.manifest import ExportFacts
from evalflow.redaction import public_address
from evalflow.report.results_csv import AnsweredCase, Score

_RUN, _DIGEST, _WHOLE = "evalflow.run_id", "evalflow.digest", "evalflow.whole"
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",  # otherwise nobody would learn what failed
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
"""MLflow's environment variables, unless the user has set them."""
_LONGEST_PARAM = 6000
_PARAMS = 100  # in a request
_TRACES = 100  # in a page


def send_to_mlflow(run: FinishedRun, uri: str | None, experiment: str, *, again: bool) -> ExportFacts:
    """Send a run that MLflow does not have; the remains of an earlier attempt are replaced.

    UserError if MLflow has the run with other results, unless `again`.
    """
    with _client(uri) as mlflow:
        try:
            return _MlflowExport(run, mlflow, experiment).send(again=again)
        except mlflow.exceptions.MlflowException as error:
            return _facts(run, mlflow, 0, why=" ".join(str(error).split())[:500])


@contextmanager
def _client(uri: str | None) -> Generator[Any]:
    if uri is not None and "@" in uri:
        hint = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or the whole address in MLFLOW_TRACKING_URI"
        raise UserError(Problem("an address on the command line has no password", "--to", f"set {hint}"))
    with environment(_ENVIRONMENT):
        with packages_of("mlflow", "export mlflow"):
            mlflow: Any = importlib.import_module("mlflow")
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        if uri is not None:
            mlflow.set_tracking_uri(uri)
        yield mlflow


def _facts(
    run: FinishedRun, mlflow: Any, sent: int, *, run_id: str | None = None, why: str | None = None
) -> ExportFacts:
    return run.sent("mlflow", public_address(mlflow.get_tracking_uri()), sent, run_id, why)


class _MlflowExport:
    def __init__(self, run: FinishedRun, mlflow: Any, experiment: str) -> None:
        self._run = run
        self._mlflow = mlflow
        self._client = mlflow.MlflowClient()
        self._experiment = mlflow.set_experiment(experiment).experiment_id

    def send(self, *, again: bool) -> ExportFacts:
        earlier = self._client.search_runs([self._experiment], f"tags.`{_RUN}` = '{self._run.manifest.run_id}'")
        whole = next((entry for entry in earlier if _WHOLE in entry.data.tags), None)
        if whole is not None and not again:
            expect_same(whole.data.tags.get(_DIGEST), self._run, "mlflow", whole.info.run_id)
            return _facts(self._run, self._mlflow, self._run.count_scores(), run_id=whole.info.run_id)
        for item in earlier:
            self._delete(item.info.run_id)
        tags = {**self._run.tags, _DIGEST: self._run.digest}
        with self._mlflow.start_run(run_name=self._run.manifest.run_id, tags=tags) as active:
            self._log_results()
            for row in self._run.rows():
                self._log_answer(row)
            return self._counted(active.info.run_id)

    def _delete(self, run_id: str) -> None:
        while traces := self._traces(run_id):
            self._client.delete_traces(self._experiment, trace_ids=[trace.info.trace_id for trace in traces])
        self._client.delete_run(run_id)

    def _traces(self, run_id: str, page: str | None = None) -> Any:
        return self._client.search_traces(
            locations=[self._experiment], run_id=run_id, max_results=_TRACES, page_token=page, include_spans=False
        )

    def _log_results(self) -> None:
        settings = [(name, text[:_LONGEST_PARAM]) for name, text in self._run.settings().items()]
        for start in range(0, len(settings), _PARAMS):
            self._mlflow.log_params(dict(settings[start : start + _PARAMS]))
        numbers = [*self._run.numbers().items()]
        for start in range(0, len(numbers), _PARAMS):
            self._mlflow.log_metrics(dict(numbers[start : start + _PARAMS]))
        for file in self._run.files():
            self._mlflow.log_artifact(str(file))

    def _log_answer(self, row: AnsweredCase) -> None:
        case = row.case
        with self._mlflow.start_span("answer") as span:
            if self._run.text == "all":
                span.set_inputs({"question": case.question})
                span.set_outputs(row.answer_text)
            tags = {"dataset": case.dataset, "case.id": case.id, "target": row.target}
            tags["target_repeat"] = str(row.target_repeat)
            self._mlflow.update_current_trace(tags={f"evalflow.{name}": text for name, text in tags.items()})
            for score in row.scores:
                if score["member_of"] is None:
                    self._log_score(span.trace_id, score)

    def _log_score(self, trace_id: str, score: Score) -> None:
        """Log a cell. Without a score it has no value, but a state; an error uses MLflow's own state."""
        entities, texts = self._mlflow.entities, self._run.text != "none"
        judge, failed = score["judge"], score["status"] == "error"
        error = failed and entities.AssessmentError(
            error_code=score["error_type"] or "error", error_message=shortened(score["error"] or "") if texts else ""
        )
        about = {"state": score["status"], "repeat": score["repeat"], "threshold": score["threshold"]}
        about |= {"passed": score["passed"], "judge": judge}
        self._mlflow.log_feedback(
            trace_id=trace_id,
            name=score["metric"],
            value=score["score"],
            error=error or None,
            rationale=shortened(score["reason"]) if texts and score["reason"] else None,
            source=entities.AssessmentSource(
                source_type="LLM_JUDGE" if self._run.is_model(judge) else "CODE", source_id=judge or "evalflow"
            ),
            metadata={f"evalflow.{name}": str(value) for name, value in about.items() if value is not None},
        )

    def _counted(self, run_id: str) -> ExportFacts:
        """Count what MLflow has received, since its client only logs a line if a trace cannot be sent."""
        sent = sum(len(trace.info.assessments) for trace in self._all_traces(run_id))
        if sent == self._run.count_scores():
            self._mlflow.set_tag(_WHOLE, "true")
            return _facts(self._run, self._mlflow, sent, run_id=run_id)
        return _facts(self._run, self._mlflow, sent, run_id=run_id, why="MLflow did not take all traces; see its log")

    def _all_traces(self, run_id: str) -> Iterator[Any]:
        page: str | None = None
        while True:
            traces = self._traces(run_id, page)
            yield from traces
            page = traces.token
            if not page:
                return
