"""What tests of promptfoo become as cases, and which are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalflow.addons.interop.importers.files import ImportSource
from evalflow.addons.interop.importers.promptfoo.read import read_promptfoo
from evalflow.errors import UserError
from tests.addons.interop.importers.promptfoo.conftest import BASE, Read, left, rows


def test_a_case_whose_prompt_lacks_a_variable_is_listed_and_not_written(read: Read) -> None:
    found = read("""
prompts: ['Translate {{text}}{% if tone %} ({{tone}}){% endif %} to {{language | default("English")}}']
providers: [openai:m]
tests:
  - vars: {text: Guten Tag}
  - vars: {tone: polite}
  - vars: {text: 'Again: {{first_answer}}'}
  - vars: {text: 'Call {{ 3 | shout }}'}
""")
    assert [case["vars"] for case in rows(found)] == [{"text": "Guten Tag", "language": "", "tone": ""}]
    assert found.ledger.counts()["cases"] == (4, 1, 3)
    assert [(entry.where.rpartition(":")[2], entry.reason) for entry in found.ledger.left_out] == [
        ("6", "its prompt uses {{text}}, which the test does not set"),
        ("7", "it uses {{first_answer}}, which is not set"),
        ("8", "its template cannot be rendered: No filter named 'shout'."),
    ]


def test_no_case_at_all_is_an_error_with_the_reasons(read: Read) -> None:
    with pytest.raises(UserError, match=r"its prompt uses .+, which the test does not set"):
        read("prompts: ['{{q}}']\nproviders: [echo]\ntests: [{vars: {text: a}}]")


def test_each_prompt_gets_the_tests_that_set_its_variables_or_name_it(read: Read) -> None:
    found = read("""
prompts:
  - {label: short, raw: 'Say {{word}}'}
  - {label: long, raw: 'Tell {{story}}'}
  - {label: other, raw: 'No {{one}}'}
providers: [openai:a, {id: openai:b, label: second}]
tests:
  - vars: {word: yes}
  - vars: {story: of a boat}
  - {vars: {word: a, story: b}, prompts: [long]}
  - {vars: {word: c, story: d}, providers: [second]}
""")
    by_file = {name: [case["vars"] for case in rows(found, name)] for name in found.datasets}
    used = {key: str(one.dataset) for key, one in found.experiments.items()}
    questions = {key: [next(iter(case.values())) for case in by_file[name]] for key, name in used.items()}
    assert questions == {
        "pool_openai_a_1": ["yes"],
        "pool_openai_a_2": ["of a boat", "a"],
        "pool_second_1": ["yes", "c"],
        "pool_second_2": ["of a boat", "a", "c"],
    }
    assert [entry.what for entry in found.ledger.left_out] == ["experiment pool_openai_a_3", "experiment pool_second_3"]


def test_tags_and_ids_of_tests_are_those_of_cases(read: Read) -> None:
    found = read("""
prompts: ['{{q}}']
providers: [echo]
defaultTest: {tags: [all]}
tests:
  - {id: greets, vars: {q: hello}, tags: [smoke, 12]}
  - {id: many, vars: {q: [a, b]}, tags: {area: desk}}
  - {vars: {q: c}, tags: night}
