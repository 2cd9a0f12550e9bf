"""The kind `lexical`, against the numbers of the reference implementations."""

import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evalflow.errors import UserError

LEXICAL = ("levenshtein", "token_f1", "rouge_1", "rouge_2", "rouge_l", "bleu", "chrf", "meteor")


@pytest.fixture
def alike(bench):
    """Score an answer against a reference; `name` is a shipped metric's."""

    def alike(name, answer, reference, **changed):
        metric = bench.shipped(name, **changed)
        return bench.score(metric, None, case=bench.case(reference=reference), answer=bench.answer(answer=answer))

    return alike


@pytest.mark.parametrize(
    ("answer", "reference", "one", "two", "longest"),
    [
        ("The cat sat on the mat.", "The cat is on the mat.", 0.833333333, 0.6, 0.833333333),
        ("Refunds take 14 days, not 30.", "Refunds take 30 days.", 0.8, 0.25, 0.6),
        ("No.", "The library opens at nine and closes at five.", 0.0, 0.0, 0.0),
        ("police killed the gunman", "police kill the gunman", 0.75, 0.333333333, 0.75),
        ("the gunman kill police the the", "police killed the gunman", 0.6, 0.25, 0.4),
        ("e-mail us: help_desk@example.org", "E-mail the help desk at example.org", 0.8, 0.461538462, 0.8),
    ],
)
def test_rouge_gives_the_numbers_of_rouge_score(alike, answer, reference, one, two, longest):
    """By rouge_score 0.1.2 without its stemmer."""
    found = [alike(name, answer, reference).score for name in ("rouge_1", "rouge_2", "rouge_l")]
    assert found == pytest.approx([one, two, longest], abs=1e-6)


@pytest.mark.parametrize(
    ("name", "answer", "reference", "score"),
    [
        ("levenshtein", "kitten", "sitting", 1 - 3 / 7),
        ("levenshtein", "Ja", "ja", 0.5),
        ("levenshtein", "", "yes", 0.0),
        ("token_f1", "The Eiffel Tower, Paris!", "an eiffel tower", 0.8),
        ("token_f1", "Rome", "Paris", 0.0),
        ("token_f1", "a cat", "the cat", 1.0),
        ("bleu", "the cat sat on the mat", "the cat is on the mat", 0.379917842826),
        ("bleu", "the cat is on the mat", "the cat is on the mat", 1.0),
        ("bleu", "dog", "the cat is on the mat", 0.0),
        ("rouge_1", "東京 です", "東京 でした", 6 / 9),
    ],
)
def test_measures_give_known_numbers(alike, name, answer, reference, score):
    """Levenshtein's own example, SQuAD's rule for words, and sacrebleu's for sentences."""
    found = alike(name, answer, reference)
    assert (found.status, found.score) == ("scored", pytest.approx(score, abs=1e-6))


def test_chrf_agrees_with_sacrebleu(alike):
    import sacrebleu

    answer, reference = "Die Bibliothek öffnet um neun.", "Die Bücherei macht um neun auf."
    for measure, order in (("chrf", 0), ("chrf++", 2)):
        expected = sacrebleu.sentence_chrf(answer, [reference], word_order=order).score / 100
        assert alike("chrf", answer, reference, measure=measure).score == pytest.approx(expected, abs=1e-9)
    assert alike("bleu", "図書館は九時", "図書館は九時", tokenize="zh").score == pytest.approx(1)


@pytest.mark.parametrize(
    ("answer", "reference", "score"),
    [
        ("On the mat sat the cat.", "The cat sat on the mat.", 0.5),  # 6 runs of 6 words
        ("The openings of the library", "the library opened", 0.798611111),  # 2 of 3; P 3/5, R 1; by a stem
        (
            "It is a guide to action which ensures that the military always obeys the commands of the party",
            "It is a guide to action that ensures that the military will forever heed Party commands",
            0.694444444,  # the example in nltk's documentation
        ),
        ("No.", "The library opens at nine.", 0.0),
    ],
)
def test_meteor_aligns_words_and_stems_as_nltk_does(alike, answer, reference, score):
    assert alike("meteor", answer, reference).score == pytest.approx(score, abs=1e-6)


