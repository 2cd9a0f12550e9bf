"""Runs whose bot, metrics, judge and test cases have titles unlike their names.

They are of a judge, of the same judge when it is taught, of a combination of metrics, and of compared answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalflow.addons.studio.work import (
    bots,
    cases,
    datasets,
    judges,
    metrics,
    review_calibration,
    review_desk,
    review_results,
    reviews,
    teaching,
)
from evalflow.addons.studio.work.metrics import MetricDraft
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import Workspace
from evalflow.testing import Endpoint, Request
from tests.addons.studio.work.test_reviews import add_people, person
from tests.cli.test_align import STYLES, following, style
from tests.finishing import carry_out, finish

BOT, DATASET, JUDGE = "letter_desk", "open_letters", "stern_judge"
KIND, SHORT, BOTH, BETTER = "is_kind", "is_short", "kind_and_short", "is_better"
DEFINITIONS: dict[str, tuple[str, dict[str, Any]]] = {
    KIND: (
        "Kind to the reader",
        {
            "kind": "rubric",
            "version": 1,
            "description": "How friendly it is.",
            "needs": ["question", "answer"],
            "scale": {"type": "likert", "min": 1, "max": 5},
            "threshold": 0.5,
            "gate": {"pass_rate": ">= 0.9"},
            "judge": JUDGE,
        },
    ),
    SHORT: (
        "Short enough",
        {
            "kind": "check",
            "description": "Whether it has few letters.",
            "needs": ["answer"],
            "checks": [{"op": "length", "max": 19}],
            "threshold": 1.0,
        },
    ),
    BOTH: (
        "Fit to send",
        {"kind": "composite", "description": "Kind and short.", "of": {KIND: 2, SHORT: 1}, "threshold": 0.5},
    ),
    BETTER: (
        "Better than last year",
        {
            "kind": "pairwise",
            "description": "Which answer helps more.",
            "needs": ["question", "answer", "vars.old"],
            "against": "vars.old",
            "criteria": "The better answer helps more.",
            "judge": JUDGE,
        },
    ),
}
COUNT = 66


@dataclass(frozen=True)
class Titled:
    """The runs.

    Attributes:
        first: Judged by the judge as it was, with the metric that combines two.
        taught: Of the taught judge, over the answers that were held out.
        second: As `first`, by the taught judge.
        pairs: Of answers that are compared with older ones.
    """

    folder: Path
    first: str
    taught: str
    second: str
    pairs: str


def finish_titled(space: Workspace) -> Titled:
    """Define everything, carry out the runs, and have people label two reviews: Letters, and Pairs of two answers."""
    with Endpoint(_reply) as endpoint:
        config = {"kind": "openai", "model": "m", "base_url": endpoint.url, "api_key_env": None}
        judges.create_judge(space, JUDGE, config, title="Stern judge")
        bots.create_bot(space, BOT, {"kind": "recorded"}, title="Letter desk")
        for name, (title, definition) in DEFINITIONS.items():
            metrics.create_metric(space, BOT, MetricDraft(name, definition, title=title))
        datasets.create_dataset(space, DATASET, title="Open letters")
        cases.add_cases(space, DATASET, [_row(i) for i in range(COUNT)])
        wanted = RunRequest(BOT, [DATASET], [KIND, SHORT, BOTH], title="As it was")
        first = finish(space, wanted).run_id
        _label(space, first)
        taught = carry_out(space, teaching.teach(space, "Letters", KIND).run_id).run_id
        teaching.save_taught(space, "Letters", KIND)
        second = finish(space, RunRequest(BOT, [DATASET], [KIND, SHORT, BOTH], title="Taught")).run_id
        pairs = finish(space, RunRequest(BOT, [DATASET], [BETTER], title="Beside last year")).run_id
    _compare(space, pairs)
    return Titled(space.root, first, taught, second, pairs)


def _row(i: int) -> dict[str, Any]:
    styles = list(STYLES)
    answer = f"Said {styles[i * 7 % 3]}: at {i}."
    known = {"reference": f"At {i}.", "contexts": [f"The hall opens at {i}."], "tags": ["Topic > Hours"]}
    return {"id": f"c{i}", "question": f"When is it, {i}?", "answer": answer, "vars": {"old": "No idea."}, **known}


def _reply(request: Request) -> dict[str, Any]:
    if "<first id=" in request.text:
        first = request.text.partition("<first id=")[2].partition("</first id=")[0]
        return {"reason": "It says when.", "better": "first" if "Said" in first else "second"}
    return following(request)


def _label(space: Workspace, run: str) -> None:
    request = ReviewRequest(name="Letters", run_id=run, metrics=[KIND], size=COUNT, people=["local"], overlap=0)
    reviews.create_review(space, request)
    while (item := review_desk.next_item(space, "Letters")) is not None:
        review_desk.submit_item(space, "Letters", item.item, {KIND: STYLES[style(str(item.answer))]})
    review_results.close_review(space, "Letters", 1)
    review_calibration.save_calibration(space, "Letters")


def _compare(space: Workspace, run: str) -> None:
    """Two people disagree on the first of four pairs, and the others are open."""
    add_people(space, {"ann": "annotator", "ben": "annotator"})
    people = ["ann", "ben"]
    reviews.create_review(
        space, ReviewRequest(name="Pairs", run_id=run, metrics=[BETTER], size=4, people=people, overlap=1.0)
    )
    for name, starts in (("ann", "Said"), ("ben", "No")):
        me = person(space, name)
        item = review_desk.next_item(me, "Pairs")
        assert item is not None
        better = "first" if str(item.answer).startswith(starts) else "second"
        review_desk.submit_item(me, "Pairs", item.item, {BETTER: better})
