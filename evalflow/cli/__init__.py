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
from evalflow.errors import EvalflowError, Problem, UserError, did_you_mean, of_place
from evalflow.paths import GROUPS
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
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:
        if stop.code in (None, 0, 2):  # the exit codes of argparse and Hydra
            return stop.code or 0
        traceback.print_exc()
        return EvalflowError.exit_code
    except BaseException as error:  # Polars panics with one; Python would exit with 1, which means that a gate failed
        _tell_unexpected(error)
        return EvalflowError.exit_code


def _tell_unexpected(error: BaseException) -> None:
    if isinstance(error, OSError) and (fault := of_place(error)) is not None:
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
    if words and not words[0].startswith("-") and "=" not in words[0]:
        hint = did_you_mean(words[0], VERBS) if has_own_points() else INSTALL
        if words[0] in GROUPS:
            hint = f"write {words[0]}={words[1] if len(words) > 1 and words[1].isidentifier() else 'NAME'}"
        raise UserError(Problem(f"there is no verb {words[0]!r}", "command line", hint))
    return "run", words


def _complain(error: EvalflowError) -> None:
    from evalflow.report.wording import plain

    problems = error.problems if isinstance(error, UserError) else [error]
    for problem in problems:
        sys.stderr.write(f"error: {plain(str(problem))}\n")
