"""Find a run's folder, and read the run back from it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from evalflow import datasets
from evalflow.app.core.assemble import settings_of
from evalflow.app.core.cases import answers_of, select
from evalflow.app.core.result_rules import ResultRules, RunMetric, unusable_parts
from evalflow.calls.objects import StoredFolder, is_address
from evalflow.config.validate import Composed
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command, unknown_name
from evalflow.labels.sheet import CELL
from evalflow.lazy import pl
from evalflow.paths import conf_dirs, private_file, private_folder, shown, write_atomically
from evalflow.records import Case
from evalflow.records.manifest import Manifest, MetricFacts, SweepManifest
from evalflow.report.findings import exclusion_findings
from evalflow.report.results_csv import COLUMNS, AnsweredCase, of_cases, rows
from evalflow.summary.exclusions import ExcludedResult
from evalflow.summary.gate_config import parse_gates
from evalflow.summary.journal import json_line, json_text
from evalflow.targets.registry import TARGET_KINDS
from evalflow.values.jsonvalues import as_list, as_map

if TYPE_CHECKING:
    from evalflow.summary.pairing import Traits


LATEST = Path("outputs") / "latest"
ANOTHER = (
    "name the folder of another run, such as one of outputs/runs: `compare` takes A and B, or A for the latest as B"
)
_ID = r'^\{"id":("(?:[^"\\]|\\.)*")'  # the id with which a line of cases.jsonl begins
_ASKED: Sequence[str] = ("question", "messages", "reference", "expected")
_NO_REFERENCE = '"reference":null'  # of a case whose expected text is not its reference
_MAYBE_NO_TEXT = r"^[\[{0-9-]|^(true|false)$"  # how Polars writes a JSON value that is not text
# Keys that do not affect the meaning of a metric's scores; versions are compared separately.
_NO_MEANING = (
    "threshold",
    "call",  # of Python code; `files_sha256` is of the code itself
    "gate",
    "test_order",
    "faults",
    "fixture",
    "most_items",
    "name",
    "title",
    "description",
    "family",
    "judge",
    "steps_from",
    "version",
)
_TAG = re.compile(r"(?=(\{[{%](?:[^{}%]|\{(?![{%]))*+))")  # of Jinja, up to the next one
_DESCRIPTION = re.compile(r"\bdescription\b")
_AGREED = Path(".evalflow") / "programs"


@dataclass(frozen=True)
class SavedRun:
    """A run loaded from its folder; `name` is the run's in tables and messages.

    `in_memory` gives the selected cases of a run that ends in this process, which has read them already.

    Example:
        >>> run = find_run("outputs/latest")
        >>> sorted(run.manifest.metrics)
        ['exact_match']
    """

    folder: RunFolder
    manifest: Manifest
    name: str = ""
    in_memory: Callable[[], Iterable[Case]] | None = field(default=None, compare=False)

    @cached_property
    def rules(self) -> ResultRules:
        """The rules by which results follow from the scores; UserError if its data or prompts are gone."""
        settings = settings_of(composed_of(self.manifest))
        metrics = {
            name: RunMetric(
                settings.run.metric[facts.declared].model_copy(update={"description": facts.description}),
                facts.bounded,
                facts.figures,
                facts.declared,
                facts.judge,
                facts.asks,
                facts.embeds,
            )
            for name, facts in self.manifest.metrics.items()
        }
        if wrong := unusable_parts(settings, metrics):
            raise UserError([problem for problems in wrong.values() for problem in problems])
        run = settings.run
        return ResultRules(settings, metrics, parse_gates(run.gate, metrics, run.baseline, run.repeats))

    @property
    def traits(self) -> dict[str, Traits]:
        from evalflow.summary.pairing import Traits

        def of(name: str, facts: MetricFacts) -> Traits:
            config = self.manifest.metric_config(name)
            lower = config.get("direction") == "lower_is_better"
            order, of_cases = tuple(config.get("test_order") or ()), config.get("kind") == "checks"
            return Traits(not lower, facts.bounded, facts.figures, order, of_cases)

        return {name: of(name, facts) for name, facts in self.manifest.metrics.items()}

    def scores(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.folder.scores)

    @property
    def has_kept_cases(self) -> bool:
        """Whether there is a cases.jsonl that is no older than the last answer, so that it has all of them."""
        cases, answers = self.folder.cases, self.folder.answers
        if not cases.is_file():
            return False
        given = answers.stat() if answers.is_file() else None
        return given is None or not given.st_size or given.st_mtime_ns <= cases.stat().st_mtime_ns

    def cases(self, wanted: Collection[tuple[str, str]] | None = None) -> Iterator[Case]:
        """The cases as evaluated, or those `wanted` (dataset, id); from the data if there is no cases.jsonl yet."""
        if not self.folder.cases.is_file():
            everything = self.in_memory() if self.in_memory else select(self.rules.settings.run)
            yield from (one for one in everything if wanted is None or (one.dataset, one.id) in wanted)
            return
        chosen = pl.lit(value=True)
        if wanted is not None:
            chosen = pl.col("text").str.extract(_ID).is_in([json_line(case_id).decode() for _, case_id in wanted])
        saved = datasets.saved_cases(self.folder.cases, self._lines(chosen))
        yield from (case for case in saved if wanted is None or (case.dataset, case.id) in wanted)

    def case_texts(self) -> pl.DataFrame:
        """Hash each case's questions and expectation as texts: line (of cases.jsonl, from 0), dataset, id, text.

        Equal hashes mean equal cases. Cases with different hashes may be equal too; the slower `case_digests` tells.
        The hash is null if a text is ambiguous, such as 1 and "1". Empty if the run wrote no cases.
        """
        columns = dict.fromkeys(("id", *_ASKED), pl.String)
        if not self.folder.cases.is_file():
            return pl.DataFrame(schema={"line": pl.UInt32, "dataset": pl.String, "id": pl.String, "text": pl.UInt64})
        unsure = pl.any_horizontal(pl.col("reference", "expected").str.contains(_MAYBE_NO_TEXT))
        # Polars escapes quotes and line breaks in lists, and no backslashes.
        line = pl.col("line").str
        no_reference, null = line.ends_with(f",{_NO_REFERENCE}}}"), line.contains(_NO_REFERENCE, literal=True)
        about = {"escaped": line.contains(r"\\[\\u]"), "no_reference": no_reference, "misplaced": null & ~no_reference}
        unsure |= (pl.col("messages").str.contains("\\", literal=True) & pl.col("escaped")) | pl.col("misplaced")
        text = pl.when(~unsure.fill_null(value=False)).then(pl.struct(*_ASKED, "no_reference").hash())
        lines = pl.scan_lines(self.folder.cases, name="line").select(**about)
        rows = pl.concat([pl.scan_ndjson(self.folder.cases, schema=columns), lines], how="horizontal")
        try:
            return self._placed(rows).select("line", "dataset", "id", text=text).collect(engine="streaming")
        except pl.exceptions.ComputeError as error:
            hint = f"remove it, and write it again from the data: {command('report', self.folder.path)}"
            raise UserError(Problem(f"broken JSON: {error}", shown(self.folder.cases), hint)) from None

    def case_digests(self, lines: Iterable[int]) -> dict[int, int]:
        """Hash the questions and expectation of each case in these lines of cases.jsonl; valid in this process only."""
        wanted = set(lines)
        with self.folder.cases.open("rb") as file:
            return {number: _digest_of(text) for number, text in enumerate(file) if number in wanted}

    def _lines(self, wanted: pl.Expr) -> Iterator[tuple[int, str, bytes]]:
        """Return the lines of cases.jsonl for which this is true or null: number from 0, dataset, text."""
        lines = self._placed(pl.scan_lines(self.folder.cases, name="text")).filter(wanted.fill_null(value=True))
        for batch in lines.collect_batches(maintain_order=True):
            yield from ((row["line"], row["dataset"], row["text"].encode()) for row in batch.iter_rows(named=True))

    def _placed(self, cases: pl.LazyFrame) -> pl.LazyFrame:
        """The lines of cases.jsonl with their number and dataset."""
        dataset, start = pl.lit(None, pl.String), 0
        for name, facts in self.manifest.datasets.items():
            dataset = pl.when(pl.col("line") >= start).then(pl.lit(name)).otherwise(dataset)
            start += facts.cases
        return cases.with_row_index("line").head(start).with_columns(dataset=dataset)


def asked_in(row: Mapping[str, Any]) -> list[Any]:
    """The contents of all turns in a row of cases.jsonl that are not the bot's."""
    if "question" in row:
        return [row["question"]]
    return [turn["content"] for turn in row.get("messages", ()) if turn["role"] != "assistant"]


