"""Every error evalflow raises on purpose, by what the caller can do about it.

EvalflowError                 base class, never raised itself; its exit code is 5, as for a bug in evalflow
|-- UserError            2    configuration or data is wrong; nothing was sent
|   `-- ConflictError         a write conflicts with what is there by now
|-- BudgetError          4    the budget ran out; finished work is kept
|-- InfrastructureError  5    every further call would fail too (key refused, endpoint gone)
|-- IncompleteError      3    a run has come to its end and scores are missing
|-- WaitingError         6    the run continues when its batches have ended
`-- JudgeError           -    one judge call failed for good; becomes a score in state `error`
`-- TargetError          -    one generation failed for good; becomes an answer in state `error`
"""

from __future__ import annotations

import difflib
import errno
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

if TYPE_CHECKING:
    from evalflow.records import Spend


@dataclass(frozen=True, slots=True)
class Subject:
    """An object of the application, for a link to it. `owner`: the bot of a metric, or the dataset of cases."""

    kind: str
    name: str
    owner: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Meant:
    """A correction of a part of the command line; `cli/corrected.py` applies it to the words that were typed.

    Attributes:
        wrong: Consecutive words; or one key (`metric.short.wrods`), or one name in a value (`dataset=rga`), which is
            replaced wherever it stands. Empty if words are missing; None for all words of the command.
        right: What takes their place.
    """

    wrong: tuple[str, ...] | None
    right: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where (file and line, or key path on the command line), and the next step.

    `key` is the key path of a wrong value in the configuration, if there is one; for showing the fault beside its
    field. `see`: what to look at or change in the application. `meant`: the correction of the command line, if one is
    likely.

    Example:
        >>> print(Problem("must be positive", "metric.short.words", "write 40"))
        metric.short.words: must be positive
          hint: write 40
    """

    what: str
    where: str = ""
    hint: str = ""
    key: str = ""
    see: tuple[Subject, ...] = ()
    meant: Meant | None = field(default=None, compare=False)  # follows from what the others say

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  hint: {self.hint}" if self.hint else text


def _restored(kind: type[BaseException], args: tuple[object, ...], state: dict[str, object]) -> BaseException:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


def _reduced(self: BaseException) -> tuple[Any, ...]:
    """Return how to pickle an error whose `args` differ from its constructor's arguments."""
    return _restored, (type(self), self.args, self.__dict__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """How an endpoint refused a request: the HTTP status, its words, and the parameter that it names, if any."""

    status: int
    text: str
    param: str | None = None


class EvalflowError(Exception):
    """Base of all errors that end a run on purpose.

    Attributes:
        refusal: The endpoint's words, if it refused a request that it will refuse again.
    """

    exit_code: ClassVar[int] = 5
    refusal: Refusal | None = None
    __reduce__ = _reduced

    def _render_traceback_(self) -> Sequence[str]:
        """Return what IPython shows instead of a traceback: the line that called evalflow, and the message."""
        from traceback import extract_tb

        ours = str(Path(__file__).parent)
        before = [*takewhile(lambda frame: not frame.filename.startswith(ours), extract_tb(self.__traceback__))]
        where = f" in line {before[-1].lineno}: {before[-1].line}" if before else ""
        return [f"{type(self).__name__}{where}", str(self), *getattr(self, "__notes__", ())]


class UserError(EvalflowError):
    """The configuration or the data is wrong. Holds all problems found, not only the first.

    Example:
        >>> UserError([Problem("it is empty", "cases.csv"), Problem("it is too large", "more.csv")]).problems[1].where
        'more.csv'
    """

    exit_code = 2

    def __init__(self, problems: Iterable[Problem] | Problem) -> None:
        self.problems: Sequence[Problem] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def check_all(*checks: Callable[[], object]) -> None:
    """Run checks, and raise the problems of all that fail as one UserError; the error itself if only one fails."""
    failed: list[UserError] = []
    for check in checks:
        try:
            check()
        except UserError as error:
            failed.append(error)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        raise UserError(problem for error in failed for problem in error.problems)


class ConflictError(UserError):
    """A write conflicts with existing data, or with a change that somebody else has just made."""


class BudgetError(EvalflowError):
    """The run-wide budget does not cover the next call."""

    exit_code = 4


class InfrastructureError(EvalflowError):
    """A fault that every further call would meet too; `hint` says what to check.

    Example:
        >>> InfrastructureError("the key is refused", "look at HOUSE_KEY").exit_code
        5
    """

    exit_code = 5

    def __init__(self, what: str, hint: str = "") -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"{what}\n  hint: {hint}" if hint else what)


