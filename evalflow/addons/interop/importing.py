"""The command `import`: convert another tool's files to ./conf, ./data and ./prompts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from rich import box
from rich.console import Console
from rich.table import Table

from evalflow.addons.interop.importers.exports import read_export
from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource, key_for, secrets_in
from evalflow.addons.interop.importers.ledger import COLUMNS, Ledger, Untranslated
from evalflow.addons.interop.importers.packaged import read_with
from evalflow.addons.interop.importers.platforms import PLATFORMS
from evalflow.addons.interop.importers.same_cases import SameCases
from evalflow.addons.interop.importers.tiamat import read_test
from evalflow.app.check import examined
from evalflow.app.core.assemble import with_default_judge
from evalflow.app.core.derive import Derived
from evalflow.app.core.options import MODEL, SENDS_NOTHING, options
from evalflow.app.core.result_rules import ResultRules
from evalflow.app.core.saved import LATEST
from evalflow.app.core.screen import TerminalScreen, propose_command, write_new
from evalflow.app.report import case_rows
from evalflow.app.run import execute
from evalflow.config.schema import IDENTIFIER
from evalflow.doors import Door
from evalflow.engine.folder import RunFolder
from evalflow.errors import Problem, UserError, command
from evalflow.lazy import pl
from evalflow.paths import private_folder, shown, write_atomically
from evalflow.protocols import Importer
from evalflow.records import numbered, texts_of
from evalflow.records.manifest import Manifest
from evalflow.report.wording import ColumnKind, cut, literal, number, print_lines, table_of
from evalflow.values.jsonvalues import as_list, as_map

Reader = Callable[[ImportSource], ImportedConfig]
_READERS = {
    "azure-ai": "azure_ai:read_azure_ai",
    "deepeval": "deepeval:read_deepeval",
    "giskard": "giskard:read_giskard",
    "inspect": "inspect_logs:read_inspect",
    "govuk": "govuk:read_govuk",
    "lm-eval": "lm_eval:read_lm_eval",
    "openai-evals": "openai_evals:read_openai_evals",
    "promptfoo": "promptfoo.read:read_promptfoo",
    "ragas": "ragas:read_ragas",
    "traces": "traces:read_traces",
}
IMPORTERS: Door[Reader | Importer] = Door(
    "importer",
    {
        **{name: f"evalflow.addons.interop.importers.{place}" for name, place in _READERS.items()},
        **{name: partial(read_export, platform) for name, platform in PLATFORMS.items()},
        "tiamat": lambda source: read_test(source.path, source.name if source.is_named else None),
    },
    where="command line",
)
_TARGET = ("target=vllm", "target.model=MODEL")
_FOLDER = Path(".evalflow") / "tiamat"
_SHOWN = 20  # maximum cases of each dataset in the table
_STAND_INS = {"url": "http://127.0.0.1:8000", "base_url": "http://127.0.0.1:8000", "model": "MODEL"}
"""Values of keys that cannot be null, for a check without their variables."""
_NOTHING_SENT = "sends nothing; leave out `check` to run it"


def reader_of(kind: str) -> Reader:
    """The reader of a tool's files: evalflow's own function, or one for the rows of a package's importer."""
    package = IMPORTERS.package(kind)
    if package is None:
        return cast("Reader", IMPORTERS.get(kind))
    return partial(read_with, cast("Importer", IMPORTERS.get(kind)), kind, package)


