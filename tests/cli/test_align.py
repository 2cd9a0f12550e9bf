"""`align`: a judge is taught by people's labels, and that is kept only if held-out labels say it helps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from evalflow.testing import Endpoint, Request
from tests.cli.conftest import Program, judge_arguments

STYLES = {"kindly": 5, "plainly": 3, "rudely": 1}
"""What people grade answers by."""
_ANSWER = re.compile(r"<answer id=\w+>\n(.*?)\n</answer", re.DOTALL)
_EXAMPLE = re.compile(r"^Example \d+:\n.*?^Reply: (\{.*?\})$", re.DOTALL | re.MULTILINE)


def style(text: str) -> str:
    return next(one for one in STYLES if one in text)


def untaught(answer: str) -> int:
    """The grade of a judge that knows nothing of styles."""
    return 2 + int(re.search(r"\d+", answer)[0]) % 3  # pyright: ignore[reportOptionalSubscript]


def ignoring(request: Request) -> dict[str, Any]:
    if request.schema_name == "Reasons":
        numbers = map(int, re.findall(r"^Item (\d+)$", request.text, re.MULTILINE))
        return {"results": [{"number": number, "reason": "That is how it sounds."} for number in numbers]}
    if request.schema_name == "CriterionWording":
        return {"cause": "People hear the tone.", "criterion": NEW}
    return {"reason": "So it is.", "score": untaught(_ANSWER.findall(_EXAMPLE.sub("", request.text))[0])}


NEW = "How kind the answer is: kindly 5, plainly 3, rudely 1."


def obeying(request: Request) -> dict[str, Any]:
    """A judge that grades by the criterion, if it says how."""
    found = ignoring(request)
    if "score" in found and NEW in request.text:
        found["score"] = STYLES[style(_ANSWER.findall(_EXAMPLE.sub("", request.text))[0])]
    return found


def following(request: Request) -> dict[str, Any]:
    """A judge that grades as in the example of the same style, if there is one."""
    found = ignoring(request)
    examples = {style(_ANSWER.findall(one[0])[0]): json.loads(one[1])["score"] for one in examples_in(request.text)}
    if examples and "score" in found:
        case = _ANSWER.findall(_EXAMPLE.sub("", request.text))[0]
        found["score"] = examples.get(style(case), found["score"])
    return found


def spoilt(request: Request) -> dict[str, Any]:
    """A judge that knows what people want, and reads examples the wrong way round."""
    found = ignoring(request)
    if "score" in found:
        right = STYLES[style(_ANSWER.findall(_EXAMPLE.sub("", request.text))[0])]
        found["score"] = 6 - right if examples_in(request.text) else right
    return found


def examples_in(text: str) -> list[tuple[str, str]]:
    return [(one[0], one[1]) for one in _EXAMPLE.finditer(text)]


@dataclass(frozen=True)
class Labelled:
    """A run whose answers people graded."""

    program: Program
    endpoint: Endpoint
    grouped: bool
    metric: str
    words: Sequence[str] = ()

    def run(self) -> CompletedProcess[str]:
        own = ("path=cases.jsonl", "fields=null", "labels_of=null", *(() if self.grouped else ("group=null",)))
        data = (f"dataset.rag.{word}" for word in own)
        judged = (f"metric={self.metric}", *(self.words or judge_arguments(self.endpoint.url)))
        return self.program("dataset=rag", *data, *judged)

    def align(self, *more: str) -> CompletedProcess[str]:
        return self.program("align", self.metric, "--labels", "labels.jsonl", *more)


def labelled(
    program: Program,
    endpoint: Endpoint,
    n: int = 90,
    group: Callable[[int], str] | None = None,
    metric: str = "coherence",
    value: Callable[[str], Any] = STYLES.__getitem__,
    **more: Any,
) -> Labelled:
    styles = list(STYLES)
    rows: list[dict[str, Any]] = [
        {"id": f"c{i}", "question": f"When is it, {i}?", "answer": f"Said {styles[i * 7 % 3]}: at {i}, thank you."}
        | {"vars": {"channel": "by letter"}}
        | ({"group": group(i)} if group else {})
        for i in range(n)
    ]
    program.write("cases.jsonl", *rows)
    given = [
        {"case_id": row["id"], "metric": metric, "value": value(style(row["answer"])), "by": "ann", **more}
        for row in rows
    ]
    program.write("labels.jsonl", *given)
    made = Labelled(program, endpoint, group is not None, metric)
    done = made.run()
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_a_judge_that_learns_is_written_and_used(program: Program) -> None:
    with Endpoint(following) as endpoint:
        made = labelled(program, endpoint)
        asked = endpoint.count
        done = made.align("--json")
        assert done.returncode == 0, done.stdout + done.stderr
        assert endpoint.count - asked == 1 + 45
        found = json.loads(done.stdout)
        assert found["verdict"] == "better"
        assert (found["learned"], found["held_out"], found["scored"]) == (45, 45, 45)
        change = next(iter(found["changes"].values()))
        assert change["after"]["value"] == pytest.approx(1.0)
        assert change["difference"]["ci_low"] > 0
        assert found["corrected_width"]["after"] < found["corrected_width"]["before"]
        assert "calls: 1 for 4 reasons that no person gave, and 45 to score" in done.stderr
        assert done.stderr.index("people: 5") < done.stderr.index("the judge's reason for")
        written = yaml.safe_load((program.folder / "conf/metric/coherence.yaml").read_text(encoding="utf-8"))
        before = program.manifest["metrics"]["coherence"]["version"]
        assert written["version"] == before + 1
        assert program("check", "dataset=rag", "metric=coherence", *judge_arguments(endpoint.url)).returncode == 0
        again = program(
            "dataset=rag",
            "dataset.rag.path=cases.jsonl",
            "dataset.rag.fields=null",
            "dataset.rag.labels_of=null",
            "dataset.rag.group=null",
            "metric=coherence",
            *judge_arguments(endpoint.url),
        )
        assert again.returncode == 0, again.stderr
        assert program.manifest["metrics"]["coherence"]["version"] == before + 1


def test_a_judge_that_is_named_by_the_bot_scores_again_and_no_secret_is_stored(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOT_ADDRESS_KEY", "hush-hush-hush")
    with Endpoint(ignoring) as endpoint:
        bot = ("generate=missing", "target=openai", "target.model=bot", f"target.base_url={endpoint.url}")
        secret = "${oc.env:BOT_ADDRESS_KEY}"
        named = ("judge=target", f"judge.parameters={{user: '{secret}'}}", "target.api_key_env=null")
        own = ("metric.coherence.judge={name: '${target.model} again'}",)
        own += ("embedder=openai", "embedder.base_url=${target.base_url}")
        made = replace(labelled(program, endpoint), words=(*bot, *named, *own))
        ran = made.run()
        assert ran.returncode == 0, ran.stdout + ran.stderr
        done = made.align("--json")
        assert done.returncode == 3, done.stdout + done.stderr
        assert json.loads(done.stdout)["scored"] == 45
        before, after = (
            config_of(folder) for folder in sorted(program.folder.glob("outputs/runs/*"), key=written)[-2:]
        )
        assert before["judge"]["model"] == "${target.model}"
        assert (after["target"], after["judge"]["model"]) == ({"kind": "recorded"}, "bot")
        assert after["judge"]["parameters"] == before["judge"]["parameters"] == {"user": secret}
        assert after["metric"]["coherence"]["judge"]["name"] == "bot again"
        assert after["embedder"]["base_url"] == endpoint.url
        stored = [file for file in program.folder.rglob("*") if file.is_file()]
        assert not [file for file in stored if b"hush-hush-hush" in file.read_bytes()]


def written(folder: Path) -> int:
    return (folder / "run.json").stat().st_mtime_ns  # folders of one second have no order by name


def config_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))["config"]


def test_a_judge_that_does_not_learn_changes_nothing(program: Program) -> None:
    with Endpoint(ignoring) as endpoint:
        made = labelled(program, endpoint)
        latest = program.latest
        done = made.align()
        assert done.returncode == 3, done.stdout + done.stderr
        assert "Nothing was written" in done.stdout
        assert not (program.folder / "conf").exists()
        assert program.latest == latest


def test_a_judge_that_gets_worse_changes_nothing(program: Program) -> None:
    with Endpoint(spoilt) as endpoint:
        done = labelled(program, endpoint).align()
        assert done.returncode == 1, done.stdout + done.stderr
        assert "agrees less with the labels" in done.stdout
        assert not (program.folder / "conf").exists()


def test_reasons_are_those_of_people_where_they_gave_some(program: Program) -> None:
    with Endpoint(following) as endpoint:
        made = labelled(program, endpoint, comment="By its tone.")
        asked = endpoint.count
        assert made.align("--examples", "3").returncode == 0
        assert endpoint.count - asked == 45
        assert [json.loads(reply) for _, reply in examples_in(endpoint.requests[-1].text)] == [
            {"reason": "By its tone.", "score": score} for score in (1, 5, 3)
        ]


def test_examples_and_calls_are_shown_before_anything_is_asked(program: Program) -> None:
    with Endpoint(following) as endpoint:
        made = labelled(program, endpoint)
        asked = endpoint.count
        shown = made.align("--dry-run")
        assert shown.returncode == 0, shown.stderr
        assert "labelled answers: 45 to learn from, 45 held out" in shown.stdout
        refused = made.align("--calls", "40")
        assert refused.returncode == 2
        assert "46 calls, and 40 are allowed" in refused.stderr
        assert "--calls 52" in refused.stderr
        assert endpoint.count == asked
        assert len(list(program.folder.glob("outputs/runs/*"))) == 1


def test_no_group_is_in_both_halves(program: Program) -> None:
    with Endpoint(following) as endpoint:
        made = labelled(program, endpoint, n=150, group=lambda i: f"g{i % 75}")
        done = made.align("--json", "--examples", "20")
        assert done.returncode == 0, done.stdout + done.stderr
        held = json.loads(done.stdout)
        rows = (program.folder / held["run"] / "cases.jsonl").read_text(encoding="utf-8").splitlines()
        groups = {json.loads(row)["group"] for row in rows}
        assert len(rows) == held["held_out"] == 2 * len(groups)
        shown = re.findall(r"^\d+\. c(\d+) ", done.stderr, re.M)
        learned = [int(number) % 75 for number in shown]
        assert len(set(learned)) == len(learned) == 20
        assert not {f"g{number}" for number in learned} & groups


@pytest.mark.parametrize(
    ("n", "words", "said"),
    [
        (50, "coherence", "50 answers labelled on coherence leave 25 held out, and it takes 30"),
        (60, "coherenc", "the run has no metric 'coherenc'"),
        (60, "coherence --review july", "these labels name no review"),
        (60, "coherence --examples 0", "0 examples"),
    ],
)
def test_what_cannot_be_measured_is_refused(program: Program, n: int, words: str, said: str) -> None:
    with Endpoint(following) as endpoint:
        labelled(program, endpoint, n=n)
        asked = endpoint.count
        done = program("align", *words.split(), "--labels", "labels.jsonl")
        assert done.returncode == 2, done.stdout
        assert said in done.stderr
        assert endpoint.count == asked


def test_a_metric_that_takes_answers_apart_is_refused(program: Program) -> None:
    assert program("dataset=rag", "metric=[faithfulness,exact_match]").returncode == 0
    done = program("align", "faithfulness")
    assert done.returncode == 2
    assert "asks for other things (the steps claims, verdicts)" in done.stderr
    assert "exact_match does not ask a judge that can be taught" in program("align", "exact_match").stderr


OWN = """\
# @package metric.polite
kind: judge
version: 3   # counted
description: Whether the answer is polite.
needs: [question, answer, vars.channel]
steps:
  - id: manner
    prompt: polite/manner.jinja
    returns: {why: str, manner: {type: label, labels: [kind, flat, rude]}}
