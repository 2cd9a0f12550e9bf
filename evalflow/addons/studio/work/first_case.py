"""The first scored case of a bot or of a pasted answer: creates bot, dataset, case and metric, and gives the run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from evalflow import datasets as readers
from evalflow.addons.studio.work.access import requires
from evalflow.addons.studio.work.bots import BOTS, bot_values
from evalflow.addons.studio.work.cases import append_stored, case_columns, read_row
from evalflow.addons.studio.work.datasets import DATASETS, dataset_values
from evalflow.addons.studio.work.metrics import MetricDraft, add_metric, check_draft
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.titles import checked_title
from evalflow.errors import Problem, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evalflow.addons.studio.work.space import Workspace

DATASET = "First cases"
SPOKEN_OF = MappingProxyType(
    {
        "reference": (r"\b(expected|reference|ideal|model) answer|\breference\b|\bground truth\b", "expected answer"),
        "contexts": (r"\b(contexts?|passages?|sources?|documents?)\b", "context"),
    }
)
"""By case field: the words in criteria that refer to it, and its name for people."""
JUDGED, CONTAINED = "good_answer", "contains_expected"


@dataclass(frozen=True, slots=True)
class FirstCase:
    """A question, and how to recognise a good answer.

    Attributes:
        reference: The expected answer; empty if criteria are enough.
        criteria: The definition of a good answer for the judge. Empty: without a judge, the answer must contain the
            expected one.
        answer: What the bot said; empty if it is asked.
    """

    question: str
    reference: str = ""
    criteria: str = ""
    answer: str = ""

    def metric(self) -> MetricDraft:
        """The metric that scores it."""
        if not self.criteria:
            return MetricDraft(CONTAINED, _CONTAINED, title="Contains the expected answer")
        needs = ["question", "answer", *(["reference"] if self.reference else [])]
        definition = {"kind": "rubric", "description": self.criteria, "needs": needs, "scale": {"type": "boolean"}}
        return MetricDraft(JUDGED, {**definition, "threshold": 1.0}, title="Good answer")


_CONTAINED = {
    "kind": "check",
    "description": "Whether the answer contains the expected answer.",
    "needs": ["answer", "reference"],
    "checks": [{"op": "contains", "against": "reference"}],
    "threshold": 1.0,
}


RECORDED = MappingProxyType({"kind": "recorded"})
"""The configuration of a bot whose answers are in its cases."""


@requires("edit")
def save_first_case(
    space: Workspace, title: str, config: Mapping[str, object], case: FirstCase, judge: str = "target"
) -> RunRequest:
    """Save a new bot with its first case and metric, all or nothing; returns the run that scores it.

    An existing bot or dataset of that title is not changed; the new one gets a number. `judge` decides by criteria;
    "target" is the bot's own model, which recorded answers do not have.
    """
    is_recorded = config.get("kind") == RECORDED["kind"]
    if not case.question.strip():
        raise UserError(Problem("the question is required", "question"))
    if is_recorded and not case.answer.strip():
        raise UserError(Problem("the answer is required", "answer"))
    if is_recorded and case.criteria and judge == "target":
        raise UserError(Problem("choose a judge", "judge", "or have the answer contain the expected one", key="judge"))
    if not case.criteria and not case.reference:
        raise UserError(Problem("the expected answer is required", "reference", "or let a judge decide by criteria"))
    if not case.reference and re.search(SPOKEN_OF["reference"][0], case.criteria, re.IGNORECASE):
        what = "the expected answer is required, since the criteria speak of it"
        raise UserError(Problem(what, "reference", "write it, or change the criteria", "reference"))
    name, title = BOTS.free(space, checked_title(title, "bot"))
    bot = bot_values(space, name, config, title=title)
    name, title = DATASETS.free(space, DATASET)
    dataset = dataset_values(name, "", "answer", title)
    row = {"question": case.question, "reference": case.reference, "answer": case.answer}
    body = readers.case_to_row(read_row(dataset["name"], {key: value for key, value in row.items() if value}))
    metric = check_draft(space, case.metric())
    with space.changing("create", "bot", bot["name"], [metric.name, dataset["name"]]) as connection:
        add_metric(connection, BOTS.add(connection, space.project_id, bot), bot["name"], metric)
        append_stored(connection, DATASETS.add(connection, space.project_id, dataset), [case_columns(body)])
    used = judge if case.criteria else "embedded"
    return RunRequest(bot["name"], [dataset["name"]], [metric.name], judge=used, title="First case")