def import_files(
    kind: str,
    path: str,
    console: Console,
    name: str | None = None,
    root: str | None = None,
    dataset: str | None = None,
) -> int:
    """Write what the tool's files declare into ./conf, ./data and ./prompts; print what was taken, and how to run it.

    With `dataset`, the file has another system's results of that dataset's cases: they are compared case by case.
    Nothing is written if anything is wrong: rows are kept in a temporary folder until all is read.
    """
    source = Path(path)
    key = name or key_for(source.resolve().stem if source.suffix else source.resolve().name, (), kind.split("-")[0])
    if not IDENTIFIER.fullmatch(key):
        hint = "lower-case letters, digits and _, a letter first"
        raise UserError(Problem(f"{key!r} cannot be a name", "command line", hint))
    same = SameCases.of(dataset) if dataset else None
    with _scratch() as scratch:
        imported = reader_of(kind)(
            ImportSource(source, key, scratch, Path(root) if root else None, name is not None, same)
        )
        if same and not same.is_used:
            what = f"--dataset is for files with the results of one system, and {kind} reads others"
            raise UserError(Problem(what, "command line", "leave out --dataset"))
        imported.ledger.expect_balanced()
        for table in imported.datasets.values():
            table["path"] = shown(Path(str(table["path"])))
        texts = {Path("conf") / name: text for name, text in imported.files().items()}
        texts |= {Path("prompts") / name: text for name, text in imported.prompts.items()}
        _write(texts, imported.data, console)
    _print_counts(console, imported.ledger)
    print_lines(console, (f"note   {note}" for note in imported.notes))
    for arguments, remark in _commands(imported):
        propose_command(console, command("check", *arguments), remark)
    for arguments, remark in _to_compare(kind, key, imported, same):
        propose_command(console, command(*arguments), remark)
    return 0


def _to_compare(
    kind: str, key: str, imported: ImportedConfig, same: SameCases | None
) -> Iterator[tuple[list[str], str]]:
    """How the results are compared with those of another system, if both are results of one system."""
    if same is None:
        if imported.has_one_system and set(imported.experiments) == {key}:
            remark = "another system's results of the same cases, to be compared with these"
            yield ["import", kind, "FILE", "--dataset", key], remark
        return
    names = {str(one.get("name")) for one in imported.metrics.values()}
    shared = [option.name for option in options(None, "metric") if option.name in names]
    if shared and any(option.name == same.option for option in options(None, "experiment")):
        both = ["-m", f"experiment={same.option},{key}", f"metric=[{','.join(shared)}]"]
        yield both, f"the old scores of both; sends nothing. Then: {command('compare', LATEST)}"


@contextmanager
def _scratch() -> Generator[Path]:
    """A folder for rows that are not complete yet, beside those that are; gone when the block ends."""
    parent = Path("data")
    try:
        with TemporaryDirectory(prefix=".import-", dir=parent if parent.is_dir() else ".") as folder:
            yield Path(folder)
    except OSError as error:
        raise UserError(Problem(f"cannot write here: {error.strerror}", str(Path.cwd()))) from None


def _write(texts: dict[Path, str], data: Mapping[str, Path], console: Console) -> None:
    final = {Path("data") / name: path for name, path in data.items()}
    hint = "choose another name: --name NAME"
    taken = [path for path in (*texts, *final) if path.exists()]
    if taken:
        raise UserError([Problem("the file is there already", str(path), hint) for path in taken])
    write_new(texts, console)  # first, since it fails if the schemas of conf/ cannot be written
    for path, complete in final.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        complete.replace(path)
        console.print(literal(f"wrote {shown(path)}"), soft_wrap=True)


def _print_counts(console: Console, ledger: Ledger) -> None:
    counts = {part: numbers for part, numbers in ledger.counts().items() if numbers[0]}
    if not counts:
        return
    rows = [(part, *(f"{number:,}" for number in numbers)) for part, numbers in counts.items()]
    columns: Mapping[str, ColumnKind] = {"": "word", "found": "number", "taken": "number", "not translated": "number"}
    console.print(table_of(columns, rows, gap=2))
    if ledger.left_out:
        console.print(literal("not translated", style="bold"))
    for (where, reason, hint), entries in _by_reason(ledger.left_out):
        most = max(entry.count for entry in entries)
        times = "" if most == 1 else f"{most:,} x " if len(entries) == 1 else f"up to {most:,} x "
        names = ", ".join(entry.what.removeprefix("column ") for entry in entries)
        what = f"columns {names}" if len(entries) > 1 else entries[0].what
        console.print(literal(f"  {times}{what}, {where}: {reason}"), soft_wrap=True)
        if hint:
            console.print(literal(f"    {hint}", style="dim"), soft_wrap=True)


def _by_reason(left: Iterable[Untranslated]) -> Iterator[tuple[tuple[str, str, str], Sequence[Untranslated]]]:
    """The omissions; columns that were left out of the same rows for the same reason are together."""
    together: dict[tuple[str, ...], list[Untranslated]] = {}
    for entry in left:
        own = () if entry.part == COLUMNS else (entry.part, entry.what)
        together.setdefault((entry.where, entry.reason, entry.hint, *own), []).append(entry)
    for (where, reason, hint, *_), entries in together.items():
        yield (where, reason, hint), entries


