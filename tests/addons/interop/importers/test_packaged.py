"""Importers that other packages add: their rows become cases, and what is wrong with one is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from evalflow import doors
from evalflow.app.core.json_schema import schema_text
from evalflow.errors import Problem, UserError
from evalflow.protocols import OmittedRow
from tests.cli.conftest import Program

ROWS: list[Any] = [
    {"id": "a", "question": "When?", "answer": "At 9.", "branch": "north", "scores": {"Helpful": 0.5, "Polite": True}},
    OmittedRow("it has no question", "old.tsv:2", "ask something"),
    {"id": "b", "question": "Who?", "answer": "We.", "contexts": ["All."], "scores": {"Helpful": float("nan")}},
]


def read_rows(path: Path) -> Iterator[Any]:
    yield from ROWS


def read_nothing(path: Path) -> None: ...


def read_empty(path: Path) -> list[Any]:
    return []


def refuse(path: Path) -> Iterator[Any]:
    raise UserError(Problem("it is not a file of Old", path.name, "export it again"))


def fail(path: Path) -> Iterator[Any]:
    yield ROWS[0]
    raise KeyError("question")


def claim(monkeypatch: pytest.MonkeyPatch, *names: tuple[str, Callable[[Path], object]]) -> None:
    """Add these importers as entry points, beside those of evalflow."""
    groups = ("evalflow.verbs", "evalflow.judges", "evalflow.embedders", "evalflow.engines", "evalflow.observers")
    own = [point for group in groups for point in doors.installed_points().select(group=group)]
    added = [EntryPoint(name, f"{__name__}:{read.__name__}", "evalflow.importers") for name, read in names]
    points = EntryPoints([*own, *added])
    monkeypatch.setattr(doors, "installed_points", lambda: points)


@pytest.fixture
def folder(program: Program) -> Path:
    (program.folder / "old.tsv").write_text("", encoding="utf-8")
    return program.folder


def written(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name != "old.tsv"]


def test_rows_become_cases_and_old_scores_metrics(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(monkeypatch, ("old", read_rows))
    done = program("import", "old", "old.tsv", "--name", "desk", COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    assert "row, old.tsv:2: it has no question" in done.stdout
    assert "ask something" in done.stdout
    lines = (folder / "data" / "desk.jsonl").read_text(encoding="utf-8").splitlines()
    assert list(map(json.loads, lines)) == [
        {
            "id": "a",
            "question": "When?",
            "answer": "At 9.",
            "branch": "north",
            "scores": {"helpful": 0.5, "polite": 1.0},
        },
        {"id": "b", "question": "Who?", "answer": "We.", "contexts": ["All."]},
    ]
    assert program("experiment=desk").returncode == 0
    assert program.manifest["scores"]["scored"] == 2
    again = program("import", "old", "old.tsv", "--name", "other", "--dataset", "desk")
    assert again.returncode == 0
    assert "2 of 2 cases have questions of desk and get their ids" in " ".join(again.stdout.split())


OTHER = "row 1: expected a mapping of case fields, got tuple"
HELD = "row 1: JSON cannot hold the row: Object of type PosixPath is not JSON serializable"


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([("When?", "At 9.")], OTHER),
        ([{"question": "When?", "at": Path("x")}], HELD),
        ([{"question": "When?", "contexts": {"a": 1}}], "row 1: contexts: "),
        ([{"answer": "At 9."}], "row 1: it has neither a question nor messages nor a scenario"),
        ([{"question": "When?", "scores": 0.5}], "row 1: scores: expected an object of numbers, got a number (0.5)"),
        ([*ROWS, {"question": "When?", "id": True}], "row 4: id: expected text or a whole number"),
    ],
)
def test_rows_that_are_not_cases_are_refused_with_their_place(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch, rows: list[Any], what: str
) -> None:
    claim(monkeypatch, ("old", read_rows))
    monkeypatch.setattr(f"{__name__}.ROWS", rows)
    done = program("import", "old", "old.tsv", COLUMNS="200")
    assert done.returncode == 2
    assert f"old.tsv, {what}" in done.stderr
    assert "hint: the importer old of the package " in done.stderr
    assert written(folder) == []


def test_all_wrong_rows_are_reported_up_to_a_limit(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(monkeypatch, ("old", read_rows))
    monkeypatch.setattr(f"{__name__}.ROWS", [{}] * 30)
    done = program("import", "old", "old.tsv")
    assert done.returncode == 2
    assert done.stderr.count("neither a question") == 20


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (fail, "old.tsv: the importer old failed: KeyError: 'question' (test_packaged.py:"),
        (read_nothing, "old.tsv: expected rows, got NoneType"),
        (read_empty, "old.tsv: it has no cases"),
        (refuse, "old.tsv: it is not a file of Old\n  hint: export it again"),
    ],
)
def test_an_importer_that_fails_is_named_without_a_traceback(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object], what: str
) -> None:
    claim(monkeypatch, ("old", read))
    done = program("import", "old", "old.tsv", COLUMNS="200")
    assert done.returncode == 2
    assert what in done.stderr
    assert "Traceback" not in done.stderr
    assert written(folder) == []


@pytest.mark.parametrize("added", [[("old", read_rows), ("old", fail)], [("ragas", read_rows)]])
def test_two_importers_of_one_name_are_refused(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch, added: list[Any]
) -> None:
    claim(monkeypatch, *added)
    done = program("import", "promptfoo", "old.tsv")
    assert done.returncode == 2
    assert f"the importer {added[0][0]!r} is defined by " in done.stderr
    assert "uninstall one of them" in done.stderr
    assert program("--help").returncode == 0


def test_nothing_is_written_if_a_kind_of_another_package_is_broken(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(monkeypatch, ("old", read_rows))
    gone = EntryPoint("gone", "a_package_that_is_gone:Judge", "evalflow.judges")
    points = EntryPoints([*(point for point in doors.installed_points()), gone])
    monkeypatch.setattr(doors, "installed_points", lambda: points)
    schema_text.cache_clear()
    done = program("import", "old", "old.tsv", COLUMNS="200")
    assert done.returncode == 2
    assert "the judge kind 'gone' cannot be loaded from a_package_that_is_gone:Judge" in done.stderr
    assert [name for name in written(folder) if name != ".evalflow"] == []


def test_what_an_importer_does_not_take_is_refused(
    program: Program, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(monkeypatch, ("old", read_rows))
    assert "there is no such file or folder" in program("import", "old", "nowhere.tsv").stderr
    rooted = program("import", "old", "old.tsv", "--root", ".")
    assert (rooted.returncode, "leave out --root" in rooted.stderr) == (2, True)
    assert written(folder) == []
