"""Settings that are refused for what they would leave behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.app.core.assemble import composed_settings, settings_of
from evalflow.config.load import compose
from evalflow.errors import UserError
from evalflow.paths import share_dir

pytestmark = pytest.mark.slow

HTTP = ("generate=true", "target=http", "target.url=http://127.0.0.1:9/ask")
CHOSEN = ("dataset=rag", "metric=coherence", "judge=vllm", "judge.model=m")


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("judge.base_url=http://user:hush@127.0.0.1:9/v1", "judge.base_url"),
        ("metric.coherence.judge={base_url: 'http://:hush@127.0.0.1:9/v1'}", "metric.coherence.judge.base_url"),
    ],
)
def test_a_password_in_plain_text_is_refused_and_not_repeated(override: str, where: str) -> None:
    with pytest.raises(UserError) as caught:
        composed_settings([*CHOSEN, override], None)
    assert [problem.where for problem in caught.value.problems] == [where]
    assert "${oc.env:" in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("override", "where"),
    [
        ("target.headers={Authorization: 'Bearer hush'}", "target.headers.Authorization"),
        ("target.headers={X-Api-Key: hush}", "target.headers.X-Api-Key"),
        ("target.url=http://user:hush@127.0.0.1:9/", "target.url"),
    ],
)
def test_a_secret_in_a_request_is_refused_likewise(override: str, where: str) -> None:
    with pytest.raises(UserError) as caught:
        composed_settings([*CHOSEN, *HTTP, override], None)
    assert [problem.where for problem in caught.value.problems] == [where]
    assert "${oc.env:NAME}" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_headers_without_a_secret_or_with_a_named_one_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOT_KEY", "hush")
    headers = "target.headers={X-Team: a, Authorization: 'Bearer ${oc.env:BOT_KEY}'}"
    target = composed_settings([*CHOSEN, *HTTP, headers], None).run.target
    assert target.model_dump()["headers"] == {"X-Team": "a", "Authorization": "Bearer hush"}


def test_a_callable_is_taken_from_the_command_line_only(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    text = (share_dir() / "conf" / "target" / "python.yaml").read_text()
    (folder / "mine.yaml").write_text(text.replace("call: ???", "call: os:getpid"))
    chosen = [*CHOSEN, "generate=true", "target=mine"]
    with pytest.raises(UserError, match="a callable is named on the command line only") as caught:
        composed_settings(chosen, tmp_path)
    assert caught.value.problems[0].hint == "add target.call=os:getpid"
    for override in ("target.call=os:getpid", "target.call='os:getpid'"):
        assert composed_settings([*chosen, override], tmp_path).run.target.calls == "os:getpid"


TOOLS = "target.tools={getpid: {description: d}}"
AGENT = ["target=agent", "target.model=m", "target.base_url=http://127.0.0.1:9/v1", TOOLS]


def test_a_module_of_tools_is_taken_from_the_command_line_only(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    text = (share_dir() / "conf" / "target" / "agent.yaml").read_text()
    (folder / "mine.yaml").write_text(text.replace("module: null", "module: os"))
    chosen = [*CHOSEN, "generate=true", "target=mine", *AGENT[1:]]
    with pytest.raises(UserError, match="a module is named on the command line only") as caught:
        composed_settings(chosen, tmp_path)
    assert caught.value.problems[0].hint == "add target.module=os"
    assert composed_settings([*chosen, "target.module=os"], tmp_path).run.target.runs_here


@pytest.mark.parametrize(
    "target", [["target=python", "target.call=os:getpid"], ["target=command", "target.argv=[ls]"], AGENT]
)
def test_programs_can_be_forbidden(target: list[str]) -> None:
    composed = compose([*CHOSEN, "generate=true", *target])
    assert settings_of(composed).run.target.runs_here
    with pytest.raises(UserError, match="runs a program, which is not allowed here"):
        settings_of(composed, programs=False)


@pytest.mark.parametrize(
    "url", ["http://user:${oc.env:MYPW}@127.0.0.1:9/v1", "http://user@127.0.0.1:9/v1", "http://127.0.0.1:9/a:b@c"]
)
def test_other_addresses_are_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPW", "hush")
    assert composed_settings([*CHOSEN, f"judge.base_url='{url}'"], None).run.judge
