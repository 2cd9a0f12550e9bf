"""Inspect's logs, as a zip and as JSON."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from evalflow.addons.interop.importers.files import ImportedConfig, ImportSource
from evalflow.addons.interop.importers.inspect_logs import read_inspect
from evalflow.errors import UserError
from tests.addons.interop.importers.conftest import counts

SAMPLE: dict[str, Any] = {
    "id": "fr",
    "epoch": 1,
    "input": "Capital of France?",
    "target": ["Paris", "paris"],
    "metadata": {"lang": "en"},
    "messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": "map", "arguments": {"q": "fr"}}]}],
    "output": {"choices": [{"message": {"content": "attachment://abc"}}], "completion": "attachment://abc"},
    "attachments": {"abc": "Paris."},
    "scores": {
        "includes": {"value": "C", "answer": "Paris"},
        "model_graded_qa": {"value": "P"},
        "rubric": {"value": {"tone": 3, "facts": "N"}},
    },
}
FAILED = {
    "id": 2,
    "epoch": 2,
    "input": [{"role": "user", "content": [{"type": "text", "text": "Spain?"}]}],
    "target": "",
    "output": {"choices": [], "completion": ""},
    "error": {"message": "no key"},
}


def read(path: Path) -> ImportedConfig:
    scratch = Path(mkdtemp(dir=path.parent))
    found = read_inspect(ImportSource(path, "old", scratch))
    found.ledger.expect_balanced()
    return found


def zipped(path: Path, members: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return path


def log(**changes: Any) -> dict[str, Any]:
    return {
        "header.json": {"version": 2},
        "samples/fr_epoch_1.json": SAMPLE,
        "samples/2_epoch_2.json": FAILED,
        **changes,
    }


def rows(found: ImportedConfig) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.data["old.jsonl"].read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("form", ["eval", "json"])
def test_samples_are_cases_with_scores(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"log.{form}"
    if form == "eval":
        zipped(path, log())
    else:
        path.write_text(json.dumps({"version": 2, "samples": [SAMPLE, FAILED]}), encoding="utf-8")
    found = read(path)
    first, second = rows(found)
    assert (first["id"], first["group"], first["answer"]) == ("fr/1", "fr", "Paris.")
    assert first["reference"] == ["Paris", "paris"]
    assert first["inspect"] == {"includes": 1.0, "model_graded_qa": 0.5, "rubric_tone": 3.0}
    [step] = first["actual"]
    assert step["tool_calls"][0]["function"] == {"name": "map", "arguments": '{"q": "fr"}'}
    assert first["checks"][0]["params"]["values"] == ["Paris", "paris"]
    assert (second["messages"], second["failure"]) == ([{"role": "user", "content": "Spain?"}], "no key")
    assert counts(found) == {"cases": (2, 2, 0), "scores": (4, 3, 1), "metrics": (4, 1, 3)}


@pytest.mark.parametrize("form", ["eval", "json"])
def test_nan_and_broken_samples_are_listed(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"log.{form}"
    odd = {**SAMPLE, "id": "odd", "scores": {"includes": {"value": float("nan"), "explanation": "no verdict"}}}
    if form == "eval":
        zipped(
            path,
            log(
                **{"samples/odd.json": odd, "samples/broken.json": "{", "header.json": {"version": 2, "eval": {"a": 1}}}
            ),
        )
    else:
        path.write_text(json.dumps({"version": 2, "eval": {"a": 1}, "samples": [SAMPLE, odd, {"epoch": 1}]}))
    found = read(path)
    last = next(case for case in rows(found) if case["group"] == "odd")
    assert ("inspect" in last, last["vars"]["scores"]["includes"]["explanation"]) == (False, "no verdict")
    assert counts(found)["cases"][2] == 1
    left = [(one.what, one.reason) for one in found.ledger.left_out]
    assert ("score includes", "it has no value") in left
    assert ("column eval", "it is about the whole file, not about a case") in left


def test_images_and_results_of_tools_are_kept(tmp_path: Path) -> None:
    picture = {"type": "image", "image": "data:image/png;base64,AAAA", "detail": "low"}
    asked = {
        "role": "user",
        "content": [{"type": "text", "text": "What is it?"}, picture, {"type": "image", "image": "a.png"}],
    }
    called = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "1", "function": "look", "arguments": {"at": 1}}],
    }
    result = {"role": "tool", "tool_call_id": "1", "function": "look", "content": "a cat"}
    said = {
        "role": "assistant",
        "content": [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "A cat."}],
    }
    sample = {
        "id": 1,
        "epoch": 1,
        "input": [asked],
        "messages": [asked, called, result, said],
        "output": {"choices": [{"message": said, "stop_reason": "stop"}]},
    }
    (tmp_path / "log.json").write_text(json.dumps({"version": 2, "samples": [sample]}))
    found = read(tmp_path / "log.json")
    [case] = rows(found)
    assert case["messages"][0]["parts"][1] == {
        "type": "image_url",
        "image_url": {"url": picture["image"], "detail": "low"},
    }
    assert (case["answer"], case["metadata"]) == ("A cat.", {"thoughts": "Hm."})
    assert [(one["role"], one.get("name")) for one in case["actual"]] == [
        ("assistant", None),
        ("tool", "look"),
        ("assistant", None),
    ]
    assert counts(found)["images and other parts"] == (2, 1, 1)


def test_zstd_is_read_or_named(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = zipped(tmp_path / "log.eval", {})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in log().items():
            archive.writestr(name, zstandard.ZstdCompressor().compress(json.dumps(content).encode()))
    # The members are marked as compressed by zstd, which Python's own zip cannot write.
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        for about in archive.infolist():
            at = about.header_offset + 8
            content = content[:at] + b"\x5d\x00" + content[at + 2 :]
    at = 0
    while (at := content.find(b"PK\x01\x02", at)) >= 0:
        content = content[: at + 10] + b"\x5d\x00" + content[at + 12 :]
        content = content[: at + 24] + (1 << 16).to_bytes(4, "little") + content[at + 28 :]
        at += 46
    path.write_bytes(content)
    assert read(path).ledger.counts()["cases"] == (2, 2, 0)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"samples/a.json": SAMPLE}, "has no header"),
        (log(**{"header.json": {"version": 9}}), "another version: 9"),
        ({"header.json": {"version": [2, "?"]}}, "another version"),
        ({"header.json": {"version": 2}}, "the log has no samples"),
        ({"header.json": {"version": 2}, "samples/a.json": '{"id": '}, "broken JSON"),
        ({"header.json": {"version": 2}, "samples/a.json": {"x": 1}}, "it is not a sample of Inspect"),
        ({"header.json": {"version": 2}, "samples/a.json": FAILED}, "all samples of the log are errors"),
    ],
)
def test_bad_logs_are_refused_in_words(tmp_path: Path, members: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(zipped(tmp_path / "log.eval", members))


def test_truncated_logs_are_refused_in_words(tmp_path: Path) -> None:
    path = zipped(tmp_path / "log.eval", log())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="broken or truncated"):
        read(path)
    (tmp_path / "log.json").write_text(json.dumps({"version": 2, "samples": [SAMPLE]})[:-20])
    with pytest.raises(UserError, match="broken JSON"):
        read(tmp_path / "log.json")
    (tmp_path / "log.json").write_text(json.dumps({"samples": [SAMPLE]}))
    with pytest.raises(UserError, match="another version: None"):
        read(tmp_path / "log.json")
