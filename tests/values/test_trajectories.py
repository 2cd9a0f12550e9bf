"""Trajectories as judges are told them."""

from __future__ import annotations

from evalflow.values.trajectories import call_lines, trajectory_text


def test_ids_that_begin_anew_name_the_last_call_before_a_result() -> None:
    asked = {"role": "assistant", "tool_calls": [{"id": "call_0", "name": "look"}]}
    results = [
        {"role": "tool", "tool_call_id": name, "content": text}
        for name, text in (("call_0", "one"), ("call_0", "two"), ("lost", "three"))
    ]
    steps = [results[1], asked, results[0], {"role": "user", "content": "And now?"}, asked, results[1], results[2]]
    assert trajectory_text(steps).splitlines() == [
        "step 1, result of no call: two",
        "step 2, assistant: call 1: look",
        "step 3, result of call 1: one",
        "step 4, user: And now?",
        "step 5, assistant: call 2: look",
        "step 6, result of call 2: two",
        "step 7, result of no call: three",
    ]
    assert call_lines(steps) == ("step 2, call 1: look -> one", "step 5, call 2: look -> two")
