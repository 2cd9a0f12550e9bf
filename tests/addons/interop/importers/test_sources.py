"""An import reads only what lies in its folder, and only text."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.addons.interop.importers.ledger import Ledger, Untranslatable
from evalflow.addons.interop.importers.sources import SourceFolder, read_document, read_rows, read_text, text_of_file
from evalflow.errors import UserError


def said(problem: pytest.ExceptionInfo[UserError]) -> str:
    return str(problem.value)


def test_links_stay_in_the_folder(tmp_path: Path) -> None:
    inner = tmp_path / "project"
    inner.mkdir()
    (tmp_path / "secret.txt").write_text("s")
    (inner / "link.txt").symlink_to(tmp_path / "secret.txt")
    folder = SourceFolder.of(inner / "config.yaml")
    for name in ("../secret.txt", str(tmp_path / "secret.txt"), "link.txt"):
        with pytest.raises(UserError, match="is outside of") as caught:
            folder.find(name, inner, "config.yaml:3")
        assert "config.yaml:3" in said(caught)
        assert f"--root {tmp_path}" in said(caught)
    assert SourceFolder.of(inner / "config.yaml", tmp_path).find("../secret.txt", inner, "").name == "secret.txt"
    with pytest.raises(UserError, match="which does not exist"):
        folder.find("nowhere.txt", inner, "config.yaml:4")
    with pytest.raises(UserError, match="matches no file"):
        folder.matching("*.csv", inner, "config.yaml:4")
    with pytest.raises(UserError, match="leaves the folder"):
        folder.matching("../*.txt", inner, "config.yaml:4")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b" \n ", "the file is empty"),
        ("{}".encode("utf-16"), "the file is UTF-16, not UTF-8"),
        (b"a\n\xff\xfe", "f.json:2: the file is not text in UTF-8"),
        (b"PK\x03\x04\xff", "the file is zip, not UTF-8"),
        (b"a\0b", "zero bytes"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=what):
        read_text(path)


def test_a_truncated_file_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"a": 1,\n"b": ')
    with pytest.raises(UserError, match=r"f.json:2: broken JSON"):
        read_document(tmp_path / "f.json")
    (tmp_path / "f.jsonl").write_text('{"a": 1}\n{"a": ')
    rows = read_rows(tmp_path / "f.jsonl", Ledger())
    assert next(rows).data == {"a": 1}
    with pytest.raises(UserError, match=r"f.jsonl:2: broken JSON"):
        next(rows)


def test_a_pdf_in_ascii_is_no_text_and_a_drawing_is(tmp_path: Path) -> None:
    for name in ("manual.pdf", "LOGO.PNG"):
        (tmp_path / name).write_text("%PDF-1.4\n1 0 obj << /Type /Catalog >> endobj")
        with pytest.raises(Untranslatable, match=f"it names {name}, but evalflow only sends text"):
            text_of_file(tmp_path / name)
    (tmp_path / "plan.svg").write_text("<svg/>")
    assert text_of_file(tmp_path / "plan.svg") == "<svg/>"