class IncompleteError(EvalflowError):
    """A run has ended and scores are missing."""

    exit_code = 3


class WaitingError(EvalflowError):
    """Nothing is left to do before batches end."""

    exit_code = 6


class CallError(EvalflowError):
    """One call failed for good.

    Attributes:
        error_type: A short cause code: rate_limit, timeout, connection, server, malformed, bad_request, refused,
            schema, truncated, too_large, context_length, unsupported.
        raw: The last reply, unchanged, or None if there was none.
        spend: The cost of all its requests, the failed one included (tries of one call count once); None if none of
            them reached the endpoint.
        remedy: The override of the command line that would help, such as `judge.mode=md_json`, if one is known.
    """

    def __init__(
        self,
        error_type: str,
        message: str,
        raw: str | None = None,
        spend: Spend | None = None,
        remedy: str | None = None,
    ) -> None:
        self.error_type = error_type
        self.raw = raw
        self.spend = spend
        self.remedy = remedy
        super().__init__(message)

    __reduce__ = _reduced


class JudgeError(CallError):
    """The judge gave no valid answer.

    Example:
        >>> JudgeError("malformed", "it is not JSON", raw="Sure!").raw
        'Sure!'
    """


class TargetError(CallError):
    """The target gave no answer.

    Attributes:
        finish_reason: Why the model ended a reply that is not an answer, as in `Answer`; None if it did not say.

    Example:
        >>> TargetError("timeout", "no answer within 30 s").error_type
        'timeout'
    """

    finish_reason: str | None = None


def first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single error in nested groups; the others are the same fault seen by other tasks."""
    error = group.exceptions[0]
    return (
        first_of(cast("BaseExceptionGroup[BaseException]", error)) if isinstance(error, BaseExceptionGroup) else error
    )


def program() -> str:
    """How a shell calls evalflow here, quoted: as this process was called, so that a printed command works.

    Such as `.venv/bin/python -m evalflow`, or `evalflow` if pipx or uv installed it. An absolute path is shortened to
    its name if a shell finds this file by it. In other programs, such as notebooks, it is `python -m evalflow`.
    """
    called, *arguments = sys.orig_argv or ["python"]  # a program that embeds Python may leave it empty
    if arguments and Path(arguments[0]).stem == "evalflow":  # the console script
        return _shortened(arguments[0], "evalflow")
    python = _shortened(called, Path(called).name) if ("-m", "evalflow") in pairwise(arguments) else "python"
    return f"{python} -m evalflow"


def _shortened(called: str, name: str) -> str:
    """A program for a shell: its name if that finds the file at this absolute path, else as it was called."""
    path = Path(called)
    executable = shutil.which(name) if path.is_absolute() else None
    is_found = executable is not None and Path(executable).parent.resolve() == path.parent.resolve()
    return shlex.quote(name if is_found else called)


def command(*words: object) -> str:
    """Return the command line that calls evalflow with these words, quoted for a shell, on one line."""
    return f"{program()} {quoted(*map(str, words))}".rstrip()


_LINE_BREAKING = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def quoted(*words: str) -> str:
    r"""Words for a shell on one line; line breaks and other control characters are written as bash and zsh read them.

    Example:
        >>> print(quoted("limit=5", "judge.title=it's mine", "judge.prompt=two" + chr(10) + "lines"))
        limit=5 'judge.title=it'"'"'s mine' $'judge.prompt=two\nlines'
    """
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if not _LINE_BREAKING.search(word):
        return shlex.quote(word)
    text = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _LINE_BREAKING.sub(lambda match: _escaped(match[0]), text) + "'"


def _escaped(character: str) -> str:
    return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character) or f"\\u{ord(character):04x}"


_CLOSE = 0.75  # least ratio of difflib; `fragen` and `agent` are other words, with 0.73


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` was most likely meant to be, or an empty string.

    Of those with three in five letters in common, it has the same letters in another order, differs in few, begins
    alike, or one has all parts of the other between `_`.

    Example:
        >>> nearest("rga", ["rag"]), nearest("guardrails", ["output_guardrails"]), nearest("calib", ["calibrate"])
        ('rag', 'output_guardrails', 'calibrate')
        >>> nearest("fragen", ["agent", "rag"])
        ''
    """
    matches = difflib.get_close_matches(word, list(known), n=5, cutoff=0.6)
    swapped = [match for match in matches if sorted(match) == sorted(word)]
    near = difflib.get_close_matches(word, matches, n=1, cutoff=_CLOSE)
    parts = set(word.split("_"))
    of_parts = [match for match in matches if parts.issuperset(match.split("_")) or parts.issubset(match.split("_"))]
    alike = [match for match in matches if _begin_alike(word, match)]
    return next(iter([*swapped, *near, *of_parts, *alike]), "")


