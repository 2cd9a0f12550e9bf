"""The whole command that a mistaken one was meant to be: its words with all corrections, if that command works."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Sequence

from evalflow.cli.parsing import Verb
from evalflow.doors import Door
from evalflow.errors import Meant, Problem, UserError, command

_ROUNDS = 5
"""Corrections in a row: some mistakes are found only once others are corrected."""
_SWEEP = ("-m", "--multirun")
_READING = frozenset({"cases", "check", "list", "plan", "show"})
"""Verbs that only read and print, so that examining them is carrying them out."""


def corrected(words: Sequence[str], error: UserError, verbs: Door[Verb]) -> str | None:
    """The command line without the mistakes; None if they have no likely correction, or it would not work either.

    `words` are those that were typed after the program's name. Runs are tried up to their first request.
    """
    now, problems = list(words), error.problems
    for _ in range(_ROUNDS):
        fixed = applied(now, problems)
        if fixed == now:
            return None
        now = fixed
        try:
            _rehearse(now, verbs)
        except UserError as more:
            problems = more.problems
        except (Exception, SystemExit):  # such as a service that cannot be reached
            return None
        else:
            return command(*now)
    return None


def applied(words: Sequence[str], problems: Sequence[Problem]) -> list[str]:
    """The words with the corrections of the problems that have one.

    Example:
        >>> applied(["datset=rag", "limit=5"], [Problem("unknown key", meant=Meant(("datset",), ("dataset",)))])
        ['dataset=rag', 'limit=5']
    """
    fixed = list(words)
    if whole := next((one.meant for one in problems if one.meant and one.meant.wrong is None), None):
        return list(whole.right)
    for meant in dict.fromkeys(problem.meant for problem in problems if problem.meant):
        fixed = _replaced(fixed, meant)
    return fixed


def _replaced(words: list[str], meant: Meant) -> list[str]:
    wrong, right = list(meant.wrong or ()), list(meant.right)
    if not wrong:
        if right[0] in _SWEEP:
            return [*right, *words]
        added = [word for word in right if word not in words]
        keys = {_parts(word)[1] for word in added}
        return [*(word for word in words if "=" not in word or _parts(word)[1] not in keys), *added]
    if len(wrong) == len(right) == 1:
        if right[0].endswith("="):
            return _joined(words, wrong[0], right[0])
        from evalflow.config.overrides import quoted  # the configuration reports words in Hydra's own quotes

        same = {word for word in words if wrong[0] in (word, *quoted([word]))}
        return [right[0] if word in same else _renamed(word, wrong[0], right[0]) for word in words]
    for at in range(len(words) - len(wrong) + 1):
        if words[at : at + len(wrong)] == wrong:
            return [*words[:at], *right, *words[at + len(wrong) :]]
    return words


def _joined(words: list[str], flag: str, key: str) -> list[str]:
    """Replace `--key VALUE` and `--key=VALUE` by `key=VALUE`."""
    text = "\0".join(words)  # which no word can hold
    return re.sub(rf"(?:\A|(?<=\0)){re.escape(flag)}(?:[\0=]|\Z)", lambda _: key, text).split("\0")


def _renamed(word: str, wrong: str, right: str) -> str:
    """Replace a key or its beginning, or a name in a value, which `wrong` and `right` have as `KEY=NAME`."""
    sign, key, equals, value = _parts(word)
    sign = "" if right.startswith("+") else sign
    wrong_key, _, name = wrong.partition("=")
    right_key, _, new = right.partition("=")
    if not name:
        if key == wrong or key.startswith(f"{wrong}."):
            return f"{sign}{right}{key[len(wrong) :]}{equals}{value}"
        return f"{sign}{key}={right}" if value == wrong else word
    if key == wrong_key and equals:
        changed = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w./-])", lambda _: new, value)
        return f"{sign}{right_key}={changed}" if changed != value else word
    below = f"{wrong_key}.{name}"
    if key == below or key.startswith(f"{below}."):  # such as dataset.rga.path, of dataset=rga
        return f"{sign}{right_key}.{new}{key[len(below) :]}{equals}{value}"
    return word


def _parts(word: str) -> tuple[str, str, str, str]:
    key, equals, value = word.partition("=")
    name = key.lstrip("+~")
    return key[: len(key) - len(name)], name, equals, value


def _rehearse(words: Sequence[str], verbs: Door[Verb]) -> None:
    """Carry a command out as far as it changes and sends nothing; raises what it would raise."""
    verb, rest = (words[0], list(words[1:])) if words[0] in verbs else ("run", list(words))
    parser, work = verbs.get(verb).declared(verb)
    options = parser.read(rest)
    examine = verbs.get(verb).examine or (work if verb in _READING else None)
    if examine:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            examine(options)
