"""What the verbs share: parsers of arguments, whose mistakes are errors of the user, and the console."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from evalflow.errors import Problem, UserError

if TYPE_CHECKING:
    from rich.console import Console

Handler = Callable[[list[str]], int]


class VerbParser(argparse.ArgumentParser):
    """Arguments of one verb; mistakes are raised as UserError."""

    def error(self, message: str) -> NoReturn:
        raise UserError(Problem(message, "command line", f"see: {self.prog} --help"))


def parser_of(verb: str, description: str) -> VerbParser:
    """A parser for the arguments of a verb."""
    return VerbParser(prog=f"python -m evalflow {verb}", description=description)


def console(*, stderr: bool = False) -> Console:
    """The terminal, or what the output goes to."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)
