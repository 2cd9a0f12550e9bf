"""What each importer prints as the next step runs in the folder in which it was printed."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from evalflow.addons.interop import importing
from evalflow.cli import run_command
from tests.addons.interop.importers import test_govuk as govuk
from tests.addons.interop.importers import test_tiamat as tiamat
from tests.addons.interop.importers.test_oddities import IMPORTERS, PLAIN, written
from tests.traces.otlp import chat, request, span

pytestmark = pytest.mark.slow


def _traces(folder: Path) -> Path:
    path = folder / "spans.jsonl"
    path.write_text(json.dumps(request(span("a", says=chat("Why?", "So.")))) + "\n", encoding="utf-8")
    return path


def _govuk(_folder: Path) -> Path:
    return govuk.written("rag_answers", govuk.ROW, metrics=[govuk.metric(name) for name in govuk.ALL])


def _tiamat(folder: Path) -> Path:
    return tiamat.Files(folder).test([tiamat.DATASET], [tiamat.METRIC])


FILES: Mapping[str, Callable[[Path], Path]] = {"govuk": _govuk, "tiamat": _tiamat, "traces": _traces}
"""The importers whose files are not rows with fields, each with what writes a file of theirs into the folder."""


def test_each_importer_is_tried() -> None:
    shipped = {name for name in importing.IMPORTERS.names() if importing.IMPORTERS.ships(name)}
    assert shipped == {*FILES, *(kind for kind, _, _ in IMPORTERS.values())}


@pytest.mark.parametrize("name", [*IMPORTERS, *FILES])
def test_what_an_import_proposes_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "none")  # of the judge that GOV.UK's files name; nothing is sent
    if name in FILES:
        kind, path = name, FILES[name](tmp_path)
    else:
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
