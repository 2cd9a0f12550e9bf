"""Code that the verbs share: argument parsers that report mistakes as UserError, and the console."""

from __future__ import annotations

import argparse
import re
import textwrap
from argparse import Namespace
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from evalflow.cli.manual import WIDTH, Manual
from evalflow.errors import Meant, Problem, UserError, nearest, program

if TYPE_CHECKING:
    from rich.console import Console

_UNKNOWN = re.compile(r"unrecognized arguments: (\S+)|invalid choice: '([^']*)'")
"""Matches argparse's messages about a word that it does not know."""
Work = Callable[[Namespace], int]
"""Carries a verb out; returns the exit code."""


class VerbParser(argparse.ArgumentParser):
    """The arguments of a verb; mistakes are raised as UserError.

    Example:
        >>> parser = VerbParser.of("count", Manual("Count.", "exit codes: 0 done", (("count", "counts"),)))
        >>> parser.add_flag("--all", "every run")
        >>> parser.read(["--all"]).all
        True
    """

    passes_words = False  # whether its words go to Hydra as they are
    takes_overrides = False

    @classmethod
    def of(cls, verb: str, manual: Manual) -> VerbParser:
        """A parser whose help has the manual of the verb."""
        return cls(
            prog=f"{program()} {verb}",
            description="\n".join(textwrap.wrap(manual.about, WIDTH)),
            epilog=str(manual),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        known = [*self.options, *(word for one in self._actions for word in one.choices or ())]
        if unknown := _UNKNOWN.search(message):
            word = (unknown[1] or unknown[2]).partition("=")[0]
            if close := nearest(word, known):
                what, hint = message.partition(" (choose")[0], f"did you mean {close!r}?"
                raise UserError(Problem(what, "command line", hint, meant=Meant((word,), (close,))))
        raise UserError(Problem(message, "command line", f"see: {self.prog} --help"))

    def read(self, words: Sequence[str]) -> Namespace:
        """The values of the arguments; SystemExit after `--help`."""
        if self.passes_words:
            if not {"--help", "-h"}.isdisjoint(words):
                self.print_help()
                self.exit()
            return Namespace(words=list(words))
        overrides = [word for word in words if self.takes_overrides and is_override(word)]
        others = [word for word in words if word not in overrides]
        return self.parse_args(others, Namespace(overrides=overrides, config_dir=None))

    @property
    def options(self) -> list[str]:
        """The long names of its options, in the order of its help."""
        return [max(one.option_strings, key=len) for one in self._actions if one.option_strings]

    @property
    def actions(self) -> Mapping[str, VerbParser]:
        """The parsers of its actions, such as `stats` of `cache`."""
        choices: list[Any] = [one.choices for one in self._actions]
        return next((cast("Any", one) for one in choices if isinstance(one, Mapping)), dict[str, VerbParser]())

    @property
    def choices(self) -> list[str]:
        """The choices of its first argument, if that is one of a few words."""
        return next(([*map(str, one.choices or ())] for one in self._actions if not one.option_strings), list[str]())

    # The arguments that several verbs have.

    def add_flag(self, name: str, about: str) -> None:
        self.add_argument(name, action="store_true", help=about)

    def add_run(self, about: str = "a run's folder; the latest without it") -> None:
        self.add_argument("run", nargs="?", help=about)

    def add_json(self) -> None:
        self.add_flag("--json", "one JSON document")

    def add_word(self, name: str, choices: Collection[str], **more: Any) -> None:
        """A positional argument that is one of the choices, which its help lists."""
        self.add_argument(name, choices=tuple(choices), metavar=name.upper(), help=" | ".join(choices), **more)

    def add_config_dir(self) -> None:
        about = "a folder with your own configuration, which is searched first"
        self.add_argument("--config-dir", "-cd", type=_folder, default=argparse.SUPPRESS, metavar="DIR", help=about)

    def add_database(self) -> None:
        default = ".evalflow/evalflow.db in the working directory"
        about = f"the database, such as postgresql://USER@HOST/NAME; without it, {default}"
        self.add_argument("--database-url", metavar="URL", help=about)


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the command line, as an entry point of `evalflow.verbs` names it.

    Attributes:
        manual: What its help says.
        declare: Declares its arguments, and returns what carries it out.
        examine: Raises what carrying it out would raise, but changes and sends nothing. It decides whether a corrected
            command is proposed; without it the arguments alone do.

    Example:
        >>> def declare(parser):
        ...     parser.add_argument("file")
        ...     return lambda options: print(options.file) or 0
        >>> verb = Verb(Manual("Print a name.", "exit codes: 0 done", (("name FILE", "prints FILE"),)), declare)
        >>> parser, work = verb.declared("name")
        >>> work(parser.read(["cases.csv"]))
        cases.csv
        0
    """

    manual: Manual
    declare: Callable[[VerbParser], Work]
    examine: Callable[[Namespace], object] | None = None

    def declared(self, name: str) -> tuple[VerbParser, Work]:
        """Its parser with its arguments, and what carries it out."""
        parser = VerbParser.of(name, self.manual)
        work = self.declare(parser)
        for action, own in parser.actions.items():
            own.formatter_class, own.epilog = parser.formatter_class, self.manual.examples_of(f"{name} {action}")
        return parser, work


def is_override(word: str) -> bool:
    """Whether a word is KEY=VALUE and no folder: folders of a sweep's runs, and addresses, have `=` in their names."""
    key, equals, _ = word.partition("=")
    return bool(equals) and "://" not in key and not word.startswith("-") and not Path(word).exists()


def config_dir_of(words: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Take `--config-dir DIR`, `--config-dir=DIR` or `-cd DIR` from the words; packaged files win over Hydra's flag.

    Not with argparse, which would take Hydra's `-c job` for an abbreviation of `-cd`.
    """
    folder: str | None = None
    rest: list[str] = []
    following = iter(words)
    for word in following:
        name, _, value = word.partition("=")
        if name == "--config-dir" or word == "-cd":
            folder = value or next(following, "")
            if not folder:
                raise UserError(Problem(f"{name} needs a folder", "command line", f"{name} DIR"))
        else:
            rest.append(word)
    return (Path(folder).absolute() if folder else None), rest


def _folder(name: str) -> Path:
    return Path(name).absolute()


def console(*, stderr: bool = False) -> Console:
    """The console of the standard output or error, which may be a terminal, a pipe or a file.

    Example:
        >>> console(stderr=True).stderr
        True
    """
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)
