from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.addons.embedded.evidence import longest_common_subsequence, sentences, weigh, windows, words

MINERALS = "Several minerals have a green color, including the emerald, which is colored green by its chromium content."
TEXTS = st.text(alphabet="abcdeE .!?\n'1,-…é", max_size=80)
WORDS = st.lists(st.sampled_from("abcd"), max_size=12)


def slow_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, one in enumerate(first):
        for j, other in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(WORDS, WORDS)
def test_the_bit_parallel_subsequence_is_as_long_as_the_table_says(first: list[str], second: list[str]) -> None:
    assert longest_common_subsequence(first, second) == slow_subsequence(first, second)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.none() | st.floats(0, 1))
def test_support_is_a_share(claim: str, context: list[str], cosine: float | None) -> None:
    evidence = weigh(claim, windows(context))
    if cosine is not None:
        evidence = evidence.with_similarity(cosine)
    assert 0 <= evidence.support <= 1
    assert all(0 <= part <= 1 for part in evidence.overlap)


@given(st.text(), st.text())
def test_any_text_at_all_can_be_weighed(claim: str, context: str) -> None:
    assert 0 <= weigh(claim, windows([context])).support <= 1


@given(st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_a_copied_sentence_has_full_lexical_support(context: list[str], data: st.DataObject) -> None:
    copied = [sentence for text in context for sentence in sentences(text) if words(sentence)]
    if not copied:
        return
    evidence = weigh(data.draw(st.sampled_from(copied)), windows(context))
    assert evidence.support == 1
    assert evidence.unseen == ()


@given(TEXTS, TEXTS, TEXTS)
def test_more_context_never_takes_lexical_support_away(claim: str, context: str, more: str) -> None:
    assert weigh(claim, windows([context, more])).support >= weigh(claim, windows([context])).support


@given(TEXTS)
def test_an_empty_context_supports_nothing(claim: str) -> None:
    assert windows([]) == windows([""]) == ()
    assert weigh(claim, ()).support == 0


def test_a_claim_without_words_has_no_support() -> None:
    assert weigh("?!", windows([MINERALS])).support == 0


def test_windows_are_three_sentences_and_stay_within_one_text() -> None:
    found = [window.sentences for window in windows(["A one. B two. C three. D four.", "E five."])]
    assert found == [("A one.", "B two.", "C three."), ("B two.", "C three.", "D four."), ("E five.",)]


def test_the_three_precisions_by_hand() -> None:
    # the green stone fell | the stone is green: words stone, green of green, stone, fell; bigrams none of
    # (the green, green stone, stone fell); subsequence "the green" or "the stone", 2 of 4 words.
    evidence = weigh("The green stone fell", windows(["The stone is green"]))
    assert evidence.overlap == pytest.approx((2 / 3, 0, 2 / 4))
    assert evidence.support == pytest.approx((2 / 3 + 0 + 2 / 4) / 3)
    assert evidence.unseen == ("fell",)


def test_similarity_is_a_fourth_part_of_equal_weight() -> None:
    evidence = weigh("Emeralds are green.", windows([MINERALS]))
    similar = evidence.with_similarity(0.5)
    assert similar.support == pytest.approx((sum(evidence.overlap) + 0.5) / 4)
    assert similar.sentences == evidence.sentences == (MINERALS,)


def test_the_evidence_names_the_passage_and_what_it_lacks() -> None:
    context = [f"Stones differ. Some shine. {MINERALS} They are old. They are hard."]
    evidence = weigh("Emeralds hold 3,000 grams of chromium.", windows(context))
    assert MINERALS in evidence.passage
    assert evidence.unseen == ("hold", "3,000", "grams")


def test_a_changed_number_costs_support() -> None:
    context = windows(["The Eiffel Tower is 330 metres tall."])
    assert weigh("It is 330 metres tall.", context).support > weigh("It is 340 metres tall.", context).support


# What overlap cannot see. These are not wishes: they pin the limits that the documentation states.


def test_blind_spot_a_swapped_pair_of_names_scores_high() -> None:
    context = windows(["Anna Weber sued Carl Brandt over the house in Bonn in 1987."])
    assert weigh("Carl Brandt sued Anna Weber over the house in Bonn in 1987.", context).support > 0.7


def test_blind_spot_a_negation_scores_high() -> None:
    context = windows(["The warranty covers damage caused by water and by frost."])
    assert weigh("The warranty does not cover damage caused by water and by frost.", context).support > 0.7


def test_blind_spot_a_paraphrase_scores_low() -> None:
    context = windows(["The firm let half of its staff go."])
    assert weigh("Every second employee was dismissed.", context).support < 0.2
