"""An actor's work: runs a run's pipeline over the given cases and returns the records."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from evalflow.addons.cluster.coordinator import Coordinator
from evalflow.addons.cluster.coordinator_client import CoordinatorClient, Send
from evalflow.addons.cluster.shards import CaseWork
from evalflow.app.core.assemble import Needed, Parts, assemble, secrets_of, settings_of
from evalflow.app.core.begin import UnpreparedMetric
from evalflow.app.core.saved import composed_of
from evalflow.calls.budget import Amount, Budget, Lease
from evalflow.calls.cache import Cache
from evalflow.calls.connections import Connections
from evalflow.calls.shared_cache import SharedCache
from evalflow.config.schema import BudgetConfig, CacheConfig
from evalflow.engine.bookkeeping import Tally, versions
from evalflow.engine.deadline import Failed
from evalflow.engine.journal import RememberingTarget
from evalflow.engine.pipeline import Pipeline, RunPlan
from evalflow.engine.scoring import Pair
from evalflow.errors import EvalflowError, Problem, UserError, first_of
from evalflow.paths import share_dir
from evalflow.records import Answer, ScoreRecord
from evalflow.records.manifest import Manifest
from evalflow.redaction import Redactor

GATHER_S = 0.1  # how long finished records gather before the driver gets them, as long as there are cases to begin
PATIENCE_S = 1.0  # after so long the driver hears of an actor that has finished nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything that an actor must know about a run, with names of variables instead of keys.

    Attributes:
        manifest: run.json as the run begins, as text.
        needed: The metrics that ask a judge, and those that ask the embedder.
        prepared: The entries of prepared.json.
        unprepared: The metrics that could not be prepared, by name.
        host: The driver's machine; actors on it work in its folder `home`.
        prompt_folders: Prompt folders on that machine; None is the folder that evalflow ships.
        files: For actors on other machines: the files that prompts and metrics are read from, by their relative path;
            those of the first prompt folder are below prompts-0, and so on.
        width: Cases that an actor works on at once.
        shared: The models that all actors of a node share, each as `module:function`.
        connections: The allowed addresses; None: any.
        budget: The run's spending limits; None: no limits.
        fence_key: The secret with which prompts mark judged text; the same for all actors.
    """

    manifest: str
    needed: Needed
    prepared: Mapping[str, Mapping[str, object]]
    unprepared: Mapping[str, Failed]
    host: str
    home: str
    prompt_folders: Sequence[str | None]
    files: Mapping[str, bytes]
    width: int
    shared: Sequence[str]
    connections: Connections | None
    budget: BudgetConfig | None
    fence_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSpec:
    """The specification of a run's coordinator.

    Attributes:
        cache: Its path is absolute.
        budget: None: no limits.
        spent: Spent of the budget by earlier parts of the run and by preparation.
        before, unaccounted, lost_requests: As in `Budget`.
        sent: The part of it that this process spent, which counts on its lease.
        note: The file in which the run records its spending; None: nowhere.
        settled: Digests of the calls whose cost is in the journals of earlier parts.
        counted: Whether `spent` has the cost of all calls of earlier parts.
    """

    run_id: str
    cache: CacheConfig
    budget: BudgetConfig | None
    spent: Amount
    before: Amount
    unaccounted: Amount
    lost_requests: int
    sent: Amount
    note: Path | None
    lease: Lease | None
    settled: Collection[int]
    counted: bool

    def build(self) -> Coordinator:
        """Build the coordinator with this machine's files and addresses, which are opened at first use."""
        config, shared, budget = self.cache, None, None
        if config.url is not None and config.mode in ("on", "read"):
            shared = SharedCache(config.url, reading=config.mode == "read")
        cache = Cache(Path(config.path), config.mode, run_id=self.run_id, max_bytes=config.max_bytes)
        if self.budget is not None or self.lease is not None:
            budget = Budget(self.budget or BudgetConfig(), self.spent, self.lease)
            budget.sent, budget.before = self.sent, self.before
            budget.unaccounted, budget.lost_requests = self.unaccounted, self.lost_requests
            if self.note is not None:
                budget.keep_note(self.note)
        return Coordinator(cache, shared, budget, self.settled, counted=self.counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """An actor's progress since its last report.

    Attributes:
        begun, done: The numbers of cases that it has begun and done.
        dropped: The numbers of cases that it has not begun and will not begin.
        records: Finished answers and scores, in their order.
        lines: Lines for the run's log, with their levels.
        unpriced: Whether there were calls with neither a known price nor a record.
        failure: Why no more calls can be made.
        over: Whether it has ended; without `failure`, because it was stopped.
    """

    begun: Sequence[int] = ()
    done: Sequence[int] = ()
    dropped: Sequence[int] = ()
    records: Sequence[Answer | ScoreRecord] = ()
    lines: Sequence[tuple[int, str]] = ()
    unpriced: bool = False
    failure: BaseException | None = None
    over: bool = False


class ClusterWorker:
    """Works on one run at a time. `reach` returns the connection to a run's coordinator."""

    def __init__(self, name: str, reach: Callable[[str], Send]) -> None:
        self._name = name
        self._reach = reach
        self._job: _Job | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def begin(self, spec: RunSpec) -> EvalflowError | None:
        """Prepare for a run; returns why this node cannot take part, or ""."""
        await self.end()
        try:
            manifest = Manifest.model_validate_json(spec.manifest)
            expect_versions(manifest)
            prompts = self._go_home(spec)
            coordinator = CoordinatorClient(self._name, self._reach(manifest.run_id), budget=spec.budget)
            self._job = await _Job.of(spec, manifest, prompts, coordinator)
        except EvalflowError as error:
            await self.end()
            return error
        return None

    async def step(self, cases: Sequence[CaseWork], *, stop: bool = False) -> WorkerReport:
        """Take more cases, or stop beginning new ones, and wait until there is something to report."""
        assert self._job is not None
        return await self._job.step(cases, stop=stop)

    async def end(self) -> None:
        """Stop at once; the next run may begin."""
        job, self._job = self._job, None
        if job is not None:
            await job.close()
        if self._folder is not None:
            os.chdir("/")
            self._folder.cleanup()
            self._folder = None

    def _go_home(self, spec: RunSpec) -> list[Path]:
        """Work in the driver's folder, or elsewhere in one with the run's files; returns the prompt folders."""
        own = share_dir() / "prompts"
        if spec.host == socket.gethostname() and Path(spec.home).is_dir():
            os.chdir(spec.home)
            return [own if name is None else Path(name) for name in spec.prompt_folders]
        self._folder = tempfile.TemporaryDirectory(prefix="evalflow-")
        home = Path(self._folder.name)
        for name, content in spec.files.items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        os.chdir(home)
        return [own if name is None else home / f"prompts-{i}" for i, name in enumerate(spec.prompt_folders)]


class _Job:
    """One run in an actor."""

    def __init__(
        self, spec: RunSpec, parts: Parts, pairs: Sequence[Pair], coordinator: CoordinatorClient, run_id: str
    ) -> None:
        run = parts.settings.run
        self._coordinator = coordinator
        self._parts = parts
        self._spare = tuple(pairs)
        self._queue: deque[CaseWork] = deque()
        self._known, self._reused = _Answers(), _Answers()
        self._finished, self._failed = set[int](), set[int]()
        self._tally = Tally()
        self._out = _Outbox(Redactor(secrets_of(parts.settings)))
        plan = RunPlan(
            run_id=run_id,
            target=RememberingTarget(parts.target, self._reused),
            pairs=self._spare,
            target_repeats=run.repeats.target,
            judge_repeats=run.repeats.judge,
            width=spec.width,
            finished=self._finished,
            failed=self._failed,
            case_timeout_s=run.case_timeout_s,
            answered=self._known,
        )
        self._pipeline = Pipeline(plan, self._out, self._tally)
        self._more = asyncio.Event()
        self._stopped = False
        self._dropped: list[int] = []
        self._work = asyncio.create_task(self._run(spec.width))

    @classmethod
    async def of(
        cls, spec: RunSpec, manifest: Manifest, prompts: Sequence[Path], coordinator: CoordinatorClient
    ) -> _Job:
        """Build the parts of the run; UserError if they differ from the driver's."""
        settings = settings_of(replace(composed_of(manifest), prompt_folders=tuple(prompts)))
        session = coordinator.session(spec.connections, manifest.run_id, spec.fence_key)
        parts = assemble(settings, manifest.run_id, session, needed=spec.needed)
        expect_same(manifest, parts)
        entries = _Entries(spec.prepared)
        pairs: list[Pair] = []
        for pair in parts.pairs:
            failed = spec.unprepared.get(pair.metric.name)
            ready = UnpreparedMetric(pair.metric, failed) if failed else await pair.metric.prepare(pair.judge, entries)
            pairs.append(replace(pair, metric=ready))
        return cls(spec, parts, pairs, coordinator, manifest.run_id)

    async def step(self, cases: Sequence[CaseWork], *, stop: bool) -> WorkerReport:
        for work in cases:
            self._finished |= work.finished
            self._failed |= work.failed
            self._known.add(work.answers)
            self._reused.add(work.reused)
        self._queue += cases
        if self._queue:
            self._out.hungry.clear()
        if stop:
            self._stop()
        self._more.set()
        await self._out.wait()
        dropped, self._dropped = self._dropped, []
        unpriced, self._tally.unpriced = self._tally.unpriced, False
        return self._out.take(dropped, unpriced=unpriced, over=self._work.done())

    async def close(self) -> None:
        self._work.cancel()
        await asyncio.wait({self._work})
        self._out.close()
        await self._parts.close()
        await self._coordinator.close()

    async def _run(self, width: int) -> None:
        self._pipeline.begin()
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(width):
                    workers.create_task(self._process())
        except* Exception as failures:  # a bug of evalflow, which the driver reports as such
            self._out.fail(first_of(failures))
        finally:
            self._pipeline.end()
            self._out.news.set()

    async def _process(self) -> None:
        """Process cases until stopped. After a failure, cases in progress are finished if possible."""
        while True:
            while not self._queue:
                if self._stopped:
                    return
                self._more.clear()
                await self._more.wait()
            work = self._queue.popleft()
            if not self._queue:
                self._out.hungry.set()
            self._out.begun.append(work.number)
            try:
                await self._pipeline.process(work.case)
            except EvalflowError as error:
                self._out.fail(error)
                self._stop()
                return
            self._known.remove(work.answers)
            self._reused.remove(work.reused)
            self._out.finish(work.number)

    def _stop(self) -> None:
        self._stopped = True
        self._dropped += [work.number for work in self._queue]
        self._queue.clear()
        self._more.set()


class _Answers:
    """The answers sent with cases, with the interface of an AnswerBook."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, int], Answer] = {}

    def add(self, answers: Sequence[Answer]) -> None:
        self._known |= {
            (answer.dataset, answer.case_id, answer.target, answer.target_repeat): answer for answer in answers
        }

    def remove(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            self._known.pop((answer.dataset, answer.case_id, answer.target, answer.target_repeat), None)

    def get(self, dataset: str, case_id: str, target: str, repeat: int) -> Answer | None:
        return self._known.get((dataset, case_id, target, repeat))

    def __len__(self) -> int:
        return len(self._known)


class _Entries:
    """Implements Prepared with the driver's entries."""

    def __init__(self, entries: Mapping[str, Mapping[str, object]]) -> None:
        self._entries = entries

    def get(self, key: str) -> Mapping[str, object] | None:
        return self._entries.get(key)

    def put(self, key: str, entry: Mapping[str, object]) -> None:
        raise AssertionError(f"the driver did not prepare {key}")


class _Outbox(logging.Handler):
    """Implements Sink and a log handler: collects records and log lines for the driver."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(logging.WARNING)
        self._redactor = redactor
        self._records: list[Answer | ScoreRecord] = []
        self._done: list[int] = []
        self._lines: list[tuple[int, str]] = []
        self._failure: BaseException | None = None
        self.news, self.hungry = asyncio.Event(), asyncio.Event()
        self.begun: list[int] = []
        logging.getLogger("evalflow").addHandler(self)

    def write(self, record: Answer | ScoreRecord) -> None:
        if isinstance(record, Answer) and not record.generated:  # the data already has it
            return
        if record.error:
            record = replace(record, error=self._redactor.text(record.error))
        self._records.append(record)
        self.news.set()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append((record.levelno, self._redactor.text(self.format(record))))

    def finish(self, number: int) -> None:
        self._done.append(number)
        self.news.set()

    def fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self.news.set()

    async def wait(self) -> None:
        """Wait for news, then briefly for more, unless the last case was begun."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self.news.wait()
            async with asyncio.timeout(GATHER_S):
                await self.hungry.wait()

    def take(self, dropped: Sequence[int], *, unpriced: bool, over: bool) -> WorkerReport:
        progress = WorkerReport(
            begun=self.begun,
            done=self._done,
            dropped=dropped,
            records=self._records,
            lines=self._lines,
            unpriced=unpriced,
            failure=self._failure,
            over=over,
        )
        self.begun, self._done, self._records, self._lines = [], [], [], []
        self.news.clear()
        return progress

    def close(self) -> None:
        logging.getLogger("evalflow").removeHandler(self)
        super().close()


def expect_versions(manifest: Manifest) -> None:
    """UserError if a node has other versions than the driver, and could give other results."""
    mine, theirs = versions(), manifest.versions
    different = [
        f"{package} {mine.get(package)} instead of {version}"
        for package, version in theirs.items()
        if mine.get(package) != version and not (package == "python" and _minor(version) == _minor(mine["python"]))
    ]
    if different:
        what = f"the node {socket.gethostname()} has {', '.join(different)}"
        raise UserError(Problem(what, "engine", "install the same versions on every node"))


def expect_same(manifest: Manifest, parts: Parts) -> None:
    """UserError if the node's parts differ from the driver's: another address, program or prompt."""
    different: list[str] = []
    if parts.target.identity != manifest.target.identity:
        different.append(f"target {parts.target.name}")
    for name, judge in parts.judges.items():
        facts = manifest.judges.get(name)
        if facts is None or facts.identity != judge.info.identity:
            different.append(f"judge {name}")
    for name, metric in parts.metrics.items():
        known_metric = manifest.metrics.get(name)
        if known_metric and metric.prompts and parts.prompts.digest(metric.prompts) != known_metric.prompt_sha256:
            different.append(f"metric {name}")
    if different:
        what = f"on the node {socket.gethostname()} these are not those of the run: {', '.join(different)}"
        hint = "give every node the same packages, programs, and environment variables that the configuration names"
        raise UserError(Problem(what, "engine", hint))


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
