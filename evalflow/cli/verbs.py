"""The verbs. Each declares its arguments, and returns what it does with them, which is in `evalflow.app`."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

from evalflow.cli.completion import print_completion
from evalflow.cli.manual import MANUALS, OVERVIEW, OVERVIEW_END
from evalflow.cli.parsing import Verb, VerbParser, Work, config_dir_of, console
from evalflow.doors import Door
from evalflow.errors import Meant, Problem, UserError, program
from evalflow.paths import GROUPS


def _run(parser: VerbParser) -> Work:
    parser.passes_words = True
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="GROUP=NAME, or KEY=VALUE")
    parser.add_config_dir()
    parser.add_argument("-m", "--multirun", action="store_true", help="a sweep: one run for each value after a comma")
    parser.add_flag("--fill-demo", "keep the answers as the example answers that are missing")
    parser.add_flag("--replace-demo", "keep the answers as all example answers")

    def work(options: Namespace) -> int:
        from evalflow.app.core.screen import TerminalScreen
        from evalflow.app.run import execute
        from evalflow.cli.typed import expect_run_words

        config_dir, words = config_dir_of(options.words)
        run_id, words = _run_id_of(words)
        out, err = console(), console(stderr=True)
        if demo := {"--fill-demo", "--replace-demo"}.intersection(words):
            from evalflow.app.demo import run_and_fill

            words = [word for word in words if word not in demo]
            return run_and_fill(words, config_dir, out, err, replacing="--replace-demo" in demo)
        expect_run_words(words, VERBS)
        return execute(words, config_dir, TerminalScreen(out, err), run_id)

    return work


def _check(parser: VerbParser) -> Work:
    parser.passes_words = True
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="GROUP=NAME, or KEY=VALUE")
    parser.add_config_dir()
    parser.add_json()

    def work(options: Namespace) -> int:
        from evalflow.app.check import check
        from evalflow.cli.typed import expect_pairs

        config_dir, words = config_dir_of([word for word in options.words if word != "--json"])
        expect_pairs(words)
        return check(words, config_dir, console(), as_json="--json" in options.words)

    return work


def _resume(parser: VerbParser) -> Work:
    parser.takes_overrides = True
    parser.add_run()
    parser.add_flag("--retry-errors", "ask again what ended in error")
    trust = "start the program that the run's folder names, although it was not started here before"
    parser.add_flag("--trust-program", trust)

    def work(options: Namespace) -> int:
        from evalflow.app.core.screen import TerminalScreen
        from evalflow.app.run import resume

        def agrees(what: str) -> bool:
            return options.trust_program or _confirmed(f"{what}. Do so?")

        screen = TerminalScreen(console(), console(stderr=True))
        retry, changes = options.retry_errors, options.overrides
        return resume(options.run, screen, retry_errors=retry, changes=changes, agrees=agrees)

    return work


def _cases(parser: VerbParser) -> Work:
    from evalflow.app.report import show_cases

    parser.add_run()
    parser.add_flag("--failed", "only errors, and scores that did not pass")
    parser.add_flag("--cut-off", "only answers that were cut off at a limit of tokens")
    parser.add_argument("--metric", help="only this metric")
    parser.add_argument("--tag", help="only cases with this tag, or one below it")
    parser.add_argument("--id", help="only this case")
    parser.add_argument("--limit", type=int, default=20, help="how many at most (20); 0 for all")
    parser.add_json()
    return lambda options: show_cases(options, console())


def _report(parser: VerbParser) -> Work:
    from evalflow.app.report import report_again

    parser.takes_overrides = True
    what = "folders of runs or sweeps, the latest without any; other thresholds: metric.NAME.threshold=X"
    parser.add_argument("folders", nargs="*", metavar="DIR | KEY=VALUE", help=what)
    return lambda options: report_again(options.folders, options.overrides, console())


def _open(parser: VerbParser) -> Work:
    from evalflow.app.report import open_report

    parser.add_run("a folder of a run or a sweep; the latest without it")
    return lambda options: open_report(options.run, console())


def _compare(parser: VerbParser) -> Work:
    from evalflow.app.compare import compare

    what = "folders of runs A and B; of A alone, for the latest as B; of a sweep, for all its pairs"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=what)
    parser.add_argument("--margin", type=float, help="also say whether B is not worse by more than this")
    parser.add_flag("--unpaired", "the runs are samples of different cases, not to be compared case by case")
    labels = "people's labels of the runs' answers; else those that they were calibrated with, or of the data"
    parser.add_argument("--labels", metavar="FILE", help=labels)
    parser.add_flag("--judge-alone", "do not correct differences by labels")
    parser.add_flag("--tags", "also a row for each tag")
    parser.add_flag("--classes", "also the figures of each class or label")
    parser.add_argument("--adjust", choices=("holm", "bh", "by"), default="holm", help="for many comparisons (holm)")
    _add_allow(parser)
    parser.add_json()
    return lambda options: compare(options, console())


def _add_allow(parser: VerbParser) -> None:
    from evalflow.app.core.changed import KINDS

    about = "continue though this is not the same; may be repeated"
    parser.add_argument("--allow", action="append", choices=KINDS, default=[], metavar="|".join(KINDS), help=about)


def _race(parser: VerbParser) -> Work:
    from evalflow.app.race import race

    parser.takes_overrides = True
    parser.add_config_dir()
    what = "the names of two experiments; else one of the overrides has two values: target=A,B"
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT | OVERRIDE", help=what)
    parser.add_argument("--metric", help="the metric whose mean decides; needed with several")
    margin = "also stop once the difference is at most this, in either direction"
    parser.add_argument("--margin", type=float, help=margin)
    parser.add_json()
    return lambda options: race(options, console(), console(stderr=True))


def _prove(parser: VerbParser) -> Work:
    from evalflow.app.prove import prove

    parser.takes_overrides = True
    parser.add_config_dir()
    parser.add_argument("metric", nargs="?", metavar="METRIC", help="the metric; overrides choose its judge and data")
    parser.add_argument("--run", metavar="DIR", help="a run that `prove` made, such as one that was resumed")
    base = "the good answers: people's references (the default), or the recorded answers; none: the fixture alone"
    parser.add_argument("--base", choices=("reference", "answer", "none"), default="reference", help=base)
    wording = "also have the judge reword the criterion of a rubric, by its mistakes in the half to learn from"
    parser.add_flag("--wording", wording)
    parser.add_argument("--calls", type=int, default=300, metavar="N", help="calls of the judge at most (300)")
    parser.add_argument("--by", type=float, default=0.1, metavar="X", help="how far a score must move to count (0.1)")
    parser.add_json()
    return lambda options: prove(options, console(), console(stderr=True))


def _rank(parser: VerbParser) -> Work:
    from evalflow.app.rank import rank

    named = "folders of runs or sweeps, or a glob in quotes; the latest sweep without any"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=named)
    parser.add_argument("--metric", help="only this metric")
    pairs = "also by strength (Bradley-Terry): who wins, ties or loses each case of every two runs"
    parser.add_flag("--pairwise", pairs)
    parser.add_flag("--items", "also which cases separate the runs, and suspect keys")
    labels = "people's labels of the runs' answers; else those that they were calibrated with, or of the data"
    parser.add_argument("--labels", metavar="FILE", help=labels)
    parser.add_flag("--judge-alone", "do not correct values and ranks by labels")
    short = "choose N cases that keep the ranking, and measure what that loses"
    parser.add_argument("--short", type=int, metavar="N", help=short)
    parser.add_argument("--out", metavar="NAME", help="write the short set as the dataset NAME into ./conf")
    _add_allow(parser)
    parser.add_json()
    return lambda options: rank(options, console())


def _calibrate(parser: VerbParser) -> Work:
    from evalflow.app.calibrate import calibrate

    parser.add_run("a run's or sweep's folder; the latest without it")
    parser.add_argument("--labels", metavar="FILE", help="labels (.csv, .jsonl); without it, those of the data")
    unsplit = "of a sweep: all labels both choose the judge and correct its mean, and not half of them each"
    parser.add_flag("--no-split", unsplit)
    parser.add_json()
    parser.add_argument("--sample", type=int, metavar="N", help="write a sheet of N answers to label, drawn at random")
    parser.add_argument("--out", metavar="FILE", help="the sheet (labels.csv), .csv or .jsonl; topped up if it exists")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    alike = "draw as many of each; the sheet then has weights"
    parser.add_argument("--stratify", choices=("score", "tag"), metavar="score|tag", help=alike)
    whole = "draw whole groups, of about N answers together, where reading one answer of a document helps with the next"
    parser.add_flag("--by-group", whole)
    parser.add_argument("--metric", help="in the sheet, only this metric")
    return lambda options: calibrate(options, console())


def _align(parser: VerbParser) -> Work:
    from evalflow.app.align import align

    parser.add_argument("metric", metavar="METRIC", help="a metric of the run whose judge gives one grade")
    parser.add_run("the run whose answers are labelled; the latest without it")
    labels = "labels (.csv, .jsonl); without it, those of the data or of an earlier calibration"
    parser.add_argument("--labels", metavar="FILE", help=labels)
    parser.add_argument("--review", metavar="NAME", help="only the labels of this review")
    parser.add_argument("--examples", type=int, default=4, metavar="N", help="how many examples the judge is shown (4)")
    wording = "also have the judge reword the criterion of a rubric, by its mistakes in the half to learn from"
    parser.add_flag("--wording", wording)
    parser.add_argument("--calls", type=int, default=300, metavar="N", help="calls of the judge at most (300)")
    parser.add_argument("--seed", type=int, default=0, help="of the split of the labels (0)")
    parser.add_flag("--dry-run", "show the examples and the calls, and ask nothing")
    parser.add_json()
    return lambda options: align(options, console(), console(stderr=True))


_PLANNED = (
    ("--detect", None, "find a true difference of X between two runs"),
    ("--width", None, "have a 95 %% interval X wide, from low to high"),
    ("--sd", None, "guess: standard deviation of the cases' scores"),
    ("--mean", None, "guess: their mean, of scores in 0..1 (near 1)"),
    ("--noise", None, "guess: that of several answers to one case"),
    ("--rate", None, "guess: share of the cases that pass"),
    ("--flips", None, "guess: share of the cases that pass in one of two runs alone"),
    ("--correlation", None, "guess: of a case's scores in two runs (0)"),
    ("--judge-correlation", None, "guess: of a judge's scores with people's labels; plans labels too"),
    ("--cluster-size", None, "guess: cases that share a group"),
    ("--icc", None, "guess: correlation of the scores in a group"),
    ("--alpha", 0.05, "level of the test (0.05)"),
    ("--power", 0.8, "probability of finding the difference (0.8)"),
    ("--assurance", None, "chance that the cases suffice, as the pilot may be off: 0.8"),
)


def _plan(parser: VerbParser) -> Work:
    from evalflow.app.plan import plan

    parser.add_argument("--cases", type=int, metavar="N", help="say what N cases would show")
    pilots = "one pilot run, or two to be compared; the latest run where nothing is stated"
    parser.add_argument("--from", dest="runs", nargs="+", default=[], metavar="RUN", help=pilots)
    parser.add_argument("--metric", help="of the pilot, only this metric")
    tests = "tests in one table of compare, which share the level (the pilot's; 1)"
    parser.add_argument("--comparisons", type=int, metavar="M", help=tests)
    labels = "people's labels of the pilot (with --detect of both); plans labels too"
    parser.add_argument("--labels", metavar="FILE", help=labels)
    for name, value, about in _PLANNED:
        parser.add_argument(name, type=float, default=value, metavar="X", help=about)
    parser.add_json()
    return lambda options: plan(options, console())


def _list(parser: VerbParser) -> Work:
    parser.add_config_dir()
    parser.add_word("group", (*GROUPS, "certificates"), nargs="?")
    parser.add_json()

    def work(options: Namespace) -> int:
        if options.group == "certificates":
            from evalflow.app.core.certificates import print_certificates

            return print_certificates(console(), as_json=options.json)
        from evalflow.app.catalogue import print_list

        return print_list(options.group, options.config_dir, console(), as_json=options.json)

    return work


def _show(parser: VerbParser) -> Work:
    from evalflow.app.catalogue import print_option

    parser.add_config_dir()
    parser.add_argument("name", help="such as faithfulness, or judge/openai where a name stands in two groups")
    parser.add_json()
    return lambda options: print_option(options.name, options.config_dir, console(), as_json=options.json)


def _new(parser: VerbParser) -> Work:
    kinds = parser.add_subparsers(dest="what", required=True, metavar="metric|dataset|experiment")
    metric = kinds.add_parser("metric", help="YAML and prompts of a new metric")
    metric.add_argument("name")
    metric.add_argument("--from", dest="source", metavar="METRIC", help="copy this metric instead of a fresh rubric")
    dataset = kinds.add_parser("dataset", help="YAML of a new dataset")
    dataset.add_argument("name", type=_no_file)
    path = "the data: .jsonl, .json, .csv, .tsv, .parquet or .xlsx, or a glob"
    dataset.add_argument("--path", required=True, metavar="FILE", help=path)
    dataset.add_argument("--sheet", metavar="NAME", help="the sheet of a workbook; without it, its only one with rows")

    experiment = kinds.add_parser("experiment", help="an evaluation as one YAML file")
    experiment.add_argument("name")
    experiment.add_argument("overrides", nargs="+", metavar="KEY=VALUE", help="what it chooses and sets, as for a run")

    def work(options: Namespace) -> int:
        from evalflow.app.new import new_dataset, new_experiment, new_metric

        if options.what == "metric":
            return new_metric(options.name, options.source, console())
        if options.what == "experiment":
            return new_experiment(options.name, options.overrides, console())
        return new_dataset(options.name, options.path, options.sheet, console())

    return work


_LONGEST = 200  # characters; no file has a longer name


def _no_file(name: str) -> str:
    if not name.isidentifier() and len(name) <= _LONGEST and Path(name).is_file():
        from evalflow.config.misnamed import new_dataset_of  # needed only after a mistake

        words = new_dataset_of(name)
        hint = "write the name first: new dataset NAME --path FILE"
        raise UserError(Problem(f"{name} is a file, not a name", "command line", hint, meant=Meant(None, words)))
    return name


def _schema(parser: VerbParser) -> Work:
    from evalflow.app.schema import print_schema

    parser.add_word("group", GROUPS, nargs="?")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a file for each group there")
    parser.add_flag("--vscode", "write them, and name them in .vscode/settings.json")
    return lambda options: print_schema(options.group, options.out, console(), vscode=options.vscode)


def _cache(parser: VerbParser) -> Work:
    parser.add_config_dir()
    actions = parser.add_subparsers(dest="what", required=True, metavar="stats|prune")
    stats = actions.add_parser("stats", help="how many, how large, how old")
    prune = actions.add_parser("prune", help="remove some, and give the space back")
    for action in (stats, prune):
        action.add_config_dir()
        action.add_argument("--path", type=Path, metavar="FILE", help="the cache's file; without it, the one of runs")
    stats.add_json()
    prune.add_argument("--older-than", type=float, metavar="DAYS", help="what was stored more than DAYS ago")
    prune.add_argument("--to-size", metavar="SIZE", help="the least recently used, until SIZE is left, such as 500MB")
    prune.add_flag("--all", "everything")

    def work(options: Namespace) -> int:
        from evalflow.app.cache import cache_path, cache_prune, cache_stats

        path = cache_path(options.path, options.config_dir)
        if options.what == "stats":
            return cache_stats(path, console(), as_json=options.json)
        days, size = options.older_than, options.to_size
        return cache_prune(path, console(), older_than_days=days, to_size=size, everything=options.all)

    return work


def _run_id_of(words: list[str]) -> tuple[str | None, list[str]]:
    """Take `--run-id ID` out of the words. A worker sets it to find the run that it starts."""
    if "--run-id" not in words:
        return None, words
    at = words.index("--run-id")
    run_id = words[at + 1] if at + 1 < len(words) else ""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,150}", run_id):
        raise UserError(Problem("--run-id needs an id", "command line", "letters, digits and . _ = -"))
    return run_id, [*words[:at], *words[at + 2 :]]


def _confirmed(question: str) -> bool:
    """Ask at the terminal; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    from evalflow.report.wording import plain

    sys.stderr.write(f"{plain(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


_DECLARED: Mapping[str, Callable[[VerbParser], Work]] = {
    "run": _run,
    "check": _check,
    "resume": _resume,
    "cases": _cases,
    "report": _report,
    "open": _open,
    "compare": _compare,
    "rank": _rank,
    "race": _race,
    "prove": _prove,
    "calibrate": _calibrate,
    "align": _align,
    "plan": _plan,
    "list": _list,
    "show": _show,
    "new": _new,
    "completion": print_completion,
    "schema": _schema,
    "cache": _cache,
}


def _examine_run(options: Namespace) -> None:
    from evalflow.cli.typed import examine_run

    examine_run(options)


def _examine_compare(options: Namespace) -> None:
    from evalflow.app.compare import compared

    compared(options)


def _examine_rank(options: Namespace) -> None:
    from evalflow.app.rank import ranked

    ranked(options)


_EXAMINED: Mapping[str, Callable[[Namespace], object]] = {
    "run": _examine_run,
    "compare": _examine_compare,
    "rank": _examine_rank,
}
VERBS: Door[Verb] = Door(
    "verb",
    {name: Verb(MANUALS[name], declare, _EXAMINED.get(name)) for name, declare in _DECLARED.items()},
    where="command line",
)


def overview() -> str:
    """The text of `--help`; needs no import of Hydra. A package whose verb cannot be loaded hides no other verb."""
    lines: list[str] = []
    broken: list[str] = []
    for name in VERBS.names():
        try:
            lines.append(VERBS.get(name).manual.overview)
        except UserError as error:
            broken += [f"\n{problem.what}\n  hint: {problem.hint}\n" for problem in error.problems]
    verbs = "\n".join(line for line in lines if line)
    return OVERVIEW.format(program=program()) + f"{verbs}\n{OVERVIEW_END}{''.join(broken)}"
