"""A mistake is answered with the whole command that was meant, which runs as it is printed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from evalflow.cli import run_command
from evalflow.cli.corrected import applied
from evalflow.errors import Meant, Problem

pytestmark = pytest.mark.slow

Said = Callable[..., tuple[int, str]]
PYTHON = ("target=python", "generate=true")
RUN = ("dataset=rag", "metric=exact_match")
ROWS = [{"q": f"Q{n}?", "bot_reply": "A.", "gold": "A."} for n in range(3)]


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command line in an empty folder; returns its exit code and all that it prints."""
    monkeypatch.chdir(tmp_path)

    def run(words: Sequence[str]) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command(list(words))
        return code, "".join(capsys.readouterr())

    return run


def proposed(text: str) -> list[str] | None:
    """The words of the proposed command after the program's name; None without one."""
    found = re.findall(r"^try: python -m evalflow (.*)$", text, re.MULTILINE)
    assert len(found) <= 1
    return shlex.split(found[0]) if found else None


def of(*changes: str) -> tuple[str, ...]:
    return (*RUN, "limit=3", *changes)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("datset=rag", "metric=exact_match", "limt=3"), of()),
        (
            ("dataset=rag", "metrics=exact_match", "metrics.exact_match.threshold=1"),
            (*RUN, "metric.exact_match.threshold=1"),
        ),
        (
            ("dataset=rga", "dataset.rga.name=mine", "metric=exact_match"),
            ("dataset=rag", "+dataset.rag.name=mine", RUN[1]),
        ),
        (("dataset=rag", "metric=[exactmatch,relevence]"), ("dataset=rag", "metric=[exact_match,relevance]")),
        (("dataset=rag", "metric=groundedness", "limit=3"), ("dataset=rag", "metric=faithfulness", "limit=3")),
        (("dataset=rag", "metric=exact_match,relevance"), ("dataset=rag", "metric=[exact_match,relevance]")),
        (("-m", "datset=rag", "metric=exact_match,relevence"), ("-m", "dataset=rag", "metric=exact_match,relevance")),
        ((*RUN, "--multirn", "seed=1,2"), (*RUN, "--multirun", "seed=1,2")),
        (("dataset", "rag", "metric", "exact_match"), RUN),
        (("dataset", "=", "rag", "metric:exact_match", "limit=", "3"), of()),
        (("--dataset", "rag", "--metric=exact_match", "--limit", "3"), of()),
        ((*RUN, "check"), ("check", *RUN)),
        (("chek", *RUN), ("check", *RUN)),
        (("check", "dataset=rga", "metric=exact_match", "--json"), ("check", *RUN, "--json")),
        (of("metric.exact_match.treshold=0.5"), of("metric.exact_match.threshold=0.5")),
        (of("metric.exact_mtch.threshold=0.5"), of("metric.exact_match.threshold=0.5")),
        (of("metric.exact_match.threshold=0,5"), of("metric.exact_match.threshold=0.5")),
        ((*RUN, "limit=five"), (*RUN, "limit=10")),
        ((*RUN, "limit=3x"), of()),
        ((*RUN, "limit=-3"), of()),
        ((*RUN, "limit=1,000"), (*RUN, "limit=1000")),
        (of("max_error_rate=5"), of("max_error_rate=0.05")),
        (of("cache.mode=of"), of("cache.mode=off")),
        (of("cache=off"), of("cache.mode=off")),
        (of("cache=true"), of("cache.mode=on")),
        (of("budget=0.5"), of("budget.usd=0.5")),
        (of("generate=no"), of("generate=false")),
        (of("metric.exact_match.direction=higher"), of("metric.exact_match.direction=higher_is_better")),
        (of("gate=>= 0"), of('gate={exact_match: {mean: ">= 0"}}')),
        (of("gate.exact_match=>=0"), of('++gate.exact_match={mean: ">= 0"}')),
        (of("+gate.exact_match=>=0"), of('++gate.exact_match={mean: ">= 0"}')),
        (of("metric.exact_match.gate=>=0"), of('metric.exact_match.gate={mean: ">= 0"}')),
        (("--metrics", "exact_match", "dataset=rag"), ("metric=exact_match", "dataset=rag")),
        (of("judge=gpt-4o"), of("judge=openai", "judge.model=gpt-4o")),
        (
            ("dataset=rag", "metric.exact_match.threshold=1"),
            ("dataset=rag", "metric.exact_match.threshold=1", "metric=exact_match"),
        ),
        (of('gate={exact_mach: {mean: ">= 0"}}'), of('gate={exact_match: {mean: ">= 0"}}')),
        (of('gate={exact_match: {meen: ">= 0"}}'), of('gate={exact_match: {mean: ">= 0"}}')),
        (
            ("dataset=my data/the file.csv", "metric=exact_match"),
            ("new", "dataset", "the_file", "--path", "my data/the file.csv"),
        ),
        (
            ("dataset=my data/the fil.csv", "metric=exact_match"),
            ("new", "dataset", "the_file", "--path", "my data/the file.csv"),
        ),
        (
            (*RUN, "dataset.rag.path=my data/the fil.csv"),
            (
                *RUN,
                "dataset.rag.path=my data/the file.csv",
                "++dataset.rag.fields.answer=bot_reply",
                "++dataset.rag.fields.reference=gold",
            ),
        ),
        (("dataset=rag", "metric=[exact_match,", "relevance]"), ("dataset=rag", "metric=[exact_match,relevance]")),
        (of("treshold=0.5"), of("metric.exact_match.threshold=0.5")),
        (of('gate={exact_match: {avg: ">= 0"}}'), of('gate={exact_match: {mean: ">= 0"}}')),
        (of("gate.exact_match.mean=>=0"), of('+gate.exact_match.mean=">=0"')),
        (of("target=faq_bot.py:ask"), of("target=python", "target.call=faq_bot:ask", "generate=true")),
        (of("target=faq_bot:ask", "generate=true"), of("target=python", "target.call=faq_bot:ask", "generate=true")),
        (of(*PYTHON, "target.call=faq_bot:aks"), of(*PYTHON, "target.call=faq_bot:ask")),
        (of(*PYTHON, "target.call=fag_bot:ask"), of(*PYTHON, "target.call=faq_bot:ask")),
        (of(*PYTHON, "target.call=./faq_bot.py:ask"), of(*PYTHON, "target.call=faq_bot:ask")),
        (of(*PYTHON, "target.call=faq_bot.ask"), of(*PYTHON, "target.call=faq_bot:ask")),
        (("my data/the file.csv",), ("new", "dataset", "the_file", "--path", "my data/the file.csv")),
        (
            ("new", "dataset", "my data/the file.csv"),
            ("new", "dataset", "the_file", "--path", "my data/the file.csv"),
        ),
        (("import", "langfuse_traces.jsonl"), ("import", "langfuse", "langfuse_traces.jsonl")),
        (("import", "my data/the file.csv"), ("new", "dataset", "the_file", "--path", "my data/the file.csv")),
        (("show", "exactmatch"), ("show", "exact_match")),
        (("list", "metrics"), ("list", "metric")),
        (("list", "metric", "--jsn"), ("list", "metric", "--json")),
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_the_whole_command_is_proposed_and_runs(
    typed: Sequence[str], meant: Sequence[str], said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("my data").mkdir()
    lines = ["q,bot_reply,gold", *(",".join(row.values()) for row in ROWS)]
    Path("my data", "the file.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("langfuse_traces.jsonl").write_text('{"id": "1", "input": "Q?", "output": "A."}\n', encoding="utf-8")
    Path("faq_bot.py").write_text("def ask(case):\n    return 'A.'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(Path.cwd())
    sys.modules.pop("faq_bot", None)  # of another test, whose folder is gone
    code, text = said(typed)
    assert code == 2
    assert proposed(text) == list(meant), text
    assert "Traceback" not in text
    code, text = said(meant)
    assert code == 0, text


@pytest.mark.parametrize(
    "typed",
    [
        ("-m", "tiamat", "no_such_test.json"),
        ("compar", "outputs/none", "outputs/other"),
        ("dataset=rga", "metric=coherence"),  # which needs a language model
        ("dataset=zzz", "metric=exact_match"),
        ("dataset=no/such.csv", "metric=exact_match"),
        (*RUN, "cache=often"),
        (*RUN, "generate=always"),
        (*RUN, "gate=yes"),
        (*RUN, "gate=0.8"),  # which side is good?
        ("datset=rag", "metric=exact_match", "baseline=outputs/none"),
    ],
    ids=" ".join,
)
def test_nothing_is_proposed_that_would_not_work(typed: Sequence[str], said: Said) -> None:
    code, text = said(typed)
    assert code == 2
    assert proposed(text) is None, text
    assert "error: " in text
    assert "Traceback" not in text


def test_a_dataset_that_reads_the_file_is_chosen_by_its_name(said: Said) -> None:
    Path("own.jsonl").write_text('{"question": "Q?", "answer": "A.", "reference": "A."}\n', encoding="utf-8")
    assert said(["new", "dataset", "mine", "--path", "own.jsonl"])[0] == 0
    for given in ("own.jsonl", "conf/dataset/mine.yaml"):
        assert proposed(said([f"dataset={given}", "metric=exact_match"])[1]) == ["dataset=mine", "metric=exact_match"]


def test_a_name_alone_is_the_experiment_or_the_option_that_is_called_so(said: Said) -> None:
    assert said(["new", "experiment", "resumed", *RUN, "limit=3"])[0] == 0
    for given in ("resumed", "conf/experiment/resumed.yaml"):  # not the verb `resume`
        assert proposed(said([given])[1]) == ["experiment=resumed"]
    assert "hint: write metric=exact_match" in said(["exact_match"])[1]


def test_a_wrong_override_is_replaced_by_the_right_one_of_its_key(said: Said) -> None:
    Path("own.jsonl").write_text('{"question": "Q?", "answer": "A.", "gold": "A."}\n', encoding="utf-8")
    assert said(["new", "dataset", "mine", "--path", "own.jsonl"])[0] == 0
    run = ("dataset=mine", "metric=exact_match")
    code, text = said([*run, "dataset.mine.fields.reference=Gold"])
    assert (code, proposed(text)) == (2, [*run, "++dataset.mine.fields.reference=gold"])
    code, text = said([*run, "dataset.mine.field.reference=gold"])
    assert (code, proposed(text)) == (2, [*run, "dataset.mine.fields.reference=gold"])
    assert "error: command line: unknown key dataset.mine.field" in text


def test_a_path_into_a_reply_gets_the_sign_of_jsonpath(said: Said) -> None:
    word = "target.answer=reply.parts[0].text"
    url = "target.url=http://127.0.0.1:9/ask"
    code, text = said(["check", *RUN, "generate=true", "target=http", url, word])
    assert code == 2
    assert proposed(text) == ["check", *RUN, "generate=true", "target=http", url, "target.answer=$.reply.parts[0].text"]


def test_a_bracket_that_is_not_closed_is_named_by_its_own_line(said: Said) -> None:
    assert said(["new", "metric", "mine", "--from", "exact_match"])[0] == 0
    Path("conf/metric/mine.yaml").write_text(
        "# @package metric.mine\nkind: check\nneeds: [answer\nfield: answer\n", encoding="utf-8"
    )
    code, text = said(["dataset=rag", "metric=mine"])
    assert code == 2
    assert "mine.yaml:3: this is not valid YAML: the [ of this line is not closed before line 4" in text


def test_a_misspelt_key_of_a_file_is_shown_with_its_line_and_not_its_text(said: Said) -> None:
    assert said(["new", "metric", "mine", "--from", "exact_match"])[0] == 0
    file = Path("conf/metric/mine.yaml")
    file.write_text(file.read_text(encoding="utf-8") + "treshold: 0.5\ntitel: my secret\n", encoding="utf-8")
    last = len(file.read_text(encoding="utf-8").splitlines())
    code, text = said(["dataset=rag", "metric=mine"])
    assert code == 2
    assert f"did you mean 'threshold'? line {last - 1}: threshold: 0.5" in text
    assert f"did you mean 'title'? line {last}: title: ..." in text
    assert "my secret" not in text


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("budget=5", "set one of its keys: budget.usd, budget.requests, budget.tokens"),
        ("repeats=3", "set one of its keys: repeats.target, repeats.judge, repeats.pass_share"),
        ("judge.concurrency=2", "set one of its keys: judge.concurrency.start, judge.concurrency.max"),
        ("judge.price=3", "write it as 'judge.price={input_per_million: VALUE, output_per_million: VALUE}'"),
    ],
)
def test_a_number_that_several_keys_could_take_is_given_to_none(word: str, hint: str, said: Said) -> None:
    code, text = said(["check", *RUN, "judge=openai", "judge.model=m", word])
    assert code == 2
    assert f"hint: {hint}" in text
    assert proposed(text) is None, text


def test_a_condition_that_is_not_understood_is_not_replaced_by_another(said: Said) -> None:
    for word, hint in (
        ("gate=<= 20%", "'gate={exact_match: {mean: CONDITION}}'"),
        ("metric.exact_match.gate=<= 20%", "'metric.exact_match.gate={mean: CONDITION}'"),
        ("gate=0.2", """'gate={exact_match: {mean: ">= 0.2"}}', or "<= 0.2" if lower is better"""),
        ("gate={exact_match: 0.2}", """'++gate.exact_match={mean: ">= 0.2"}', or "<= 0.2" if lower is better"""),
        (r"gate={tag\:Hard: >=0.2}", r"""'gate={tag\:Hard: {mean: ">= 0.2"}}'"""),
    ):
        code, text = said(["check", *RUN, word])
        assert code == 2
        assert f"hint: write it as {hint}" in text
        assert proposed(text) is None, text


def test_each_wrong_gate_is_corrected_under_its_own_name(said: Said) -> None:
    code, text = said(
        ["check", "dataset=rag", "metric=[exact_match,token_f1]", "gate={token_f1: 0.2, exact_mach: >=0.3}"]
    )
    assert code == 2
    right = ['++gate.token_f1={mean: ">= 0.2"}', '++gate.exact_mach={mean: ">= 0.3"}']
    assert all(f"hint: write it as '{one}'" in text for one in right)
    assert said(["check", "dataset=rag", "metric=[exact_match,token_f1]", *right])[0] == 2, "a name is not replaced"
    right[1] = right[1].replace("mach", "match")
    assert said(["check", "dataset=rag", "metric=[exact_match,token_f1]", *right])[0] == 0


def test_each_column_is_proposed_for_one_field(said: Said) -> None:
    rows = [{"first": "Q?", "second": "A.", "third": "A."}]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = [
        "dataset=rag",
        "dataset.rag.path=rows.jsonl",
        "dataset.rag.fields=null",
        "metric=[faithfulness,exact_match]",
    ]
    code, text = said(words)
    columns = re.findall(r"\+\+dataset\.rag\.fields\.(\w+)=(\w+)", text)
    by_field = dict(columns)
    assert code == 2
    assert len(set(by_field.values())) == len(by_field) == 3
    assert "no column is left for it: leave exact_match out" in text


def test_corrections_reach_keys_and_values_but_no_other_text() -> None:
    def one(wrong: str, right: str) -> list[Problem]:
        return [Problem("", meant=Meant((wrong,), (right,)))]

    words = ["dataset=[rga,rgab]", "+dataset.rga.limit=1", "target.prompt=rga"]
    assert applied(words, one("dataset=rga", "dataset=rag")) == [
        "dataset=[rag,rgab]",
        "+dataset.rag.limit=1",
        "target.prompt=rga",
    ]
    assert applied(["judge.modle=m", "judge.modles=m"], one("judge.modle", "judge.model")) == [
        "judge.model=m",
        "judge.modles=m",
    ]


def test_a_comparison_is_tried_without_its_page(said: Said, tmp_path: Path) -> None:
    for _ in range(2):
        assert said(of())[0] == 0
    runs = [path.relative_to(tmp_path).as_posix() for path in sorted((tmp_path / "outputs" / "runs").iterdir())]
    for verb, meant in (("compar", "compare"), ("rnak", "rank")):
        code, text = said((verb, *runs))
        assert code == 2
        assert proposed(text) == [meant, *runs]
        assert list(tmp_path.rglob(f"{meant}.html")) == []
        assert said((meant, *runs))[0] == 0
        assert list(tmp_path.rglob(f"{meant}.html")) != []


def test_a_value_may_have_several_lines_that_look_like_keys(said: Said) -> None:
    code, text = said(("check", *of('judge.name="two\njudge: lines"')))
    assert code == 0, text


def test_a_corrected_command_is_one_line_that_a_shell_reads_as_it_was_typed(said: Said) -> None:
    words = ["datset=rag", "metric=exact_match", "limit=3", 'judge.name="it\'s\ntwo \\ lines"']
    code, text = said(["check", *words])
    [line] = re.findall("^try: (.*)$", text, re.MULTILINE)
    assert code == 2
    shown = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True).stdout
    assert shown.split("\0")[3:-1] == ["check", "dataset=rag", *words[1:]]


def test_only_a_word_of_its_own_is_corrected() -> None:
    lines = 'judge.name="two\n--dataset"'
    wrong = Problem("dataset is chosen without --", meant=Meant(("--dataset",), ("dataset=",)))
    assert applied(["--dataset", "rag", lines], [wrong]) == ["dataset=rag", lines]
    assert applied(["--dataset=rag", lines], [wrong]) == ["dataset=rag", lines]
