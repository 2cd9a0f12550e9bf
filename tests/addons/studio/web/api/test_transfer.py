from __future__ import annotations

import io
import zipfile

import pytest

from tests.addons.studio.web.api.test_datasets import fill
from tests.addons.studio.web.conftest import Api

pytestmark = pytest.mark.slow

BOT = {"name": "helper", "description": "Helps.", "config": {"kind": "recorded"}}


def test_what_is_defined_goes_to_files_and_comes_back(api: Api) -> None:
    assert api("POST", "/bots", BOT).status == 201
    fill(api, "moved", [{"id": "a", "question": "?", "answer": "x", "reference": "x"}])
    made = api("POST", "/exports", {"folder": "away/first", "bot": "helper", "datasets": ["moved"]})
    assert (made.status, made.json) == (201, {"config_dir": "away/first/conf"}), made.body
    assert api("POST", "/exports", {"folder": "away/first", "bot": "helper"}).status == 422
    assert api("POST", "/exports", {"folder": "away/second"}).status == 422
    assert api("POST", "/imports", {"folder": "away/first"}).status == 409
    for kind, name in (("bots", "helper"), ("datasets", "moved")):
        version = api("GET", f"/{kind}/{name}").headers["ETag"]
        assert api("DELETE", f"/{kind}/{name}", If_Match=version).status == 204
    back = api("POST", "/imports", {"folder": "away/first"})
    named = {"bots": ["helper"], "metrics": [], "datasets": ["moved"], "judges": []}
    assert (back.status, back.json) == (201, named), back.body
    assert api("GET", "/bots/helper").json["description"] == "Helps."
    assert api("GET", "/datasets/moved/cases").json["items"][0]["question"] == "?"


def test_a_bot_is_downloaded_with_datasets(api: Api) -> None:
    assert api("POST", "/bots", {**BOT, "name": "carried"}).status == 201
    for name in ("one", "two"):
        fill(api, name, [{"id": "a", "question": "?", "answer": "x", "reference": "x"}])
    answer = api("GET", "/bots/carried/archive?dataset=one&dataset=two")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="carried.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert set(archive.namelist()) == {
            "README.md",
            "conf/target/carried.yaml",
            "conf/dataset/one.yaml",
            "conf/dataset/two.yaml",
            "data/one.jsonl",
            "data/two.jsonl",
            ".evalflow/schema/dataset.json",
            ".evalflow/schema/target.json",
        }
    assert api("GET", "/bots/carried/archive?dataset=none").status == 404
    assert "is declared in conf/" in api("GET", "/bots/recorded/archive").json["detail"]


def test_nothing_is_written_or_read_elsewhere(api: Api) -> None:
    for folder in ("/", "..", "away/../..", "/etc", "\0", "a" * 300):
        assert api("POST", "/exports", {"folder": folder, "bot": "recorded"}).status == 422, folder
        assert api("POST", "/imports", {"folder": folder}).status == 422, folder
