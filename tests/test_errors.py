"""The words by which a printed command calls evalflow, and what a notebook shows of an error."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

import evalflow
from evalflow.errors import command, program


@pytest.mark.parametrize(
    ("called", "words"),
    [
        ("python -m evalflow list", "python -m evalflow"),
        ("python3.13 -W error -m evalflow list", "python3.13 -m evalflow"),
        (".venv/bin/python -m evalflow list", ".venv/bin/python -m evalflow"),
        ("/env/bin/python3 -m evalflow list", "python3 -m evalflow"),
        ("/usr/bin/python3 -m evalflow list", "/usr/bin/python3 -m evalflow"),
        ("/other/bin/python3.12 -m evalflow list", "/other/bin/python3.12 -m evalflow"),
        ("/env/bin/python /env/bin/evalflow list", "evalflow"),
        ("/other/bin/python /other/bin/evalflow list", "/other/bin/evalflow"),
        ("/env/bin/python .venv/bin/evalflow list", ".venv/bin/evalflow"),
        ("/env/bin/python -m ipykernel_launcher -f x", "python -m evalflow"),
        ("python", "python -m evalflow"),
        ("", "python -m evalflow"),
    ],
)
def test_a_printed_command_calls_evalflow_as_it_was_called(
    called: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", called.split())
    monkeypatch.setattr(shutil, "which", lambda name: f"/env/bin/{name}")
    assert program() == words
    assert command("resume", "my run") == f"{words} resume 'my run'"


def test_a_console_script_that_no_shell_finds_is_named_by_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["/my env/bin/python", "/my env/bin/evalflow", "list"])
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert program() == "'/my env/bin/evalflow'"


def test_a_notebook_shows_the_message_and_the_line_that_called() -> None:
    with pytest.raises(evalflow.UserError) as caught:
        evalflow.run("dataset")
    caught.value.add_note("more of it")
    head, *message = caught.value._render_traceback_()
    assert re.fullmatch(r'UserError in line \d+: evalflow.run\("dataset"\)', head)
    assert message == [str(caught.value), "more of it"]
