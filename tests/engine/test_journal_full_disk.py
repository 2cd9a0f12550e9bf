"""A disk that fills in mid-run: said, nothing that is finished is lost, and the run continues once there is room."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from evalflow.engine.bookkeeping import Tally
from evalflow.engine.folder import RunFolder
from evalflow.engine.journal import JournalSink
from evalflow.errors import InfrastructureError
from evalflow.records import Answer


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if (
        sys.platform != "linux"
        or os.geteuid() != 0
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("needs the right to mount a small tmpfs")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def write(journal: JournalSink, answers: Iterable[Answer]) -> None:
    for answer in answers:
        journal.write(answer)


def test_what_was_written_stays_and_the_journal_goes_on(kit, small_disk: Path) -> None:
    folder, filler = RunFolder(small_disk / "run"), small_disk / "filler"
    folder.path.mkdir()
    answers = [kit.answer(case, answer="x" * 2000) for case in kit.cases(100)]
    filler.write_bytes(bytes(20_000))
    with closing(JournalSink(folder, Tally())) as journal:
        with pytest.raises(InfrastructureError, match="No space left on device") as failed:
            write(journal, answers)
    written = folder.answers.read_bytes().count(b"\n")
    assert f"resume {folder.path}" in failed.value.hint
    filler.unlink()
    with closing(JournalSink(folder, Tally())) as journal:
        journal.write(answers[0])
    lines = folder.answers.read_bytes().splitlines(keepends=True)
    assert len(lines) == written + 1 > 5
    assert all(line.endswith(b"}\n") for line in lines)
