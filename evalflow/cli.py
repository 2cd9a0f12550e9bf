"""The command line: verbs, their arguments, and what their errors look like. All work is done in `evalflow.app`."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from evalflow import __version__
from evalflow.errors import EvalflowError, Problem, UserError, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

Handler = Callable[[list[str]], int]


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line.

    Args:
        arguments: Without the program's name.

    Returns:
        The exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows a question mark
    words = list(arguments)
    if _wants_help(words):
        sys.stdout.write(help_text())
        return 0
    if words == ["--version"]:
        sys.stdout.write(f"evalflow {__version__}\n")
        return 0
    _load_env()
    try:
        return _handler(words)(words)
    except EvalflowError as error:
        _complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:
        traceback.print_exc()
        sys.stderr.write("\nThis is a bug in evalflow, not your mistake. What was finished is kept.\n")
        return EvalflowError.exit_code


def help_text() -> str:
    """What `--help` prints; it needs no import of Hydra."""
    return Path(__file__).with_name("help.txt").read_text(encoding="utf-8")


def _wants_help(words: list[str]) -> bool:
    """Whether the overview is asked for; verbs with arguments of their own have a help of their own."""
    if words[:1] == ["help"]:
        return True
    overrides_follow = not words or words[0] not in VERBS or words[0] in ("run", "check")
    return overrides_follow and not {"--help", "-h"}.isdisjoint(words)


def _handler(words: list[str]) -> Handler:
    """The verb's handler; the verb itself is taken off the words."""
    if words and words[0] in VERBS:
        return VERBS[words.pop(0)]
    if words and not words[0].startswith("-") and "=" not in words[0]:
        raise UserError(Problem(f"there is no verb {words[0]!r}", "command line", did_you_mean(words[0], VERBS)))
    return _run


def _run(words: list[str]) -> int:
    from evalflow.app.launch import execute
    from evalflow.app.screen import TerminalScreen

    config_dir, words = _config_dir(words)
    return execute(words, config_dir, TerminalScreen(_console(), _console(stderr=True)))


def _check(words: list[str]) -> int:
    from evalflow.app.check import check

    as_json = "--json" in words
    config_dir, words = _config_dir([word for word in words if word != "--json"])
    return check(words, config_dir, _console(), as_json=as_json)


def _resume(words: list[str]) -> int:
    from evalflow.app.resume import resume
    from evalflow.app.screen import TerminalScreen

    budget = [word for word in words if word.startswith("budget.")]
    words = [word for word in words if word not in budget]
    parser = _parser("resume", "Finish a run; nothing that is finished is asked again. budget.usd=5 raises its budget.")
    parser.add_argument("run", nargs="?", help="a run's folder; the latest without it")
    parser.add_argument("--retry-errors", action="store_true", help="ask again what ended in error")
    options = parser.parse_args(words)
    screen = TerminalScreen(_console(), _console(stderr=True))
    return resume(options.run, screen, retry_errors=options.retry_errors, budget=budget)


def _cases(words: list[str]) -> int:
    from evalflow.app.cases import show_cases

    parser = _parser("cases", "Show cases: question, answer, score, reason and the judge's steps.")
    parser.add_argument("run", nargs="?", help="a run's folder; the latest without it")
    parser.add_argument("--failed", action="store_true", help="only errors, and scores that did not pass")
    parser.add_argument("--metric", help="only this metric")
    parser.add_argument("--tag", help="only cases with this tag, or one below it")
    parser.add_argument("--id", help="only this case")
    parser.add_argument("--limit", type=int, default=20, help="how many at most (20); 0 for all")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return show_cases(parser.parse_args(words), _console())


def _report(words: list[str]) -> int:
    from evalflow.app.report import report_again

    parser = _parser("report", "Write the reports of runs or sweeps again, from what they recorded; nothing is asked.")
    what = "folders of runs or sweeps, the latest without any; other thresholds: metric.NAME.threshold=X"
    parser.add_argument("words", nargs="*", metavar="DIR | KEY=VALUE", help=what)
    return report_again(parser.parse_args(words).words, _console())


def _open(words: list[str]) -> int:
    from evalflow.app.report import open_report

    parser = _parser("open", "Show a report in the browser.")
    parser.add_argument("run", nargs="?", help="a folder of a run or a sweep; the latest without it")
    return open_report(parser.parse_args(words).run, _console())


def _compare(words: list[str]) -> int:
    from evalflow.app.comparable import KINDS
    from evalflow.app.compare import compare

    parser = _parser("compare", "Hold run B against run A, case by case: better, worse, or cannot tell.")
    what = "folders of runs A and B; of A alone, for the latest as B; of a sweep, for all its pairs"
    parser.add_argument("runs", nargs="*", metavar="RUN", help=what)
    parser.add_argument("--margin", type=float, help="also say whether B is not worse by more than this")
    parser.add_argument("--tags", action="store_true", help="also a row for each tag")
    parser.add_argument("--adjust", choices=("holm", "bh", "by"), default="holm", help="for many comparisons (holm)")
    allow = "compare though this is not the same; may be repeated"
    parser.add_argument("--allow", action="append", choices=KINDS, default=[], metavar="|".join(KINDS), help=allow)
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return compare(parser.parse_args(words), _console())


