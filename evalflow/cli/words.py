"""What the verbs' words are read with, and where they print."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from evalflow.errors import Problem, UserError

if TYPE_CHECKING:
    from rich.console import Console


class Parser(argparse.ArgumentParser):
    """Arguments of one verb; a mistake is a UserError like any other."""

    def error(self, message: str) -> NoReturn:
        """Refuse the words."""
        raise UserError(Problem(message, "command line", f"see: {self.prog} --help"))


def parser_of(verb: str, description: str) -> Parser:
    """The arguments of one verb, none yet."""
    return Parser(prog=f"python -m evalflow {verb}", description=description)


def config_dir_of(words: list[str]) -> tuple[Path | None, list[str]]:
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


def run_id_of(words: list[str]) -> tuple[str | None, list[str]]:
    """`--run-id ID`, with which a worker finds the run again that it starts, and the other words."""
    if "--run-id" not in words:
        return None, words
    at = words.index("--run-id")
    found = words[at + 1] if at + 1 < len(words) else ""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._=-]{0,150}", found):
        raise UserError(Problem("--run-id needs an id", "command line", "letters, digits and . _ = -"))
    return found, [*words[:at], *words[at + 2 :]]


def console(*, stderr: bool = False) -> Console:
    """Where results go; with `stderr`, where progress and errors do."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def confirmed(question: str) -> bool:
    """Whether somebody at the terminal says yes; where there is none, nobody does."""
    if not sys.stdin.isatty():
        return False
    from evalflow.report.wording import plain

    sys.stderr.write(f"{plain(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
