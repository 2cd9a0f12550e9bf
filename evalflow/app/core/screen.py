"""Terminal output of runs."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from evalflow.engine.bookkeeping import Tally
from evalflow.engine.folder import RunFolder
from evalflow.errors import EvalflowError, Problem, UserError, WaitingError, command
from evalflow.lazy import pl
from evalflow.paths import shown, write_atomically
from evalflow.records import ScoreRecord
from evalflow.records.manifest import ExportFacts, Manifest
from evalflow.report.cases import print_eval_steps, print_score
from evalflow.report.console import follow, print_gates, print_summary, print_totals, print_worst, worst_cases
from evalflow.report.findings import cases_in, print_details
from evalflow.report.gate_sentences import of_exit
from evalflow.report.wording import counted, has_made_id, literal, plain

if TYPE_CHECKING:
    from evalflow.app.core.derive import Derived
    from evalflow.app.core.inspect import Inspection
    from evalflow.app.core.result_rules import ResultRules
    from evalflow.engine.deadline import Interrupter
    from evalflow.report.sweep import JudgePair
    from evalflow.summary.ranking import Leaderboard


class TerminalScreen:
    """Shows the progress and the results of runs: results go to `out`, progress and errors to `err`."""

    interrupter: Interrupter | None = None  # interrupts the run, in addition to signals

    def __init__(self, out: Console, err: Console) -> None:
        self._out = out
        self._err = err
        self._sweeping = False
        self._noted: set[str] = set()

    def starts(self, inspection: Inspection, folder: RunFolder) -> None:
        counts = ", ".join(f"{counted(n, 'case')} of {name}" for name, n in inspection.cases.items())
        metrics = ", ".join(inspection.parts.metrics)
        scores = counted(inspection.cells, "score")
        self._err.print(literal(f"{counts}; {metrics}; {scores}", style="bold"))
        for notice in inspection.notices():
            self.noted(notice)

    def noted(self, text: str) -> None:
        """Print a note, once for all runs."""
        if text not in self._noted:
            self._noted.add(text)
            self._err.print(literal(f"note: {text}", style="yellow"), soft_wrap=True)

    def engine_ready(self, about: str) -> None:
        self._err.print(literal(about), soft_wrap=True)

    def prepared(self, metric: str, entry: Mapping[str, Any], folder: RunFolder) -> None:
        if entry.get("kind") == "g_eval" and not entry["copied_from"]:
            print_eval_steps(self._err, metric, entry, shown(folder.path))

    def nothing_left(self, tally: Tally, folder: RunFolder) -> None:
        lines = [f"nothing was left to do: all {tally.done:,} scores are there"]
        if tally.errors:
            lines.append(f"{tally.errors:,} of them are errors; to ask for these again:")
            lines.append(f"  {command('resume', shown(folder.path), '--retry-errors')}")
        self._err.print(literal("\n".join(lines)), soft_wrap=True)

    def was_decided(self, inspection: Inspection, asked: Mapping[str, int]) -> None:
        count, of = sum(asked.values()), inspection.cases.total()
        what = f"it was decided after {count:,} of {of:,} cases, so no further case is asked"
        self._err.print(literal(what), soft_wrap=True)

    def stopping(self, in_progress: int) -> None:
        self._err.print(literal(f"stopping: {in_progress} in progress; again to stop now"), soft_wrap=True)

    async def follow(self, tally: Tally) -> None:
        await follow(tally, self._err)

    def scored(self, record: ScoreRecord) -> None:
        print_score(self._err, record)

    def ends(self, folder: RunFolder, manifest: Manifest, rules: ResultRules, derived: Derived) -> None:
        if self._sweeping:
            from evalflow.report.sweep import run_line

            self._out.print(literal(run_line(folder.path.name, manifest, derived.summary.frame)), soft_wrap=True)
            return
        directions = {name: metric.config.direction for name, metric in rules.metrics.items()}
        self._out.print()
        print_summary(self._out, manifest, derived.summary.frame, directions, derived.gates)
        if derived.calibration:
            from evalflow.report.calibration import print_corrected

            print_corrected(self._out, derived.calibration)
        people = derived.calibration.people if derived.calibration else None
        worst, details = worst_cases(derived.scores, directions, people), derived.summary.details
        listed = [*((case.dataset, case.case_id) for case in worst), *cases_in(details)]
        questions = _questions(folder, manifest, listed)
        print_details(self._out, details, manifest, questions)
        print_worst(self._out, worst, questions)
        print_gates(self._out, derived.gates)
        print_totals(self._out, manifest)
        errors = manifest.scores["error"]
        if errors:
            share = errors / sum(manifest.scores.values())
            what = f"{errors} score{'s' if errors > 1 else ''} could not be made ({share:.1%} of all): "
            self._out.print(literal(what + "; ".join(derived.error_types), style="red"), soft_wrap=True)
            self._out.print(literal(f"  such as: {derived.error_example}", style="dim"), soft_wrap=True)
        if (code := manifest.exit_code) in (1, 3):
            allowed = rules.settings.run.max_error_rate
            why = of_exit(code, manifest.scores, derived.gates, allowed)
            self._out.print(literal(why, style="bold red"), soft_wrap=True)
        self._out.print()
        is_latest = folder.path.resolve() == (Path("outputs") / "latest").resolve()
        arguments = [] if is_latest else [shown(folder.path)]
        if errors or (derived.summary.frame["pass_rate"] < 1).any():
            arguments.append("--failed")
        elif worst:
            arguments += ["--id", worst[0].case_id]
        self._line("more", command("cases", *arguments))
        if errors:
            from evalflow.app.core.derive import asked_again

            what, line = asked_again(manifest, [] if is_latest else [shown(folder.path)], derived.scores)
            self._out.print(literal(f"{what}:"), soft_wrap=True)
            self._line("retry" if line.startswith(command("resume")) else "again", line)
        if derived.texts_apart:
            self._line("texts", f"{shown(folder.cases)} (results.csv of a run this large has none)")
        self._line("report", shown(folder.report))

    def exported(self, facts: ExportFacts, folder: RunFolder) -> None:
        print_export(self._err, facts, folder)

    def failed(self, error: EvalflowError, folder: Path | None) -> None:
        for problem in error.problems if isinstance(error, UserError) else [error]:
            self._err.print(Text.assemble(("error: ", "bold red"), plain(str(problem))), soft_wrap=True)
        if folder:
            self._err.print(literal(f"finished work is in {shown(folder)}"), soft_wrap=True)
            if command("resume") not in str(error):
                self._err.print(literal(f"go on  {command('resume', shown(folder))}"), soft_wrap=True)

    def interrupted(self, folder: Path | None) -> None:
        self._err.print(literal("interrupted", style="bold red"))
        if folder:
            self._line("kept", shown(folder))
            self._line("go on", command("resume", shown(folder)))

    def waiting(self, error: WaitingError, folder: Path) -> None:
        self._err.print(literal(str(error), style="bold"), soft_wrap=True)
        self._line("kept", shown(folder))
        self._line("go on", command("resume", shown(folder)))

    def sweeping(self) -> None:
        """Print one line per run from now on; the table over all runs follows."""
        self._sweeping = True

    def swept(
        self,
        folder: Path,
        summary: pl.DataFrame,
        agreement: Sequence[JudgePair],
        boards: Sequence[Leaderboard],
        failed: Mapping[str, str],
    ) -> None:
        from evalflow.report.sweep import print_sweep

        self._out.print()
        names: list[str] = summary["run"].unique(maintain_order=True).to_list()
        manifests = {name: RunFolder(folder / name).read_manifest() for name in names}
        print_sweep(self._out, summary, manifests, agreement, boards)
        for name, why in failed.items():
            self._out.print(literal(f"{name} failed: {why}", style="red"), soft_wrap=True)
        self._line("report", shown(folder / "report.html"))

    def _line(self, label: str, text: str) -> None:
        self._out.print(Text.assemble((f"{label:<7}", "dim"), plain(text)), soft_wrap=True)


def _questions(folder: RunFolder, manifest: Manifest, listed: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The questions of the listed cases without ids of their own, by dataset and id."""
    from evalflow.app.core.saved import SavedRun

    wanted = {(dataset, case_id) for dataset, case_id in listed if has_made_id(case_id)}
    cases = SavedRun(folder, manifest).cases(wanted) if wanted else ()
    return {(case.dataset, case.id): case.question or "" for case in cases}


