"""What people paste, as the readers take it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("nicegui", reason="the extra `web` is not installed")

from evalflow.addons.studio.web.pages.import_cases import pasted_file
from evalflow.addons.studio.work.uploads import CaseFile, columns_of
from evalflow.config.schema import DatasetConfig
from evalflow.datasets import read
from tests.addons.studio.web.conftest import working_in


def test_lines_are_questions(tmp_path: Path) -> None:
    path = pasted_file('\nOne, "two"?\r\n\n  Three;four?  \n', tmp_path)
    assert [case.question for case in read("mine", DatasetConfig(path=str(path)))] == ['One, "two"?', "Three;four?"]


def test_a_table_has_columns(tmp_path: Path) -> None:
    path = pasted_file('query\tideal\nOne, two?\t"a\nb"\nSays "hi"?\tc\n', tmp_path)
    with working_in(tmp_path) as space:
        columns = columns_of(space, CaseFile(path))
    assert [(column.name, column.field) for column in columns] == [
        ("query", "question"),
        ("ideal", "reference"),
    ]
    config = DatasetConfig(path=str(path), fields={"question": "query", "reference": "ideal"})
    assert [(case.question, case.reference) for case in read("mine", config)] == [
        ("One, two?", "a\nb"),
        ('Says "hi"?', "c"),
    ]
