"""The page on Python: its blocks, in the order of the page."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

import evalflow
from evalflow.api.results import RunResult
from tests.docs.test_readme import ROOT, blocks

PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.py"
    file.write_text("\n".join(blocks("python", PAGE)), encoding="utf-8")
    page = ModuleType("page")
    page.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "page", page)  # the run imports the function by the module's name
    monkeypatch.chdir(tmp_path)
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), page.__dict__)
    assert page.run.scores.height == 24
    assert page.means["metric"].to_list() == ["faithfulness", "exact_match"]
    assert page.worst.height == 3
    assert page.first.cases["exact_match"].to_list() == [1.0, 0.0]
    assert page.second.cases["exact_match"].to_list() == [1.0, 1.0]
    assert page.difference.flips["case_id"].to_list() == ["late"]
    assert page.agreement.rows["corrected_estimate"].is_not_null().all()
    assert all(isinstance(one, RunResult) for one in page.runs)
    assert "did you mean 'faithfulness'?" in capsys.readouterr().out


def test_the_page_names_what_there_is() -> None:
    for name in ("summary", "scores", "cases", "report", "passed", "folder", "exit_code", "cost_usd", "notes"):
        assert f"`run.{name}`" in PAGE
        assert name in {*dir(RunResult), *RunResult.__dataclass_fields__}
    for name in evalflow.__all__:
        assert name in PAGE or name in ("Report", "RunComparison", "RunCalibration"), name
