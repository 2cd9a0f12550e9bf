from __future__ import annotations

from typing import Any

from evalflow.addons.studio.work.cases import add_cases, example_rows
from evalflow.addons.studio.work.datasets import create_dataset
from evalflow.addons.studio.work.space import Workspace


def test_the_first_cases_of_any_dataset(space: Workspace) -> None:
    create_dataset(space, "own")
    add_cases(space, "own", [{"question": f"q{number}"} for number in range(3)])
    rows: Any = example_rows(space, "own", 2)
    assert [row["messages"][-1]["content"] for row in rows] == ["q0", "q1"]
    shipped = example_rows(space, "rag", 2)
    assert len(shipped) == 2
    assert {"messages", "answer", "reference", "contexts"} <= shipped[0].keys()
