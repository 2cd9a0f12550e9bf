"""`python -m evalflow`."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import traceback

COLLECT_AFTER = (20_000, 20, 50)
"""When Python looks for reference cycles. By its own (700, 10, 10) it does so for every few calls, and takes a fifth of
a run's CPU to find next to nothing."""


def main() -> None:
    """The console script: run the command line, and exit with its code.

    The process ends at once, without the interpreter taking itself apart, which takes a fifth of a short command.
    """
    gc.set_threshold(*COLLECT_AFTER)
    try:
        from evalflow.cli import run_command

        code = run_command(sys.argv[1:])
    except BaseException:  # 1, with which Python would end, says that a gate failed
        traceback.print_exc()
        code = 5
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