def _commands(imported: ImportedConfig) -> Iterator[tuple[list[str], str]]:
    """The overrides that run what was imported, each with a remark. They are complete: `check` takes them as printed.

    A key whose variable is not set is left out of `check`, which sends nothing.
    """
    for name, experiment in imported.experiments.items():
        target = imported.targets.get(experiment.target)
        unset = _unset(target, "target")
        judge = () if name in imported.unjudged else MODEL
        remark = SENDS_NOTHING if judge else _NOTHING_SENT
        unset |= _unset(imported.judges.get(experiment.judge), "judge")
        without = [f"{key}={_STAND_INS.get(key.partition('.')[2], 'null')}" for key in unset]
        overrides = [] if target or not experiment.generate else list(_TARGET)
        missing = sorted(set(unset.values()))
        named = SENDS_NOTHING if overrides else remark
        until = f"sends nothing; to run it, set {' and '.join(missing)}, and leave out `check` and {' '.join(without)}"
        yield [f"experiment={name}", *overrides, *judge, *without], until if missing else named
    if imported.experiments:
        return
    overrides = [f"dataset=[{','.join(imported.datasets)}]", f"metric=[{','.join(imported.metrics)}]"]
    if not imported.has_answers:
        overrides += ["generate=true", *_TARGET]
    yield [*overrides, *MODEL], SENDS_NOTHING


def _unset(option: Mapping[str, object] | None, group: str) -> dict[str, str]:
    """Keys of an option whose environment variable is not set, with the variable."""
    unset: dict[str, str] = {}
    for key, value in (option or {}).items():
        variables = [secret.variable for secret in secrets_in(value)]
        if key == "api_key_env" and isinstance(value, str) and value:
            variables = [value]
        unset |= {f"{group}.{key}": variable for variable in variables if variable not in os.environ}
    return unset


def run_tiamat(test: str, overrides: Sequence[str], out: Console, err: Console, output: str | None = None) -> int:
    """Evaluate each of the test's datasets with each of its metrics, in one run; returns the exit code.

    With `output`, the results are written there too, in Tiamat's form.

    The files are converted to a config folder named by a hash of its content, which `--config-dir` can read too. New
    answers are generated, unless the rows contain answers or an override says otherwise. By default the target's own
    model is the judge.
    """
    imported = read_test(Path(test))
    folder = _written(imported, _FOLDER)
    arguments = with_default_judge(_words_of(imported, overrides), folder, judged=True)
    return execute(arguments, folder, _TiamatScreen(out, err, Path(output) if output else None))


def examine_tiamat(test: str, overrides: Sequence[str]) -> None:
    """UserError if `run_tiamat` would be refused before its first request; keeps no file."""
    imported = read_test(Path(test))
    with TemporaryDirectory(prefix="evalflow-") as place:
        folder = _written(imported, Path(place))
        arguments = with_default_judge(_words_of(imported, overrides), folder, judged=True)
        examined(arguments, folder)


def _words_of(imported: ImportedConfig, overrides: Sequence[str]) -> list[str]:
    chosen = [f"dataset=[{','.join(imported.datasets)}]", f"metric=[{','.join(imported.metrics)}]"]
    return [*chosen, *([] if imported.has_answers else ["generate=true"]), *overrides]


class _TiamatScreen(TerminalScreen):
    """Shows each dataset with each metric, case by case, before the summary."""

    def __init__(self, out: Console, err: Console, output: Path | None) -> None:
        super().__init__(out, err)
        self._output = output

    def ends(self, folder: RunFolder, manifest: Manifest, rules: ResultRules, derived: Derived) -> None:
        distinct = derived.scores.select("dataset", "case_id").unique(maintain_order=True)
        wanted = distinct.group_by("dataset", maintain_order=True).head(_SHOWN).collect()
        print_pairs(self._out, list(case_rows(folder, derived.scores, wanted)), native_means(derived.scores))
        super().ends(folder, manifest, rules, derived)
        if self._output is not None:
            results = tiamat_results(case_rows(folder, derived.scores, distinct.collect()))
            write_atomically(self._output, json.dumps(results, ensure_ascii=False, indent=4) + "\n")
            self._out.print(literal(f"wrote {shown(self._output)}"), soft_wrap=True)


