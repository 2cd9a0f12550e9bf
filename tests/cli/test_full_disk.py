"""A disk that fills in the middle of a run, and the run that goes on once there is room."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from evalflow.testing import Endpoint, Request, reply
from tests.cli.conftest import Program

pytestmark = pytest.mark.slow

N, IN_FLIGHT = 150, 8


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(folder)]
    if (
        sys.platform != "linux"
        or os.geteuid() != 0
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("needs the right to mount a small tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("cache", ["on", "off"])
def test_a_run_on_a_full_disk_says_so_and_goes_on_once_there_is_room(small_disk: Path, cache: str) -> None:
    program = Program(small_disk)
    rows = [{"id": f"c{i}", "question": f"Q{i}?", "reference": f"Q{i}? " + "x" * 20_000} for i in range(N)]
    (small_disk / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    filler = small_disk / "filler"
    filler.write_bytes(bytes(34_000_000))

    def script(request: Request) -> object:
        return reply(f"{request.user} " + "x" * 20_000)

    with Endpoint(script) as endpoint:
        done = program(
            "dataset=rag",
            "dataset.rag.path=mine.jsonl",
            "dataset.rag.fields=null",
            "metric=exact_match",
            "generate=true",
            "target=openai",
            "target.model=bot",
            f"target.base_url={endpoint.url}",
            "target.api_key_env=null",
            f"target.concurrency.max={IN_FLIGHT}",
            f"cache.mode='{cache}'",
        )
        paid = endpoint.count
        assert done.returncode == 5, done.stdout + done.stderr
        assert "No space left on device" in done.stderr
        assert "resume" in done.stderr
        assert "Traceback" not in done.stderr, done.stderr[-3000:]

        filler.unlink()
        again = program("resume")
        assert again.returncode == 0, again.stdout + again.stderr
    assert endpoint.count <= N + IN_FLIGHT
    assert paid < N
    assert pl.read_parquet(program.latest / "scores.parquet")["score"].to_list() == [1.0] * N


def test_no_verb_takes_a_full_disk_for_a_bug(small_disk: Path) -> None:
    program = Program(small_disk)
    assert program("dataset=rag", "metric=exact_match", "limit=3").returncode == 0
    with suppress(OSError), (small_disk / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    for words in (["report"], ["schema", "--vscode"], ["new", "metric", "mine"], ["dataset=rag", "metric=exact_match"]):
        done = program(*words)
        assert (done.returncode, "make room" in done.stderr) == (5, True), done.stderr[-3000:]
        assert "Traceback" not in done.stderr
