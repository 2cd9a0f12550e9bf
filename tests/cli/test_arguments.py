"""The command line's own arguments, those beside Hydra's."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import polars as pl
import pytest

from evalflow import doors
from evalflow.__main__ import main
from evalflow.cli import run_command
from evalflow.cli.manual import MANUALS
from evalflow.cli.parsing import Verb, VerbParser, Work
from evalflow.cli.verbs import VERBS, overview


def replace(monkeypatch: pytest.MonkeyPatch, name: str, declare: Callable[[VerbParser], Work]) -> None:
    monkeypatch.setattr(VERBS, "own", {**VERBS.own, name: Verb(MANUALS[name], declare)})


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"], ["dataset=rag", "--help"]], ids=" ".join)
def test_whoever_asks_for_help_gets_the_overview(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words) == 0
    assert capsys.readouterr().out == overview()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["cases", "--help"], "--failed"),
        (["run", "--help"], "--fill-demo"),
        (["check", "-h"], "everything short of the first request"),
        (["check", "dataset=rag", "--help"], "--config-dir"),
        (["tiamat", "--help"], "TEST.json"),
        (["cache", "prune", "--help"], "--older-than"),
        (["new", "dataset", "--help"], ".tsv"),
        (["new", "dataset", "--help"], "new dataset mine --path 'data/*.jsonl'"),
    ],
    ids=" ".join,
)
def test_a_verb_explains_its_own_arguments(words: list[str], shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: python -m evalflow {words[0]}")
    assert shown in text


@pytest.mark.parametrize(
    "error", [pl.exceptions.PanicException("polars"), SystemExit(1), SystemExit("why"), MemoryError(), GeneratorExit()]
)
def test_whatever_goes_wrong_the_exit_code_does_not_say_that_a_gate_failed(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Work:
        raise error

    replace(monkeypatch, "list", fail)
    assert run_command(["list"]) == 5


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_the_file_of_keys_may_be_written_by_any_shell(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "mine")
    monkeypatch.delenv("MY_KEY")
    Path(".env").write_text("MY_KEY=ä\r\n", encoding=encoding)
    assert run_command(["list", "judge"]) == 0
    assert os.environ["MY_KEY"] == "ä"


@pytest.mark.parametrize("content", [b"MY_KEY=\xe4", "MY_KEY=a".encode("utf-16-le"), b"\xff\xfeM"])
def test_a_file_of_keys_that_is_no_text_is_a_mistake(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".env").write_bytes(content)
    assert run_command(["list", "judge"]) == 2
    assert capsys.readouterr().err.startswith("error: .env: it is not text in UTF-8 or UTF-16")


@pytest.mark.parametrize("flag", ["-c", "--cfg"])
def test_the_short_flag_of_hydra_is_no_config_folder(
    flag: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command([flag, "job", "dataset=rag", "metric=faithfulness"]) == 0
    assert "repeats:" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["--config-dir {}", "--config-dir={}", "-cd {}"])
def test_every_form_of_the_config_folder_is_read(
    form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metric").mkdir()
    text = "# @package metric.mine\nkind: recorded\nfield: vars.mark\nscale: {type: boolean}\ndescription: Mine.\n"
    (tmp_path / "metric" / "mine.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run_command(["list", *form.format(".").split(), "metric"]) == 0
    assert "Mine." in capsys.readouterr().out


def test_the_config_folder_may_stand_on_either_side_of_an_action() -> None:
    parser, _ = VERBS.get("cache").declared("cache")
    for words in (["--config-dir", "/conf", "stats"], ["stats", "-cd", "/conf"]):
        assert parser.read(words).config_dir == Path("/conf")


@pytest.mark.parametrize("words", [["--config-dir"], ["--config-dir="], ["check", "-cd"]])
def test_a_config_folder_without_a_name_is_a_mistake(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words) == 2
    assert "needs a folder" in capsys.readouterr().err


def test_hydra_calls_the_program_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(["--cfg", "hydra", "--package", "hydra.job.name"]) == 0
    assert capsys.readouterr().out.strip() == "evalflow"


def test_the_text_of_an_error_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check", "--\x1b]0;owned\x07"]) == 2
    shown = capsys.readouterr().err
    assert "owned" in shown
    assert "\x1b" not in shown


def test_a_line_of_the_file_of_keys_that_sets_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", "mine")
    monkeypatch.delenv("MY_KEY")
    Path(".env").write_text('MY_KEY=1\nOTHER = "open\n', encoding="utf-8")
    assert run_command(["list", "judge"]) == 0
    told = "note: .env:2: no variable is set here; write NAME=VALUE, and close quotes\n"
    assert (os.environ["MY_KEY"], capsys.readouterr().err) == ("1", told)


def test_a_place_that_is_not_ours_to_use_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_: object) -> Work:
        raise PermissionError(errno.EACCES, "Permission denied", "outputs/runs")

    replace(monkeypatch, "schema", refused)
    assert run_command(["schema"]) == 5
    hint = "allow it to you (chmod, chown), or work in another folder"
    assert capsys.readouterr().err == f"error: outputs/runs: Permission denied\n  hint: {hint}\n"


def test_a_bug_of_our_own_says_so_and_blames_no_endpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> Work:
        raise RuntimeError("it went wrong")

    replace(monkeypatch, "schema", broken)
    assert run_command(["schema"]) == 5
    assert "This is a bug in evalflow, not your mistake." in capsys.readouterr().err
    assert "or a bug in evalflow" in overview()
    results = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    [row] = [line for line in results.splitlines() if line.startswith("| 5 |")]
    assert "or a bug in evalflow, which then says so" in row


def test_an_installation_that_is_older_than_the_code_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doors, "installed_points", lambda: EntryPoints([]))
    for words in (["serve"], ["dataset=rag", "metric=faithfulness"]):
        assert run_command(words) == 2
        assert "the addons are not registered" in capsys.readouterr().err


def test_an_installation_that_lacks_one_entry_point_of_the_checkout_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [
        point for group in ("verbs", "judges") for point in doors.installed_points().select(group=f"evalflow.{group}")
    ]
    older = EntryPoints([point for point in own if point.name not in ("mcp", "embedded")])
    monkeypatch.setattr(doors, "installed_points", lambda: older)
    for words in (["mcp"], ["dataset=rag", "metric=faithfulness"]):
        assert run_command(words) == 2
        assert "the addons are not registered" in capsys.readouterr().err
    assert run_command(["serv"]) == 2
    assert "did you mean 'serve'?" in capsys.readouterr().err


def test_a_package_whose_verb_cannot_be_loaded_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = EntryPoint("audit", "a_package_that_is_gone:VERB", "evalflow.verbs")
    monkeypatch.setattr(doors, "installed_points", lambda: EntryPoints([broken]))
    assert run_command(["--help"]) == 0
    told = capsys.readouterr().out
    assert "compare" in told
    assert "the verb 'audit' cannot be loaded from a_package_that_is_gone:VERB: No module named" in told
    assert "hint: reinstall or remove that package" in told
    assert run_command(["audit"]) == 2
    assert "the verb 'audit' cannot be loaded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--dataset", "rag", "--metric", "faithfulness"], "python -m evalflow dataset=rag metric=faithfulness"),
        (["--dataset=rag", "metric=faithfulness"], "python -m evalflow dataset=rag metric=faithfulness"),
        (["metric=bias", "--dataset"], "write dataset=NAME"),
        (["-m", "tiamat", "tests.json"], "put it first: python -m evalflow tiamat ..."),
        (["dataset=rag", "check"], "put it first: python -m evalflow check ..."),
        (["dataset=rag", "--metrics", "bias"], "metric is chosen without --"),
    ],
)
def test_a_run_typed_in_the_ways_of_other_programs_is_told_as_it_is_typed_here(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(words) == 2
    assert told in capsys.readouterr().err


def test_a_checkout_before_its_set_up_says_how_to_set_it_up() -> None:
    root = Path(__file__).parents[2]
    words = [sys.executable, "-S", "-m", "evalflow"]  # -S: without the packages that are installed
    for arguments in (["dataset=rag", "metric=faithfulness"], ["datset=rag"]):
        ended = subprocess.run([*words, *arguments], cwd=root, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith(f"error: {sys.executable} has no package ")
        assert "`make demo` sets up .venv/" in ended.stderr
        assert "Traceback" not in ended.stderr


def test_an_older_python_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "evalflow needs Python 3.11 or newer, and this is" in capsys.readouterr().err


def test_a_missing_module_of_somebody_elses_verb_is_not_a_missing_set_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: object) -> Work:
        raise ModuleNotFoundError("No module named 'their_dependency'", name="their_dependency")

    replace(monkeypatch, "schema", broken)
    assert run_command(["schema"]) == 5
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "make demo" not in said