def _digest_of(line: bytes) -> int:
    """Hash the questions and expectation of a line of cases.jsonl."""
    row: dict[str, Any] = from_json(line)
    asked, expected = asked_in(row), row.get("expected")
    reference = row.get("reference", expected if isinstance(expected, str) and datasets.is_plain(expected) else None)
    if expected is not None and not isinstance(expected, str):
        expected = (json_text(expected),)  # the order of keys makes no difference
    try:
        return hash((tuple(asked), reference, expected))
    except TypeError:  # several references, or a message of several parts
        return hash(json_line([asked, reference, expected]))


def open_run(folder: RunFolder, name: str = "") -> SavedRun:
    """Read a run's manifest; the rest is read on demand. The run's name is by default that of its folder."""
    return SavedRun(folder, folder.read_manifest(), name or folder.path.name)


def open_scored(folder: RunFolder, name: str = "") -> SavedRun:
    """Like `open_run`, for a run that has scores; UserError if it ended before its tables were written."""
    return expect_scores(open_run(folder, name))


def scored_runs(jobs: Iterable[Path]) -> list[SavedRun]:
    """The runs of a sweep that have scores."""
    return [open_run(folder) for folder in map(RunFolder, jobs) if folder.scores.is_file()]


def expect_scores(run: SavedRun) -> SavedRun:
    """The run itself; UserError if it ended before its first score, or before its tables were written."""
    where, finish = run.folder.path, f"finish it: {command('resume', run.folder.path)}"
    if not run.folder.scores.is_file():
        hint = f"write them: {command('report', where)}\n  or {finish}"
        raise UserError(Problem("the run ended before its tables were written", str(where), hint))
    if not any(run.manifest.scores.values()):
        hint = f"{finish}\n  or name another run"
        raise UserError(Problem("the run ended before its first score", shown(where), hint))
    return run


