"""What the page about servers has for copying is well-formed, and its commands are ones that exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from configparser import RawConfigParser
from pathlib import Path

import pytest
import yaml

from evalflow.addons.studio.work.space import open_workspace
from evalflow.cli import run_command
from tests.docs.test_readme import ROOT, blocks

TEXT = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
KEYS = {
    "Unit": {"Description", "Wants", "After", "StartLimitIntervalSec"},
    "Service": {
        *("User", "WorkingDirectory", "EnvironmentFile", "ExecStart", "Restart", "RestartSec", "KillMode"),
        *("TimeoutStopSec", "UMask", "NoNewPrivileges", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices"),
        "ReadWritePaths",
    },
    "Install": {"WantedBy"},
}


def block(language: str) -> str:
    return blocks(language, TEXT)[0]


def expect_only_set_up_missing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """All options are right: what is missing is the owner and the connections."""
    if "--database-url" in words:
        at = words.index("--database-url")
        words = [*words[:at], *words[at + 2 :]]
    assert run_command(words) == 2
    said = capsys.readouterr().err
    assert "nobody owns this server yet" in said
    assert said.count("error:") == 2, said


def test_the_unit_starts_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = RawConfigParser()
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block("ini"))
    assert {name: set(unit[name]) for name in unit.sections()} == KEYS
    monkeypatch.chdir(tmp_path)
    python, flag, package, *words = shlex.split(unit["Service"]["ExecStart"])
    assert (Path(python).name, flag, package) == ("python", "-m", "evalflow")
    expect_only_set_up_missing([word for word in words if word not in ("--log", "json")], capsys)


def test_the_containers_start_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    services = yaml.safe_load(block("yaml"))["services"]
    words = [str(word) for word in services["evalflow"]["command"]]
    expect_only_set_up_missing([word for word in words if word not in ("--log", "json")], capsys)
    check = services["evalflow"]["healthcheck"]["test"]
    compile(check[-1], "healthcheck", "exec")
    assert set(services["evalflow"]["depends_on"]) <= set(services)
    steps = [line.split()[0] for line in block("dockerfile").splitlines()]
    assert set(steps) == {"FROM", "COPY", "RUN", "USER", "WORKDIR", "VOLUME", "EXPOSE", "ENTRYPOINT"}


def test_the_ways_to_sign_in_start_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "sign-in.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = blocks("sh", page)
    assert len(found) == 2
    for text in found:
        export, _, command = text.partition("\n")
        monkeypatch.setenv(export.split()[1].partition("=")[0], "a-secret-of-some-length-that-nobody-guesses")
        words = shlex.split(command.partition("-m evalflow ")[2].replace("\\\n", " "))
        expect_only_set_up_missing([word.replace("NAME", "eval.example.org") for word in words], capsys)


def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [line for text in blocks("sh", TEXT) for line in text.splitlines() if "-m evalflow" in line]
    assert len(commands) == 5
    for line in commands:
        words = shlex.split(line.partition("-m evalflow ")[2].replace("/backup/", f"{tmp_path}/"))
        if words[0] == "restore":
            (tmp_path / "restored").mkdir()
            monkeypatch.chdir(tmp_path / "restored")
        assert run_command(words) == 0, line
    open_workspace().close()


def test_the_proxy_is_configured(tmp_path: Path) -> None:
    nginx = shutil.which("nginx")
    if nginx is None:
        pytest.skip("NO NGINX: its block in docs/deploy.md is not checked; apt-get install nginx-light")
    text = re.sub(r"ssl_certificate.*|listen 443 ssl;", "", block("nginx"))
    config = tmp_path / "nginx.conf"
    config.write_text(f"pid {tmp_path}/pid; error_log stderr; events {{}}\nhttp {{ access_log off;\n{text}\n}}\n")
    done = subprocess.run([nginx, "-t", "-c", str(config)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_figure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prometheus_client import generate_latest

    from evalflow.addons.studio.web.observe import metrics_route, request_histogram

    monkeypatch.chdir(tmp_path)
    registry, _ = request_histogram()
    space = open_workspace()
    metrics_route(space, registry, [])
    there = set(re.findall(r"^# TYPE (\S+) ", generate_latest(registry).decode(), re.MULTILINE))
    space.close()
    assert set(re.findall(r"^\| `(evalflow_\w+)`", TEXT, re.MULTILINE)) == there - {"evalflow_request_seconds_created"}
    assert yaml.safe_load(blocks("yaml", TEXT)[1])["scrape_configs"]
    assert set(json.loads(block("json"))) >= {"time", "level", "event", "method", "route", "address", "request", "user"}
