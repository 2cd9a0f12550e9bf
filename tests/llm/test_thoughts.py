"""Thoughts at the beginning of a reply, split from what the reply says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.llm.thoughts import split_thoughts

PAGE = "The page says noon."


@pytest.mark.parametrize(
    "text",
    [
        f"<think>{PAGE}</think>Noon.",
        f"<think>\n{PAGE}\n</think>\n\nNoon.",
        f"\ufeff\n <THINKING>{PAGE}</THINKING> Noon.",
        f"<reasoning effort='low'>{PAGE}</reasoning>\nNoon.",
        f"<thought>{PAGE}</thought>Noon.",
        f"[THINK]{PAGE}[/THINK]Noon.",
        f"◁think▷{PAGE}◁/think▷Noon.",
        f"<|START_THINKING|>{PAGE}<|END_THINKING|><|START_RESPONSE|>Noon.<|END_RESPONSE|>",
        f"<|channel|>analysis<|message|>{PAGE}<|end|><|start|>assistant<|channel|>final<|message|>Noon.<|return|>",
        f"{PAGE}</think>Noon.",
        f"{PAGE}\n</think>\n\nNoon.",
        f"{PAGE} </think> Noon.",
    ],
)
def test_thoughts_are_split_from_the_reply(text: str) -> None:
    assert split_thoughts(text) == (PAGE, "Noon.")


@pytest.mark.parametrize(
    "text",
    [
        "Noon.",
        "",
        "  Noon, as <think>it</think> says.",
        'Close the block with "</think>" and then answer.',
        "Close it with `</think>`.",
        "The tag </think> closes the block.",
        "Like this:\n```\nsome thoughts\n</think>\nthe answer\n```",
        "A <think> tag opens it\nand </think>\ncloses it.",
        "<thinker>Rodin</thinker>",
    ],
)
def test_a_text_without_thoughts_stays_as_it_is(text: str) -> None:
    assert split_thoughts(text) == (None, text)


def test_several_blocks_at_the_beginning_are_all_thoughts() -> None:
    assert split_thoughts("<think>One.</think>\n<think>Two.</think>\nNoon.") == ("One.\n\nTwo.", "Noon.")


def test_a_block_that_is_not_closed_leaves_no_reply() -> None:
    assert split_thoughts("<think>It could be noon, or") == ("It could be noon, or", "")


@pytest.mark.parametrize("text", ["<think>\n\n</think>\n\nNoon.", "</think>\n\nNoon."])
def test_an_empty_block_is_taken_away_too(text: str) -> None:
    assert split_thoughts(text) == ("", "Noon.")


def test_thoughts_may_name_tags() -> None:
    quoted = "They want <think>this</think> tag."
    assert split_thoughts(f"<think>{quoted}</think>Noon.") == (quoted, "Noon.")
    named = "They want the <think> tag."
    assert split_thoughts(f"<think>{named}</think>Noon.") == (named, "Noon.")


@given(st.text(), st.text())
def test_what_follows_a_block_is_kept(thoughts: str, rest: str) -> None:
    if "<" in thoughts + rest or "[" in thoughts + rest or "◁" in rest:
        return
    found, left = split_thoughts(f"<think>{thoughts}</think>x{rest}")
    assert found == thoughts.strip()
    assert left == f"x{rest}"
