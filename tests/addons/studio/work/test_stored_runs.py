"""Runs in object storage, opened in the application."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from evalflow.addons.studio.work.opened_runs import open_run
from evalflow.addons.studio.work.space import open_workspace
from evalflow.calls.objects import StoredFolder
from evalflow.errors import UserError
from tests.cli.conftest import Program
from tests.cli.conftest import program as program
from tests.cli.test_storage import RUN
from tests.cli.test_storage import s3 as s3
from tests.cli.test_storage import there as there


def test_the_application_opens_a_run_by_its_address(program: Program, there: str) -> None:
    assert program(*RUN, f"copy_to={there}").returncode == 0
    address = f"{there}/{program.latest.name}"
    with closing(open_workspace(f"sqlite:///{program.folder / 'evalflow.db'}")) as space:
        run = open_run(space, address)
        assert (run.run_id, Path(run.folder)) == (program.manifest["run_id"], StoredFolder(address, "test").copy)
        with pytest.raises(UserError, match="there is no run"):
            open_run(space, f"{there}/none")
