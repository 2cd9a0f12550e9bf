"""The command `schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalflow.app.core.json_schema import group_schema
from tests.cli.conftest import Program


def test_files_for_an_editor(program: Program) -> None:
    done = program("schema", "--out", "schemas")
    assert done.returncode == 0, done.stderr
    places = json.loads(done.stdout[done.stdout.index("{") :])["yaml.schemas"]
    assert {Path(place).stem for place in places} == {path.stem for path in (program.folder / "schemas").iterdir()}
    assert places["schemas/metric.json"] == "conf/metric/*.yaml"


def test_one_group_is_printed(program: Program) -> None:
    done = program("schema", "judge")
    assert json.loads(done.stdout) == json.loads(json.dumps(group_schema("judge")))


def test_vs_code_is_set_up_and_its_settings_are_kept(program: Program) -> None:
    settings = program.folder / ".vscode" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"editor.tabSize": 2, "yaml.schemas": {"mine.json": "*.yml"}}', encoding="utf-8")
    done = program("schema", "--vscode")
    assert done.returncode == 0, done.stderr
    found = json.loads(settings.read_text(encoding="utf-8"))
    assert found["editor.tabSize"] == 2
    assert found["yaml.schemas"]["mine.json"] == "*.yml"
    assert found["yaml.schemas"][".evalflow/schema/metric.json"] == "conf/metric/*.yaml"
    assert (program.folder / ".evalflow" / "schema" / "metric.json").is_file()


COMMENTED = """// of the team {
{
    "yaml.schemas": {
        "https://example.org/x.json": "*.yml", /* theirs */
    },
    "files.exclude": {"**/.git": true}, // "yaml.schemas": {
}
"""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            COMMENTED,
            ["// of the team {", '"https://example.org/x.json": "*.yml", /* theirs */', '// "yaml.schemas": {'],
        ),
        ("{\n  // nothing yet\n}\n", ["  // nothing yet\n}"]),
        ('{"a": "\\"//"}', ['"a": "\\"//"']),
        ("", []),
        ("{}", []),
    ],
)
def test_comments_in_settings_stay(program: Program, text: str, kept: list[str]) -> None:
    settings = program.folder / ".vscode" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(text, encoding="utf-8")
    for _ in range(2):
        done = program("schema", "--vscode")
        assert done.returncode == 0, done.stderr
        found = settings.read_text(encoding="utf-8")
        assert found.count('.evalflow/schema/metric.json": "conf/metric/*.yaml"') == 1
        assert [one for one in kept if one not in found] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": }', "this is not JSON"),
        ("[]", "not an object"),
        ('{"yaml.schemas": true}', "cannot be added to"),
        ('{"yaml.schemas": {".evalflow/schema/judge.json": "x"}}', "has other files for .evalflow/schema/judge.json"),
    ],
)
def test_settings_that_cannot_be_added_to_are_left_as_they_are(program: Program, text: str, why: str) -> None:
    settings = program.folder / ".vscode" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(text, encoding="utf-8")
    done = program("schema", "--vscode")
    assert done.returncode == 2
    assert why in done.stderr
    assert "add it yourself" in done.stderr
    assert settings.read_text(encoding="utf-8") == text


def test_new_files_name_their_schema(program: Program) -> None:
    assert program("new", "metric", "politeness").returncode == 0
    file = program.folder / "conf" / "metric" / "politeness.yaml"
    package, line, *_ = file.read_text(encoding="utf-8").splitlines()
    assert package == "# @package metric.politeness"
    assert line.startswith("# yaml-language-server: $schema=")
    schema = file.parent / line.partition("$schema=")[2]
    assert json.loads(schema.read_text(encoding="utf-8"))["title"] == "evalflow: a file of conf/metric/"
    judge = ("judge=vllm", "judge.model=m", "judge.base_url=http://127.0.0.1:9/v1")
    assert program("check", "dataset=rag", "metric=politeness", *judge, "limit=2").returncode == 0