def test_meteor_aligns_synonyms_where_wordnet_is_there(alike, bench, monkeypatch, tmp_path):
    """With a WordNet of one noun, in the files that nltk reads."""
    import nltk
    from nltk.corpus.reader import WordNetCorpusReader
    from nltk.corpus.util import LazyCorpusLoader

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk.corpus, "wordnet", LazyCorpusLoader("wordnet", WordNetCorpusReader, lambda: None))
    with pytest.raises(UserError, match="nltk does not find WordNet") as error:
        bench.shipped("meteor", synonyms=True)
    assert "nltk.downloader wordnet" in error.value.problems[0].hint
    files = dict.fromkeys(["lexnames", "index.sense", "cntlist.rev"], "")
    for part in ("noun", "verb", "adj", "adv"):
        files |= {f"{kind}.{part}" if kind != "exc" else f"{part}.exc": "" for kind in ("index", "data", "exc")}
    files["index.noun"] = "car n 1 0 1 0 00000000  \n"
    files["data.noun"] = "00000000 00 n 02 car 0 auto 0 000 | a vehicle  \n"
    files["lexnames"] = "00\tnoun.artifact\t1\n"
    for name, text in files.items():
        path = tmp_path / "corpora" / "wordnet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert alike("meteor", "The car leaves.", "The auto leaves.").score == pytest.approx(1 / 3, abs=1e-6)
    found = alike("meteor", "The car leaves.", "The auto leaves.", synonyms=True)
    assert found.score == pytest.approx(1 - 0.5 / 27, abs=1e-6)
    for file in nltk.corpus.wordnet._data_file_map.values():
        file.close()


def test_several_references_are_alternatives(alike, bench):
    metric = bench.build(
        "mine", {"kind": "lexical", "measure": "rouge1", "needs": ["answer", "expected"], "against": "expected"}
    )
    case = bench.case(expected=["nine o'clock", "it opens at nine"])
    assert bench.score(metric, None, case=case, answer=bench.answer(answer="it opens at nine")).score == 1
    assert bench.score(metric, None, case=bench.case(expected=[]), answer=bench.answer()).status == "undefined"


@pytest.mark.parametrize("name", LEXICAL)
def test_bad_input_is_never_a_score(alike, name):
    assert alike(name, "yes", None).status == "skipped"
    assert alike(name, "yes", "  ").status == "undefined"
    too_long = alike(name, "yes", "a" * 200_001)
    assert (too_long.status, too_long.error_type, too_long.score) == ("error", "data", None)
    assert "200,001" in too_long.error


def test_a_reference_without_enough_words_is_undefined(alike):
    assert alike("rouge_1", "yes", "!?").status == "undefined"
    assert alike("rouge_2", "yes indeed", "yes").status == "undefined"
    assert alike("token_f1", "the", "the").status == "undefined"


def test_lowercase_and_tokenize(alike, bench):
    assert alike("levenshtein", "JA", "ja", lowercase=True).score == 1
    for changed, told in (({"tokenize": "zh"}, "tokenize: zh is for bleu"), ({"synonyms": True}, "is for meteor")):
        with pytest.raises(ValidationError, match=told):
            bench.shipped("rouge_1", **changed)


