"""A secret is in no file of a run, and the run can still be read back."""

from __future__ import annotations

import sys
from base64 import b64encode

from evalflow.testing import Endpoint, status
from tests.cli.conftest import Program, faithful_judge
from tests.cli.test_run import CASES, CLAIMS

PASSWORD = "correct-horse"


def test_a_password_in_an_address_stays_in_its_variable(program: Program) -> None:
    path = program.write("mine.jsonl", *CASES)
    with Endpoint(faithful_judge(CLAIMS)) as endpoint:
        url = endpoint.url.replace("://", "://user:${oc.env:MYPW}@")
        done = program(
            "dataset=rag",
            f"dataset.rag.path={path}",
            "dataset.rag.fields=null",
            "metric=faithfulness",
            "judge=openai",
            "judge.model=scripted",
            f"judge.base_url='{url}'",
            "judge.api_key_env=null",
            MYPW=PASSWORD,
        )
    assert done.returncode == 0, done.stderr
    files = [file for file in program.folder.rglob("*") if file.is_file() and file.suffix != ".lock"]
    assert program.latest / "run.json" in [file.resolve() for file in files]
    telling = [file.name for file in files if PASSWORD.encode() in file.read_bytes()]
    assert telling == []
    assert PASSWORD not in done.stdout + done.stderr
    assert program.manifest["config"]["judge"]["base_url"] == url

    (program.latest / "report.html").unlink()
    assert program("report", MYPW="another").returncode == 0
    assert (program.latest / "report.html").is_file()
    again = program("report", MYPW="")
    assert again.returncode == 0, again.stderr
    lost = program("resume")
    assert lost.returncode == 2
    assert "MYPW" in lost.stderr


SECRET = "0123456789-correct-horse"
SAYS = "import base64, sys; t = sys.argv[1]; sys.exit(t + ' ' + base64.b64encode(('user:' + t).encode()).decode())"


def test_what_a_program_or_a_service_says_of_a_secret_is_written_nowhere(program: Program) -> None:
    path = program.write("mine.jsonl", {"question": "Q?", "reference": "A."})
    data = ("dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=exact_match", "generate=true")
    (program.folder / "bot.py").write_text(SAYS, encoding="utf-8")
    argv = f"target.argv=['{sys.executable}', bot.py, '${{oc.env:MINE}}']"
    checked = program("check", *data, "target=command", argv, MINE=SECRET)
    assert checked.returncode == 0, checked.stderr
    done = [checked, program(*data, "target=command", argv, MINE=SECRET)]
    encoded = b64encode(f"user:{SECRET}".encode()).decode()
    with Endpoint(lambda _: status(400, message=f"bad {SECRET} {encoded}")) as endpoint:
        service = ("target=http", f"target.url={endpoint.url}", "target.headers={X-Team: 'Basic ${oc.env:MINE}'}")
        done.append(program(*data, *service, MINE=encoded))
    assert [one.returncode for one in done[1:]] == [3, 3], done
    written = [file.read_bytes() for file in program.folder.rglob("*") if file.is_file()]
    told = [one.stdout.encode() + one.stderr.encode() for one in done]
    assert any(b"***" in text for text in written)
    for secret in (SECRET, encoded[4:-4]):
        assert not any(secret.encode() in text for text in [*written, *told]), secret


def test_another_password_is_no_other_judge(program: Program) -> None:
    from evalflow.config.judges import OpenAIJudgeConfig
    from evalflow.llm.registry import build_judge

    def identity(url: str) -> str:
        values = {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None}
        return build_judge(OpenAIJudgeConfig.model_validate(values), "openai").info.identity

    assert identity("http://u:one@h/v1") == identity("http://u:two@h/v1") == identity("http://h/v1")
    assert identity("http://h/v1") != identity("http://other/v1")
