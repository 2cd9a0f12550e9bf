"""The peers: other evaluation frameworks, each in an environment of its own, judging the very cases of evalflow.

peers/NAME/judge.py does it as the peer's documentation says, with its default settings and one judge call a case, and
ends with the line `scored N of M`. What it needs stands beside it with its version, and is installed into .env/NAME,
which git ignores, when it is first wanted or when it has changed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REASON = "Each sentence follows from the one before, and only the last is loosely joined. " * 3
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "RAGAS_DO_NOT_TRACK": "true",
}
"""What keeps each of them from calling home."""


class Unavailable(RuntimeError):
    """A peer cannot be installed here."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One of them.

    Attributes:
        name: Its folder under peers/.
        version: As the table shows it; what is installed stands in its requirements.
        reply: A good verdict, in the form that it asks its judge for.
    """

    name: str
    version: str
    reply: str

    def install(self) -> None:
        """Make its environment, where that is not done yet.

        Raises:
            Unavailable: It cannot be made.
        """
        wanted = self._needs.read_text(encoding="utf-8")
        stamp = self._home / "installed"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
            return
        print(f"installing {self.name} into {self._home} ...", file=sys.stderr)
        shutil.rmtree(self._home, ignore_errors=True)
        self._home.mkdir(parents=True)
        if self._needs.suffix == ".json":
            if not shutil.which("npm"):
                raise Unavailable("there is no node with npm on this machine")
            shutil.copy(self._needs, self._home)
            _install("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(self._home))
        else:
            _install(sys.executable, "-m", "venv", str(self._home))
            pip = (self._python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
            _install(*pip, "-r", str(self._needs))
            subprocess.run([self._python, "-m", "compileall", "-q", "-j", "0", self._home / "lib"], check=False)
        stamp.write_text(wanted, encoding="utf-8")

    def command(self, cases: Path, in_flight: int) -> list[str]:
        """The command line that judges the cases."""
        return [self._python, str(self._folder / "judge.py"), str(cases), str(in_flight)]

    def environment(self, url: str, work: Path) -> dict[str, str]:
        """The environment of that command: the endpoint, no telemetry, and nothing written outside of `work`."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        own = {"HOME": str(work), "PROMPTFOO_CONFIG_DIR": str(work / "promptfoo"), "PEER_HOME": str(self._home)}
        return {**kept, **QUIET, **own, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none"}

    def program(self, name: str) -> str:
        """A program of a peer that is installed by npm."""
        return str(self._home / "node_modules" / ".bin" / name)

    @property
    def _folder(self) -> Path:
        return HERE / "peers" / self.name

    @property
    def _home(self) -> Path:
        return HERE / ".env" / self.name

    @property
    def _needs(self) -> Path:
        return next(path for path in self._folder.iterdir() if path.name in ("requirements.txt", "package.json"))

    @property
    def _python(self) -> str:
        """Its environment's Python; of a peer that is not in Python, this one."""
        return str(self._home / "bin" / "python") if self._needs.suffix == ".txt" else sys.executable


def scored(work: Path) -> int:
    """How many cases a peer has scored, as the last line of its output says; 0 where it says nothing."""
    found = re.findall(r"^scored (\d+) of \d+$", (work / "output.txt").read_text(), re.MULTILINE)
    return int(found[-1]) if found else 0


def _install(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(said[-1] if said else f"{command[0]} ended with {done.returncode}")


PEERS = (
    Peer("deepeval", "4.3.1", json.dumps({"reason": REASON, "score": 8})),
    Peer("inspect_ai", "0.3.285", f"{REASON}\n\nGRADE: C"),
    Peer("promptfoo", "0.121.20", json.dumps({"reason": REASON, "pass": True, "score": 1.0})),
    Peer("ragas", "0.4.3", json.dumps({"reason": REASON, "verdict": 1})),
)
