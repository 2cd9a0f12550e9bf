"""What stands in evalflow.log, and what must not."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from evalflow.app.core.assemble import composed_settings, secrets_of
from evalflow.app.core.begin import log_to
from evalflow.notes import NOTE, note

CHOSEN = ("dataset=rag", "metric=coherence", "judge=vllm", "judge.model=m")


def secrets(*overrides: str) -> set[str]:
    return secrets_of(composed_settings([*CHOSEN, *overrides], None))


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "DB_PASSWORD_MAIN", "SECRETS_OF_MINE", "my_token"]
)
def test_a_variable_that_is_named_like_a_secret_is_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "hush-hush")
    assert logged(tmp_path, "it is hush-hush") == "it is ***"


def test_the_variable_that_the_configuration_names_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_PASS", "hush-hush")
    assert "hush-hush" not in secrets()
    assert "hush-hush" in secrets("judge.api_key_env=HOUSE_PASS")


def test_a_password_in_an_address_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MYPW", "hush%40hush")
    found = secrets("judge.base_url='http://user:${oc.env:MYPW}@127.0.0.1:9/v1'")
    assert {"hush%40hush", "hush@hush"} <= found


def test_a_placeholder_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "none")
    assert logged(tmp_path, "there is none") == "there is none"


def test_a_variable_is_one_unless_it_is_a_name_or_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INNOCENT", "hush-hush")
    assert "hush-hush" not in secrets("judge.model=${oc.env:INNOCENT}", "judge.base_url=http://${oc.env:INNOCENT}/v1")
    ask = ("generate=true", "target=http", "target.url=http://127.0.0.1:9/", "metric=exact_match")
    assert "hush-hush" in secrets(*ask, "target.body={a: [x${oc.env:INNOCENT}]}")
    assert "0123456789abcdef" in secrets(*ask, "target.headers={X-Team: 0123456789abcdef, Accept: text/plain}")
    assert "text/plain" not in secrets(*ask, "target.headers={Accept: text/plain}")


def logged(folder: Path, message: str) -> str:
    with log_to(folder / "evalflow.log", ()):
        logging.getLogger("evalflow.test").warning(message)
    return (folder / "evalflow.log").read_text(encoding="utf-8").partition("WARNING ")[2].strip()


def test_secrets_are_struck_out_of_messages_and_tracebacks(tmp_path: Path) -> None:
    log = logging.getLogger("evalflow.test")
    with log_to(tmp_path / "evalflow.log", {"hush-hush", "hush-hush-twice"}):
        log.warning("the key %s is wrong", "hush-hush-twice")
        try:
            raise ValueError("hush-hush")
        except ValueError:
            log.exception("failed")
    text = (tmp_path / "evalflow.log").read_text(encoding="utf-8")
    assert "hush" not in text
    assert "-twice" not in text
    assert "the key *** is wrong" in text
    assert "ValueError: ***" in text


def test_warnings_and_notes_are_told_and_errors_are_not(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []
    log = logging.getLogger("evalflow.test")
    with log_to(tmp_path / "evalflow.log", {"hush-hush"}, lambda text, level: told.append((text, level >= NOTE))):
        log.info("all is well")
        log.warning("the key %s is odd", "hush-hush")
        note("100% of hush-hush costs more")
        log.error("it failed")
    log.warning("later")
    assert told == [("the key *** is odd", False), ("100% of *** costs more", True)]
    assert "NOTE 100% of *** costs more" in (tmp_path / "evalflow.log").read_text(encoding="utf-8")
