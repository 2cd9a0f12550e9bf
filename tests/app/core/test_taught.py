"""The prompt that shows a judge answers that people graded."""

from __future__ import annotations

from typing import Any

import pytest

from evalflow.app.core.alignment import Example, Lesson
from evalflow.app.core.taught import with_examples
from evalflow.metrics.scale import LabelScale, LikertScale
from evalflow.prompts import Prompts, render

CONFIG: Any = None
GRADES = Lesson("m", CONFIG, "grade", (), "score", ["reason"], ["answer"], LikertScale(type="likert", min=1, max=5))
WORDS = Lesson(
    "m", CONFIG, "grade", (), "word", [], ["answer"], LabelScale(type="label", values={"a": 1, "b": 1, "c": 0})
)
ODD = 'He said "{{ answer }}" {% raw %} C:\\new\\u00e9 \u00e9 \U0001f600\nand left'


def example(answer: str, human: float = 0.75, said: tuple[str, ...] = (), reason: str = "") -> Example:
    return Example((answer, 0), {"answer": answer, "reference": None}, human, 0.0, said, reason)


def rendered(source: str) -> str:
    return render(Prompts([]).inline(source, "a test"), {"answer": "its own"}, "a test")


def test_texts_of_examples_are_shown_as_they_are() -> None:
    text = rendered(with_examples('Grade {{ answer | fenced("answer") }}', GRADES, [example(ODD, reason=ODD)], {}))
    assert ODD in text
    assert '"score": 4}' in text
    assert text.index("its own") < text.index("Example 1")


def test_new_examples_replace_the_old_ones() -> None:
    first = with_examples("Grade {{ answer }}\n", GRADES, [example("one"), example("two")], {("one", 0): "So."})
    assert first.count("Example ") == 2
    assert "So." in first
    second = with_examples(first, GRADES, [example("three")], {})
    assert second == with_examples("Grade {{ answer }}\n", GRADES, [example("three")], {})


def test_examples_follow_the_rules_of_a_prompt_in_parts() -> None:
    parts = "{% block rules %}\nThe rules.\n{% endblock %}\n{% block task %}\nThe task.\n{% endblock %}\n"
    text = rendered(with_examples(parts, GRADES, [example("one")], {}))
    assert text.index("The rules.") < text.index("Example 1") < text.index("The task.")


@pytest.mark.parametrize(("human", "said", "word"), [(1.0, ("b",), "b"), (1.0, (), "a"), (0.2, ("c",), "c")])
def test_of_words_with_one_score_that_of_people_is_shown(human: float, said: tuple[str, ...], word: str) -> None:
    assert example("x", human, said).reply(WORDS) == {"word": word}