def test_a_missing_package_comes_with_its_command(bench, monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    with pytest.raises(UserError, match=r"needs the package .*rapidfuzz") as error:
        bench.shipped("levenshtein")
    assert "rapidfuzz" in error.value.problems[0].hint


TEXTS = st.text(alphabet=st.sampled_from("ab cdé. 東-_'A"), max_size=40)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(TEXTS, TEXTS)
def test_scores_lie_in_the_unit_interval_and_a_text_equals_itself(bench, one, two):
    for name in LEXICAL:
        metric = bench.shipped(name)
        found = bench.score(metric, None, case=bench.case(reference=two), answer=bench.answer(answer=one))
        assert found.status == "undefined" or 0 <= found.score <= 1
        same = bench.score(metric, None, case=bench.case(reference=two), answer=bench.answer(answer=two))
        assert same.status == "undefined" or same.score == pytest.approx(1, abs=0.5 if name == "meteor" else 1e-9)


@pytest.mark.parametrize(
    ("answer", "reference", "shared", "of"),
    [
        ("会议在周二举行。", "会议在周三举行。", 6, 7),
        ("会議は火曜日です。", "会議は水曜日です。", 7, 8),
        ("ประชุมวันพุธ", "ประชุมวันศุกร์", 7, None),
        ("회의는 화요일입니다.", "회의는 수요일입니다.", 1, 2),
        ("बैठक मंगलवार को है।", "बैठक बुधवार को है।", 3, 4),
        ("الاجتماع يوم الثلاثاء.", "الاجتماع يوم الأربعاء.", 2, 3),
        ("Das Treffen ist am Dienstag.", "Das Treffen ist am Mittwoch.", 4, 5),
    ],
)
def test_one_other_word_costs_one_word_in_any_script(alike, answer, reference, shared, of):
    for name in ("token_f1", "rouge_1"):
        found = alike(name, answer, reference)
        if of is not None:
            assert found.score == pytest.approx(shared / of), (name, found.reason)
        assert f"{shared:,} shared" in found.reason
    for name in ("token_f1", "rouge_1", "rouge_l", "bleu", "meteor", "chrf"):
        same, other = alike(name, reference, reference).score, alike(name, answer, reference).score
        assert 0 < other < same
        assert same == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("text", ["会议在周二举行，地点是图书馆。", "他说：“不行！”然后走了。", "我有3本书和BERT。"])
def test_bleu_finds_the_words_of_chinese_as_the_chinese_tokeniser_of_sacrebleu(alike, text):
    other = text.replace("周二", "周三").replace("走了", "来了").replace("书", "笔")
    assert alike("bleu", other, text).score == pytest.approx(alike("bleu", other, text, tokenize="zh").score)


def test_words_can_be_those_between_spaces_or_each_character(alike):
    for name in ("token_f1", "rouge_1", "rouge_l"):
        assert alike(name, "东京都", "东京市", tokenize="words").score == 0
        assert alike(name, "东京都", "东京市", tokenize="auto").score == pytest.approx(2 / 3)
        assert alike(name, "cab", "cub", tokenize="characters").score == pytest.approx(2 / 3)
    assert alike("bleu", "cab", "cab", tokenize="characters").score == pytest.approx(1)
    assert (
        alike("chrf", "东京都", "东京市", measure="chrf++").score
        > alike("chrf", "东京都", "东京市", measure="chrf++", tokenize="words").score
    )


def test_what_a_measure_cannot_take_apart_is_refused(bench):
    for name, tokenize, told in (
        ("levenshtein", "words", "compares letters"),
        ("token_f1", "13a", "token_f1 accepts auto, words, characters"),
    ):
        with pytest.raises(ValidationError, match=told):
            bench.shipped(name, tokenize=tokenize)
    assert not bench.shipped("bleu").unknown_scripts
    assert {"Thai", "Chinese"} <= set(bench.shipped("bleu", tokenize="13a").unknown_scripts)


def test_a_tokeniser_without_its_packages_is_named_with_the_command_that_installs_them(bench, monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(UserError) as error:
        bench.shipped("bleu", tokenize="ja-mecab")
    (problem,) = error.value.problems
    assert problem.where == "metric.bleu.tokenize"
    assert problem.hint.endswith(" 'sacrebleu[ja]'")