score: {op: map, of: manner, field: manner, values: {kind: 1, flat: 0.5, rude: 0}}
threshold: 0.75
"""
PROMPT = """\
Is it polite?
{{ question | fenced("question") }}
{{ vars.channel }}
{{ answer | fenced("answer") }}
"""
WORDS = {"kindly": "kind", "plainly": "flat", "rudely": "rude"}


def test_a_chain_of_ones_own_is_taught_again_from_its_newest_version(program: Program) -> None:
    def judge(request: Request) -> dict[str, str]:
        case = style(_ANSWER.findall(_EXAMPLE.sub("", request.text))[0])
        shown = {
            style(_ANSWER.findall(text)[0]): json.loads(reply)["manner"] for text, reply in examples_in(request.text)
        }
        return {"why": "It is.", "manner": shown.get(case, "flat")}

    (program.folder / "conf/metric").mkdir(parents=True)
    (program.folder / "prompts/polite").mkdir(parents=True)
    (program.folder / "conf/metric/polite.yaml").write_text(OWN, encoding="utf-8")
    (program.folder / "prompts/polite/manner.jinja").write_text(PROMPT, encoding="utf-8")
    with Endpoint(judge) as endpoint:
        made = labelled(program, endpoint, metric="polite", value=WORDS.__getitem__, comment="So it sounds.")
        done = made.align("--examples", "3")
        assert done.returncode == 0, done.stdout + done.stderr
        text = (program.folder / "conf/metric/polite.yaml").read_text(encoding="utf-8")
        before, after = (part.splitlines() for part in (OWN.replace("version: 3 ", "version: 4 "), text))
        assert [line for line in after if line in before] == before
        examples = yaml.safe_load(text)["steps"][0]["examples"]
        assert [list(one) for one in examples] == [["question", "answer", "vars.channel", "reply"]] * 3
        assert {one["reply"]["manner"] for one in examples} == {*WORDS.values()}
        assert not list(program.folder.glob("prompts/polite/*_v4*"))
        refused = made.align()
        assert refused.returncode == 2
        assert "steps of polite has changed since the run" in refused.stderr
        assert made.run().returncode == 0
        again = made.align("--examples", "2")
        assert again.returncode == 3, again.stdout + again.stderr
        assert "No number of labels would decide" in again.stdout
        assert len(examples_in(endpoint.requests[-1].text)) == 2
        assert endpoint.requests[-1].text.count("by letter") == 3


def test_labels_of_one_review_can_be_chosen(program: Program) -> None:
    with Endpoint(following) as endpoint:
        made = labelled(program, endpoint, n=130)
        rows = [json.loads(line) for line in (program.folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()]
        named = [row | {"review": "july" if i < 70 else "august"} for i, row in enumerate(rows)]
        program.write("labels.jsonl", *named)
        done = made.align("--review", "july", "--dry-run")
        assert "labelled answers: 35 to learn from, 35 held out" in done.stdout, done.stderr
        assert program("calibrate", "--labels", "labels.jsonl").returncode == 0
        kept = program("align", "coherence", "--review", "august")
        assert kept.returncode == 0, kept.stdout + kept.stderr
        assert "Measured on 30 held-out answers" in kept.stdout
        other = made.align("--review", "may")
        assert "their reviews are august, july" in other.stderr


RUBRIC = """\
# @package metric.kindness
kind: rubric
description: How friendly it is.  # of the answer
needs: [question, answer]
scale: {type: likert, min: 1, max: 5}
"""


def of_own(program: Program, endpoint: Endpoint, name: str, text: str, **more: Any) -> Labelled:
    (program.folder / "conf/metric").mkdir(parents=True)
    (program.folder / f"conf/metric/{name}.yaml").write_text(text, encoding="utf-8")
    return labelled(program, endpoint, metric=name, **more)


def test_a_criterion_that_the_judge_rewords_is_measured_and_written(program: Program) -> None:
    with Endpoint(obeying) as endpoint:
        made = of_own(program, endpoint, "kindness", RUBRIC)
        asked = endpoint.count
        planned = made.align("--wording", "--examples", "0", "--dry-run")
        assert "calls: 1 to reword the criterion by 12 mistakes, and 45 to score" in planned.stdout, planned.stderr
        refused = made.align("--wording", "--examples", "0", "--calls", "45")
        assert "this takes 46 calls, and 45 are allowed" in refused.stderr
        assert endpoint.count == asked
        done = made.align("--wording", "--examples", "0")
        assert done.returncode == 0, done.stdout + done.stderr
        assert endpoint.count == asked + 46
        question = next(one.text for one in endpoint.requests if one.schema_name == "CriterionWording")
        assert "How friendly it is." in question
        assert question.count("The grade of the people: ") == 12
        assert f"its criterion: {NEW}" in done.stdout
        text = (program.folder / "conf/metric/kindness.yaml").read_text(encoding="utf-8")
        assert yaml.safe_load(text) == yaml.safe_load(RUBRIC) | {"description": NEW, "version": 2}
        assert "# of the answer" in text


def test_a_wording_that_does_not_help_changes_nothing(program: Program) -> None:
    with Endpoint(ignoring) as endpoint:
        made = of_own(program, endpoint, "kindness", RUBRIC, comment="So it sounds.")
        asked = endpoint.count
        done = made.align("--wording")
        assert done.returncode == 3, done.stdout + done.stderr
        assert endpoint.count == asked + 46
        assert len(examples_in(endpoint.requests[-1].text)) == 4
        assert (program.folder / "conf/metric/kindness.yaml").read_text(encoding="utf-8") == RUBRIC


def test_a_criterion_in_the_words_of_a_prompt_is_not_reworded(program: Program) -> None:
    with Endpoint(ignoring) as endpoint:
        done = labelled(program, endpoint, n=60).align("--wording")
        assert done.returncode == 2
        assert "the prompt coherence/grade.jinja has the criterion in its own words" in done.stderr


G_EVAL = """\
# @package metric.warmth
kind: g_eval
description: Warmth.
criteria: How warm "${it}" sounds.
needs: [question, answer]
scale: {type: likert, min: 1, max: 5}
"""


def test_g_eval_is_taught_with_the_steps_that_the_run_was_graded_by(program: Program) -> None:
    def judge(request: Request) -> dict[str, Any]:
        steps = ["Listen to the tone.", 'Say "warm" or not.']
        return {"steps": steps} if request.schema_name == "Steps" else following(request)

    with Endpoint(judge) as endpoint:
        text = G_EVAL.replace("${it}", "it")
        done = of_own(program, endpoint, "warmth", text, comment="${HOME} {{ x }}").align("--examples", "3")
        assert done.returncode == 0, done.stdout + done.stderr
        written = (program.folder / "conf/metric/warmth.yaml").read_text(encoding="utf-8")
        assert 'Say \\"warm\\" or not.' in written
        again = program("check", "dataset=rag", "metric=warmth", *judge_arguments(endpoint.url))
        assert again.returncode == 0, again.stderr
        assert json.loads(examples_in(endpoint.requests[-1].text)[0][1])["reason"] == "${HOME} {{ x }}"