def print_export(console: Console, facts: ExportFacts, folder: RunFolder) -> None:
    """Print what was exported of a run, and how to send the rest."""
    taken, of = facts.sent - facts.rejected, facts.sent + facts.unsent
    lost = facts.rejected + facts.unsent
    console.print(
        literal(f"{facts.to}: {taken:,} of {of:,} scores sent to {facts.where}", style="yellow" if lost else ""),
        soft_wrap=True,
    )
    if facts.rejected:
        console.print(literal(f"  {facts.rejected:,} rejected, which are not sent again: {facts.why}"), soft_wrap=True)
    if facts.unsent:
        console.print(literal(f"  {facts.unsent:,} not sent: {facts.why}"), soft_wrap=True)
    if facts.unsent and facts.to in ("otel", "storage"):
        again = command("export", facts.to, shown(folder.path), "--to", facts.where)
        console.print(literal(f"  send them: {again}"), soft_wrap=True)


def write_new(files: dict[Path, str], console: Console) -> None:
    """Write new files, and print their paths; UserError if one of them exists already, and then none is written."""
    taken = [path for path in files if path.exists()]
    if taken:
        raise UserError([Problem("the file is there already", str(path), "choose another name") for path in taken])
    from evalflow.app.core.json_schema import SCHEMAS, with_schema_line, write_schemas

    try:
        if any(with_schema_line(path, "") for path in files):
            write_schemas(SCHEMAS)
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, with_schema_line(path, text))
            console.print(literal(f"wrote {shown(path)}"), soft_wrap=True)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise  # no mistake of the user
        raise UserError(Problem(f"cannot be written: {error.strerror}", str(error.filename or ""))) from None


def propose_command(console: Console, line: str, remark: str) -> None:
    """Print a suggested next command."""
    text = Text.assemble(("next   ", "dim"), plain(line), (f"   ({remark})" if remark else "", "dim"))
    console.print(text, soft_wrap=True)
