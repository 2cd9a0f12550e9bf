"""What a run proposes to do about its errors."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from evalflow.app.core.derive import asked_again
from evalflow.cli import run_command
from evalflow.engine.folder import RunFolder
from evalflow.records.manifest import Manifest


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The manifest of a run of two overrides."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("run"))
        assert run_command(["dataset=rag", "metric=exact_match"]) == 0
        return RunFolder(Path("outputs/latest").resolve()).read_manifest()


def proposed(manifest: Manifest, *errors: tuple[str | None, str | None]) -> tuple[str, list[str]]:
    """What to do about scores with these error types and remedies, and the words of its command."""
    schema = {"status": pl.String, "member_of": pl.String, "error_type": pl.String, "remedy": pl.String}
    scores = pl.LazyFrame([("error", None, *error) for error in errors], schema=schema, orient="row")
    what, line = asked_again(manifest, ["a_run"], scores)
    return what, line.split()


def test_of_remedies_with_numbers_the_largest_is_proposed(manifest: Manifest) -> None:
    limits = ("10000", "40000", "16000", "10000")
    what, words = proposed(manifest, *(("truncated", f"judge.max_tokens={limit}") for limit in limits))
    assert what == "run it again with"
    assert words[-3:] == ["dataset=rag", "metric=exact_match", "judge.max_tokens=40000"]


def test_of_other_remedies_the_most_frequent_is_proposed(manifest: Manifest) -> None:
    modes = ("json_schema", "md_json", "md_json")
    _, words = proposed(manifest, *(("schema", f"judge.mode={mode}") for mode in modes))
    assert words[-2:] == ["metric=exact_match", "judge.mode=md_json"]


def test_remedies_of_several_judges_are_proposed_together(manifest: Manifest) -> None:
    of_one = ("schema", "judge.a.mode=md_json")
    what, words = proposed(manifest, of_one, ("truncated", "judge.b.max_tokens=4000"), of_one)
    assert what == "run it again with"
    assert words[-2:] == ["judge.a.mode=md_json", "judge.b.max_tokens=4000"]


@pytest.mark.parametrize("other", [("schema", None), ("refused", "judge.mode=json_schema")])
def test_errors_without_a_remedy_for_all_are_asked_again(manifest: Manifest, other: tuple[str, str | None]) -> None:
    what, words = proposed(manifest, ("schema", "judge.mode=md_json"), other)
    assert what == "ask them again"
    assert words[-3:] == ["resume", "a_run", "--retry-errors"]


@pytest.mark.parametrize("errors", [[None], ["data", None]])
def test_an_error_without_a_type_is_no_lasting_one(manifest: Manifest, errors: list[str | None]) -> None:
    assert proposed(manifest, *((one, None) for one in errors))[0] == "ask them again"


def test_lasting_errors_need_their_cause_removed(manifest: Manifest) -> None:
    assert proposed(manifest, ("data", None), ("prompt", None))[0] == "remove their cause, then run it again"
