"""Runs and bots as zip archives: unpacked in an empty folder, they do there what their README says."""

from __future__ import annotations

import io
import json
import re
import shlex
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalflow.addons.studio.work import bots, cases, check_uses, checks, datasets, judges, metrics
from evalflow.addons.studio.work.archives import bot_archive, run_archive, zipped
from evalflow.addons.studio.work.checks import CheckDraft
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import NotFoundError, Workspace
from evalflow.errors import UserError
from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program
from tests.finishing import finish
from tests.postgres import ON_SQLITE

KEY = "sesame-0123456789-open"
OTHER_KEY = "simsalabim-9876543210-dreimal"


def reply(request: Request) -> object:
    if request.schema is not None:
        return {"reason": "It names the fee.", "score": 8}
    return "It costs 3 pounds."


@pytest.fixture(name="desk")
def _desk(space: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bot and a judge with a key each, a metric that names the judge, a check, and cases that use it."""
    monkeypatch.setenv("DESK_KEY", KEY)
    monkeypatch.setenv("JUDGE_KEY", OTHER_KEY)
    with Endpoint(reply) as endpoint:
        bot = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": "DESK_KEY"}
        bots.create_bot(space, "desk", bot, "Knows every fee.")
        judges.create_judge(space, "careful", {**bot, "model": "judge", "api_key_env": "JUDGE_KEY"})
        graded = {"kind": "g_eval", "criteria": "It names the fee.", "steps": ["Look."], "judge": "careful"}
        metrics.create_metric(space, "desk", MetricDraft("graded", {**graded, "needs": ["question", "answer"]}))
        checks.create_check(space, CheckDraft("in_pounds", "string_matching", {"keyword": "pounds"}, "", "", []))
        datasets.create_dataset(space, "fees")
        cases.add_cases(space, "fees", [{"id": f"c{n}", "question": f"What is fee {n}?"} for n in range(3)])
        check_uses.enable_check(space, "fees", cases.case_ids(space, "fees"), "in_pounds")
        yield endpoint.url


def unpack(blocks: Iterator[bytes], folder: Path) -> list[list[str]]:
    """Unpack an archive, which has no key's value; the command lines of its README."""
    data = b"".join(blocks)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        archive.extractall(folder)
    for content in (data, *(path.read_bytes() for path in folder.rglob("*") if path.is_file())):
        assert KEY.encode() not in content
        assert OTHER_KEY.encode() not in content
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "Set before: DESK_KEY, JUDGE_KEY." in text
    return [shlex.split(line)[3:] for line in re.findall(r"^    (python -m evalflow .*)", text, re.MULTILINE)]


def expect_schemas(folder: Path) -> None:
    """Each file of a group names a schema that is there."""
    files = [file for group in ("dataset", "judge", "metric", "target") for file in (folder / "conf" / group).iterdir()]
    assert len(files) >= 4
    for file in files:
        [named] = re.findall(r"^# yaml-language-server: \$schema=(.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert json.loads((file.parent / named).read_text(encoding="utf-8"))["allOf"]


@ON_SQLITE
@pytest.mark.slow
def test_a_run_is_reported_compared_and_repeated_elsewhere(space: Workspace, desk: str, tmp_path: Path) -> None:
    run = finish(space, RunRequest("desk", ["fees"], ["graded", "checks"], title="Before the change"))
    assert run.exit_code == 0, run.message
    away = tmp_path / "away"
    away.mkdir()
    report, compare, repeat = unpack(run_archive(space, run.run_id), away)
    assert {"results.csv", "scores.parquet", "report.html", "run.json", "conf", "data"} <= {
        p.name for p in away.iterdir()
    }
    assert str(space.root) not in (away / "run.json").read_text(encoding="utf-8")
    expect_schemas(away)
    assert not {"process.log", "evalflow.log", "lease.json", "process.lock"} & {p.name for p in away.rglob("*")}
    elsewhere = Program(away)
    assert elsewhere(*report).returncode == 0
    done = elsewhere(*repeat)
    assert done.returncode == 0, done.stderr
    assert all(str(space.root / "outputs") not in json.dumps(one) for one in elsewhere.manifest["datasets"].values())
    done = elsewhere(*("outputs/latest" if word == "OTHER_RUN" else word for word in compare))
    assert done.returncode == 0, done.stderr
    first, second = ((path / "results.csv").read_text(encoding="utf-8") for path in (away, elsewhere.latest))
    assert first.count("8") == second.count("8") > 0


@ON_SQLITE
@pytest.mark.slow
def test_a_bot_is_handed_over_and_runs_at_once(space: Workspace, desk: str, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    commands = unpack(bot_archive(space, "desk", ["fees"]), away)
    expect_schemas(away)
    elsewhere = Program(away)
    for words in commands:
        done = elsewhere(*words)
        assert done.returncode == 0, (words, done.stderr)
    scores = [json.loads(line) for line in (elsewhere.latest / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {one["metric"]: one["score"] for one in scores} == {"graded": pytest.approx(7 / 9), "in_pounds": 1.0}
    assert len(scores) == 6


@ON_SQLITE
def test_what_cannot_be_handed_over_is_told(space: Workspace, desk: str) -> None:
    for archive in (lambda: bot_archive(space, "none"), lambda: bot_archive(space, "desk", ["none"])):
        with pytest.raises(NotFoundError):
            archive()
    with pytest.raises(UserError, match="is declared in conf/"):
        bot_archive(space, "recorded")
    with pytest.raises(NotFoundError):
        run_archive(space, "none")


def test_files_are_sent_in_small_blocks_and_end_where_they_ended(tmp_path: Path) -> None:
    large, growing = tmp_path / "large.parquet", tmp_path / "scores.jsonl"
    with large.open("wb") as file:
        file.truncate(20 << 20)
    growing.write_text("a\n", encoding="utf-8")
    blocks: list[bytes] = []
    for block in zipped([("scores.jsonl", growing), ("large.parquet", large)]):
        blocks.append(block)
        with growing.open("a", encoding="utf-8") as file:
            file.write("more\n")
    assert max(map(len, blocks)) < 1 << 20
    with zipfile.ZipFile(io.BytesIO(b"".join(blocks))) as archive:
        assert archive.testzip() is None
        assert archive.read("scores.jsonl") == b"a\n"
        assert archive.getinfo("large.parquet").file_size == 20 << 20


@ON_SQLITE
def test_a_link_in_a_run_is_not_followed(space: Workspace, tmp_path: Path) -> None:
    datasets.create_dataset(space, "fees")
    cases.add_cases(space, "fees", [{"question": "?", "answer": "a", "reference": "a"}])
    run = finish(space, RunRequest("recorded", ["fees"], ["exact_match"]))
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (run.folder / "snapshot" / "conf" / "secret.yaml").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="link"):
        run_archive(space, run.run_id)
