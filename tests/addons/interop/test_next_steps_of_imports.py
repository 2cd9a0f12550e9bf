"""What each importer prints as the next step runs in the folder in which it was printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from evalflow.addons.interop import importing
from evalflow.cli import run_command
from tests.addons.interop.importers.test_oddities import IMPORTERS, PLAIN, written

pytestmark = pytest.mark.slow

OWN_TESTS = {"govuk", "tiamat", "traces"}  # whose files are not rows with fields


def test_each_importer_of_rows_is_tried() -> None:
    shipped = {name for name in importing.IMPORTERS.names() if importing.IMPORTERS.ships(name)}
    assert shipped - OWN_TESTS == {kind for kind, _, _ in IMPORTERS.values()}


@pytest.mark.parametrize("name", IMPORTERS)
def test_what_an_import_proposes_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    kind, build, form = IMPORTERS[name]
    path = written(tmp_path, [build({**PLAIN, "id": f"p-{n}"}) for n in range(2)], form)
    code = run_command(["import", kind, str(path), "--name", "mine"])
    text = "".join(capsys.readouterr())
    assert code == 0, text
    found = re.findall(r"python -m evalflow (.*?)(?:   \(.*\))?$", text, re.MULTILINE)
    lines = [line for line in found if " FILE" not in line]  # a form for another system's file
    assert lines, text
    for line in dict.fromkeys(lines):
        code = run_command(shlex.split(line))
        assert code == 0, f"{line} ended with {code}:\n{''.join(capsys.readouterr())}"