def composed_of(manifest: Manifest) -> Composed:
    """The configuration of a run."""
    from evalflow.config.load import resolved  # late: a comparison of runs needs no Hydra

    return Composed(
        values=resolved(manifest.config),
        unresolved=manifest.config,
        choices=manifest.choices,
        sources={},
        overrides=tuple(manifest.overrides),
        conf_folders=tuple(Path(path) for path in manifest.search_folders["conf"]),
        prompt_folders=tuple(Path(path) for path in manifest.search_folders["prompts"]),
    )


def declared_meaning(manifest: Manifest, name: str) -> dict[str, Any]:
    """The part of a metric's configuration that decides the meaning of its scores, without its version.

    Its description is a part where a prompt shows it to the judge, as a rubric's does.
    """
    texts = [manifest.prompts.get(prompt, "") for prompt in manifest.metrics[name].prompts]
    shown_to_judge = any(_DESCRIPTION.search(tag) for text in texts for tag in _TAG.findall(text))
    without = [key for key in _NO_MEANING if not (shown_to_judge and key == "description")]
    return {key: value for key, value in manifest.metric_config(name).items() if key not in without}


def prepared_steps(folder: RunFolder, name: str) -> list[Any]:
    """The generated steps of a run's metric, without their cost and origin."""
    path = folder.prepared
    entries: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return [entry["steps"] for entry in entries.values() if entry.get("metric") == name]


