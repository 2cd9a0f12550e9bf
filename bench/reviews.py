"""How long people wait for the next answer of a review, while 20 of them ask at once.

    python bench/reviews.py [PEOPLE] [ANSWERS] [DATABASE_URL]

A review of 5,000 answers, 4,500 of them labelled, one in five by two people. Each person asks for an answer, submits a
label, pauses for a second, and asks again, ten times; all begin in the same moment. They are threads of one process, as
in the application, and what is measured is evalflow's function, without HTTP. The floor is one person alone. Without
a URL the database is SQLite, in a folder that is removed afterwards.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace
from statistics import median, quantiles
from typing import Any

from _lab import folder, machine, print_table
from sqlalchemy import insert

from evalflow.app.studio import reviews
from evalflow.app.studio.access import Actor
from evalflow.app.studio.review_desk import next_item, own_progress, submit_item
from evalflow.app.studio.space import Workspace, open_workspace
from evalflow.store import reviews as stored
from evalflow.store.tables import assignments

ROUNDS, PAUSE_S, LABELLED = 10, 1.0, 0.9
NAME = f"bench {time.time_ns()}"


def fill(space: Workspace, people: list[str], answers: int) -> None:
    """Store a review of which nine in ten answers are labelled."""
    metric = {"name": "good", "scale": {"type": "boolean"}, "description": "", "rubric": 1}
    values: dict[str, Any] = {
        "name": NAME, "run": None, "run_id": "run", "state": "open", "metrics": [metric], "people": people,
        "draw": {}, "shown": {"contexts": True, "reference": True}, "guidelines": {"good": ""}, "created_by": "bench",
    }  # fmt: skip
    content = {
        "messages": [{"role": "user", "content": "q" * 200}], "answer": "a" * 1000, "reference": "r" * 300,
        "contexts": [{"title": "t", "text": "c" * 4000}], "metrics": ["good"],
    }  # fmt: skip
    about = {"position": None, "dataset": "d", "target": "t", "target_repeat": 0, "answer_hash": "h", "group": ""}
    about |= {"stratum": "all", "pi": 1.0, "content": content}
    done = {"state": "submitted", "expires_at": 0.0, "seconds": 1.0, "draft": {}, "is_flagged": False}
    wanted = [1 + (i % 5 == 0) for i in range(answers)]
    with space.database.writing() as connection:
        review = reviews.REVIEWS.add(connection, space.project_id, values)
        items = [{**about, "case_id": f"c{i}", "wanted": number} for i, number in enumerate(wanted)]
        stored.add_items(connection, review, items)
        labelled = [
            {**done, "review_id": review, "item": i, "by": people[(i + k) % len(people)], "opened_at": float(i)}
            for i in range(int(LABELLED * answers))
            for k in range(wanted[i])
        ]
        connection.execute(insert(assignments), labelled)


def work(space: Workspace, name: str, rounds: int, pause_s: float, took: dict[str, list[float]]) -> None:
    """One person, who labels so many answers; adds the seconds that each act took."""
    me = replace(space, identify=lambda: Actor(1, name, roles={space.project_id: "annotator"}))
    for _ in range(rounds):
        begun = time.perf_counter()
        found = next_item(me, NAME)
        own_progress(me, NAME)
        given = time.perf_counter()
        took["next answer"].append(given - begun)
        if found is None:
            return
        submit_item(me, NAME, found.item, {"good": True})
        took["submit"].append(time.perf_counter() - given)
        time.sleep(pause_s)


def main() -> None:
    """Measure and print."""
    people = [f"p{i}" for i in range(int(sys.argv[1]) if len(sys.argv) > 1 else 20)]
    answers = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    alone: dict[str, list[float]] = {"next answer": [], "submit": []}
    together: dict[str, list[float]] = {"next answer": [], "submit": []}
    with folder() as work_folder:
        os.chdir(work_folder)
        space = open_workspace(sys.argv[3] if len(sys.argv) > 3 else None)
        fill(space, people, answers)
        work(space, people[0], 2 * ROUNDS, 0.0, alone)
        threads = [threading.Thread(target=work, args=(space, name, ROUNDS, PAUSE_S, together)) for name in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        space.close()
    print(f"{machine()}; {len(people)} people, {answers:,} answers, {LABELLED:.0%} labelled\n")
    rows = [
        (f"{act}, {who}", *row(times[act])) for act in alone for who, times in (("alone", alone), ("at once", together))
    ]
    print_table(("", "n", "median, ms", "95th percentile, ms", "worst, ms"), rows)


def row(times: list[float]) -> tuple[str, ...]:
    """Number, median, 95th percentile and worst, in milliseconds."""
    return (str(len(times)), *(f"{1000 * one:.0f}" for one in (median(times), quantiles(times, n=20)[-1], max(times))))


if __name__ == "__main__":
    main()
