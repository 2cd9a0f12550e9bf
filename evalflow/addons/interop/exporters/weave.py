"""Send a finished run to W&B Weave: an evaluation with summary and report, and a prediction for each answer."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from evalflow.addons.interop.exporters.finished import FinishedRun, environment, expect_same
from evalflow.addons.interop.exporters.otel_events import shortened
from evalflow.errors import Problem, UserError
from evalflow.extras import packages_of
from evalflow.records.manifest import ExportFacts
from evalflow.redaction import public_address
from evalflow.report.results_csv import AnsweredCase, Score, by_column, columns_of_scores

_ENVIRONMENT = {
    "WANDB_ERROR_REPORTING": "false",
    "WEAVE_CAPTURE_CODE": "false",
    "WEAVE_IMPLICITLY_PATCH_INTEGRATIONS": "false",
    "WEAVE_PRINT_CALL_LINK": "false",
    "WEAVE_LOG_LEVEL": "ERROR",
    "WEAVE_RETRY_MAX_ATTEMPTS": "3",
}
"""MLflow's environment variables, unless the user has set them."""
_AROUND = 2  # calls of an evaluation besides those of its answers: the evaluation itself and its summary
_OF_ANSWER = 2  # and of an answer, besides one for each score


def send_to_weave(
    run: FinishedRun, address: str | None, project: str, begun: Callable[[ExportFacts], None], *, again: bool
) -> ExportFacts:
    """Send a run that Weave does not have according to run.json; the remains of an earlier attempt are deleted there.

    `begun` is called before sending, so that run.json records an attempt that is killed.
    """
    with _client(address, project) as (weave, client, where):
        earlier = next(
            (export for export in run.manifest.exports if (export.to, export.where) == ("weave", where)), None
        )
        if earlier is not None and not earlier.unsent and not again:
            expect_same(earlier.digest, run, "weave", str(earlier.id))
            return earlier
        if earlier is not None and earlier.id:
            client.delete_calls([earlier.id])
        return _WeaveExport(run, weave, client, where).send(begun)


@contextmanager
def _client(address: str | None, project: str) -> Generator[tuple[Any, Any, str]]:
    own = {} if address is None else {"WANDB_BASE_URL": address}
    with environment(_ENVIRONMENT, **own):
        with packages_of("weave", "export weave"):
            env: Any = importlib.import_module("weave.trace.env")
            weave: Any = importlib.import_module("weave")
        if not env.weave_wandb_api_key():  # otherwise its client would ask for one at the terminal
            what = f"no key for {public_address(env.wandb_base_url())} is set"
            raise UserError(Problem(what, "export weave", "set WANDB_API_KEY in the environment or in .env"))
        try:
            client = weave.init(project)
        except Exception as error:
            what = f"{public_address(env.wandb_base_url())} cannot be used: {_line(error)}"
            raise UserError(Problem(what, "export weave", "check --to, --project and WANDB_API_KEY")) from None
        yield weave, client, public_address(f"{env.wandb_frontend_base_url()}/{client.entity}/{client.project}")
        weave.finish()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


class _WeaveExport:
    def __init__(self, run: FinishedRun, weave: Any, client: Any, where: str) -> None:
        self._run = run
        self._weave = weave
        self._client = client
        self._where = where
        self._names = {key: columns[0] for key, columns in columns_of_scores(run.scores()).items()}

    def send(self, begun: Callable[[ExportFacts], None]) -> ExportFacts:
        run = self._run
        attributes = {**run.tags, "settings": run.settings()}
        for file in run.files():
            attributes[file.name] = self._weave.Content.from_path(file)
        logger = self._weave.EvaluationLogger(
            name=run.manifest.run_id,
            model={"name": run.manifest.target.name},
            dataset="+".join(run.manifest.datasets),
            eval_attributes=attributes,
        )
        call_id = str(logger.ui_url).rpartition("/")[2]
        begun(self._facts(0, call_id, "it is unfinished"))
        calls = _AROUND
        for row in run.rows():
            calls += _OF_ANSWER + self._log_answer(logger, row)
        logger.log_summary(run.numbers(), auto_summarize=False)
        self._client.flush()
        try:
            taken = self._count_calls(call_id)
        except Exception as error:  # whatever its HTTP client raises
            return self._facts(0, call_id, f"Weave does not report what it received: {_line(error)}")
        if taken == calls:
            return self._facts(run.count_scores(), call_id)
        return self._facts(0, call_id, f"Weave received {taken:,} of {calls:,} calls")

    def _log_answer(self, logger: Any, row: AnsweredCase) -> int:
        """Log an answer; returns the number of its scores."""
        case = row.case
        asked: dict[str, Any] = {"case": case.id, "dataset": case.dataset, "target_repeat": row.target_repeat}
        if self._run.text == "all":
            asked["question"] = case.question
        output = row.answer_text if self._run.text == "all" else None
        prediction = logger.log_prediction(inputs=asked, output=output)
        scores = by_column(row)
        for key, score in scores.items():
            prediction.log_score(self._names[key], self._details(score))
        prediction.finish()
        return len(scores)

    def _details(self, score: Score) -> Mapping[str, Any]:
        """A score with its state. Unknown values are left out, so a cell without a score has no value."""
        values = {"value": score["score"], "passed": score["passed"], "state": score["status"]}
        values |= {"threshold": score["threshold"], "judge": score["judge"], "error_type": score["error_type"]}
        if self._run.text != "none":
            values |= {key: score[key] and shortened(score[key]) for key in ("reason", "error")}
        return {key: value for key, value in values.items() if value is not None}

    def _count_calls(self, call_id: str) -> int:
        trace = self._client.get_call(call_id).trace_id
        return len(self._client.get_calls(filter={"trace_ids": [trace]}))

    def _facts(self, sent: int, call_id: str, why: str | None = None) -> ExportFacts:
        facts = self._run.sent("weave", self._where, sent, call_id, why)
        return facts.model_copy(update={"digest": self._run.digest})
