"""The cases of a finished run, read back: all of them, or only the wanted ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evalflow.app.core.saved import SavedRun
from evalflow.datasets import case_to_row, short_row
from evalflow.engine.folder import RunFolder
from evalflow.errors import UserError
from evalflow.records import Case, Context, Message
from evalflow.summary.journal import json_line
from tests.manifests import manifest_of

IDS = ["a", 'ä "quoted" \\', "b", "a"]


@pytest.fixture
def saved(tmp_path: Path) -> SavedRun:
    """A run of two datasets that share an id."""
    made = [
        Case(dataset="d", index=i, id=case_id, messages=(Message("user", f'{{"id":"a"}} {i}'),))
        for i, case_id in enumerate(IDS)
    ]
    lines = b"".join(json_line(case_to_row(case)) + b"\n" for case in made)
    (tmp_path / "cases.jsonl").write_bytes(lines)
    return SavedRun(RunFolder(tmp_path), manifest_of(datasets={"d": {"cases": 3}, "e": {"cases": 1}}))


def test_the_wanted_cases_are_those_among_all(saved: SavedRun):
    everything = list(saved.cases())
    assert [(case.dataset, case.id) for case in everything] == [("d", one) for one in IDS[:3]] + [("e", "a")]
    assert list(saved.cases({("d", IDS[1]), ("e", "a"), ("e", "b")})) == [everything[1], everything[3]]
    assert list(saved.cases(set())) == []


def test_a_line_of_another_case_is_not_parsed_and_a_damaged_one_is_told(saved: SavedRun):
    path = saved.folder.cases
    path.write_bytes(path.read_bytes().replace(b'{"id":"b",', b'{"id":"b",,'))
    assert [case.id for case in saved.cases({("d", "a")})] == ["a"]
    with pytest.raises(UserError, match=r"cases\.jsonl:3"):
        list(saved.cases({("d", "b")}))


@pytest.mark.parametrize("to_row", [case_to_row, short_row])
def test_cases_are_the_same_by_question_and_expectation_alone(
    saved: SavedRun, to_row: Callable[[Case], dict[str, object]]
):
    assert saved.case_texts()["id"].to_list() == IDS
    first = next(saved.cases())

    def identity(case: Case, **other: str) -> tuple[int | None, int]:
        """The hash of a case's text, and its digest."""
        line = json_line(json.loads(json_line(to_row(case))))
        for old, new in other.items():
            line = line.replace(old.encode(), new.encode())
        saved.folder.cases.write_bytes(line + b"\n")
        return saved.case_texts()["text"].item(), saved.case_digests([0])[0]

    asked = first.messages[-1]
    known = replace(first, messages=(Message("user", "Why?"),), reference="an ideal one")
    more = (Message("user", "Before?"), Message("assistant", "Yes."))
    said = {"answer": '"reference":\\', "contexts": (Context("c"),), "vars": {"reference": "r", "expected": 1}}
    same = [
        [first, replace(first, answer="another"), replace(first, **said)],
        [known, replace(known, **said), replace(known, messages=(Message("assistant", "Hello."), *known.messages))],
        [replace(first, messages=(*more, asked)), replace(first, messages=(more[0], asked))],
        [replace(first, expected={"x": 1, "y": [2]}), replace(first, expected={"y": [2], "x": 1}, answer="another")],
        [replace(first, expected="an"), replace(first, expected="an", actual="x")],
        [replace(first, reference="an", expected="an")],
        [replace(first, reference="a")],
        [replace(first, reference=("a", "b"))],
        [replace(first, reference='["a", "b"]')],
        *(
            [replace(known, expected=one)]
            for one in (1, "1", 1.5, "1.5", True, "true", [1], "[1]", {"a": 1}, '{"a": 1}')
        ),
        *([replace(first, messages=(Message("user", one),))] for one in ("x", "x\n", "x\\n", 'x"', 'x\\"', "\\", "")),
    ]
    found = [[identity(case) for case in cases] for cases in same]
    assert [len({digest for _, digest in one}) for one in found] == [1] * len(same)
    assert len({digest for one in found for _, digest in one}) == len(same)
    texts = [{text for text, _ in one if text is not None} for one in found]
    assert len(set.union(*texts)) == sum(map(len, texts))
    assert identity(known) == identity(known, ideal=r"\u0069deal") == identity(replace(known, **said))
    assert None not in {identity(replace(known, messages=(Message("user", one),)))[0] for one in ("Why?", 'x\n"y"')}


def test_a_run_that_ended_before_its_cases_were_written_has_no_texts(saved: SavedRun):
    saved.folder.cases.unlink()
    assert saved.case_texts().height == 0


def test_damaged_cases_are_not_compared(saved: SavedRun):
    saved.folder.cases.write_bytes(saved.folder.cases.read_bytes()[:-5])
    with pytest.raises(UserError, match=r"cases\.jsonl: broken JSON"):
        saved.case_texts()
