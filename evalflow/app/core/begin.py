"""Start a new or resumed run: folder, log, manifest, and what earlier parts have finished and spent."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from evalflow import datasets
from evalflow.app.core.assemble import Parts, settings_of, with_default_judge
from evalflow.app.core.inspect import Inspection
from evalflow.app.core.notices import self_judges
from evalflow.app.core.result_rules import RunMetric
from evalflow.calls.budget import Amount, RunNote
from evalflow.calls.cache_store import Entry
from evalflow.calls.client import CallSession
from evalflow.calls.objects import is_address
from evalflow.config.load import compose
from evalflow.config.schema import DatasetConfig, MetricConfig
from evalflow.config.validate import Composed
from evalflow.config.yaml_text import yaml_of
from evalflow.engine import bookkeeping
from evalflow.engine.bookkeeping import Tally
from evalflow.engine.deadline import Deadlines, Failed
from evalflow.engine.folder import RunFolder
from evalflow.engine.gate_looks import GateLooks
from evalflow.engine.journal import AnswerBook, Finished, RememberingTarget, read_finished
from evalflow.engine.plan import PreparedFile
from evalflow.engine.scoring import MeteredJudge, Pair
from evalflow.errors import Problem, UserError, command
from evalflow.llm.panel import Panel
from evalflow.notes import NOTE, note
from evalflow.paths import OWN_FOLDER, new_run_id, private_folder, shown, write_atomically
from evalflow.prompts import is_file_name
from evalflow.protocols import Judge, Metric, Target
from evalflow.records import NOTHING, Case, Outcome, Spend, Usage
from evalflow.records.manifest import PLANNED, CaseOrder, DatasetFacts, JudgeFacts, Manifest, MetricFacts, TargetFacts
from evalflow.redaction import Redactor
from evalflow.summary.journal import bill_row
from evalflow.values.pythonvalues import json_text

_SECRET_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RunOrder:
    """A run to execute."""

    composed: Composed
    folder: Path
    run_id: str
    # The folder that `outputs/latest` will point to: the run's, or its sweep's; None leaves it unchanged.
    latest: Path | None
    siblings: Sequence[Path] = ()  # finished runs of the same sweep, whose answers are reused
    resumed: Manifest | None = None  # run.json of the run to finish; None for a new run
    retry_errors: bool = False  # whether a resumed run retries errors
    races: bool = False  # whether it is one side of a race, which runs its cases in random order
    planned: Manifest | None = None  # run.json of a new run whose folder another process has prepared


def order_of(arguments: Sequence[str], config_dir: Path | None, folder: Path | None = None) -> RunOrder:
    """Return the order of a command line, in the given folder or a new one that `outputs/latest` will point to."""
    arguments = with_default_judge(arguments, config_dir)
    run_id = new_run_id(arguments)
    path = (Path("outputs", "runs", run_id) if folder is None else folder).absolute()
    return RunOrder(compose(arguments, config_dir, run_id, check=settings_of), path, run_id, None if folder else path)


def keep_cases(rows: Iterable[Mapping[str, Any]], folder: Path = Path(OWN_FOLDER, "cases")) -> Path:
    """Write plain rows of a dataset to a file named by their digest, so that a run over them can be resumed."""
    content = "".join(json_text(row) + "\n" for row in rows).encode()
    file = folder / f"{hashlib.sha256(content).hexdigest()[:16]}.jsonl"
    private_folder(file.parent)
    write_atomically(file, content.decode())
    return file


def open_folder(order: RunOrder) -> RunFolder:
    """Open or create the run's folder; UserError if it is not writable or has another run."""
    folder = RunFolder(order.folder)
    if order.resumed is None and order.planned is None and folder.manifest.exists():
        hint = f"choose another folder, or continue that run: {command('resume', order.folder)}"
        raise UserError(Problem("this folder already contains a run", str(order.folder), hint))
    try:
        private_folder(folder.path)
        if not folder.prepared.exists():
            write_atomically(folder.prepared, "{}\n")
    except OSError as error:
        raise UserError(Problem(f"cannot write there: {error.strerror}", str(folder.path))) from None
    return folder


class RedactingFormatter(logging.Formatter):
    """Writes a record, traceback included, without the given secrets and those in the environment."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        named = (value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name))
        self._redactor = Redactor([*secrets, *named])

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.text(super().format(record))


_LOGS: ContextVar[frozenset[Path]] = ContextVar("logs", default=frozenset())  # of the runs of this context


class _LogFile(logging.FileHandler):
    """Handles the log lines of its own run.

    Drops lines that cannot be written: the run itself reports a full disk once.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        # Other runs may be active in other threads; a library's threads belong to no run.
        self.addFilter(lambda _: not _LOGS.get() or path in _LOGS.get())

    def handleError(self, record: logging.LogRecord) -> None:  # the name is defined by logging
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


