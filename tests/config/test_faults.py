"""What is raised while Hydra is at work."""

from __future__ import annotations

import pytest

from evalflow.config.faults import as_user_errors
from evalflow.errors import UserError


def test_a_reader_that_has_gone_is_no_fault_of_the_configuration() -> None:
    with pytest.raises(BrokenPipeError), as_user_errors(()):
        raise BrokenPipeError


def test_a_folder_that_cannot_be_written_is_named() -> None:
    with pytest.raises(UserError, match=r"^/nowhere: cannot write there: Permission denied"), as_user_errors(()):
        raise PermissionError(13, "Permission denied", "/nowhere")
