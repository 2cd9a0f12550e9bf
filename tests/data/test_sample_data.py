"""The sample data keeps what data/README.md says of it; read as plain JSON, without evalflow."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[2] / "data"
FILES = {
    "rag": 60,
    "rag_v2": 60,
    "jailbreak_guardrails": 60,
    "output_guardrails": 24,
    "question_router": 26,
    "retrieval": 16,
    "topic_tagger": 21,
    "conversations": 12,
    "text_to_sql": 14,
}
FINE = {
    "dropped_condition",
    "mixed_rows",
    "negation",
    "outdated",
    "overclaimed",
    "overgeneralized",
    "swapped_names",
    "swapped_number",
    "wrong_unit",
}
COARSE = {"contradiction", "invented", "off_topic", "padding", "unsupported_claim"}
MAY_BE_FAITHFUL = {"off_topic", "missing_part"}
CHUNK_TYPES = {
    "exact_path": str,
    "title": str,
    "heading_hierarchy": (list, type(None)),
    "description": str,
    "html_content": str,
}
CHECK_PARAMS = {
    "correctness": {"reference"},
    "conformity": {"rules"},
    "groundedness": {"context"},
    "string_matching": {"keyword", "case_sensitive"},
    "metadata": {"json_path_rules"},
    "semantic_similarity": {"reference", "threshold"},
    "regex_matching": {"pattern"},
}
JSON_TYPES = {"string": str, "number": (int, float), "boolean": bool}
README_BLOCKS = re.findall(r"^```json\n(.*?)^```", (DATA / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


def load(name: str) -> list[dict[str, Any]]:
    lines = (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def checks() -> list[dict[str, Any]]:
    return [check for case in load("conversations") for check in case["checks"]]


@pytest.mark.parametrize(("name", "count"), FILES.items())
def test_count_and_unique_ids(name: str, count: int):
    cases = load(name)
    assert len(cases) == count
    assert len({case["id"] for case in cases}) == count


@pytest.mark.parametrize("name", [name for name in FILES if name != "text_to_sql"])  # a fixture, with their tags
def test_tags_are_hierarchical(name: str):
    tags = [tag for case in load(name) for tag in case["tags"]]
    assert tags
    assert [tag for tag in tags if not re.fullmatch(r"[^>]*[^> ]( > [^> ][^>]*)+", tag)] == []


@pytest.mark.parametrize("field", ["question", "ideal_answer", "llm_answer", "group"])
def test_rag_texts_are_present(field: str):
    assert [case["id"] for case in load("rag") if not case[field].strip()] == []


def test_rag_chunks_have_the_form():
    for case in load("rag"):
        assert 1 <= len(case["structured_contexts"]) <= 3, case["id"]
        for chunk in case["structured_contexts"]:
            assert chunk.keys() == CHUNK_TYPES.keys(), case["id"]
            assert all(isinstance(chunk[key], kind) for key, kind in CHUNK_TYPES.items()), case["id"]


def test_rag_chunks_exercise_the_html_reader():
    chunks = [chunk for case in load("rag") for chunk in case["structured_contexts"]]
    html = " ".join(chunk["html_content"] for chunk in chunks)
    assert all(piece in html for piece in ("<p>", "<ul>", "<table>", "&euro;", "&nbsp;", "&amp;"))
    assert any(chunk["heading_hierarchy"] is None for chunk in chunks)


def test_one_path_is_one_chunk():
    chunks = [chunk for case in load("rag") for chunk in case["structured_contexts"]]
    assert len({json.dumps(chunk) for chunk in chunks}) == len({chunk["exact_path"] for chunk in chunks})


def test_rag_topics_and_groups():
    cases = load("rag")
    topics = {tag for case in cases for tag in case["tags"] if tag.startswith("Topic > ")}
    groups = Counter(case["group"] for case in cases)
    assert len(topics) == 11
    assert len(groups) >= 20
    assert min(groups.values()) > 1


def fault_tag(fault: str) -> str:
    degree = "Fine > " if fault in FINE else "Coarse > " if fault in COARSE else ""
    return f"Fault > {degree}{fault.replace('_', ' ').capitalize()}"


@pytest.mark.parametrize("version", ["rag", "rag_v2"])
def test_rag_fault_and_tag_agree(version: str):
    for case in load(version):
        expected = [fault_tag(case["fault"])] if case["fault"] else []
        assert [tag for tag in case["tags"] if tag.startswith("Fault > ")] == expected, case["id"]


def test_readme_counts_and_names_the_faults():
    text = (DATA / "README.md").read_text("utf-8")
    faults = [case["fault"] for case in load("rag")]
    assert f"{faults.count(None)} answers have no fault" in text
    assert f"{len(faults) - faults.count(None)} of the answers have a fault" in text
    rows = re.findall(r"^\| `Fault > [^`]+` \| (\d+) \| .*$", text, re.MULTILINE)
    counts = [sum(fault in kinds for fault in faults) for kinds in (FINE, COARSE, {"missing_part"})]
    assert [int(count) for count in rows] == counts
    assert {fault for fault in faults if fault} == FINE | COARSE | {"missing_part"}
    assert all(f"`{kind}`" in text for kind in FINE | COARSE)


@pytest.mark.parametrize("version", ["rag", "rag_v2"])
@pytest.mark.parametrize("reader", ["reader-1", "reader-2"])
def test_each_reader_labels_every_answer_as_its_fault_demands(version: str, reader: str):
    for case in load(version):
        [faithful] = [label["value"] for label in case["labels"]["faithfulness"] if label["by"] == reader]
        [correct] = [label["value"] for label in case["labels"]["factual_correctness"] if label["by"] == reader]
        assert 0 <= faithful <= 1, case["id"]
        if case["fault"]:
            assert correct is False, case["id"]
            assert faithful < 1 or case["fault"] in MAY_BE_FAITHFUL, case["id"]
        elif faithful == 1:
            assert correct is True, case["id"]


def test_readme_says_how_often_the_readers_agree():
    text = (DATA / "README.md").read_text("utf-8")
    for metric, row in (("faithfulness", "faithfulness"), ("factual_correctness", "factual correctness")):
        pairs = {case["id"]: [label["value"] for label in case["labels"][metric]] for case in load("rag")}
        differ = [name for name, (first, second) in pairs.items() if first != second]
        assert f"| {row} | {len(pairs) - len(differ)} of {len(pairs)} |" in text
        assert all(f"`{name}`" in text for name in differ)


def test_the_second_version_answers_the_same_questions_and_readme_counts_what_changed():
    first, second = ({case["id"]: case for case in load(name)} for name in ("rag", "rag_v2"))
    assert list(first) == list(second)
    for name, case in second.items():
        assert all(
            case[key] == first[name][key] for key in ("question", "ideal_answer", "structured_contexts", "group")
        )
    changed = [name for name in first if first[name]["llm_answer"] != second[name]["llm_answer"]]
    assert all(first[name] == second[name] for name in first if name not in changed)
    better = [name for name in changed if first[name]["fault"] and not second[name]["fault"]]
    worse = [name for name in changed if not first[name]["fault"] and second[name]["fault"]]
    text = " ".join((DATA / "README.md").read_text("utf-8").split())
    alike = len(changed) - len(better) - len(worse)
    told = f"changed {len(changed)} of the 60 answers: {len(worse)} sound ones got a fault, {len(better)} faults went"
    assert told in text
    assert f"and {alike} say the same in other words" in text
    pairs = [[label["value"] for label in second[name]["labels"]["faithfulness"]] for name in changed]
    assert f"the same faithfulness for {sum(a == b for a, b in pairs)} of the {len(changed)} new answers" in text


def test_guardrail_outcomes():
    cases = load("jailbreak_guardrails")
    assert all(isinstance(case["question"], str) and case["question"] for case in cases)
    outcomes = Counter((case["expected_outcome"], case["actual_outcome"]) for case in cases)
    assert outcomes == {(True, True): 25, (True, False): 5, (False, False): 26, (False, True): 4}


def test_guardrail_tag_agrees_with_the_expected_outcome():
    for case in load("jailbreak_guardrails"):
        assert case["tags"][0].startswith("Attack > ") is case["expected_outcome"], case["id"]


def test_messages_alternate_and_end_with_the_user():
    lengths: set[int] = set()
    for case in load("conversations"):
        roles = [message["role"] for message in case["messages"]]
        assert len(roles) % 2 == 1, case["id"]
        assert roles == (["user", "assistant"] * len(roles))[: len(roles)], case["id"]
        lengths.add(len(roles))
    assert len(lengths) > 1


def test_demo_outputs_come_in_both_shapes():
    outputs = [case["demo_output"] for case in load("conversations")]
    objects = [output for output in outputs if isinstance(output, dict)]
    assert all(output.keys() == {"role", "content", "metadata"} for output in objects)
    assert all(isinstance(output, str | dict) for output in outputs)
    assert 0 < len(objects) < len(outputs)


def test_checks_are_known_and_have_their_params():
    for check in checks():
        assert check.keys() == {"identifier", "enabled", "params"}
        assert check["params"].keys() == CHECK_PARAMS[check["identifier"]]
    assert {check["identifier"] for check in checks()} == CHECK_PARAMS.keys()
    assert {check["enabled"] for check in checks()} == {True, False}


def test_metadata_rules_expect_a_value_of_their_type():
    rules = [rule for check in checks() for rule in check["params"].get("json_path_rules", [])]
    assert rules
    for rule in rules:
        assert rule["json_path"].startswith("$.")
        assert isinstance(rule["expected_value"], JSON_TYPES[rule["expected_value_type"]])


def test_patterns_compile():
    for check in checks():
        if check["identifier"] == "regex_matching":
            re.compile(check["params"]["pattern"])


def test_a_check_is_repeated_in_one_case():
    repeats = [Counter(check["identifier"] for check in case["checks"]) for case in load("conversations")]
    assert any(count > 1 for repeat in repeats for count in repeat.values())


@pytest.mark.parametrize("block", README_BLOCKS)
def test_readme_json_parses(block: str):
    assert isinstance(json.loads(block), dict)


@pytest.mark.parametrize("form", ["rag_answers", "jailbreak_guardrails", "JSON datasets", "conversations"])
def test_readme_shows_both_generate_examples(form: str):
    sections = re.split(r"^## ", (DATA / "README.md").read_text("utf-8"), flags=re.MULTILINE)
    section = next(section for section in sections if section.startswith(form))
    for mode in ("`generate: false`", "`generate: true`"):
        assert re.search(rf"^{mode}(?:(?!^`generate)[\s\S])*?^```json", section, re.MULTILINE), (
            f"{form} has no example for {mode}"
        )