def tiamat_results(cases: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """Cases with the keys of `cases --json` as Tiamat writes its results: scores on the metrics' own scales, or null.

    The mean of a metric is over the cases that have a score; with several datasets each row names its own.
    """
    rows: list[dict[str, object]] = []
    values: dict[str, list[float]] = {}
    for case in cases:
        scores = {
            str(score["metric"]): score["value"] if score["status"] == "scored" else None
            for score in map(as_map, as_list(case["scores"]))
        }
        for metric, value in scores.items():
            values.setdefault(metric, []).extend([float(value)] if isinstance(value, int | float) else [])
        messages = map(as_map, as_list(case["messages"]))
        asked = [message["content"] for message in messages if message["role"] == "user"]
        metrics = [{"metric": metric, "metric_score": value} for metric, value in scores.items()]
        about: dict[str, object] = {"dataset": case["dataset"], "question": asked[-1] if asked else ""}
        rows.append({**about, "answer": case["answer"], "metrics": metrics})
    if len({row["dataset"] for row in rows}) == 1:
        rows = [{key: value for key, value in row.items() if key != "dataset"} for row in rows]
    means = {metric: sum(part) / len(part) if part else None for metric, part in values.items()}
    return {"data": rows, "overall_metric_score": means}


def _written(imported: ImportedConfig, place: Path) -> Path:
    files = imported.files()
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12]
    folder = place.absolute() / digest
    try:
        for name, text in files.items():
            path = folder / name
            private_folder(path.parent)
            if not path.is_file():
                write_atomically(path, text)
    except OSError as error:
        raise UserError(Problem(f"cannot write there: {error.strerror}", str(folder))) from None
    return folder


_LINES = 200  # characters of a text that a cell shows


def native_means(scores: pl.LazyFrame) -> pl.DataFrame:
    """The mean on the metric's own scale; true counts as 1; null without a score, and for labels."""
    value = pl.col("value").replace({"true": "1", "false": "0"}).cast(pl.Float64, strict=False)
    scored = pl.col("status") == "scored"
    return (
        scores.filter(pl.col("member_of").is_null())
        .group_by("dataset", "metric", "target", "judge", maintain_order=True)
        .agg(pl.len().alias("n"), scored.sum().alias("n_scored"), value.filter(scored).mean().alias("mean"))
        .collect(engine="streaming")
    )


def print_pairs(console: Console, cases: Sequence[Mapping[str, Any]], means: pl.DataFrame) -> None:
    """A table per dataset, metric, target and judge: input, output, example output and score, and the mean below.

    `cases` have the keys of `cases --json`; `means` is what `native_means` gives, of all cases.
    """
    for pair in means.iter_rows(named=True):
        shown = [
            (case, score)
            for case in cases
            if (case["dataset"], case["target"]) == (pair["dataset"], pair["target"])
            for score in case["scores"]
            if (score["metric"], score["judge"]) == (pair["metric"], pair["judge"])
        ]
        console.print(literal(f"dataset {pair['dataset']} with metric {pair['metric']}", style="bold"), soft_wrap=True)
        console.print(_table(shown))
        left = pair["n"] - len(shown)
        more = f"; {left} more in results.csv" if left else ""
        mean = "no mean" if pair["mean"] is None else f"mean {number(pair['mean'], 2)}"
        line = f"{mean} on the metric's own scale, over {pair['n_scored']} of {pair['n']} scored{more}"
        console.print(literal(line, style="dim"), soft_wrap=True)
        console.print()


def _table(shown: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("input", "output", "example output"):
        table.add_column(column, ratio=1)
    table.add_column("score", justify="right", no_wrap=True)
    for case, score in shown:
        asked = " / ".join(turn["content"] for turn in case["messages"] if turn["role"] == "user")
        output = case["answer"] if case["answer"] is not None else case["error"] or "–"
        value = json.dumps(score["value"]) if score["status"] == "scored" else score["status"]
        table.add_row(
            *(
                literal(cut(text, _LINES))
                for text in (asked, output, numbered(texts_of(case["reference"])) or "–", value)
            )
        )
    return table
