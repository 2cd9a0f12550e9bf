"""The verbs that set a public server up: what they print runs as printed, until it may serve."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from evalflow.cli import run_command

PUBLIC = ["serve", "--public", "https://evalflow.example", "--proxy", "127.0.0.1"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def hinted(error: str, name: str = "olga") -> list[list[str]]:
    """The commands of the hints, with NAME replaced."""
    found = re.findall(r"python -m evalflow (.*)", error)
    return [shlex.split(words.replace("NAME", name)) for words in found]


def test_a_public_server_says_what_it_lacks_and_how_to_give_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(PUBLIC) == 2
    said = capsys.readouterr().err
    assert "nobody owns this server yet" in said
    assert "bots and judges may call nothing yet" in said
    for words in hinted(said):
        assert run_command(words) == 0
    out = capsys.readouterr().out
    assert re.search(r"link   /link\?code=\S{43}\n +valid once, for a day, below the server's address", out)
    assert run_command(["connections", "list"]) == 0
    listed = capsys.readouterr().out
    assert listed == "openai  https://api.openai.com/v1  key in OPENAI_API_KEY (not set here)  to public\n"


def test_people_are_managed_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["users", "add", "ann", "--full-name", "Ann", "--public", "https://e.example/"]) == 0
    assert "link   https://e.example/link?code=" in capsys.readouterr().out
    assert run_command(["users", "add", "olga", "--owner"]) == 0
    assert run_command(["users", "disable", "ann"]) == 0
    capsys.readouterr()
    assert run_command(["users", "list"]) == 0
    assert capsys.readouterr().out == "ann  Ann  disabled, no passkey\nolga    owner, no passkey\n"
    for words in (["users", "enable", "ann"], ["users", "link", "ann"], ["users", "delete", "ann"]):
        assert run_command(words) == 0
    assert run_command(["users", "disable", "olga"]) == 2
    assert "the server would have no owner" in capsys.readouterr().err


def test_connections_are_managed_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    add = ["connections", "add", "own", "http://10.0.0.1:8000/v1"]
    assert run_command([*add, "--network", "10.0.0.0/8", "--network", "10.0.0.0/33"]) == 2
    assert "is not a network" in capsys.readouterr().err
    assert run_command([*add, "--network", "10.0.0.0/8"]) == 0
    assert run_command(["connections", "delete", "own"]) == 0
    capsys.readouterr()
    assert run_command(["connections", "list"]) == 0
    assert capsys.readouterr().out == ""


def test_half_a_certificate_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["serve", "--public", "https://e.example", "--tls-cert", "c.pem"]) == 2
    assert "a certificate needs its key" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["serve", "--proxy", "127.0.0.1", "--oidc-issuer", "https://l.example"], ["--proxy", "--oidc-issuer"]),
        ([*PUBLIC, "--oidc-issuer", "https://l.example"], ["--oidc-client-id and --oidc-client-secret-env"]),
        ([*PUBLIC, "--oidc-name", "Ex"], ["--oidc-issuer and --oidc-client-id and --oidc-client-secret-env"]),
        ([*PUBLIC, "--user-header", "Remote-User"], ["needs --user-header-secret-env"]),
        (
            [*PUBLIC, "--user-header", "Remote User", "--user-header-secret-env", "SHORT", "--port", "-1"],
            ["is not a header", "less than 32 characters", "-1 is not a port"],
        ),
        (
            [*PUBLIC[:3], "--user-header", "Remote-User", "--user-header-secret-env", "UNSET"],
            ["UNSET is empty", "only a proxy can be believed", "without encryption"],
        ),
    ],
)
def test_ways_to_sign_in_that_lack_something_are_refused(
    words: list[str], wrong: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "short")
    monkeypatch.delenv("UNSET", raising=False)
    assert run_command(words) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert [what for what in wrong if what not in said] == []


def test_nothing_listens_while_the_provider_does_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalflow.addons.studio.web.security.oidc._PAUSES_S", ())
    monkeypatch.setattr("evalflow.addons.studio.web.serve.bind", lambda _: pytest.fail("it listens"))
    monkeypatch.setenv("OIDC_SECRET", "secret")
    assert run_command(PUBLIC) == 2
    for words in hinted(capsys.readouterr().err):
        assert run_command(words) == 0
    oidc = ["--oidc-issuer", "http://127.0.0.1:9", "--oidc-client-id", "e", "--oidc-client-secret-env", "OIDC_SECRET"]
    assert run_command([*PUBLIC, *oidc]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--oidc-issuer: http://127.0.0.1:9/.well-known/openid-configuration cannot be read" in said
    assert "start again once the provider answers" in said