def find_folder(given: str | None) -> Path:
    """The folder of a run or a sweep, by default the latest; UserError if there is none.

    One in object storage is copied here first, as far as there is no copy that is up to date.
    """
    if given and is_address(given):
        return StoredFolder(given, "command line").fetch_all("run.json")
    path = Path(given) if given else LATEST
    if RunFolder(path).manifest.is_file():
        return path.resolve()
    if given is None:
        hint = f"run: {command('dataset=rag', 'metric=faithfulness')}"
        raise UserError(Problem("there is no run here yet", str(LATEST), hint))
    if path.is_dir():
        raise UserError(
            Problem("this is not a folder of a run", given, "a run's folder has a run.json; see outputs/runs")
        )
    beside = [str(one.parent) for one in path.parent.glob("*/run.json")]
    problem = unknown_name("this is not a folder of a run", given, given, beside)
    raise UserError(problem if problem.meant else replace(problem, hint="see: ls outputs/runs"))


def find_run(given: str | None, *verb: str) -> SavedRun:
    """The run in a folder, by default the latest; UserError if the folder has no run, or a sweep of several runs.

    `verb` are the words of the command line before the folder, to suggest commands for the runs of a sweep.

    Example:
        >>> find_run("no/such/folder")
        Traceback (most recent call last):
        evalflow.errors.UserError: ...
    """
    folder = RunFolder(find_folder(given))
    manifest = folder.read()
    if isinstance(manifest, SweepManifest):
        names = [f"{given or LATEST}/{job}" for job in manifest.jobs]
        lines = "\n    ".join(command(*verb, name) if verb else shlex.quote(name) for name in names)
        where = str(given or LATEST)
        raise UserError(Problem("this is a sweep of several runs", where, f"name one of them:\n    {lines}"))
    return SavedRun(folder, manifest, folder.path.name)


def started_again(manifest: Manifest, changes: Sequence[str]) -> str:
    """The command that starts a run like this one, with other values of the changed keys."""
    changed = {change.partition("=")[0].lstrip("+~") for change in changes}
    kept = [word for word in manifest.overrides if word.partition("=")[0].lstrip("+~") not in changed]
    own = [folder for folder in manifest.search_folders["conf"] if Path(folder) not in conf_dirs(None)]
    return command(*(["--config-dir", own[0]] if own else []), *kept, *changes)


def expect_two(a: SavedRun, b: SavedRun, another: Callable[[SavedRun], str] = lambda _: ANOTHER) -> None:
    """Raise UserError if both are the same run; `another` says what to compare it with."""
    if a.folder == b.folder:
        raise UserError(Problem("this is one run, not two", shown(a.folder.path), another(a)))


def find_scored(given: str | None, *verb: str) -> SavedRun:
    """Like `find_run`, for a run that has scores; UserError if it ended before its tables were written."""
    return expect_scores(find_run(given, *verb))


def jobs_of(folder: Path) -> list[Path] | None:
    """The runs of a sweep, in order; None if the folder holds a single run."""
    sweep = RunFolder(folder).read_sweep()
    if sweep is None or sweep.jobs:
        return sweep and [folder / job for job in sweep.jobs]
    # A killed sweep has no list of its runs.
    begun = [path.parent for path in folder.glob("*/run.json")]
    return sorted(begun, key=lambda path: (len(path.name.partition("_")[0]), path.name))


class ProgramError(UserError):
    """Starting a program needs the user's consent."""


def expect_agreed(manifest: Manifest, where: str, hint: str, root: Path | None = None) -> None:
    """Refuse, with ProgramError, to resume a run that would start programs without the user's consent.

    `hint` says how to agree; `root` is the working directory of resumed runs, by default this process's.
    """
    programs = _new_programs(manifest, (root or Path.cwd()) / _AGREED)
    if programs:
        what = f"resuming this run starts a program of this machine: {', and '.join(programs)}"
        raise ProgramError(Problem(what, where, hint))


def agree(manifest: Manifest, root: Path | None = None) -> None:
    """Allow the run's programs, if it has any, to be started from now on."""
    path = (root or Path.cwd()) / _AGREED
    if not _new_programs(manifest, path):
        return
    private_folder(path.parent)
    with os.fdopen(private_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "w", encoding="utf-8") as file:
        file.write(f"{_digest(manifest)}\n")


