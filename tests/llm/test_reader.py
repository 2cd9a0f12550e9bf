"""What a model writes around its reply is read past; what would need a guess is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from evalflow.llm.chat import ChatToolCall, Completion
from evalflow.llm.contract import Contract, ReplyMode
from evalflow.llm.reader import InvalidReply, ReadReply, read_reply
from evalflow.metrics.returns import Returns, reply_model

pytestmark = pytest.mark.slow

MODES: tuple[ReplyMode, ...] = ("json_schema", "json", "md_json", "tools")


class Opinion(BaseModel):
    model_config = ConfigDict(extra="forbid")
    why: str
    grade: int = Field(ge=1, le=5)


RETURNS = TypeAdapter(Returns).validate_python(
    {"why": "str", "verdict": {"type": "label", "labels": ["kept", "broken"]}}
)
Opinions: Any = reply_model("opinions", RETURNS, one_per=True)
Claims: Any = create_model("Claims", __config__=ConfigDict(extra="forbid"), claims=(list[str], ...))
GOOD = '{"why": "short", "grade": 4}'
DRAFT = '{"why": "x", "grade": 1}'


def said(text: str | None, *calls: str, reasoning: str | None = None, finish: str = "stop") -> Completion:
    made = tuple(ChatToolCall(f"c{at}", "Opinion", one) for at, one in enumerate(calls))
    return Completion(text=text, tool_calls=made, reasoning=reasoning, finish_reason=finish)


def read(
    given: str | Completion,
    model: type[BaseModel] = Opinion,
    items: Sequence[str] | None = None,
    mode: ReplyMode = "json",
) -> ReadReply:
    return Contract(model, mode).parse(said(given) if isinstance(given, str) else given, items)


DISGUISES: dict[str, tuple[Callable[[str], str], str]] = {
    "fence": (lambda good: f"```json\n{good}\n```", "Markdown fence"),
    "fence without a word": (lambda good: f"```\n{good}\n```\n", "Markdown fence"),
    "fence on one line": (lambda good: f"```{good}```", "Markdown fence"),
    "tildes": (lambda good: f"~~~JSON\n{good}\n~~~", "Markdown fence"),
    "fence that is not closed": (lambda good: f"```json\n{good}", "Markdown fence"),
    "thoughts": (lambda good: f"<think>It merits {{4}}.</think>\n{good}", "thoughts before it"),
    "thoughts with a draft": (lambda good: f"<thinking>{DRAFT}</thinking>{good}", "thoughts before it"),
    "only the end of thoughts": (lambda good: f"Maybe {DRAFT}.\n</think>\n\n{good}", "thoughts before it"),
    "thoughts that do not end": (lambda good: f"<think>\nI settle on this.\n{good}", "thoughts before it"),
    "nothing but thoughts": (lambda good: f"<think>{good}</think>", "thoughts before it"),
    "channels": (
        lambda good: (
            f"<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final<|message|>{good}<|return|>"
        ),
        "thoughts before it",
    ),
    "thoughts, then a fence": (lambda good: f"<reasoning>Hm.</reasoning>\n```json\n{good}\n```", "Markdown fence"),
    "text before": (lambda good: f"Here is my opinion: {good}", "text around it"),
    "text after": (lambda good: f"{good}\n\nI hope this helps {{:-)}}!", "text around it"),
    "the end of a turn": (lambda good: f"{good}<|im_end|>", "text around it"),
    "a pattern first": (lambda good: f'As asked: {{"why": ..., "grade": ...}}\n{good}', "text around it"),
    "braces doubled": (lambda good: f"{{{good}}}", "text around it"),
    "byte order mark": (lambda good: f"\ufeff{good}", "byte order mark"),
    "said twice": (lambda good: f"{good}\n{good}", "text around it"),
    "call as text": (lambda good: f'{{"name": "Opinion", "parameters": {good}}}', "object within 'parameters'"),
    "call in tags": (
        lambda good: f'<tool_call>\n{{"name": "Opinion", "arguments": {good}}}\n</tool_call>',
        "object within 'arguments'",
    ),
    "call with arguments as text": (
        lambda good: json.dumps({"type": "function", "function": {"name": "Opinion", "arguments": good}}),
        "JSON within a JSON text",
    ),
    "under its name": (lambda good: f'{{"Opinion": {good}}}', "object within 'Opinion'"),
    "in a schema": (lambda good: f'{{"type": "object", "properties": {good}}}', "object within 'properties'"),
    "in a list": (lambda good: f"[{good}]", "list around it"),
    "encoded twice, without its quotes": (lambda good: json.dumps(good)[1:-1], "JSON within a JSON text"),
    "encoded twice": (json.dumps, "JSON within a JSON text"),
    "key too many": (lambda good: good[:-1] + ', "confidence": 0.9}', "key that was not asked for: confidence"),
    "keys too many": (lambda good: '{"a": [1], "b": {}, ' + good[1:], "key that was not asked for: a, b"),
    "trailing comma": (lambda good: good[:-1] + ",\n}", "trailing comma"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_disguised_reply_is_read_and_what_was_done_is_noted(disguise: str, mode: ReplyMode) -> None:
    wrap, note = DISGUISES[disguise]
    text = wrap(GOOD)
    found = read(said(None, text) if mode == "tools" else text, mode=mode)
    assert found.parsed == Opinion(why="short", grade=4)
    assert found.raw == text
    if (mode, note) == ("md_json", "Markdown fence"):
        assert note not in found.mended  # it was asked for
    else:
        assert note in found.mended


@pytest.mark.parametrize("mode", MODES)
def test_a_reply_that_is_the_object_alone_is_read_as_it_stands(mode: ReplyMode) -> None:
    found = read(said(None, GOOD) if mode == "tools" else GOOD, mode=mode)
    assert (found.raw, found.json, found.mended) == (GOOD, GOOD, ())


def test_raw_line_breaks_and_tabs_in_a_text_stay_what_they_are() -> None:
    found = read('```json\n{"why": "first\n\tsecond, }", "grade": 4}\n```')
    assert found.parsed == Opinion(why="first\n\tsecond, }", grade=4)
    assert found.mended == ("Markdown fence", "raw control characters")


@pytest.mark.parametrize(
    "why", ["<think>so</think>", "```json```", "{", '"}', "a,]", "</think> {", "\\", "\ufeff", "<|end|>", "[/THINK]"]
)
def test_what_is_inside_of_a_value_is_no_disguise(why: str) -> None:
    good = json.dumps({"why": why, "grade": 4, "more": 1}, ensure_ascii=False)
    for text in (good, f"```json\n{good}\n```", f"<think>Hm.</think>{good}", f"\ufeff{good}"):
        assert read(text).parsed == Opinion(why=why, grade=4)


def test_half_a_character_becomes_its_replacement_in_a_disguise_too() -> None:
    assert read('```\n{"why": "so \\ud83d", "grade": 4}\n```').parsed == Opinion(why="so \ufffd", grade=4)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f'{GOOD} or {{"why": "short", "grade": 2}}', "2 different objects"),
        (f'[{GOOD}, {{"why": "other", "grade": 4}}]', "Input should be an object"),
        (f'<think>{{"why": "x", "grade": 1}} no: {GOOD}', "2 different objects"),
        (f'{{"draft": {GOOD}, "final": {{"why": "b"}}}}', "why: Field required"),
        (f'{{"draft": {GOOD}, "grade": 3', "Invalid JSON"),  # cut off: the draft is not the reply
        ('{"why": "short", "grade": 4', "Invalid JSON"),
        ("{'why': 'short', 'grade': 4}", "Invalid JSON"),
        ('{"why": "he said "no"", "grade": 4}', "Invalid JSON"),
        ("<think>I would say 4.</think>", "Invalid JSON"),
        ("<think>{GOOD}</think> Sorry, I cannot.", "Invalid JSON"),
        ("Four of five.", "Invalid JSON"),
        ('```json\n{"why": "short", "grade": 9}\n```', "grade: Input should be less than or equal to 5"),
        ('{"why": "short", "grade": "four"} ', "grade: Input should be a valid integer"),
        ('{"opinion": "short", "grade": 4}', "why: Field required"),
        ("[]", "Input should be an object"),
        ('"four"', "Input should be an object"),
    ],
)
def test_a_reply_without_exactly_one_valid_object_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidReply) as invalid:
        read(text.replace("{GOOD}", GOOD))
    assert complaint in str(invalid.value)


def test_a_reply_that_was_cut_off_is_not_read_from_its_midst() -> None:
    for text in (f"<think>Perhaps {GOOD}", f"Perhaps {GOOD}, but then", f'{{"why": {GOOD}, "gra'):
        with pytest.raises(InvalidReply):
            read(said(text, finish="length"))
    assert read(said(f"```json\n{GOOD}\n```\nThis JSON has the", finish="length")).parsed


def test_a_reply_stands_where_it_was_not_expected() -> None:
    assert read(said(GOOD), mode="tools").mended == ("text in place of a tool call",)
    assert read(said(f"```\n{GOOD}\n```", "{}"), mode="tools").mended[0] == "text in place of a tool call"
    assert read(said(None, GOOD)).mended == ("tool call in place of text",)
    assert read(said(None, reasoning=GOOD)).mended == ("reasoning field in place of text",)
    assert read(said("", reasoning=f"```json\n{GOOD}\n```")).parsed == Opinion(why="short", grade=4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("thoughts", [None, "", f"Perhaps {GOOD}", f"{GOOD} is what I think"])
def test_thoughts_alone_are_no_reply(thoughts: str | None, mode: ReplyMode) -> None:
    for text in (None, "", " \n"):
        with pytest.raises(InvalidReply):
            read(said(text, reasoning=thoughts), mode=mode)
    with pytest.raises(InvalidReply, match="empty"):
        read(said(None, reasoning=GOOD, finish="length"), mode="json")


def test_a_draft_in_a_reasoning_field_does_not_count_beside_a_reply() -> None:
    found = read(said(f"```\n{GOOD}\n```", reasoning='{"why": "draft", "grade": 1}'))
    assert found.parsed == Opinion(why="short", grade=4)


def test_equal_calls_of_a_tool_are_one_reply_and_different_ones_none() -> None:
    assert read(said(None, GOOD, GOOD), mode="tools").parsed == Opinion(why="short", grade=4)
    assert read(said(None, GOOD, '{"grade": 4}'), mode="tools").parsed == Opinion(why="short", grade=4)
    with pytest.raises(InvalidReply, match="called 2 times"):
        read(said(None, GOOD, GOOD.replace("4", "2")), mode="tools")


ITEM = '{"number": 1, "why": "so", "verdict": "kept"}'
OTHER = '{"number": 2, "why": "no", "verdict": "broken"}'


def test_results_are_found_without_the_name_of_their_list() -> None:
    found = read(f"```json\n[{ITEM}, {OTHER}]\n```", Opinions, ["a", "b"])
    assert [one.verdict for one in found.parsed.results] == ["kept", "broken"]  # pyright: ignore
    assert "list without its name (results)" in found.mended
    assert read(ITEM, Opinions, ["a"]).mended == ("the only result without its list",)
    assert read('["x", "y"]', Claims).parsed == Claims(claims=["x", "y"])


@pytest.mark.parametrize("text", [ITEM, f"[{ITEM}]", f'{{"results": [{ITEM}]}}', f"{ITEM}\n{ITEM}"])
def test_too_few_results_are_refused_in_any_shape(text: str) -> None:
    with pytest.raises(InvalidReply):
        read(text, Opinions, ["a", "b"])


def test_results_in_another_order_are_put_right_by_their_numbers() -> None:
    found = read(f"[{OTHER}, {ITEM}]", Opinions, ["a", "b"])
    assert [one.why for one in found.parsed.results] == ["so", "no"]  # pyright: ignore


def test_results_without_their_own_number_are_refused() -> None:
    with pytest.raises(InvalidReply, match="number: Field required"):
        read(ITEM.replace('"number": 1, ', ""), Opinions, ["a"])
    with pytest.raises(InvalidReply, match="results: no result for item 2; more than one result for item 1"):
        read(f'{{"results": [{ITEM}, {ITEM}]}}', Opinions, ["a", "b"])


def test_keys_of_results_that_were_not_asked_for_are_dropped() -> None:
    text = ITEM.replace("{", '{"nr": "claim_2", ')
    assert read(f'{{"results": [{text}]}}', Opinions, ["a"]).mended == ("key that was not asked for: nr",)


@pytest.mark.parametrize("disguise", ["{}", "```json\n{}\n```", "Here: {}"])
def test_of_two_values_of_one_key_none_is_chosen(disguise: str) -> None:
    with pytest.raises(InvalidReply):
        read(disguise.replace("{}", '{"why": "b", "grade": 4, "grade": 2}'))
    assert read(disguise.replace("{}", '{"why": "b", "grade": 4, "grade": 4}')).parsed == Opinion(why="b", grade=4)
    with pytest.raises(InvalidReply, match="grade is there more than once"):
        read('{"why": "b", "grade": 4, "grade": 2}')


@pytest.mark.parametrize("written", ['"4"', "4.0", '" 4"'])
def test_a_number_that_is_written_as_another_type_is_noted(written: str) -> None:
    found = read(f'{{"why": "b", "grade": {written}}}')
    assert found.parsed == Opinion(why="b", grade=4)
    assert found.mended == ("value of another JSON type: grade",)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":' * 200_000,
        "{" * 1_000_000,
        "[" * 1_000_000,
        '{"a": [1,], ' * 50_000,
        "<think>" * 9_999,
        "```" + " " * 1_000_000,
    ],
)
def test_a_long_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidReply):
        read(text)


texts = st.text(st.characters(codec="utf-8"), max_size=40)
prose = st.text(st.characters(codec="utf-8", exclude_characters='{}[]"`~<>|◁▷'), max_size=40)
valid = st.builds(lambda why, grade: {"why": why, "grade": grade}, texts, st.integers(1, 5))


@given(
    value=valid,
    ascii_only=st.booleans(),
    before=prose,
    after=prose,
    thoughts=texts,
    disguise=st.sampled_from(sorted(DISGUISES)),
)
def test_any_valid_reply_in_any_disguise_gives_the_same_value(
    value: dict[str, Any], ascii_only: bool, before: str, after: str, thoughts: str, disguise: str
) -> None:
    good = json.dumps(value, ensure_ascii=ascii_only)
    wrap, _ = DISGUISES[disguise]
    wanted = Opinion.model_validate(value)
    assert read(wrap(good)).parsed == wanted
    assert read(f"{before}\n{good}\n{after}").parsed == wanted
    closed = thoughts.replace("<", "").replace("[", "").replace("◁", "")
    assert read(f"<think>{closed}</think>\n{good}").parsed == wanted
    assert read(f"```json\n{good}\n```").json == good


@given(value=valid, other=valid, between=prose)
def test_two_valid_replies_are_read_only_if_they_are_the_same(
    value: dict[str, Any], other: dict[str, Any], between: str
) -> None:
    text = f"{json.dumps(value)}\n{between}\n{json.dumps(other)}"
    if value == other:
        assert read(text).parsed == Opinion.model_validate(value)
    else:
        with pytest.raises(InvalidReply):
            read(text)


@given(text=st.one_of(texts, st.text(st.sampled_from('{}[]",:\\`<think>/1ag \n'), max_size=60)))
def test_a_text_without_a_valid_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidReply):
        read_reply(said(text), Opinion, None, tools=False, fenced=False)
