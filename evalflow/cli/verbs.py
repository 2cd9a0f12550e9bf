"""The verbs and their arguments. The work is done in `evalflow.app`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import get_args

from evalflow.cli import server
from evalflow.cli.completion import print_completion
from evalflow.cli.parsing import Handler, console, parser_of
from evalflow.errors import Problem, UserError, did_you_mean


def _run(words: list[str]) -> int:
    from evalflow.app.core.screen import TerminalScreen
    from evalflow.app.run import execute

    config_dir, words = _config_dir_of(words)
    run_id, words = _run_id_of(words)
    out, err = console(), console(stderr=True)
    if demo := {"--fill-demo", "--replace-demo"}.intersection(words):
        from evalflow.app.demo import run_and_fill

        words = [word for word in words if word not in demo]
        return run_and_fill(words, config_dir, out, err, replacing="--replace-demo" in demo)
    _expect_flags_of_hydra(words)
    return execute(words, config_dir, TerminalScreen(out, err), run_id)


_FLAGS = (
    "--cfg", "--config-name", "--config-path", "--experimental-rerun", "--hydra-help", "--info", "--multirun",
    "--package", "--resolve", "--run", "--shell-completion", "-c", "-cn", "-cp", "-i", "-m", "-p", "-r", "-sc",
)  # fmt: skip
"""What Hydra takes beside overrides; its own message of another flag would list these alone."""


def _expect_flags_of_hydra(words: list[str]) -> None:
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    wrong = [flag for flag in flags if flag not in _FLAGS]
    if wrong:
        own = ("--config-dir", "--fill-demo", "--replace-demo", "--multirun", "--cfg", "--info")
        raise UserError(Problem(f"run does not take {flag}", "command line", did_you_mean(flag, own)) for flag in wrong)


def _check(words: list[str]) -> int:
    from evalflow.app.check import check

    as_json = "--json" in words
    config_dir, words = _config_dir_of([word for word in words if word != "--json"])
    return check(words, config_dir, console(), as_json=as_json)


def _resume(words: list[str]) -> int:
    from evalflow.app.core.saved import is_override
    from evalflow.app.core.screen import TerminalScreen
    from evalflow.app.run import resume

    changes = [word for word in words if is_override(word)]
    words = [word for word in words if word not in changes]
    parser = parser_of(
        "resume",
        "Finish a run; nothing that is finished is asked again. budget.usd=5 raises its budget, and engine=ray goes on "
        "in a cluster.",
    )
    parser.add_argument("run", nargs="?", help="a run's folder; the latest without it")
    parser.add_argument("--retry-errors", action="store_true", help="ask again what ended in error")
    trust = "start the program that the run's folder names, although it was not started here before"
    parser.add_argument("--trust-program", action="store_true", help=trust)
    options = parser.parse_args(words)
    screen = TerminalScreen(console(), console(stderr=True))

    def agrees(what: str) -> bool:
        return options.trust_program or _confirmed(f"{what}. Do so?")

    return resume(options.run, screen, retry_errors=options.retry_errors, changes=changes, agrees=agrees)


def _cases(words: list[str]) -> int:
    from evalflow.app.report import show_cases

    parser = parser_of("cases", "Show cases: question, answer, score, reason and the judge's steps.")
    parser.add_argument("run", nargs="?", help="a run's folder; the latest without it")
    parser.add_argument("--failed", action="store_true", help="only errors, and scores that did not pass")
    parser.add_argument("--metric", help="only this metric")
    parser.add_argument("--tag", help="only cases with this tag, or one below it")
    parser.add_argument("--id", help="only this case")
    parser.add_argument("--limit", type=int, default=20, help="how many at most (20); 0 for all")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return show_cases(parser.parse_args(words), console())


def _report(words: list[str]) -> int:
    from evalflow.app.report import report_again

    parser = parser_of(
        "report", "Write the reports of runs or sweeps again, from what they recorded; nothing is asked."
    )
    what = "folders of runs or sweeps, the latest without any; other thresholds: metric.NAME.threshold=X"
    parser.add_argument("words", nargs="*", metavar="DIR | KEY=VALUE", help=what)
    return report_again(parser.parse_args(words).words, console())


def _open(words: list[str]) -> int:
    from evalflow.app.report import open_report

    parser = parser_of("open", "Show a report in the browser.")
    parser.add_argument("run", nargs="?", help="a folder of a run or a sweep; the latest without it")
    return open_report(parser.parse_args(words).run, console())


def _compare(words: list[str]) -> int:
    from evalflow.app.compare import compare
    from evalflow.app.core.comparison import KINDS

    parser = parser_of("compare", "Hold run B against run A, case by case: better, worse, or cannot tell.")
    what = "folders of runs A and B; of A alone, for the latest as B; of a sweep, for all its pairs"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=what)
    parser.add_argument("--margin", type=float, help="also say whether B is not worse by more than this")
    unpaired = "the runs are samples of different cases, not to be compared case by case"
    parser.add_argument("--unpaired", action="store_true", help=unpaired)
    parser.add_argument(
        "--labels", metavar="FILE", help="people's labels of both runs' answers; else those of the data"
    )
    parser.add_argument("--judge-alone", action="store_true", help="do not correct differences of means by labels")
    parser.add_argument("--tags", action="store_true", help="also a row for each tag")
    parser.add_argument("--classes", action="store_true", help="also the figures of each class or label")
    parser.add_argument("--adjust", choices=("holm", "bh", "by"), default="holm", help="for many comparisons (holm)")
    allow = "compare though this is not the same; may be repeated"
    parser.add_argument("--allow", action="append", choices=KINDS, default=[], metavar="|".join(KINDS), help=allow)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return compare(parser.parse_args(words), console())


def _race(words: list[str]) -> int:
    from evalflow.app.core.saved import is_override
    from evalflow.app.race import race

    config_dir, words = _config_dir_of(words)
    parser = parser_of("race", "Ask two configurations the same cases turn by turn, until one is shown to be better.")
    what = "the names of two experiments; else one of the overrides has two values: target=A,B"
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT | OVERRIDE", help=what)
    parser.add_argument("--metric", help="the metric whose mean decides; needed with several")
    parser.add_argument(
        "--margin", type=float, help="also stop once the difference is at most this, in either direction"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")
    overrides = [word for word in words if is_override(word)]
    options = parser.parse_args([word for word in words if word not in overrides])
    sides = [f"experiment={','.join(options.experiments)}"] if options.experiments else []
    return race([*sides, *overrides], options, config_dir, console(), console(stderr=True))


def _prove(words: list[str]) -> int:
    from evalflow.app.core.saved import is_override
    from evalflow.app.prove import prove

    config_dir, words = _config_dir_of(words)
    what = "Compare a judge's scores with those of people on a metric's fixture, and say which faults it sees."
    parser = parser_of("prove", what)
    parser.add_argument("metric", nargs="?", metavar="METRIC", help="the metric; overrides choose its judge and data")
    parser.add_argument("--run", metavar="DIR", help="a run that `prove` made, such as one that was resumed")
    base = "the good answers: people's references (the default), or the recorded answers; none: the fixture alone"
    parser.add_argument("--base", choices=("reference", "answer", "none"), default="reference", help=base)
    parser.add_argument("--calls", type=int, default=300, metavar="N", help="calls of the judge at most (300)")
    parser.add_argument("--by", type=float, default=0.1, metavar="X", help="how far a score must move to count (0.1)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    overrides = [word for word in words if is_override(word)]
    options = parser.parse_args([word for word in words if word not in overrides])
    return prove(overrides, options, config_dir, console(), console(stderr=True))


def _rank(words: list[str]) -> int:
    from evalflow.app.core.comparison import KINDS
    from evalflow.app.rank import rank

    what = "Rank several runs on the cases that all of them scored, with joint confidence in their ranks."
    parser = parser_of("rank", what)
    named = "folders of runs or sweeps, or a glob in quotes; the latest sweep without any"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=named)
    parser.add_argument("--metric", help="only this metric")
    pairs = "also by strength (Bradley-Terry): who wins, ties or loses each case of every two runs"
    parser.add_argument("--pairwise", action="store_true", help=pairs)
    parser.add_argument("--items", action="store_true", help="also which cases separate the runs, and suspect keys")
    parser.add_argument("--labels", metavar="FILE", help="people's labels for --items; without it, those of the data")
    short = "choose N cases that keep the ranking, and measure what that loses"
    parser.add_argument("--short", type=int, metavar="N", help=short)
    parser.add_argument("--out", metavar="NAME", help="write the short set as the dataset NAME into ./conf")
    allow = "rank though this is not the same; may be repeated"
    parser.add_argument("--allow", action="append", choices=KINDS, default=[], metavar="|".join(KINDS), help=allow)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return rank(parser.parse_args(words), console())


def _calibrate(words: list[str]) -> int:
    from evalflow.app.calibrate import calibrate

    what = "Hold the judge against people's labels, and correct its mean by them; or draw answers for people to label."
    parser = parser_of("calibrate", what)
    parser.add_argument("run", nargs="?", help="a run's or sweep's folder; the latest without it")
    parser.add_argument("--labels", metavar="FILE", help="labels (.csv, .jsonl); without it, those of the data")
    unsplit = "of a sweep: all labels both choose the judge and correct its mean, and not half of them each"
    parser.add_argument("--no-split", action="store_true", help=unsplit)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--sample", type=int, metavar="N", help="write a sheet of N answers to label, drawn at random")
    parser.add_argument("--out", metavar="FILE", help="the sheet (labels.csv), .csv or .jsonl; topped up if it exists")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    alike = "draw as many of each; the sheet then has weights"
    parser.add_argument("--stratify", choices=("score", "tag"), metavar="score|tag", help=alike)
    whole = "draw whole groups, of about N answers together, where reading one answer of a document helps with the next"
    parser.add_argument("--by-group", action="store_true", help=whole)
    parser.add_argument("--metric", help="in the sheet, only this metric")
    return calibrate(parser.parse_args(words), console())


_PLANNED = (
    ("--detect", None, "find a true difference of X between two runs"),
    ("--width", None, "have a 95 %% interval X wide, from low to high"),
    ("--sd", None, "guess: standard deviation of the cases' scores"),
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


def _plan(words: list[str]) -> int:
    from evalflow.app.plan import plan

    what = "Cases, repeats and labels that a wanted precision needs, and their cost: from pilot runs, or from guesses."
    parser = parser_of("plan", what)
    parser.add_argument("--cases", type=int, metavar="N", help="say what N cases would show")
    pilots = "one pilot run, or two to be compared; the latest run where nothing is stated"
    parser.add_argument("--from", dest="runs", nargs="+", default=[], metavar="RUN", help=pilots)
    parser.add_argument("--metric", help="of the pilot, only this metric")
    parser.add_argument(
        "--labels", metavar="FILE", help="people's labels of the pilot (with --detect of both); plans labels too"
    )
    for name, value, about in _PLANNED:
        parser.add_argument(name, type=float, default=value, metavar="X", help=about)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return plan(parser.parse_args(words), console())


def _list(words: list[str]) -> int:
    from evalflow.app.catalogue import print_list
    from evalflow.app.core.options import GROUPS

    config_dir, words = _config_dir_of(words)
    parser = parser_of("list", "List what can be chosen.")
    listed = (*GROUPS, "certificates")
    parser.add_argument("group", nargs="?", choices=listed, metavar="GROUP", help=" | ".join(listed))
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args(words)
    if options.group == "certificates":
        from evalflow.app.core.certificates import print_certificates

        return print_certificates(console(), as_json=options.json)
    return print_list(options.group, config_dir, console(), as_json=options.json)


def _show(words: list[str]) -> int:
    from evalflow.app.catalogue import print_option

    config_dir, words = _config_dir_of(words)
    parser = parser_of("show", "Show the YAML and the prompts of a metric, dataset, judge or target; or a kind's keys.")
    parser.add_argument("name", help="such as faithfulness, or judge/openai where a name stands in two groups")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args(words)
    return print_option(options.name, config_dir, console(), as_json=options.json)


def _new(words: list[str]) -> int:
    from evalflow.app.new import new_dataset, new_metric

    parser = parser_of("new", "Write the files of a new metric or dataset into ./conf and ./prompts.")
    kinds = parser.add_subparsers(dest="what", required=True, metavar="metric|dataset")
    metric = kinds.add_parser("metric", help="YAML and prompts of a new metric")
    metric.add_argument("name")
    metric.add_argument("--from", dest="source", metavar="METRIC", help="copy this metric instead of a fresh rubric")
    dataset = kinds.add_parser("dataset", help="YAML of a new dataset")
    dataset.add_argument("name")
    dataset.add_argument(
        "--path", required=True, metavar="FILE", help="the data: .jsonl, .json, .csv, .parquet, .xlsx, a glob"
    )
    dataset.add_argument("--sheet", metavar="NAME", help="the sheet of a workbook; without it, its only one with rows")
    options = parser.parse_args(words)
    if options.what == "metric":
        return new_metric(options.name, options.source, console())
    return new_dataset(options.name, options.path, options.sheet, console())


def _tiamat(words: list[str]) -> int:
    from evalflow.app.importing import run_tiamat

    test = [word for word in words if "=" not in word and not word.startswith("-")]
    overrides = [word for word in words if word not in test]
    config_dir, _ = _config_dir_of(overrides)
    if config_dir or len(test) != 1:
        hint = "python -m evalflow tiamat TEST.json [OVERRIDES]; own options stand in ./conf"
        raise UserError(Problem("tiamat takes one test file and overrides", "command line", hint))
    return run_tiamat(test[0], overrides, console(), console(stderr=True))


def _import(words: list[str]) -> int:
    from evalflow.app.importing import FORMATS, import_files

    what = "Write what another tool's files declare into ./conf, ./data and ./prompts, to run and to change."
    parser = parser_of("import", what)
    parser.add_argument("format", choices=FORMATS, metavar="FORMAT", help=" | ".join(FORMATS))
    parser.add_argument("path", help="the tool's file; docs/import.md says which")
    parser.add_argument("--name", help="the name of what is written; that of the file without it")
    root = "files that it names are read below this folder only; its own folder without it"
    parser.add_argument("--root", metavar="FOLDER", help=root)
    options = parser.parse_args(words)
    return import_files(options.format, options.path, console(), options.name, options.root)


def _export(words: list[str]) -> int:
    from evalflow.app.exporting import DESTINATIONS, export
    from evalflow.config.schema import TextToSend

    parser = parser_of("export", "Send a finished run to another tool; what it has already is not sent again.")
    known = " | ".join(DESTINATIONS)
    parser.add_argument("destination", choices=DESTINATIONS, metavar="DESTINATION", help=known)
    parser.add_argument("run", nargs="?", help="a run's folder; the latest without it")
    where = "the receiver of otel, without it the run's own; else the server's address, without it the client's setting"
    parser.add_argument("--to", metavar="WHERE", help=where)
    parser.add_argument("--project", metavar="NAME", help="the experiment of mlflow, the project of weave (evalflow)")
    texts = get_args(TextToSend)
    what = "the texts to send too: reasons, which may quote answers; all: questions, answers and the report"
    parser.add_argument("--text", choices=texts, metavar="|".join(texts), help=what)
    parser.add_argument("--again", action="store_true", help="send everything once more")
    return export(parser.parse_args(words), console())


def _schema(words: list[str]) -> int:
    from evalflow.app.core.json_schema import SCHEMA_GROUPS
    from evalflow.app.schema import print_schema

    parser = parser_of("schema", "JSON Schema of the configuration files, by which editors complete and check them.")
    parser.add_argument("group", nargs="?", choices=SCHEMA_GROUPS, metavar="GROUP", help=" | ".join(SCHEMA_GROUPS))
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a file for each group there")
    settings = "write them, and name them in .vscode/settings.json"
    parser.add_argument("--vscode", action="store_true", help=settings)
    options = parser.parse_args(words)
    return print_schema(options.group, options.out, console(), vscode=options.vscode)


def _cache(words: list[str]) -> int:
    from evalflow.app.cache import cache_path, cache_prune, cache_stats

    config_dir, words = _config_dir_of(words)
    parser = parser_of("cache", "Look at the replies that need not be paid for again, or remove some.")
    actions = parser.add_subparsers(dest="what", required=True, metavar="stats|prune")
    stats = actions.add_parser("stats", help="how many, how large, how old")
    prune = actions.add_parser("prune", help="remove some, and give the space back")
    for action in (stats, prune):
        action.add_argument("--path", type=Path, metavar="FILE", help="the cache's file; without it, the one of runs")
    stats.add_argument("--json", action="store_true", help="one JSON document")
    prune.add_argument("--older-than", type=float, metavar="DAYS", help="what was stored more than DAYS ago")
    prune.add_argument("--to-size", metavar="SIZE", help="the least recently used, until SIZE is left, such as 500MB")
    prune.add_argument("--all", action="store_true", help="everything")
    options = parser.parse_args(words)
    path = cache_path(options.path, config_dir)
    if options.what == "stats":
        return cache_stats(path, console(), as_json=options.json)
    return cache_prune(
        path, console(), older_than_days=options.older_than, to_size=options.to_size, everything=options.all
    )


def _mcp(words: list[str]) -> int:
    from evalflow.cli.mcp_server import run_mcp

    return run_mcp(words)


def _config_dir_of(words: list[str]) -> tuple[Path | None, list[str]]:
    """Take `--config-dir DIR`, `--config-dir=DIR` or `-cd DIR` from the words; packaged files win over Hydra's flag.

    Not with argparse, which would take Hydra's `-c job` for an abbreviation of `-cd`.
    """
    found: str | None = None
    rest: list[str] = []
    following = iter(words)
    for word in following:
        name, _, value = word.partition("=")
        if name == "--config-dir" or word == "-cd":
            found = value or next(following, "")
            if not found:
                raise UserError(Problem(f"{name} needs a folder", "command line", f"{name} DIR"))
        else:
            rest.append(word)
    return (Path(found).absolute() if found else None), rest


def _run_id_of(words: list[str]) -> tuple[str | None, list[str]]:
    """Take `--run-id ID` out of the words. A worker sets it to find the run that it starts."""
    if "--run-id" not in words:
        return None, words
    at = words.index("--run-id")
    found = words[at + 1] if at + 1 < len(words) else ""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,150}", found):
        raise UserError(Problem("--run-id needs an id", "command line", "letters, digits and . _ = -"))
    return found, [*words[:at], *words[at + 2 :]]


def _confirmed(question: str) -> bool:
    """Ask at the terminal; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    from evalflow.report.wording import plain

    sys.stderr.write(f"{plain(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


VERBS: dict[str, Handler] = {
    "run": _run,
    "check": _check,
    "resume": _resume,
    "cases": _cases,
    "report": _report,
    "open": _open,
    "compare": _compare,
    "race": _race,
    "prove": _prove,
    "rank": _rank,
    "calibrate": _calibrate,
    "plan": _plan,
    "list": _list,
    "show": _show,
    "new": _new,
    "tiamat": _tiamat,
    "import": _import,
    "export": _export,
    "schema": _schema,
    "cache": _cache,
    "worker": server.run_worker,
    "serve": server.run_server,
    "users": server.manage_users,
    "connections": server.manage_connections,
    "backup": server.back_up_workspace,
    "restore": server.restore_workspace,
    "mcp": _mcp,
    "completion": print_completion,
}