def _list(words: list[str]) -> int:
    from evalflow.app.catalogue import GROUPS, print_list

    config_dir, words = _config_dir(words)
    parser = _parser("list", "List what can be chosen.")
    parser.add_argument("group", nargs="?", choices=GROUPS, metavar="GROUP", help=" | ".join(GROUPS))
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args(words)
    return print_list(options.group, config_dir, _console(), as_json=options.json)


def _show(words: list[str]) -> int:
    from evalflow.app.catalogue import print_option

    config_dir, words = _config_dir(words)
    parser = _parser("show", "Show the YAML and the prompts of a metric, dataset, judge or target, and an example.")
    parser.add_argument("name", help="such as faithfulness, or judge/openai where a name stands in two groups")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    options = parser.parse_args(words)
    return print_option(options.name, config_dir, _console(), as_json=options.json)


def _new(words: list[str]) -> int:
    from evalflow.app.new import new_dataset, new_metric

    parser = _parser("new", "Write the files of a new metric or dataset into ./conf and ./prompts.")
    kinds = parser.add_subparsers(dest="what", required=True, metavar="metric|dataset")
    metric = kinds.add_parser("metric", help="YAML and prompts of a new metric")
    metric.add_argument("name")
    metric.add_argument("--from", dest="source", metavar="METRIC", help="copy this metric instead of a fresh rubric")
    dataset = kinds.add_parser("dataset", help="YAML of a new dataset")
    dataset.add_argument("name")
    dataset.add_argument(
        "--path", required=True, metavar="FILE", help="the data: .jsonl, .json, .csv, .parquet, a glob"
    )
    options = parser.parse_args(words)
    if options.what == "metric":
        return new_metric(options.name, options.source, _console())
    return new_dataset(options.name, options.path, _console())


def _tiamat(words: list[str]) -> int:
    from evalflow.app.tiamat import run_tiamat

    test = [word for word in words if "=" not in word and not word.startswith("-")]
    overrides = [word for word in words if word not in test]
    config_dir, _ = _config_dir(overrides)
    if config_dir or len(test) != 1:
        hint = "python -m evalflow tiamat TEST.json [OVERRIDES]; own options stand in ./conf"
        raise UserError(Problem("tiamat takes one test file and overrides", "command line", hint))
    return run_tiamat(test[0], overrides, _console(), _console(stderr=True))


def _import(words: list[str]) -> int:
    from evalflow.app.importing import FORMATS, import_files

    parser = _parser("import", "Write what another tool's files declare into ./conf, as YAML to run and to change.")
    parser.add_argument("format", choices=FORMATS, metavar="FORMAT", help=" | ".join(FORMATS))
    parser.add_argument("path", help="the tool's file; of tiamat, a test")
    options = parser.parse_args(words)
    return import_files(options.format, options.path, _console())


def _cache(words: list[str]) -> int:
    from evalflow.app.cache import cache_path, cache_prune, cache_stats

    config_dir, words = _config_dir(words)
    parser = _parser("cache", "Look at the replies that need not be paid for again, or remove some.")
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
        return cache_stats(path, _console(), as_json=options.json)
    return cache_prune(
        path, _console(), older_than_days=options.older_than, to_size=options.to_size, everything=options.all
    )


VERBS: dict[str, Handler] = {
    "run": _run,
    "check": _check,
    "resume": _resume,
    "cases": _cases,
    "report": _report,
    "open": _open,
    "compare": _compare,
    "list": _list,
    "show": _show,
    "new": _new,
    "tiamat": _tiamat,
    "import": _import,
    "cache": _cache,
}


class _Parser(argparse.ArgumentParser):
    """Arguments of one verb; a mistake is a UserError like any other."""

    def error(self, message: str) -> NoReturn:
        raise UserError(Problem(message, "command line", f"see: {self.prog} --help"))


def _parser(verb: str, description: str) -> _Parser:
    return _Parser(prog=f"python -m evalflow {verb}", description=description)


def _config_dir(words: list[str]) -> tuple[Path | None, list[str]]:
    """`--config-dir DIR`, `--config-dir=DIR` or `-cd DIR`, and the other words; Hydra's own loses to packaged files.

    Not by argparse, for which Hydra's `-c job` would be a beginning of `-cd`.
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


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    class Terminal(Console):
        """A console whose broken pipe is an exception like any other, not an exit code of its own."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Terminal(stderr=stderr, highlight=False)


def _load_env() -> None:
    if Path(".env").is_file():
        from dotenv import load_dotenv

        load_dotenv(Path(".env"))


def _complain(error: EvalflowError) -> None:
    from evalflow.report.terminal import plain

    problems = error.problems if isinstance(error, UserError) else [error]
    for problem in problems:
        sys.stderr.write(f"error: {plain(str(problem))}\n")
