"""A run's folder: prepared.json is written at once, read again, refused if it was spoilt; the links to latest runs."""

import json
from pathlib import Path

import pytest

from evalflow.engine.folder import RunFolder, point_latest
from evalflow.engine.plan import PreparedFile
from evalflow.errors import UserError


def test_what_is_kept_is_found_again(tmp_path):
    folder = RunFolder(tmp_path)
    first = PreparedFile(folder)
    assert first.get("a") is None
    first.put("a", {"steps": ["größer"], "cost_usd": 0.25, "bill": {"requests": 1}})
    first.put("b", {"steps": [], "cost_usd": None, "bill": {}})
    again = PreparedFile(folder)
    assert again.get("a") == {"steps": ["größer"], "cost_usd": 0.25, "bill": {"requests": 1}}
    assert list(again.bills()) == [(0.25, {"requests": 1}), (None, {})]
    assert "größer" in folder.prepared.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no longer JSON"),
        ("[]", "not a map"),
        (json.dumps({"a": 1}), "not a map"),
        (json.dumps({"a": {"steps": []}}), "not a map"),
    ],
)
def test_a_file_that_is_not_what_was_written_is_refused(tmp_path, text, message):
    folder = RunFolder(tmp_path)
    folder.prepared.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        PreparedFile(folder)


def test_each_project_has_a_latest_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = {"": "outputs/runs/a", "projects/desk/": "outputs/projects/desk/runs/b"}
    for folder in (*folders.values(), "elsewhere/c"):
        Path(folder).mkdir(parents=True)
    for folder in folders.values():
        point_latest(Path(folder).absolute())
    for home, folder in folders.items():
        assert Path("outputs", home, "latest").resolve() == Path(folder).resolve()
    point_latest(Path("elsewhere/c").absolute())
    assert Path("outputs/latest").resolve() == Path("elsewhere/c").resolve()
