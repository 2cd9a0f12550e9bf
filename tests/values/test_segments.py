"""Words, characters, sentence ends and scripts, in languages with and without spaces between words."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.values.segments import (
    characters,
    is_plain,
    is_unspaced,
    script_of,
    sentence_ends,
    spaced,
    without_ends,
    word_count,
    words,
)


@pytest.mark.parametrize(
    ("text", "found", "count"),
    [
        ("It's 3.5 m², isn't_it?", ["It", "s", "3", "5", "m²", "isn", "t", "it"], 4),
        ("Größe – ça va?", ["Größe", "ça", "va"], 4),
        ("Книга лежит.", ["Книга", "лежит"], 2),
        ("한국어 문장입니다.", ["한국어", "문장입니다"], 2),
        ("हिन्दी भाषा है।", ["हिन्दी", "भाषा", "है"], 3),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"], 2),
        ("مَرْحَبًا بالعالم؟", ["مَرْحَبًا", "بالعالم"], 2),
        ("او می\u200cرود", ["او", "می\u200cرود"], 2),
        ("cafe\u0301", ["café"], 1),
        ("我在2024年写BERT。", ["我", "在", "2024", "年", "写", "BERT"], 6),
        ("カメラは東京", ["カ", "メ", "ラ", "は", "東", "京"], 6),
        ("ก็ดี ครับ", ["ก็", "ดี", "ค", "รั", "บ"], 5),
        ("ខ្ញុំ", ["ខ្ញុំ"], 1),
        ("「はい」、と。", ["は", "い", "と"], 3),
        ("", [], 0),
    ],
)
def test_words(text, found, count):
    assert words(text) == found
    assert word_count(text) == count


@pytest.mark.parametrize(("text", "found"), [("1,000.5 km", ["1,000.5", "km"]), ("共3.5米", ["共", "3.5", "米"])])
def test_numbers_can_be_kept_whole(text, found):
    assert words(text, decimals=True) == found


SPACED = st.text(st.sampled_from("aZ9 _-.,'éßñ–“”«»ЖяΩλ한글ابحעב\n²½"), max_size=40)


@given(text=SPACED)
def test_a_text_in_a_script_with_spaces_has_the_words_that_letters_and_digits_in_a_row_make(text):
    text = unicodedata.normalize("NFC", text)
    assert words(text) == re.findall(r"[^\W_]+", text)
    assert word_count(text) == len(text.split())
    assert spaced(text) == text
    assert not is_unspaced(text)
    old = [(one.start(), one[0]) for one in re.finditer(r"""[.!?]+["'”’)\]]*(?=\s)""", text)]
    assert [(one.start(), one[0]) for one in sentence_ends(text)] == old


@given(text=st.text(st.sampled_from("a 9.，。東京ก็นี้ขមខ្ញ့ហि"), max_size=30))
def test_spaces_between_characters_lose_none(text):
    assert "".join(spaced(text).split()) == "".join(text.split())
    assert "".join("".join(characters(text)).split()) == "".join(text.split())
    assert word_count(text) <= len(text)


def test_characters_are_those_that_a_reader_sees():
    assert characters("a b") == ["a", "b"]
    assert characters("नि 👩‍👩‍👧") == ["नि", "👩‍👩‍👧"]


def test_east_asian_punctuation_can_be_left_out():
    assert spaced("你，好。ok").split() == ["你", "，", "好", "。", "ok"]
    assert spaced("你，好。ok", keep_punctuation=False).split() == ["你", "好", "ok"]
    assert without_ends("है। क्या؟ «ja» ok.").split() == ["है", "क्या", "«ja»", "ok."]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("Yes. “No!” Maybe", [".", "!”"]),
        ("好。再见！“走吗？”他问。", ["。", "！", "？”", "。"]),
        ("价格是３．５元。", ["。"]),
        ("你好.再见!好吗?是v2.0版", [".", "!", "?"]),
        ("「行こう。」と言った。", ["。」", "。"]),
        ("यह है। वह है॥", ["।", "॥"]),
        ("هل هذا؟ نعم.", ["؟"]),
        ("ពាក្យ។ពីរ៕", ["។", "៕"]),
        ("စာ။ နောက်။", ["။", "။"]),
    ],
)
def test_sentence_ends(text, ends):
    assert [one[0] for one in sentence_ends(text)] == ends


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Hello", "Latin"),
        ("Straße, naïve – “ok”", "Latin"),
        ("123 …", None),
        ("", None),
        ("Привет, John", "Cyrillic"),
        ("首都是北京", "Chinese"),
        ("東京です", "Japanese"),
        ("カタカナ", "Japanese"),
        ("한국어", "Korean"),
        ("ภาษา", "Thai"),
        ("မြန်မာ", "Burmese"),
        ("हिन्दी", "Devanagari"),
        ("الكتاب", "Arabic"),
        ("The word 北京 is a name", "Latin"),
    ],
)
def test_the_script_of_most_letters(text, script):
    assert script_of(text) == script


def test_plain_texts_need_no_rules_of_unicode():
    assert [is_plain(text) for text in ("ok", "größer", "हिन्दी", "東京")] == [True, True, False, False]
