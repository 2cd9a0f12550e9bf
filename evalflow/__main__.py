"""`python -m evalflow`."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

COLLECT_AFTER = (20_000, 20, 50)
"""Thresholds of Python's search for reference cycles. With the default (700, 10, 10) it searches every few calls, and
takes a fifth of a run's CPU to find next to nothing."""
GONE = frozenset({errno.EPIPE, errno.EIO})
"""Error codes for output without a reader: a closed pipe, as with `head`, or a closed terminal."""

SET_UP_HINT = "  hint: in the checkout of evalflow, `make demo` sets up .venv/; then: .venv/bin/python -m evalflow\n"
FAULT = 5  # the exit code for unexpected errors
MISTAKE = 2  # the exit code for what the user can mend


def main() -> None:
    """The console script: run the command line, and exit with its code."""
    if sys.version_info < (3, 11):  # noqa: UP036  # a checkout runs with any Python; pip refuses an old one by itself
        sys.stderr.write(
            f"error: evalflow needs Python 3.11 or newer, and this is {sys.version.split()[0]}\n{SET_UP_HINT}"
        )
        sys.exit(MISTAKE)
    gc.set_threshold(*COLLECT_AFTER)
    with contextlib.suppress(FileNotFoundError):  # the working directory is gone
        if not sys.flags.safe_path and (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)  # as `python -m` does: a target may be a module that lies there
    sys.stdout, out = _unfailing(sys.stdout, 1)
    sys.stderr, _ = _unfailing(sys.stderr, 2)
    try:
        from evalflow.cli import run_command

        code = run_command(sys.argv[1:])
    except ModuleNotFoundError as error:
        code = _report_missing(error)
    except BaseException:  # Python's own exit code 1 would mean that a gate failed
        traceback.print_exc()
        code = FAULT
    sys.stdout.flush()
    if out.lost is not None and out.lost.errno not in GONE:
        sys.stderr.write(f"error: standard output cannot be written: {out.lost.strerror}\n")
        code = code or FAULT
    gc.freeze()  # else Python, as it ends, searches all that was imported for cycles: a quarter of a short run's CPU
    sys.exit(code)


def _report_missing(error: ModuleNotFoundError) -> int:
    """Print which package a checkout without its set-up lacks; another missing module is a fault. Returns the code."""
    from evalflow.doors import has_own_points

    if has_own_points():
        traceback.print_exc()
        return FAULT
    sys.stderr.write(f"error: {sys.executable} has no package {error.name}, which evalflow needs\n{SET_UP_HINT}")
    return MISTAKE


class Output(io.FileIO):
    """A standard stream. If it cannot be written, further output is dropped and the command continues."""

    lost: OSError | None = None

    def write(self, data: ReadableBuffer, /) -> int | None:
        """Write, or drop it; never fails."""
        try:
            return super().write(data)
        except OSError as error:
            self.lost = error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(memoryview(data))


def _unfailing(stream: TextIO | None, number: int) -> tuple[TextIO, Output]:
    """A standard stream over an `Output`; if the caller has closed it (`>&-`), output is dropped from the start."""
    output = Output(number if stream else os.devnull, "w", closefd=stream is None)
    encoding = stream.encoding if stream else "utf-8"
    return io.TextIOWrapper(io.BufferedWriter(output), encoding, "replace", line_buffering=number == 2), output


if __name__ == "__main__":
    main()
