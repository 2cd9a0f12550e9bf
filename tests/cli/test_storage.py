"""Datasets and runs in object storage, on the command line, with S3 as moto serves it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from evalflow.app.core import stored_runs
from evalflow.calls import objects
from evalflow.calls.objects import SCHEMES, StoredFolder
from evalflow.errors import InfrastructureError, UserError
from tests.cli.conftest import Program
from tests.loopback import LoopbackServer
from tests.object_storage import BUCKET, serving_s3

PAGE = (Path(__file__).parents[2] / "docs" / "storage.md").read_text(encoding="utf-8")
pytest.importorskip("obstore", reason="needs the packages of the extra objects")
ROWS = [{"id": str(n), "question": "?", "answer": "a" if n else "b", "reference": "a"} for n in range(4)]
RUN = ("dataset=rag", "metric=exact_match", "max_error_rate=1")


@pytest.fixture(scope="module")
def s3() -> Iterator[Mapping[str, str]]:
    with serving_s3() as env:
        yield env


@pytest.fixture
def there(s3: Mapping[str, str], program: Program, monkeypatch: pytest.MonkeyPatch, request: Any) -> str:
    """The address of a folder of this test, below which nothing is."""
    for name, value in s3.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(program.folder)
    return f"s3://{BUCKET}/{request.node.name}"


def put(address: str, name: str, *rows: Mapping[str, Any]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    StoredFolder(address, "test").write(name, text.encode())


def mine(program: Program, path: str) -> tuple[str, ...]:
    """The words that score the cases of a path."""
    conf = program.folder / "conf" / "dataset" / "mine.yaml"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(f"# @package dataset.mine\npath: {json.dumps(path)}\n")
    return ("dataset=mine", *RUN[1:])


def names(address: str) -> set[str]:
    return {one.path for one in StoredFolder(address, "test").listed()}


def ids(program: Program) -> list[str]:
    with (program.latest / "cases.jsonl").open() as lines:
        return [json.loads(line)["id"] for line in lines]


def test_the_commands_of_the_page_run(program: Program, there: str) -> None:
    data = Path(__file__).parents[2] / "data" / "rag.jsonl"
    StoredFolder(f"s3://{BUCKET}/data", "test").write("rag.jsonl", data)
    for line in re.findall(r"^python -m evalflow (.*)$", PAGE, re.MULTILINE):
        done = program(*line.split())
        assert done.returncode == 0, (line, done.stderr)
    assert [scheme for scheme in SCHEMES if f"| `{scheme}://" not in PAGE] == []


def test_a_dataset_is_read_and_read_again_only_when_it_has_changed(program: Program, there: str) -> None:
    put(there, "cases.jsonl", *ROWS)
    words = mine(program, f"{there}/cases.jsonl")
    assert program(*words).returncode == 0
    assert ids(program) == ["0", "1", "2", "3"]
    copy = StoredFolder(there, "test").copy / "cases.jsonl"
    before = copy.stat().st_ino
    assert program(*words).returncode == 0
    assert copy.stat().st_ino == before
    put(there, "cases.jsonl", *ROWS[:3], {**ROWS[3], "id": "9"})
    assert program(*words).returncode == 0
    assert ids(program) == ["0", "1", "2", "9"]
    assert (program.folder / ".evalflow").stat().st_mode & 0o077 == 0


def test_a_pattern_names_files_of_one_folder(program: Program, there: str) -> None:
    put(there, "day/b.jsonl", ROWS[1])
    put(there, "day/a.jsonl", ROWS[0])
    put(there, "day/a.csv.txt", ROWS[2])
    put(there, "day/deeper/c.jsonl", ROWS[3])
    assert program(*mine(program, f"{there}/day/*.jsonl")).returncode == 0
    assert ids(program) == ["0", "1"]
    none = program(*mine(program, f"{there}/night/*.jsonl"))
    assert (none.returncode, f"no file matches {there}/night/*.jsonl" in none.stderr) == (2, True)


def test_a_copied_run_is_read_as_the_run_itself(program: Program, there: str) -> None:
    first = program(*RUN, f"copy_to={there}")
    assert f"storage: 60 of 60 scores sent to {there}/{program.latest.name}" in first.stderr
    run = f"{there}/{program.latest.name}"
    written = {path.relative_to(program.latest).as_posix() for path in program.latest.rglob("*") if path.is_file()}
    assert names(run) == written
    assert program.manifest["exports"][0]["sent"] == 60
    assert program(*RUN, "limit=20").returncode == 0
    local = program("compare", str(program.folder / "outputs" / "runs" / run.rpartition("/")[2]), "outputs/latest")
    stored = program("compare", run, "outputs/latest")
    assert stored.returncode == local.returncode == 0, stored.stderr
    assert stored.stdout == local.stdout
    gated = program(*RUN, "gate={exact_match: {mean: {not_worse_by: 0.25}}}", f"baseline={run}")
    assert (gated.returncode, program.manifest["config"]["baseline"]) == (0, run), gated.stderr
    for words in (("cases", run), ("report", run)):
        assert program(*words).returncode == 0, words
    cases = [json.loads(line)["id"] for line in (program.latest / "cases.jsonl").read_text().splitlines()]
    program.write("labels.jsonl", *({"case_id": case, "metric": "exact_match", "value": 1} for case in cases[:3]))
    labelled = program("calibrate", run, "--labels", "labels.jsonl")
    assert "exact_match" in labelled.stdout, labelled.stderr
    assert (StoredFolder(run, "test").copy / "calibration.json").is_file()


def test_a_sweep_is_copied_with_its_runs(program: Program, there: str) -> None:
    done = program("--multirun", "dataset=rag", "metric=exact_match,answer_words", "limit=5", f"copy_to={there}")
    assert done.returncode == 0, done.stderr
    sweep = f"{there}/{program.latest.name}"
    found = names(sweep)
    assert {"run.json", "report.html", "0_metric=exact_match/run.json", "1_metric=answer_words/scores.parquet"} <= found
    assert [name for name in found if name.endswith(".begun")] == []
    assert program("rank", sweep).returncode in (0, 2)
    assert program("cases", f"{sweep}/0_metric=exact_match").returncode == 0


def test_a_copy_is_replaced_only_on_request(program: Program, there: str) -> None:
    assert program(*RUN, "limit=5").returncode == 0
    assert program("export", "storage", "--to", f"{there}/x").returncode == 0
    refused = program("export", "storage", "--to", f"{there}/x")
    assert (refused.returncode, "--again" in refused.stderr) == (2, True)
    StoredFolder(f"{there}/x", "test").write("old.txt", b"old")
    assert program("cases", f"{there}/x").returncode == 0
    StoredFolder(f"{there}/x", "test").delete("old.txt")
    (program.latest / "note.txt").write_text("new")
    assert program("export", "storage", "--to", f"{there}/x", "--again").returncode == 0
    assert program("cases", f"{there}/x").returncode == 0
    copy = StoredFolder(f"{there}/x", "test").copy
    assert ((copy / "note.txt").read_text(), (copy / "old.txt").exists()) == ("new", False)


def test_a_run_is_there_only_when_all_its_files_are(
    program: Program, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert program(*RUN, "limit=5").returncode == 0
    write = StoredFolder.write

    def fails(self: StoredFolder, path: str, content: Path | bytes, *, new: bool = False) -> None:
        if path == "summary.parquet":
            raise OSError("the line is cut")
        write(self, path, content, new=new)

    with monkeypatch.context() as patch:
        patch.setattr(StoredFolder, "write", fails)
        with pytest.raises(OSError, match="the line is cut"):
            stored_runs.copy_folder(program.latest, f"{there}/x", again=False)
        failed = program(*RUN, "limit=4", f"copy_to={there}")
    assert (failed.returncode, "0 of 4 scores sent" in failed.stderr) == (0, True)
    assert "scores.parquet" in names(f"{there}/x")
    absent = program("cases", f"{there}/x")
    assert (absent.returncode, "there is no run.json" in absent.stderr) == (2, True)
    [again] = [line for line in failed.stderr.splitlines() if "export storage" in line]
    assert program(*again.split("-m evalflow ")[1].split()).returncode == 0
    assert program("cases", again.split()[-1]).returncode == 0


def test_what_is_wrong_is_said_before_anything_is_asked(program: Program, there: str) -> None:
    for words, said in {
        ("copy_to=s3://nowhere/runs",): "there is no such bucket: s3://nowhere/runs",
        ("copy_to=hf://datasets/me/mine",): "write s3://BUCKET/FOLDER",
        ("copy_to=runs",): "write s3://BUCKET/FOLDER",
        (f"dataset.rag.path={there}/none.jsonl",): f"there is no such object: {there}/none.jsonl",
        ("dataset.rag.path=s3://nowhere/a.jsonl",): "there is no such",
        ("dataset.rag.path=s3://a/../b.jsonl",): "not a folder in object storage",
    }.items():
        done = program(*RUN, *words)
        assert (done.returncode, said in done.stderr) == (2, True), (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert not list((program.folder / "outputs").glob("runs/*/scores.jsonl"))


def test_storage_that_is_not_there_or_refuses_is_said(
    program: Program, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_error(403)

        do_PUT = do_POST = do_GET = do_HEAD

        def log_message(self, *_: object) -> None:
            pass

    words = mine(program, f"{there}/a.jsonl")
    with LoopbackServer(Refusing) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        refused = program(*words)
        assert (refused.returncode, "AWS_SECRET_ACCESS_KEY" in refused.stderr) == (2, True), refused.stderr
        unwritten = program(*RUN, f"copy_to={there}")
        assert (unwritten.returncode, "AWS_SECRET_ACCESS_KEY" in unwritten.stderr) == (2, True), unwritten.stderr
        assert not list((program.folder / "outputs").glob("runs/*/run.json"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    gone = program(*words)
    assert (gone.returncode, "Traceback" in gone.stderr) == (5, False), gone.stderr
    assert "secret-7Q" not in refused.stderr + gone.stderr


def test_a_file_in_several_parts_is_read_whole(there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_PART", 7)
    folder = StoredFolder(there, "test")
    for text in (b"", b"1234567", b"123456789012345"):
        folder.write("a.txt", text)
        assert folder.fetch(folder.head("a.txt")).read_bytes() == text
    folder.write("b.txt", b"123456789012345")
    before = folder.head("b.txt")
    folder.write("b.txt", b"another text, written meanwhile")
    with pytest.raises(InfrastructureError, match="try it again"):
        folder.fetch(before)
    assert not (folder.copy / "b.txt").exists()


def test_storage_that_lies_about_a_size_is_not_believed(there: str) -> None:
    folder = StoredFolder(there, "test")
    folder.write("a.txt", b"1234567")
    for said, how in ((3, "longer"), (40, "shorter")):
        with pytest.raises(InfrastructureError, match=rf"a\.txt is {how} than its size of {said} bytes"):
            folder.fetch(replace(folder.head("a.txt"), size=said))
    assert not list(folder.copy.rglob("*"))


def test_storage_that_says_nothing_is_not_waited_for_for_ever(there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    class Silent(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            over.wait(60)

    monkeypatch.setattr(objects, "_CLIENT", {**objects._CLIENT, "timeout": "0.3s"})
    monkeypatch.setattr(objects, "_RETRIES", {"max_retries": 0})
    with LoopbackServer(Silent) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        with pytest.raises(InfrastructureError, match="try it again"):
            StoredFolder(there, "test").head("a.jsonl")
        over.set()


def test_a_file_of_hugging_face_is_read_with_the_token(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    text = "".join(json.dumps(row) + "\n" for row in ROWS).encode()

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization", "")))
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Mon, 23 Nov 2026 00:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(text)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackServer(Hub) as server:
        env = {"HF_ENDPOINT": server.url, "HF_TOKEN": "hf-7Q"}
        done = program(*mine(program, "hf://datasets/me/mine@v2/day/cases.jsonl"), **env)
        listed = program(*mine(program, "hf://datasets/me/mine/*.jsonl"), **env)
    assert done.returncode == 0, done.stderr
    assert ids(program) == ["0", "1", "2", "3"]
    assert {path for path, _ in asked} == {"/datasets/me/mine/resolve/v2/day/cases.jsonl"}
    assert {key for _, key in asked} == {"Bearer hf-7Q"}
    assert (listed.returncode, "are not listed" in listed.stderr) == (2, True)


def test_a_name_from_the_storage_leads_nowhere_else(there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = StoredFolder(there, "test")
    meta = {"path": "../../../escaped.txt", "e_tag": "1", "last_modified": "now", "size": 1}
    monkeypatch.setattr(folder, "_store", type("Lying", (), {"list": lambda _: [[meta]]})())
    with pytest.raises(UserError, match="not the name of a file"):
        list(folder.listed())


def test_a_public_server_is_held_to_its_connections(program: Program, there: str) -> None:
    (program.folder / "connections.json").write_text("[]")
    known = str(program.folder / "connections.json")
    done = program(*mine(program, f"{there}/a.jsonl"), EVALFLOW_CONNECTIONS=known)
    assert (done.returncode, "cannot be restricted to this server's connections" in done.stderr) == (2, True)
    for word in (f"copy_to={there}", "cache.url=postgresql://127.0.0.1:9/none"):
        done = program(*RUN, word, EVALFLOW_CONNECTIONS=known)
        assert (done.returncode, f"{word.partition('=')[0]}=null" in done.stderr) == (2, True), done.stderr
