"""What people type instead of overrides is named, with what they meant."""

from __future__ import annotations

import pytest

from evalflow.cli.typed import expect_pairs, expect_run_words
from evalflow.errors import Meant, Problem, UserError

VERBS = ("check", "compare", "run")


def problems(words: list[str]) -> list[Problem]:
    with pytest.raises(UserError) as refused:
        expect_run_words(words, VERBS)
    return list(refused.value.problems)


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        (["dataset", "rag"], ["dataset=rag"]),
        (["dataset", "=", "rag", "limit=5"], ["dataset=rag", "limit=5"]),
        (["dataset=", "rag"], ["dataset=rag"]),
        (["dataset:", "rag"], ["dataset=rag"]),
        (["judge.model:m"], ["judge.model=m"]),
        (["limit", "5", "metric", "relevance"], ["limit=5", "metric=relevance"]),
    ],
)
def test_a_key_and_its_value_are_joined(words: list[str], joined: list[str]) -> None:
    with pytest.raises(UserError, match="joined by =") as refused:
        expect_pairs(words)
    assert refused.value.problems[0].meant == Meant(tuple(words), tuple(joined))


@pytest.mark.parametrize(
    "words",
    [["dataset=rag", "-m"], ["judge.name=two words"], ["judge.prompt=limit: 5\nseed: 1"], ["note", "this"], []],
)
def test_words_that_are_joined_stay_as_they_are(words: list[str]) -> None:
    expect_pairs(words)


@pytest.mark.parametrize(
    ("flag", "key"),
    [
        ("--metric", "metric="),
        ("--metrics", "metric="),
        ("--limit=5", "limit="),
        ("--judge.model", "judge.model="),
        ("--max-error-rate", "max_error_rate="),
        ("--datset", "dataset="),
    ],
)
def test_a_key_has_no_dashes(flag: str, key: str) -> None:
    [problem] = problems([flag, "dataset=rag"])
    assert problem.what.endswith("without --")
    assert problem.meant == Meant((flag.partition("=")[0],), (key,))


def test_a_misspelt_flag_is_the_nearest_one_and_another_word_lists_them() -> None:
    assert problems(["--multirn"])[0].meant == Meant(("--multirn",), ("--multirun",))
    [unknown] = problems(["--zzz"])
    assert (unknown.meant, unknown.what) == (None, "run does not take --zzz")
    assert "--multirun" in unknown.hint


def test_a_verb_comes_first() -> None:
    [problem] = problems(["-m", "dataset=rag", "check"])
    assert problem.what == "check is a verb, which comes first"
    assert problem.meant == Meant(None, ("check", "dataset=rag"))