def _untold(text: str, level: int) -> None:
    pass


class _Told(logging.Handler):
    """Passes on the warnings and notes of its own run; errors are shown elsewhere."""

    def __init__(self, path: Path, secrets: Iterable[str], tell: Callable[[str, int], None]) -> None:
        super().__init__(logging.WARNING)
        self.addFilter(lambda record: record.levelno < logging.ERROR and (not _LOGS.get() or path in _LOGS.get()))
        self._redactor = Redactor(secrets)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(self._redactor.text(record.getMessage()), record.levelno)


@contextmanager
def log_to(path: Path, secrets: Iterable[str], tell: Callable[[str, int], None] = _untold) -> Generator[None]:
    """Write evalflow's warnings and errors to a file during the block; the file is always created.

    `tell` receives the text and the level of each warning and note.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    logging.addLevelName(NOTE, "NOTE")
    handler, note_handler = _LogFile(path), _Told(path, secrets, tell)
    handler.setFormatter(RedactingFormatter(secrets))
    handler.setLevel(logging.WARNING)
    logger = logging.getLogger("evalflow")
    logger.propagate = False
    logger.addHandler(handler)
    logger.addHandler(note_handler)
    token = _LOGS.set(_LOGS.get() | {path})
    try:
        yield
    finally:
        _LOGS.reset(token)
        logger.removeHandler(note_handler)
        logger.removeHandler(handler)
        logger.propagate = not any(isinstance(one, _LogFile) for one in logger.handlers)
        handler.close()


def open_manifest(order: RunOrder, inspection: Inspection) -> Manifest:
    """Return the manifest of a run that starts or resumes.

    UserError if the run has changed since it was planned or started, or its gates' baseline is not comparable.
    """
    fresh = described(inspection, order.run_id, _spent_before(order), races=order.races)
    if order.resumed:
        RunNote.read(RunFolder(order.folder).spending)  # refuse a damaged one before anything is written
    before, since = order.resumed or order.planned, "began" if order.resumed else "was planned"
    if before is not None and (changes := bookkeeping.changes(before, fresh)):
        where, hint = str(order.folder), "put it back as it was, or start a new run"
        raise UserError([Problem(f"{change} has changed since the run {since}", where, hint) for change in changes])
    if order.resumed is not None:
        return bookkeeping.reopening(order.resumed)
    return fresh.model_copy(update={"folder": shown(order.folder)})


def finished_before(
    order: RunOrder, parts: Parts, bounded: Collection[str], tally: Tally, looks: GateLooks | None = None
) -> Finished:
    """Read what earlier parts of this run finished, with its cost added to tally and budget, and pass it to `looks`."""
    session = parts.session
    before = _spent_before(order)
    folder = RunFolder(order.folder)
    if session.budget and order.resumed is None:
        _take_up(session, folder, before, Amount())
    if order.resumed is None:
        return Finished()
    stops = any(metric.stops for metric in parts.metrics.values())
    finished = read_finished(
        folder,
        order.run_id,
        tally,
        bounded,
        errors_too=not order.retry_errors,
        failed_too=stops,
        scores_too=looks is not None,
    )
    if looks is not None and finished.scores is not None:
        looks.note_all(finished.scores.lazy())
        most = sum(order.resumed.asked.values()) if order.resumed.stopped else None
        looks.begun(finished.scores.select("dataset", "case_id").unique().iter_rows(), most)
    counted = bookkeeping.take_up(tally, order.resumed)
    if session.budget:
        own = Amount(tally.requests, tally.input_tokens + tally.output_tokens, tally.cost_usd)
        _take_up(session, folder, before, own)
        lost = session.budget.lost_requests
        tally.unaccounted_requests = max(tally.unaccounted_requests, lost)
        if lost and not counted:
            which = "1 request" if lost == 1 else f"up to {lost} requests"
            note(f"{which} under way when the run was killed may have been paid for, and count towards the budget")

    def claimed(entry: Entry, cost_usd: float | None) -> None:
        if counted:
            requests, usage = entry.requests, entry.usage
            tally.retract(Spend(requests=requests, reasks=requests - 1, usage=usage, cost_usd=cost_usd))
        elif session.budget:
            usage = entry.usage or Usage()
            lost = session.budget.lost_requests
            session.budget.claim(Amount(entry.requests, usage.input_tokens + usage.output_tokens, cost_usd or 0.0))
            tally.unaccounted_requests -= lost - session.budget.lost_requests

    if session.single_flight:
        session.single_flight.settled, session.single_flight.claimed = finished.paid, claimed
    return finished


def sharing_target(order: RunOrder, parts: Parts, resources: ExitStack) -> Target:
    """Return the target, wrapped to reuse answers from other runs of the same sweep."""
    if parts.settings.run.generate is False or not order.siblings:
        return parts.target
    book = resources.enter_context(AnswerBook())
    for path in order.siblings:
        sibling = RunFolder(path)
        manifest = sibling.read_manifest()
        if manifest.target.identity == parts.target.identity:
            book.add(sibling.answers, _same_data(manifest, parts))
    return RememberingTarget(parts.target, book)


def _same_data(manifest: Manifest, parts: Parts) -> list[str]:
    """Return the datasets that another run read from the same data in the same way."""
    mine, theirs = parts.settings.composed.storable["dataset"], manifest.config["dataset"]

    def same(name: str, config: DatasetConfig) -> bool:
        key = parts.settings.keys["dataset", name]
        return theirs.get(key) == mine[key] and manifest.datasets[name].sha256 == datasets.digest(config)

    return [name for name, config in parts.datasets.items() if same(name, config)]


def earlier_answers(order: RunOrder, parts: Parts, resources: ExitStack) -> AnswerBook | None:
    """Return the answers of an earlier part of this run; None if it has no earlier part."""
    if parts.settings.run.generate is False or not order.resumed:
        return None
    book = resources.enter_context(AnswerBook())
    book.add(RunFolder(order.folder).answers, parts.datasets)
    return book


def _spent_before(order: RunOrder) -> Amount:
    """Return what earlier runs of the same sweep have spent, since all its runs share one budget."""
    if order.resumed:
        return Amount(**order.resumed.spent_before)
    spent = Amount()
    for path in order.siblings:
        ended = RunFolder(path).read_manifest()
        tokens = (ended.input_tokens or 0) + (ended.output_tokens or 0)
        own, noted = Amount(ended.requests or 0, tokens, ended.cost_usd or 0), RunNote.read(RunFolder(path).spending)
        spent += own + (noted.used - own).no_less() if noted else own
    return spent


def _take_up(session: CallSession, folder: RunFolder, before: Amount, own: Amount) -> None:
    """Charge earlier spending to the budget, and note all spending from now on.

    Batch calls have their own record, from which a resumed run counts them, so they are not counted here.
    """
    budget = session.budget
    assert budget is not None
    notes = session.batches is None
    budget.take_up(before, own, RunNote.read(folder.spending) if notes else None)
    if notes:
        budget.keep_note(folder.spending)


async def prepare(
    pairs: Sequence[Pair], folder: RunFolder, tally: Tally, written: Callable[..., None]
) -> tuple[Pair, ...]:
    """Prepare the metrics for scoring. Entries in prepared.json are reused; `written` is called after new ones.

    UserError if prepared.json was edited; InfrastructureError or BudgetError if a call cannot be made.
    """
    file = PreparedFile(folder)
    ready: list[Pair] = []
    for pair in pairs:
        judge = MeteredJudge(pair.judge, tally) if pair.judge else None
        entries = _BilledEntries(file, judge, partial(written, pair.metric.name, folder=folder))
        metric = await Deadlines(None).attempt(pair.metric.prepare(judge, entries), UserError)
        if isinstance(metric, Failed):
            metric = cast("Metric", UnpreparedMetric(pair.metric, metric))
        ready.append(replace(pair, metric=metric))
    return tuple(ready)


class UnpreparedMetric:
    """A metric whose preparation failed: each of its scores is an error with the reason."""

    def __init__(self, metric: Metric, failed: Failed) -> None:
        self._metric = metric
        self.failed = failed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metric, name)

    def bind(self, case: Case) -> Sequence[UnpreparedMetric]:
        return [UnpreparedMetric(metric, self.failed) for metric in self._metric.bind(case)]

    async def score(self, *_: object) -> Outcome:
        what = f"the metric could not be prepared: {self.failed.error}"
        return Outcome(status="error", error_type=self.failed.error_type, error=what, remedy=self.failed.remedy)


@dataclass(frozen=True, slots=True)
class _BilledEntries:
    file: PreparedFile
    judge: MeteredJudge | None
    written: Callable[[Mapping[str, Any]], None]

    def get(self, key: str) -> Mapping[str, Any] | None:
        return self.file.get(key)

    def put(self, key: str, entry: Mapping[str, Any]) -> None:
        bill = self.judge.bill if self.judge else NOTHING
        self.file.put(key, {**entry, "cost_usd": bill.cost_usd, "bill": bill_row(bill)})
        self.written(entry)


def described(
    inspection: Inspection, run_id: str = "", spent_before: Amount | None = None, *, races: bool = False
) -> Manifest:
    """Return a new run's manifest; UserError if the gates' baseline is not a run or measured something else."""
    parts, run = inspection.parts, inspection.parts.settings.run
    composed = parts.settings.composed
    measured = {name: _metric_facts(inspection, name, rule) for name, rule in inspection.rules().metrics.items()}
    asking = _with_included(parts, _templates_of(run.target, run.simulator))
    facts = {
        "config": _pinned(parts),
        "choices": {
            group: choice
            for group in ("judge", "embedder", "target", "simulator")
            if (choice := composed.choices.get(group))
        },
        "search_folders": {
            "conf": [str(folder) for folder in composed.conf_folders],
            "prompts": [str(folder) for folder in composed.prompt_folders],
        },
        "datasets": {
            name: DatasetFacts(
                files=[str(path) for path in datasets.files(config)],
                sha256=datasets.digest(config),
                cases=inspection.cases[name],
                labelled=inspection.labelled[name],
            )
            for name, config in parts.datasets.items()
        },
        "metrics": measured,
        "judges": {name: _judge_facts(judge, self_judges(parts)) for name, judge in inspection.judges.items()},
        "target": TargetFacts(name=parts.target.name, identity=parts.target.identity, prompts=asking),
        "prompts": parts.prompts.texts({*asking, *(prompt for one in measured.values() for prompt in one.prompts)}),
        "order": CaseOrder(shuffled=races or inspection.rules().looks() is not None, seed=run.seed),
        "prices": {name: price for name, price in parts.prices().items() if price},
        "spent_before": asdict(spent_before or Amount()),
    }
    # As in run.json, since JSON turns the anchors of a scale into texts.
    manifest = Manifest.model_validate_json(bookkeeping.opening(run_id, composed.overrides, facts).text)
    if run.baseline is not None:
        from evalflow.app.core.comparison import baseline_problems

        if problems := baseline_problems(inspection.gates, run, manifest):
            raise UserError(problems)
    return manifest


def _templates_of(*configs: object) -> list[str]:
    """Return the template files used for the bot and the simulator."""
    named = (getattr(config, key, None) for config in configs for key in ("system_prompt", "prompt"))
    return [text for text in named if isinstance(text, str) and is_file_name(text)]


def _with_included(parts: Parts, prompts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(part for prompt in prompts for part in parts.prompts.parts(prompt)))


def _own_bounds(config: MetricConfig, rule: RunMetric) -> tuple[float, float] | None:
    if not rule.asks and getattr(config, "scale", None) is None:
        return None  # neither a judge's grades nor recorded ones: the scales need not be loaded
    from evalflow.metrics.scale import own_bounds

    return own_bounds(config, bounded=rule.bounded)


def _metric_facts(inspection: Inspection, name: str, rule: RunMetric) -> MetricFacts:
    parts, metric = inspection.parts, inspection.scored[name].metric
    return MetricFacts(
        declared=rule.declared,
        judge=rule.judge,
        asks=rule.asks,
        embeds=rule.embeds,
        bounded=rule.bounded,
        scale=_own_bounds(metric.config, rule),
        key=parts.settings.keys["metric", rule.declared],
        description=metric.config.description,
        version=metric.config.version,
        prompt_sha256=parts.prompts.digest(metric.prompts) if metric.prompts else None,
        prompts=_with_included(parts, metric.prompts),
        figures=metric.figures,
        files_sha256=metric.files_sha256,
    )


def _judge_facts(judge: Judge, own: Collection[str]) -> JudgeFacts:
    more: dict[str, Any] = {"judges_itself": True} if judge.info.name in own else {}
    if isinstance(judge, Panel):
        more |= {"kind": judge.config.kind, "members": [member.info.name for member in judge.members]}
    info = judge.info
    return JudgeFacts(nature=info.nature, identity=info.identity, calibrated=info.calibrated, **more)


def _pinned(parts: Parts) -> dict[str, Any]:
    """Replace runs named in a configuration by their real paths, since `outputs/latest` will soon be this run.

    Addresses of object storage stay: only their local copies have paths.
    """
    config = deepcopy(parts.settings.composed.storable)
    if parts.settings.run.baseline is not None and not is_address(config["baseline"]):
        config["baseline"] = parts.settings.run.baseline
    for name, metric in parts.settings.run.metric.items():
        if borrowed := getattr(metric, "steps_from", None):
            config["metric"][parts.settings.keys["metric", name]]["steps_from"] = str(Path(borrowed).resolve())
    return config


def write_plan(inspection: Inspection, folder: Path, run_id: str) -> None:
    """Write the files by which `resume` starts the run: run.json, and `.hydra/` as a run of the command line has it.

    UserError if the baseline that gates need is not a run, or measured something else.
    """
    manifest = described(inspection, run_id)
    manifest = manifest.model_copy(update={"status": PLANNED, "process": 0, "folder": shown(folder)})
    composed = inspection.parts.settings.composed
    hydra = private_folder(folder / ".hydra")
    write_atomically(hydra / "config.yaml", yaml_of(composed.storable))
    write_atomically(hydra / "overrides.yaml", yaml_of(composed.overrides))
    RunFolder(folder).write_manifest(manifest)
