"""A secret is in no file of a run, and the run can still be read back."""

from __future__ import annotations

from evalflow.testing import Endpoint
from tests.cli.conftest import Program, faithful_judge
from tests.cli.test_run import CASES, CLAIMS

PASSWORD = "correct-horse"


def test_a_password_in_an_address_stays_in_its_variable(program: Program) -> None:
    path = program.write("mine.jsonl", *CASES)
    with Endpoint(faithful_judge(CLAIMS)) as endpoint:
        url = endpoint.url.replace("://", "://user:${oc.env:MYPW}@")
        done = program(
            "dataset=rag", f"dataset.rag.path={path}", "dataset.rag.fields=null", "metric=faithfulness",
            "judge=openai", "judge.model=scripted", f"judge.base_url='{url}'", "judge.api_key_env=null",
            MYPW=PASSWORD,
        )  # fmt: skip
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


def test_another_password_is_no_other_judge(program: Program) -> None:
    from evalflow.config.endpoints import OpenAIJudgeConfig
    from evalflow.llm.registry import build_judge

    def identity(url: str) -> str:
        values = {"kind": "openai", "model": "m", "base_url": url, "api_key_env": None}
        return build_judge(OpenAIJudgeConfig.model_validate(values), "openai").identity

    assert identity("http://u:one@h/v1") == identity("http://u:two@h/v1") == identity("http://h/v1")
    assert identity("http://h/v1") != identity("http://other/v1")