def _new_programs(manifest: Manifest, agreed: Path) -> list[str]:
    """Return the configured programs that a run starts; empty if there are none or all are agreed."""
    programs = [*_of_target(as_map(manifest.config.get("target"))), *programs_of_metrics(manifest)]
    if programs and agreed.is_file() and _digest(manifest) in agreed.read_text(encoding="utf-8").split():
        return []
    return programs


def _of_target(values: Mapping[str, Any]) -> Iterator[str]:
    """The program of a target; an unknown kind counts as one."""
    kind = str(values.get("kind"))
    try:
        if not TARGET_KINDS.config(kind).runs_here:
            return
    except UserError:
        yield f"a target of kind {kind}"
        return
    tools = [as_map(tool).get("argv") for tool in as_map(values.get("tools")).values()]
    if tools:
        yield from (_line(argv) for argv in tools if argv)
        yield from [str(values["module"])] if values.get("module") else []
        return
    yield _line(values["argv"]) if values.get("argv") else str(values.get("call") or f"a target of kind {kind}")


def programs_of_metrics(manifest: Manifest) -> Iterator[str]:
    """The programs that a run starts to score answers."""
    for metric in as_map(manifest.config.get("metric")).values():
        for program in as_map(as_map(metric).get("commands")).values():
            yield _line(as_map(program).get("argv"))


def _line(argv: object) -> str:
    return shlex.join(map(str, as_list(argv) or [argv]))


def _digest(manifest: Manifest) -> str:
    known = [manifest.run_id, manifest.config.get("target"), *programs_of_metrics(manifest)]
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def without_unanswered(run: SavedRun, scores: pl.LazyFrame) -> pl.LazyFrame:
    """Return the scores, except errors because the target gave no answer, which cannot be labelled."""
    failed = scores.filter(pl.col("status") == "error")
    cases = failed.select("dataset", "case_id").unique().collect()
    unanswered = [
        (row.case.dataset, row.case.id, row.target, row.target_repeat)
        for row in (answered_rows(run, failed, set(cases.iter_rows())) if cases.height else ())
        if row.answer is None or row.answer.status == "error"
    ]
    schema = {name: scores.collect_schema()[name] for name in CELL}
    return scores.join(
        pl.LazyFrame(unanswered, schema=schema, orient="row"), on=CELL, how="anti", maintain_order="left"
    )


def answered_rows(
    run: SavedRun, scores: pl.LazyFrame, wanted: Collection[tuple[str, str]], columns: Sequence[str] = COLUMNS
) -> Iterator[AnsweredCase]:
    """Each wanted case (dataset, id) with all targets' answers and their scores among `scores`, in input order."""
    with answers_of(run.folder, run.rules.settings.run, {case_id for _, case_id in wanted}) as answers:
        yield from (
            row for row in rows(run.cases(set(wanted)), answers, of_cases(scores, wanted), columns) if row.scores
        )


def read_exclusions(folder: RunFolder) -> list[ExcludedResult]:
    """The results that exclusions.json names; UserError if it is damaged."""
    if not folder.exclusions.is_file():
        return []
    try:
        return TypeAdapter(list[ExcludedResult]).validate_json(folder.exclusions.read_bytes(), strict=True)
    except ValidationError:
        hint = "restore it, or remove it so that no result is excluded"
        raise UserError(Problem("this is not a list of excluded results", str(folder.exclusions), hint)) from None


def write_exclusions(folder: RunFolder, excluded: Sequence[ExcludedResult]) -> None:
    """Write exclusions.json, which replaces the one before; without any, remove it."""
    if not excluded:
        folder.exclusions.unlink(missing_ok=True)
        return
    text = json.dumps([asdict(one) for one in excluded], ensure_ascii=False, indent=1)
    write_atomically(folder.exclusions, text + "\n")


def notes_on_exclusions(folder: RunFolder) -> list[str]:
    """Describe each metric's excluded results, as in summary.json; empty without any."""
    path = folder.path / "summary.json"
    if not folder.exclusions.is_file() or not path.is_file():
        return []
    return exclusion_findings(json.loads(path.read_bytes())["details"])
