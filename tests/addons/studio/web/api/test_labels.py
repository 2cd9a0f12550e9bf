"""What people said to the scores of a run, as a list and as a labels file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalflow.addons.studio.work import verdicts
from tests.addons.studio.web.conftest import Api, api_served, working_in
from tests.addons.studio.web.finished import finish_runs

pytestmark = pytest.mark.slow


def test_verdicts_are_listed_in_pages_and_exported_as_a_labels_file(tmp_path: Path) -> None:
    with working_in(tmp_path) as space:
        run = finish_runs(space).worse
        verdicts.agree(space, run, 0, "exact")
        verdicts.disagree(space, run, 1, "exact", True, "Ünlike")
    with api_served(tmp_path) as server:
        api = Api(server)
        first = api("GET", f"/runs/{run}/labels?limit=1").json
        second = api("GET", f"/runs/{run}/labels?limit=1&cursor={first['next']}").json
        assert second["next"] is None
        rows = [*first["items"], *second["items"]]
        assert [(row["case_id"], row["value"], row["blind"]) for row in rows] == [
            ("c0", 1.0, False),
            ("c1", 1.0, False),
        ]
        export = api("GET", f"/runs/{run}/labels/export")
        assert [json.loads(line) for line in export.body.decode().splitlines()] == rows
        assert api("GET", "/runs/none/labels/export").status == 404
