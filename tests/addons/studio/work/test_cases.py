"""Cases are found from anywhere, those of conf/ like one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from evalflow.addons.studio.store.audit import AuditFilter
from evalflow.addons.studio.work import bots, cases, datasets
from evalflow.addons.studio.work.audit import list_changes
from evalflow.addons.studio.work.cases import case_place, cases_at, list_cases
from evalflow.addons.studio.work.datasets import FoundCases, declared_page
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.runs import estimate_run, list_runs
from evalflow.addons.studio.work.space import NotFoundError, TakenError, Workspace
from evalflow.addons.studio.work.tasks import list_tasks
from evalflow.errors import UserError
from tests.postgres import ON_SQLITE

ROWS = [{"id": f"c{n}", "question": f"Question {n}?", "tags": ["A > B"] if n % 2 else ["C"]} for n in range(10)]


def test_a_case_has_its_place_and_neighbours_among_those_found(space: Workspace) -> None:
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", ROWS)
    page = cases_at(space, "mine", 2, 2, tag="A")
    found, first, total = page.items, page.first, page.total
    assert ([case.body["id"] for case in found], first, total) == (["c5", "c7"], 2, 5)
    place = case_place(space, "mine", found[0].id, tag="A")
    assert (place.before, place.total, place.next) == (2, 5, found[1].id)
    other = cases_at(space, "mine", 6, 1).items[0]  # which the filter does not find
    place = case_place(space, "mine", other.id, tag="A")
    assert (place.before, place.previous, place.next) == (3, found[0].id, found[1].id)
    page = cases_at(space, "mine", 400, 4)
    last, first = page.items, page.first
    assert ([case.body["id"] for case in last], first) == (["c8", "c9"], 8)
    assert cases_at(space, "mine", 0, 4, text="nothing") == FoundCases([], 0, 0)
    with pytest.raises(NotFoundError):
        case_place(space, "mine", 10**6)


@pytest.fixture(name="filed")
def _filed(tmp_path: Path) -> None:
    folder = tmp_path / "conf" / "dataset"
    folder.mkdir(parents=True)
    (tmp_path / "filed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    text = "# @package dataset.filed\npath: filed.jsonl\n"
    (folder / "filed.yaml").write_text(text, encoding="utf-8")


@pytest.mark.usefixtures("filed")
def test_a_dataset_of_conf_is_found_by_text_and_tag(space: Workspace) -> None:
    page = declared_page(space, "filed", 1, 2, tag="A>B", text="QUESTION")
    assert [row["id"] for row in page.items] == ["c3", "c5"]
    assert (page.total, page.is_whole) == (5, True)
    assert page.tags == [("A", 5), ("A > B", 5), ("C", 5)]
    assert [row["id"] for row in declared_page(space, "filed", 0, text="c7").items] == ["c7"]


@pytest.mark.usefixtures("filed")
def test_of_a_large_file_no_more_is_read_than_is_shown(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "COUNTED", 4)
    page = declared_page(space, "filed", 0, 2)
    assert ([row["id"] for row in page.items], page.total, page.is_whole) == (["c0", "c1"], 4, False)
    assert page.tags == [("A", 2), ("A > B", 2), ("C", 2)]
    late = declared_page(space, "filed", 6, 2)
    assert ([row["id"] for row in late.items], late.is_whole) == (["c6", "c7"], False)
    given_up = declared_page(space, "filed", 0, 2, text="c9", is_wanted=lambda: False)
    assert (list(given_up.items), given_up.is_whole) == ([], False)


@pytest.mark.parametrize("cursor", ["²", "x", "-1", "9" * 19])
def test_what_is_no_cursor_is_refused(space: Workspace, cursor: str) -> None:
    datasets.create_dataset(space, "mine")
    for read in (lambda: list_cases(space, "mine", cursor), lambda: list_runs(space, cursor)):
        with pytest.raises(UserError, match="not a cursor"):
            read()


def test_a_cursor_is_a_number_that_the_column_can_hold(space: Workspace) -> None:
    """PostgreSQL fails on others."""
    datasets.create_dataset(space, "mine")
    assert not list_cases(space, "mine", str(2**63 - 1)).items
    reads: tuple[Callable[[str], object], ...] = (
        lambda cursor: list_runs(space, cursor),
        lambda cursor: list_changes(space, AuditFilter(), cursor),
        lambda cursor: list_tasks(space, cursor=f"0,{cursor}"),
        lambda cursor: list_tasks(space, cursor=f"{cursor},0"),
    )
    for read in reads:
        read(str(2**31 - 1))
        with pytest.raises(UserError, match="not a cursor"):
            read(str(2**31))


@ON_SQLITE
def test_an_expected_answer_is_written_into_a_case_that_has_none(space: Workspace) -> None:
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"id": "a", "question": "Q?", "tags": ["Fees"]}])
    cases.write_reference(space, "mine", "a", " 4 pounds ")
    (row,) = cases.case_rows(space, "mine")
    assert (row["reference"], row["tags"]) == ("4 pounds", ["Fees"])
    with pytest.raises(TakenError, match="meanwhile"):
        cases.write_reference(space, "mine", "a", "5 pounds")
    with pytest.raises(UserError, match="required"):
        cases.write_reference(space, "mine", "a", " ")


@ON_SQLITE
def test_a_run_that_lacks_expected_answers_says_where_they_are_written(space: Workspace) -> None:
    bots.create_bot(space, "desk", {"kind": "recorded"})
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", [{"id": "a", "question": "Q?", "answer": "4"}])
    with pytest.raises(UserError) as refused:
        estimate_run(space, RunRequest("desk", ["mine"], ["exact_match"], judge="embedded"))
    (problem,) = refused.value.problems
    assert problem.hint == "write an expected answer in its cases, or leave the metric out"
    assert [subject.name for subject in problem.see] == ["mine"]


def test_downloads_that_are_read_slowly_keep_no_connection(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 downloads are begun, and none is read to its end; a pool has fewer connections."""
    monkeypatch.setattr(cases, "MAX_PAGE", 2)
    datasets.create_dataset(space, "mine")
    cases.add_cases(space, "mine", ROWS)
    rows = [cases.downloaded_rows(space, "mine") for _ in range(40)]
    assert {next(one)["id"] for one in rows} == {"c0"}
    assert len(list_cases(space, "mine").items) == 2
    assert [row["id"] for row in rows[0]] == [f"c{number}" for number in range(1, 10)]
