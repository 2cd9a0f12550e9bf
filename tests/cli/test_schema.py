"""The command `schema`."""

from __future__ import annotations

import json
from pathlib import Path

from evalflow.app.schema import group_schema
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