def _begin_alike(word: str, other: str) -> bool:
    """Whether one begins with the other, or both with half of the longer one."""
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))
    return shared == min(len(word), len(other)) or 2 * shared >= max(len(word), len(other))


_LISTED = 40  # names


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for an unknown word: the nearest known one, or else the list of known words, shortened if it is long.

    Example:
        >>> did_you_mean("fatihfulness", ["faithfulness", "relevancy"])
        "did you mean 'faithfulness'?"
        >>> did_you_mean("cost", [])
        'there are none yet'
    """
    names = sorted(known)
    if not names:
        return "there are none yet"
    close = nearest(word, names)
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"did you mean {close!r}?" if close else f"known: {', '.join(names[:_LISTED])}{more}"


def unknown_name(what: str, where: str, word: str, known: Iterable[str], *, before: str = "", key: str = "") -> Problem:
    """The problem of an unknown word, with the nearest known one; `before` is what stands before it in the command.

    Example:
        >>> unknown_name("there is no dataset 'rga'", "", "rga", ["rag"], before="dataset=").meant.right
        ('dataset=rag',)
    """
    names = list(known)
    close = nearest(word, names)
    meant = Meant((before + word,), (before + close,)) if close else None
    return Problem(what, where, did_you_mean(word, names), key, meant=meant)


_PLACES = {
    errno.EACCES: "allow it to you (chmod, chown), or work in another folder",
    errno.EPERM: "allow it to you (chmod, chown), or work in another folder",
    errno.EISDIR: "a folder lies where a file is expected: move it away",
    errno.ENOTDIR: "a file lies where a folder is expected: move it away",
    errno.EROFS: "the file system is read-only: work in another folder",
    errno.ELOOP: "the link leads to itself: remove it",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "raise the number of open files: ulimit -n",
    errno.ENOSPC: "make room, or work on another disk",
}
"""Hints for errors of files and folders, which are not bugs."""


def of_place(error: OSError) -> UserError | None:
    """Return the problem of a failed file or folder operation; None if the user cannot fix it.

    Example:
        >>> print(of_place(PermissionError(errno.EACCES, "Permission denied", "outputs")))
        outputs: Permission denied
          hint: allow it to you (chmod, chown), or work in another folder
    """
    full = error.errno == errno.ENOSPC  # which is known without the file's name
    if error.errno not in _PLACES or (error.filename is None and not full):
        return None
    return UserError(Problem(str(error.strerror), str(error.filename or ""), _PLACES[error.errno]))


_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "can't start new thread")
"""What the system's loader, the system and Python say without memory."""


def of_memory(error: BaseException) -> InfrastructureError | None:
    """Return the fault of a process that got no memory; None for any other error.

    Example:
        >>> print(of_memory(MemoryError()))
        the system gave this process no more memory
          hint: end other programs, or raise the limits of memory and threads: ulimit -v, ulimit -u
    """
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause).lower()
        if isinstance(cause, MemoryError) or any(one in text for one in _NO_MEMORY):
            hint = "end other programs, or raise the limits of memory and threads: ulimit -v, ulimit -u"
            return InfrastructureError("the system gave this process no more memory", hint)
        cause = cause.__cause__ or cause.__context__
    return None
