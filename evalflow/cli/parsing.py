"""What the verbs share: parsers of arguments, whose mistakes are errors of the user, and the console."""

from __future__ import annotations

import argparse
import textwrap
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
    """A parser for the arguments of a verb; its help ends with the verb's manual."""
    from evalflow.cli.manual import MANUALS, PROGRAM, WIDTH

    return VerbParser(
        prog=f"{PROGRAM} {verb}",
        description="\n".join(textwrap.wrap(description, WIDTH)),
        epilog=str(MANUALS[verb]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def console(*, stderr: bool = False) -> Console:
    """The terminal, or what the output goes to."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)
