"""The command line: from arguments to an exit code, with errors printed for people."""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Sequence

from evalflow.cli.completion import ASK, print_candidates
from evalflow.cli.verbs import VERBS, overview
from evalflow.config.env_file import load_env_file
from evalflow.doors import INSTALL, has_own_points
from evalflow.errors import EvalflowError, Problem, UserError, of_memory, of_place, unknown_name
from evalflow.paths import GROUPS, conf_dirs
from evalflow.version import __version__


def run_command(arguments: Sequence[str]) -> int:
    """Run a command line without the program's name; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # print a question mark for characters that the terminal cannot show
    words = list(arguments)
    try:
        if _wants_overview(words):
            sys.stdout.write(overview())
            return 0
        if words == ["--version"]:
            sys.stdout.write(f"evalflow {__version__}\n")
            return 0
        if words[:1] == [ASK]:
            return print_candidates(words[1:], VERBS)
        load_env_file()
        verb, words = _verb_of(words)
        parser, work = VERBS.get(verb).declared(verb)
        return work(parser.read(words))
    except EvalflowError as error:
        _complain(error)
        _propose(arguments, error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:
        if stop.code in (None, 0, 2):  # the exit codes of argparse and Hydra
            return stop.code or 0
        traceback.print_exc()
        return EvalflowError.exit_code
    except BaseException as error:  # Polars panics with one; Python would exit with 1, which means that a gate failed
        if isinstance(error, ModuleNotFoundError) and not has_own_points():
            raise  # for the caller, since nothing here can be printed without packages
        _tell_unexpected(error)
        return EvalflowError.exit_code


def _propose(words: Sequence[str], error: EvalflowError) -> None:
    """Print the whole command that was meant, if that one works."""
    if not isinstance(error, UserError) or not any(problem.meant for problem in error.problems):
        return
    from evalflow.cli.corrected import corrected

    if line := corrected(words, error, VERBS):
        sys.stderr.write(f"try: {line}\n")


def _tell_unexpected(error: BaseException) -> None:
    fault = (of_place(error) if isinstance(error, OSError) else None) or of_memory(error)
    if fault is not None:
        _complain(fault)
        return
    traceback.print_exc()
    sys.stderr.write("\nThis is a bug in evalflow, not your mistake. What was finished is kept.\n")


def _wants_overview(words: list[str]) -> bool:
    """Whether to print the overview; each verb has its own help."""
    is_verb = bool(words) and words[0] in VERBS
    return words[:1] == ["help"] or (not is_verb and not {"--help", "-h"}.isdisjoint(words))


def _verb_of(words: list[str]) -> tuple[str, list[str]]:
    """The verb and its words; `run` if none is named."""
    if words and words[0] in VERBS:
        return words[0], words[1:]
    from evalflow.cli.typed import expect_pairs

    expect_pairs(words)
    if words and not words[0].startswith("-") and "=" not in words[0]:
        raise UserError(_no_verb(words))
    return "run", words


def _no_verb(words: list[str]) -> Problem:
    what = f"there is no verb {words[0]!r}"
    if verb := next((one for one in (words[0].removesuffix("s"), f"{words[0]}s") if one in VERBS), None):
        return unknown_name(what, "command line", words[0], [verb])
    group = words[0] if words[0] in GROUPS else words[0].removesuffix("s")
    if words == words[:1] and group in GROUPS:
        return Problem(what, "command line", f"write {group}=NAME; `list {group}` shows the names")
    if VERBS.is_unregistered(words[0]):
        return Problem(what, "command line", INSTALL)
    from evalflow.config.misnamed import no_verb  # needed only after a mistake

    return no_verb(what, words[0], conf_dirs()) or unknown_name(what, "command line", words[0], VERBS)


def _complain(error: EvalflowError) -> None:
    from evalflow.report.wording import plain

    problems = error.problems if isinstance(error, UserError) else [error]
    for problem in problems:
        sys.stderr.write(f"error: {plain(str(problem))}\n")
