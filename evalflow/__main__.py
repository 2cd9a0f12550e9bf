"""`python -m evalflow`."""

from __future__ import annotations

import sys

from evalflow.cli import run_command


def main() -> None:
    """The console script: run the command line, and exit with its code."""
    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
