import pytest

from evalflow.addons.embedded.evidence import sentences, states_something, stem, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained. We left!", ("It rained.", "We left!")),
        ("Dr. Ng moved to the U.S. in 1999. She stayed.", ("Dr. Ng moved to the U.S. in 1999.", "She stayed.")),
        ("It grew by approx. five percent.", ("It grew by approx. five percent.",)),
        ("Version 2.5 costs $3.50.", ("Version 2.5 costs $3.50.",)),
        ("yes . they are green . that is all", ("yes .", "they are green .", "that is all")),
        ("Steps:\n1. Open it.\n- Close it.\n\n(3) Done", ("Steps:", "Open it.", "Close it.", "Done")),
        ('He said "go." She went.', ('He said "go."', "She went.")),
        ("他来了。她走了！真的？好", ("他来了。", "她走了！", "真的？", "好")),
        ("彼は「行く。」と言った。雨だ。", ("彼は「行く。」", "と言った。", "雨だ。")),
        ("वह आया। वह गई।", ("वह आया।", "वह गई।")),
        ("ปี พ.ศ. 2560 ดี", ("ปี พ.ศ. 2560 ดี",)),
        ("", ()),
        ("...\n---\n!", ()),
    ],
)
def test_sentences(text: str, expected: tuple[str, ...]) -> None:
    assert sentences(text) == expected


def test_words_do_not_depend_on_spacing_case_or_separators() -> None:
    def stems(text: str) -> list[str]:
        return [word.stem for word in words(text)]

    assert stems("It isn't Anna's, it cost 1,200 euros") == stems("it is n't ANNA 's , it cost 1200 euro")
    assert stems("It isn’t") == ["it", "is", "not"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("emeralds", "emerald"),
        ("studies", "study"),
        ("stopped", "stopping"),
        ("classes", "class"),
        ("covered", "covers"),
    ],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["bus", "class", "1990s", "is", "status"])
def test_words_that_only_look_inflected_keep_their_ending(word: str) -> None:
    assert stem(word) == word


def test_negations_and_speakers_are_content_while_articles_are_not() -> None:
    content = {word.surface for word in words("I do not see the house of all people") if word.is_content}
    assert content == {"I", "not", "see", "house", "all", "people"}


def test_a_bare_yes_states_nothing() -> None:
    assert not states_something("Yes!")
    assert not states_something("Oh, thank you.")
    for manners in (
        "Thank you for your question.",
        "I hope this helps!",
        "Hope that helps you plan.",
        "You’re welcome.",
        "Please let me know if you need more.",
        "I'm happy to help with anything else.",
        "Have a nice day!",
        "Is there anything else I can do?",
        "Great question!",
    ):
        assert not states_something(manners), manners
    for statement in (
        "You can ask for help at the desk.",
        "The question is good.",
        "Members are welcome.",
        "We thank Anna.",
    ):
        assert states_something(statement), statement
    assert states_something("Yes, in 1999.")
