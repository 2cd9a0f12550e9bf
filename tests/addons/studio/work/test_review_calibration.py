"""A review's calibration is saved as the command `calibrate` does by its export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalflow.addons.studio.work import review_calibration, review_guidelines, review_results, reviews
from evalflow.addons.studio.work.review_desk import next_item, submit_item
from evalflow.addons.studio.work.reviews import ReviewRequest
from evalflow.addons.studio.work.run_request import RunRequest
from evalflow.addons.studio.work.space import TakenError, Workspace
from evalflow.app.core.certificates import CERTIFICATES
from evalflow.app.core.labels import labels_of_run
from evalflow.app.core.saved import open_run
from evalflow.engine.folder import RunFolder
from evalflow.errors import UserError
from tests.addons.studio.web.judged import BOT, DATASET, JUDGE, finish_judged
from tests.addons.studio.work.test_reviews import add_people, person
from tests.cli.conftest import Program
from tests.finishing import finish
from tests.postgres import ON_SQLITE

pytestmark = [pytest.mark.slow, ON_SQLITE]


def label_all(space: Workspace, name: str, *people: str) -> None:
    """Everyone labels in turn until nothing is left; they find right what names a multiple of three."""
    waiting = [person(space, one) for one in people]
    while waiting:
        me = waiting.pop(0)
        found = next_item(me, name)
        if found is not None:
            asked = int("".join(filter(str.isdigit, found.messages[-1]["content"])))
            submit_item(me, name, found.item, {"right": asked % 2 == 0 or asked % 5 == 0})
            waiting.append(me)


def saved_files(run: Path) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """The calibration of a run, its labels, and the certificates by file name, without the moment."""
    certificates = {file.name: json.loads(file.read_text()) for file in CERTIFICATES.glob("*.json")}
    for one in certificates.values():
        del one["issued_at"]
    labels = [json.loads(line) for line in (run / "labels.jsonl").read_text().splitlines()[1:]]
    return json.loads((run / "calibration.json").read_text())["rows"], labels, certificates


def test_a_closed_review_is_saved_as_the_command_does(space: Workspace, tmp_path: Path) -> None:
    run = finish_judged(space, 30)
    add_people(space, {"ann": "annotator", "ben": "annotator", "eve": "editor"})
    eve = person(space, "eve", "editor")
    request = ReviewRequest(name="r", run_id=run.run_id, metrics=["right"], size=20, people=["ann", "ben"], seed=3)
    reviews.create_review(eve, request)
    label_all(space, "r", "ann", "ben")
    with pytest.raises(TakenError, match="provisional"):
        review_calibration.save_calibration(eve, "r")
    closed = review_results.close_review(eve, "r", 1)
    before = review_calibration.review_result(eve, "r")
    assert not before.is_saved
    assert [(one.judge, one.issued_at, one.why_not) for one in before.certificates] == [(JUDGE, "", "")]
    assert not (run.folder / "calibration.json").exists()

    [issued] = review_calibration.save_calibration(eve, "r").certificates
    assert issued.issued_at
    assert "20 labels" in issued.agreement
    by_page, labels, certificates = saved_files(run.folder)
    assert len(certificates) == 1
    after = review_calibration.review_result(eve, "r")
    assert (after.is_saved, after.certificates) == (True, [issued])
    listed = Program(tmp_path)("list", "certificates", "--json")
    assert [one["judge"] for one in json.loads(listed.stdout)] == [JUDGE]

    file = tmp_path / "labels.csv"
    file.write_text(review_results.labels_csv(eve, "r"), "utf-8")
    for one in CERTIFICATES.glob("*.json"):
        one.unlink()
    ended = Program(tmp_path)("calibrate", str(run.folder), "--labels", str(file))
    assert ended.returncode == 0, ended.stderr
    assert saved_files(run.folder) == (by_page, labels, certificates)
    assert review_calibration.review_result(eve, "r").is_saved

    reviews.reopen_review(eve, "r", closed.version)
    submit_item(person(space, "ann"), "r", 0, {"right": False})
    assert not review_calibration.review_result(eve, "r").is_saved


def test_labels_of_a_review_follow_into_another_run(space: Workspace) -> None:
    run = finish_judged(space, 30)
    other = finish(space, RunRequest(BOT, [DATASET], ["right"], title="other"))
    add_people(space, {"ann": "annotator", "eve": "editor"})
    eve = person(space, "eve", "editor")
    request = ReviewRequest(name="r", run_id=run.run_id, metrics=["right"], size=20, people=["ann"], seed=3)
    reviews.create_review(eve, request)
    label_all(space, "r", "ann")
    review_results.close_review(eve, "r", 1)
    review_calibration.save_calibration(eve, "r")
    found = labels_of_run(open_run(RunFolder(other.folder)))
    assert found is not None
    assert [one.run for one in found.followed] == [run.run_id]
    assert (found.frame.height, found.followed[0].why) == (20, "")


def test_too_few_labels_give_no_certificate_and_say_why(space: Workspace) -> None:
    run = finish_judged(space, 6)
    add_people(space, {"ann": "annotator", "eve": "editor"})
    eve = person(space, "eve", "editor")
    reviews.create_review(
        eve, ReviewRequest(name="r", run_id=run.run_id, metrics=["right"], size=6, people=["ann"], seed=3)
    )
    label_all(space, "r", "ann")
    review_results.close_review(eve, "r", 1)
    [one] = review_calibration.review_result(eve, "r").certificates
    assert "it takes 15" in one.why_not
    [saved] = review_calibration.save_calibration(eve, "r").certificates
    assert (saved.issued_at, saved.why_not) == ("", one.why_not)
    assert review_calibration.review_result(eve, "r").is_saved
    review_guidelines.revise_guidelines(eve, "r", 2, {"right": "To the cent."})
    with pytest.raises(UserError, match="6 labels are by guidelines that were revised since; left out"):
        review_calibration.review_result(eve, "r")
