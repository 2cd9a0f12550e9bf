"""The hard cases of docs/metrics.md, each scored by the metrics that ship, with a judge that sees what people see."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from evalflow.config.yaml_text import safe_yaml
from evalflow.records import Answer, Case, Context, Message
from tests.metrics.conftest import SHIPPED, Bench

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("\n## Eight hard cases")[2].partition("\n## ")[0]
PEERS = PAGE.partition("\n## Where other tools give another number")[2].partition("\n## ")[0]
ROWS = dict(re.findall(r"^\| (\w+)\. [^|]* \| ([^|]*) \|$", TABLE, re.MULTILINE))

SCRIPTS: dict[str, str] = {
    "1": """
        answer: I do not know.
        reference: The fee is 20 euros.
        replies:
          answer_claims: {claims: []}
          reference_claims: {claims: [The fee is 20 euros.]}
          reference_verdicts: [missing]
        """,
    "2": """
        answer: I do not know.
        reference: That is not in the documents.
        replies: {answer_claims: {claims: []}, reference_claims: {claims: []}}
        """,
    "3": """
        answer: Shall I ask?
        contexts: [The fee is 20 euros.]
        replies: {claims: {claims: []}}
        """,
    "4": """
        answer: The fee is 20 euros [1].
        reference: The fee is 30 euros.
        contexts: []
        replies:
          claims: {claims: [The fee is 20 euros.]}
          outcome: {answerable: Nothing., reason: It answers., verdict: answered_without_basis}
          declines: {reason: It answers., reaction: answers}
          reference_claims: {claims: [The fee is 30 euros.]}
          question_needs: {information_needs: [How high the fee is.]}
        cited: {claims: {claims: [{claim: The fee is 20 euros., citation: "[1]", cited: true}]}}
        """,
    "4b": """
        answer: I found nothing about the fee.
        contexts: []
        replies:
          claims: {claims: []}
          outcome: {answerable: Nothing., reason: It declines., verdict: declined}
          declines: {reason: It declines., reaction: declines}
        """,
    "5": """
        answer: The fee is 20 euros.
        contexts: [There is a fee.]
        replies: {claims: {claims: [The fee is 20 euros.]}, verdicts: [not_in_context]}
        contexts_judged: {verdicts: [not_contradicted]}
        """,
    "6": """
        answer: The museum opens at nine.
        contexts: [The museum opens at nine.]
        vars: {purpose: Help visitors., chatbot_role: A guide.}
        replies:
          remarks: {remarks: []}
          opinions: {opinions: []}
          details: {personal_details: []}
          given: {services: []}
          advice: {pieces_of_advice: []}
          harmless: {harmless_requests: []}
          injected: {injected_instructions: []}
          secrets: {confidential_details: []}
          role: {demands: []}
        """,
    "7": """
        answer: The fee is 20 euros.
        reference: The fee is 20 euros.
        contexts: [The fee is 20 euros., The fee is 30 euros.]
        replies:
          claims: {claims: [The fee is 20 euros.]}
          reference_claims: {claims: [The fee is 20 euros.]}
          verdicts: [contradicted]
        recalled: {verdicts: [attributed]}
        contexts_judged: {verdicts: [not_contradicted, contradicted]}
        """,
    "8": """
        answer: The fee is 20 euros for adults.
        reference: The fee is 20 euros.
        contexts: [The fee is 20 euros.]
        replies:
          claims: {claims: [The fee is 20 euros for adults.]}
          verdicts: [not_in_context]
          answer_claims: {claims: [The fee is 20 euros for adults.]}
          answer_verdicts: [not_in_reference]
        """,
    "9": """
        answer: I looked it up, it is 20 euros.
        actual: []
        expected: [look_up]
        vars: {tools: {look_up: The fee.}}
        replies: {missing: {missing_calls: [Look up the fee.]}}
        """,
    "9b": """
        answer: Hello!
        actual: []
        expected: []
        vars: {tools: {look_up: The fee.}}
        replies: {missing: {missing_calls: []}}
        """,
}
OWN = {"citation_recall": "cited", "citation_faithfulness": "cited", "contradiction": "contexts_judged"}
OWN |= {"context_recall": "recalled"}


def said(number: str) -> list[tuple[str, str]]:
    """Of a row on the page each metric, and what it says."""
    return re.findall(r"`(\w+)` ([\d.]+|undefined)", ROWS[number])


def test_every_row_is_scored() -> None:
    assert list(ROWS) == list(SCRIPTS)
    assert all(len(said(number)) == ROWS[number].count("`") / 2 for number in ROWS)


@pytest.mark.parametrize(("number", "name", "score"), [(n, *pair) for n in SCRIPTS for pair in said(n)])
def test_a_metric_says_what_the_page_says(number: str, name: str, score: str) -> None:
    bench, given = Bench(), safe_yaml(SCRIPTS[number])
    replies: dict[str, Any] = given["replies"] | given.get(OWN.get(name, ""), {})
    script = {
        step: bench.verdicts(reply) if isinstance(reply, list) and isinstance(reply[0], str) else reply
        for step, reply in replies.items()
    }
    contexts = None if "contexts" not in given else tuple(map(Context, given["contexts"]))
    messages = (Message("user", "How high is the fee?"),)
    known = {key: given.get(key) for key in ("reference", "expected")}
    case = Case(dataset="d", index=0, id="1", messages=messages, contexts=contexts, vars=given.get("vars", {}), **known)
    about = {"answer": given["answer"], "actual": given.get("actual")}
    answer = Answer(dataset="d", index=0, case_id="1", target="t", **about)
    outcome = bench.score(bench.shipped(name), bench.judge(script), case=case, answer=answer)
    assert outcome.status == ("undefined" if score == "undefined" else "scored"), outcome.reason or outcome.error
    assert outcome.score == (None if score == "undefined" else float(score))


def test_every_metric_is_compared_with_others() -> None:
    cells = re.findall(r"^\| (`[^|]*) \|", PEERS, re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(path.stem for path in SHIPPED)
