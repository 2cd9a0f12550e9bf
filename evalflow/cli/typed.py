"""The words of a run as people type them: overrides without `=`, with dashes, and a verb that does not come first."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, islice

from evalflow.cli.completion import KEYS
from evalflow.cli.parsing import config_dir_of
from evalflow.errors import Meant, Problem, UserError, command, nearest, quoted, unknown_name
from evalflow.paths import GROUPS

_SWEEP = frozenset({"-m", "--multirun"})
_MOST_JOBS = 20  # runs of a sweep that are examined
_ROOTS = frozenset({*GROUPS, *(re.split("[=.]", key)[0] for key in KEYS)})
"""The first names of all keys."""
_KEY = rf"(?:{'|'.join(sorted(_ROOTS))})(?:\.[\w.]+)?"
_VALUE = r"(?=[^\0=-][^\0=]*(?:\0|\Z))"  # the next word, if it is neither an override nor a flag
_APART = re.compile(rf"(?:\A|(?<=\0))({_KEY})(?:\0=\0|=\0{_VALUE}|\0=|:\0?|\0{_VALUE})")
"""Matches KEY VALUE, KEY = VALUE, KEY= VALUE and KEY:VALUE in words that NUL separates, which no word can hold."""
_FLAGS = (
    "--cfg",
    "--config-name",
    "--config-path",
    "--experimental-rerun",
    "--hydra-help",
    "--info",
    "--multirun",
    "--package",
    "--resolve",
    "--run",
    "--shell-completion",
    "-c",
    "-cn",
    "-cp",
    "-i",
    "-m",
    "-p",
    "-r",
    "-sc",
)
"""Hydra's own flags; its error message about another flag would list only these."""


def expect_pairs(words: Sequence[str]) -> None:
    """UserError if a key and its value are apart, such as `dataset rag`.

    Example:
        >>> expect_pairs(["dataset", "rag", "limit", "=", "5"])
        Traceback (most recent call last):
        evalflow.errors.UserError: command line: a key and its value are joined by =
          hint: write dataset=rag limit=5
    """
    if (whole := _unsplit(words)) != list(words):
        parts = [word for word in whole if word not in words]
        what = "the shell splits a list or a map at its spaces"
        meant = Meant(tuple(words), tuple(whole))
        raise UserError(Problem(what, "command line", f"put it in quotes: {quoted(*parts)}", meant=meant))
    joined = _APART.sub(r"\1=", "\0".join(words)).split("\0")
    if words and joined != list(words):
        hint = f"write {quoted(*(word for word in joined if word not in words))}"
        what = "a key and its value are joined by ="
        raise UserError(Problem(what, "command line", hint, meant=Meant(tuple(words), tuple(joined))))


def _unsplit(words: Sequence[str]) -> list[str]:
    """Join the words of `KEY=[A, B]` that the shell split; words whose brackets do not close stay as they are.

    Example:
        >>> _unsplit(["dataset=rag", "metric=[relevance,", "faithfulness]", "limit=5"])
        ['dataset=rag', 'metric=[relevance,faithfulness]', 'limit=5']
    """
    joined: list[str] = []
    rest = list(words)
    while rest:
        taken = 1
        if re.match(rf"[+~]*{_KEY}=[\[{{]", rest[0]):
            depths = accumulate(_depth(word) for word in rest)
            taken = next((at for at, depth in enumerate(depths, start=1) if depth == 0), 1)
        joined.append(re.sub(r",\s+", ",", " ".join(rest[:taken])) if taken > 1 else rest[0])
        del rest[:taken]
    return joined


def _depth(word: str) -> int:
    return sum(word.count(sign) for sign in "[{") - sum(word.count(sign) for sign in "]}")


def expect_run_words(words: Sequence[str], verbs: Iterable[str]) -> None:
    """UserError for words of `run` that are neither overrides nor flags of Hydra."""
    flags = [word.partition("=")[0] for word in words if word.startswith("-")]
    wrong = [flag for flag in flags if flag not in _FLAGS]
    known = set(verbs)
    if verb := next((word for word in words if word in known), None):
        rest = [word for word in words if word not in (verb, "-m", "--multirun")]
        hint = f"put it first: {command(verb, '...')}"
        what = f"{verb} is a verb, which comes first"
        raise UserError(Problem(what, "command line", hint, meant=Meant(None, (verb, *rest))))
    expect_pairs(words)
    if problems := [*map(_without_dashes, wrong)]:
        raise UserError(problems)


def _without_dashes(flag: str) -> Problem:
    """The problem of a flag that `run` does not have: a misspelt one, or a key or a group with -- in front."""
    own = ("--config-dir", "--fill-demo", "--replace-demo", "--multirun", "--cfg", "--info")
    key = flag.lstrip("-").replace("-", "_")
    if key not in _ROOTS and (problem := _elsewhere(flag, key)):
        return problem
    if flag.startswith("--") and not nearest(flag, own):  # such as --metrics
        root, dot, rest = key.partition(".")
        key = f"{root if root in _ROOTS else nearest(root, _ROOTS)}{dot}{rest}"
    if key.partition(".")[0] in _ROOTS:
        what = f"{key} is {'chosen' if key in GROUPS else 'set'} without --"
        return Problem(
            what,
            "command line",
            f"write {key}={'NAME' if key in GROUPS else 'VALUE'}",
            meant=Meant((flag,), (f"{key}=",)),
        )
    return unknown_name(f"run does not take {flag}", "command line", flag, own)


def _elsewhere(flag: str, key: str) -> Problem | None:
    """The problem of a flag that other tools have."""
    from evalflow.config.keys_elsewhere import key_elsewhere  # needed only after a mistake

    problem = key_elsewhere(f"{key}=VALUE", {})
    return problem and replace(problem, what=f"run does not take {flag}", meant=None)


def examine_run(options: Namespace) -> None:
    """Check each run of a command line up to its first request."""
    from evalflow.app.check import examined
    from evalflow.config.overrides import jobs_of

    config_dir, words = config_dir_of(options.words)
    flags = [word for word in words if word.startswith("-")]
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    jobs = jobs_of(overrides) if not _SWEEP.isdisjoint(flags) else [overrides]
    for job in islice(jobs, _MOST_JOBS):
        examined(job, config_dir)