""")
    cases = rows(found)
    assert [case["id"] for case in cases] == ["greets", "many", "3", "4"]
    assert [case["tags"] for case in cases] == [
        ["all", "smoke", "12"],
        ["all", "area > desk"],
        ["all", "area > desk"],
        ["all", "night"],
    ]
    assert cases[2]["metadata"] == {"test_id": "many"}
    assert not found.ledger.left_out


def test_a_variable_that_is_no_text_lists_its_test_and_takes_the_others(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00")
    (tmp_path / "notes.txt").write_bytes("größer".encode("latin-1"))
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "c.yaml").write_text("""
prompts: ['Look at {{what}}: {{q}}']
providers: [openai:m]
tests:
  - vars: {q: one, what: file://photo.png}
  - vars: {q: two, what: file://notes.txt}
  - vars: {q: three, what: file://empty.txt}
  - vars: {q: four, what: words}
    assert: [{type: contains, value: file://photo.png}, {type: contains, value: four}]
""")
    found = read_promptfoo(ImportSource(tmp_path / "c.yaml", "pool", tmp_path))
    found.ledger.expect_balanced()
    assert [case["vars"]["q"] for case in rows(found)] == ["three", "four"]
    assert found.ledger.counts()["tests"] == (4, 2, 2)
    assert left(found) == [
        "test: it names photo.png, but evalflow only sends text",
        "test: it names the file notes.txt, which is not text in UTF-8",
        "assert contains: it names photo.png, but evalflow only sends text",
    ]


def test_attacks_that_are_not_written_yet_are_refused(read: Read) -> None:
    with pytest.raises(UserError, match="redteam section but no tests, and evalflow does not generate attacks"):
        read("prompts: ['{{prompt}}']\ntargets: [openai:m]\nredteam: {plugins: [pii], purpose: a desk}")
    found = read("prompts: ['{{prompt}}']\ntargets: [openai:m]\nredteam: {}\ntests: [{vars: {prompt: Hi}}]")
    assert [entry.what for entry in found.ledger.left_out] == ["redteam"]


def test_settings_of_a_prompt_are_those_of_its_targets_or_listed(read: Read) -> None:
    found = read(
        "prompts:\n"
        "  - label: json\n    raw: 'Sort {{q}}'\n"
        "    config: {response_format: {type: json_object}, top_p: 1, flavour: mint}\n"
        "  - 'Name {{q}}'\n"
        "providers: [{id: openai:m, config: {top_p: 0.5, colour: red}}]\n"
        "tests: [{vars: {q: a}}]\ndefaultTest: {color: red}"
    )
    first, second = found.targets.values()
    assert first["parameters"] == {"top_p": 1, "response_format": {"type": "json_object"}}
    assert second["parameters"] == {"top_p": 0.5}
    assert [entry.what for entry in found.ledger.left_out] == [
        "defaultTest.color",
        "config.colour of provider openai:m",
        "config.flavour of prompt json",
    ]
    for other in ("[echo]", "[{id: 'file://bot.py'}]"):
        found = read(
            f"prompts: [{{label: json, raw: 'Sort {{{{q}}}}', config: {{top_p: 1}}}}]\nproviders: {other}\n"
            "tests: [{vars: {q: a}}]"
        )
        assert "config.top_p of prompt json" in [entry.what for entry in found.ledger.left_out]


def test_settings_of_a_table_that_are_not_read_are_listed(read: Read) -> None:
    csv = "q,__expected,__author\nhi,contains: h,Ada\n"
    found = read("prompts: ['{{q}}']\nproviders: [echo]\ntests: tests.csv", tests_csv=csv)
    assert left(found) == ["__author of a test: it has no equivalent"]


def test_the_letters_of_texts_are_compared_as_javascript_does(read: Read) -> None:
    asserts = "[{type: icontains, value: STRASSE}, {type: word-count, value: {max: 3}}]"
    (case,) = rows(read(f"{BASE}tests: [{{vars: {{question: When?}}, assert: {asserts}}}]\n"))
    assert [check["params"] for check in case["checks"]] == [
        {"op": "contains", "value": "strasse", "normalize": None, "letter_case": "lower"},
        {"op": "count", "pattern": r"[^\s\ufeff]+", "normalize": None, "max": 3},
    ]


def test_empty_rows_of_a_table_are_counted_and_listed(read: Read) -> None:
    csv = "q,__expected\nhi,contains: h\n,\nho,contains: h\n,\n"
    found = read("prompts: ['{{q}}']\nproviders: [echo]\ntests: tests.csv", tests_csv=csv)
    found.ledger.expect_balanced()
    assert found.ledger.counts()["tests"] == (4, 2, 2)
    assert left(found) == ["row: the row is empty"]


def test_a_finish_reason_is_compared_with_that_of_the_answer(read: Read) -> None:
    found = read("prompts: [hi]\nproviders: [echo]\ntests: [{assert: [{type: finish-reason, value: stop}]}]")
    [case] = rows(found)
    assert case["checks"][0]["params"] == {"op": "equals", "field": "finish_reason", "value": "stop", "normalize": None}
