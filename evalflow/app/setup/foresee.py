"""What is known of an answer before anybody is asked for it."""

from __future__ import annotations

from dataclasses import replace

from evalflow.app.results.derive import standing_answer
from evalflow.config.schema import RunConfig
from evalflow.records import Answer, Case, Context
from evalflow.targets.conversation import open_turns

UNKNOWN = "-"
"""Stands where neither the target's name nor what it will say is known."""


def foreseen(run: RunConfig, case: Case) -> Answer:
    """The answer that the case will be scored on: the one in the data, else a stand-in for the target's.

    A stand-in says in `requests` how often the target is asked. Like the target's answer it has the field that the
    dataset generates and no other, and contexts where the target may bring them; its text is as long as may be
    expected.
    """
    standing = standing_answer(run, case, UNKNOWN, 0)
    if standing:
        return standing
    blank = Answer(
        dataset=case.dataset,
        index=case.index,
        case_id=case.id,
        target=UNKNOWN,
        messages=case.messages,
        requests=max(1, len(open_turns(case.messages))),
    )
    if case.contexts is None and "contexts" in run.target.may_fill:
        blank = replace(blank, contexts=(Context(UNKNOWN),))
    if run.dataset[case.dataset].generates == "actual":
        likely = (value for value in (case.actual, case.expected, UNKNOWN) if value is not None)
        return replace(blank, actual=next(likely))
    return replace(blank, answer=case.answer or case.reference or case.question or UNKNOWN)
