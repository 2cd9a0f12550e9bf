"""Measure the quick figures of README.md again, and write them there with the date.

    python -m bench figures [NAME ...]

A figure stands between `<!-- make bench ARGS="NAME ARGUMENTS" -->` and `<!-- end -->`, which is what its benchmark
prints; without NAME all of them are measured. Each is written as soon as it is measured.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

README = Path(__file__).parent / "README.md"
BLOCK = re.compile(r'(<!-- make bench ARGS="([^"]+)" -->\n).*?(<!-- end -->)', re.DOTALL)


def measured(command: str) -> str:
    """What a benchmark prints, with the day before it."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", *command.split()], stdout=subprocess.PIPE, text=True, check=True
    )
    now = datetime.now(UTC)
    return f"\n{now.day} {now:%B %Y}, {done.stdout.strip()}\n\n"


def main(names: list[str]) -> int:
    """Measure and write; gives the exit code."""
    commands = {match[2].split()[0]: match[2] for match in BLOCK.finditer(README.read_text(encoding="utf-8"))}
    if unknown := [name for name in names if name not in commands]:
        print(f"README.md has no figures of {', '.join(unknown)}, only of {', '.join(commands)}", file=sys.stderr)
        return 2
    for name in names or commands:
        begun = time.perf_counter()
        found = measured(commands[name])
        text = README.read_text(encoding="utf-8")
        README.write_text(
            BLOCK.sub(lambda m, name=name, found=found: m[1] + found + m[3] if m[2] == commands[name] else m[0], text),
            encoding="utf-8",
        )
        print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
