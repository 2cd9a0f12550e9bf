"""A process that may use too little memory says so, before anything is sent; libraries would abort it."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from evalflow.errors import InfrastructureError, of_memory
from evalflow.lazy import LEAST_MB, expect_memory

pytestmark = pytest.mark.slow


def test_a_limit_of_memory_is_an_error_before_the_run_begins(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1000 << 20, 1000 << 20))

    command = [sys.executable, "-m", "evalflow", "dataset=rag", "metric=exact_match", "limit=5"]
    done = subprocess.run(command, cwd=tmp_path, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert done.returncode == InfrastructureError.exit_code
    what = f"error: this process may use 1,000 MB of address space, and tables need {LEAST_MB:,} MB at least\n"
    assert done.stderr.endswith(f"{what}  hint: raise the limit: ulimit -v unlimited\n")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.rglob("run.json")) == []
    expect_memory()  # of this process


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libscipy.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
    ],
)
def test_what_failed_for_want_of_memory_is_known_by_its_causes(error: Exception) -> None:
    outer = RuntimeError("it went wrong")
    assert of_memory(outer) is None
    outer.__cause__ = error
    assert "no more memory" in str(of_memory(outer))
