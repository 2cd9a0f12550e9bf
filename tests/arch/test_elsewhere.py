"""The core on systems that have no POSIX: what they lack is taken away, and the commands still work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# What Python's own modules need on this system is loaded before; Windows has other ones in their place.
ELSEWHERE = """
import asyncio, concurrent.futures, http.client, multiprocessing.pool, os, platform, shutil, signal, ssl, subprocess
import sys, tempfile, threading, warnings, webbrowser
import aiohttp, filelock, lap, openai, polars

warnings.filterwarnings("error", category=EncodingWarning, module="evalflow")  # the default there is a code page

for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"):
    sys.modules[name] = None
for name in ("fork", "getuid", "geteuid", "setsid", "killpg", "getpgid", "chown", "fchmod", "sched_getaffinity",
             "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "pread", "pwrite", "getloadavg", "fdatasync"):
    delattr(os, name)
for name in ("SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGPIPE", "setitimer", "alarm"):
    delattr(signal, name)

def refused(*_):
    raise NotImplementedError

asyncio.SelectorEventLoop.add_signal_handler = refused

from evalflow.cli import run_command

sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
for words in (
    ["dataset=rag", "metric=[exact_match,answer_words]", "limit=3"],
    ["resume", "outputs/latest"],
    ["dataset=text_to_sql", "metric=sql_equivalence", "limit=3"],
    ["cases"],
    ["dataset=rag", "metric=exact_match", "limit=1", "target=command", f"target.argv={sleeper}", "target.timeout_s=1",
     "generate=true"],
):
    code = run_command(words)
    print("ended", words[0], code, flush=True)
"""


@pytest.mark.slow
def test_the_core_needs_nothing_that_only_posix_has(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "warn_default_encoding", "-c", ELSEWHERE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    ended = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ended ")]
    codes = ["0", "0", "0", "0", "3"]  # the last one has no answer, and so no score
    assert [code for _, code in ended] == codes, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "no reply within 1 s" in (tmp_path / "outputs" / "latest" / "answers.jsonl").read_text(encoding="utf-8")
