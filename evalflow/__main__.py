"""`python -m evalflow`."""

from __future__ import annotations

import gc
import sys

from evalflow.cli import run_command

COLLECT_AFTER = (20_000, 20, 50)
"""When Python looks for reference cycles. By its own (700, 10, 10) it does so for every few calls, and takes a fifth of
a run's CPU to find next to nothing."""


def main() -> None:
    """The console script: run the command line, and exit with its code."""
    gc.set_threshold(*COLLECT_AFTER)
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
