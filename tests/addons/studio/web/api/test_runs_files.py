"""What a run wrote is served by fixed names, and nothing else of its folder or of the machine."""

from __future__ import annotations

import html
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.addons.studio.web.conftest import Api, api_served
from tests.addons.studio.web.finished import Finished


@pytest.fixture(name="api", scope="module")
def _api(finished: Finished) -> Iterator[Api]:
    with api_served(finished.folder) as server:
        yield Api(server)


@pytest.fixture(name="folder")
def _folder(finished: Finished) -> Path:
    return finished.folder / "outputs" / "runs" / finished.better


def test_the_files_are_listed_and_fetched(api: Api, finished: Finished, folder: Path) -> None:
    items = api("GET", f"/runs/{finished.better}/files").json["items"]
    assert {"report.html", "scores.parquet", "scores.jsonl", "results.csv", "junit.xml"} <= {i["name"] for i in items}
    for item in items:
        answer = api("GET", f"/runs/{finished.better}/files/{item['name']}")
        assert answer.status == 200
        assert answer.body == (folder / item["name"]).read_bytes()
        assert len(answer.body) == item["size"]
        assert ("attachment" in (answer.headers["Content-Disposition"] or "")) == (item["name"] != "report.html")
    lines = api("GET", f"/runs/{finished.better}/files/scores.jsonl").body.splitlines()
    assert len([json.loads(line) for line in lines]) == 12


def test_all_files_are_one_archive(api: Api, finished: Finished, folder: Path) -> None:
    answer = api("GET", f"/runs/{finished.better}/archive")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/zip")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{finished.better}.zip"'
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert {"README.md", "run.json", "conf/dataset/questions.yaml", "data/questions.jsonl"} <= set(
            archive.namelist()
        )
        assert archive.read("results.csv") == (folder / "results.csv").read_bytes()
    assert api("GET", "/runs/none/archive").status == 404


def test_the_report_runs_its_own_script_in_an_origin_of_its_own_and_nothing_else(api: Api, finished: Finished) -> None:
    answer = api("GET", f"/runs/{finished.better}/files/report.html")
    policy = answer.headers["Content-Security-Policy"]
    rules: dict[str, str] = {}
    for rule in policy.split(";"):
        name, _, rules[name] = rule.strip().partition(" ")
    assert rules["sandbox"] == "allow-scripts"
    assert rules["default-src"] == rules["form-action"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"].startswith("'sha256-")
    assert "unsafe" not in policy
    assert f"script-src {rules['script-src']}" in html.unescape(answer.body.decode())
    assert answer.headers["X-Frame-Options"] == "DENY"
    plain = api("GET", f"/runs/{finished.better}/files/results.csv").headers["Content-Security-Policy"]
    assert plain.startswith("default-src 'none'")
    assert "script-src" not in plain


@pytest.mark.parametrize(
    "name",
    ["run.json", "evalflow.log", ".hydra/config.yaml", "..%2Frun.json", "%2e%2e", "snapshot", "report.html%00", "none"],
)
def test_no_other_name_is_looked_for(api: Api, finished: Finished, name: str) -> None:
    assert api("GET", f"/runs/{finished.better}/files/{name}").status in (404, 422)


def _link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def _pipe(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _folder_instead(path: Path, _: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("put", [_link, _pipe, _folder_instead])
def test_what_is_no_plain_file_is_not_there(
    api: Api, finished: Finished, folder: Path, tmp_path: Path, put: Callable[[Path, Path], None]
) -> None:
    secret, name = tmp_path / "secret", folder / "results.csv"
    secret.write_text("secret")
    kept = name.rename(folder / "aside")
    put(name, secret)
    try:
        answer = api("GET", f"/runs/{finished.better}/files/results.csv")
        listed = api("GET", f"/runs/{finished.better}/files").json["items"]
    finally:
        name.rmdir() if name.is_dir() else name.unlink()
        kept.rename(name)
    assert answer.status == 404
    assert b"secret" not in answer.body
    assert "results.csv" not in {item["name"] for item in listed}


def test_a_folder_that_leads_elsewhere_is_refused(api: Api, finished: Finished, folder: Path, tmp_path: Path) -> None:
    kept = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(kept)
    try:
        answer = api("GET", f"/runs/{finished.better}/files/report.html")
    finally:
        folder.unlink()
        kept.rename(folder)
    assert answer.status == 422
    assert "not below the working directory" in answer.json["detail"]


def test_a_run_or_folder_that_is_gone(api: Api, finished: Finished, folder: Path, tmp_path: Path) -> None:
    assert api("GET", "/runs/none/files").status == 404
    kept = folder.rename(tmp_path / "elsewhere")
    try:
        assert api("GET", f"/runs/{finished.better}/files").json["items"] == []
        assert api("GET", f"/runs/{finished.better}/files/report.html").status == 404
    finally:
        kept.rename(folder)
