"""Run one of the benchmarks.

python -m bench                     lists them
python -m bench NAME [ARGUMENTS]    runs one
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """List the benchmarks, or run the one that is named; gives its exit code."""
    found = {path.stem: path for path in sorted(Path(__file__).parent.glob("[!_]*.py"))}
    if arguments and arguments[0] in found:
        return subprocess.run([sys.executable, found[arguments[0]], *arguments[1:]], check=False).returncode
    width = max(map(len, found))
    print('make bench ARGS="NAME [ARGUMENTS]"\n')
    for name, path in found.items():
        print(f"  {name:{width}}  {_summary(path)}")
    return 2 if arguments else 0


def _summary(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
