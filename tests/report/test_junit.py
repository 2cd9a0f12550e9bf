from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalflow.report.ci import _quoted, write_junit
from tests.manifests import manifest_of

GATES = [
    {"name": "m mean >= 0.8", "of_metric": "m", "passed": True, "message": "0.9"},
    {"name": "faithfulness pass_rate < 1", "of_metric": "faithfulness", "passed": False, "message": "is 1"},
    {"name": "m f1 > 0", "of_metric": "m", "passed": None, "message": "undefined"},
]
CELLS = [
    {"case_id": "pass", "threshold": 0.8, "score": 0.9, "passed": True, "latency_s": 1.5},
    {"case_id": "fail", "threshold": 0.8, "score": 0.123456, "passed": False, "reason": "because\nof this"},
    {"case_id": "error", "threshold": 0.8, "status": "error", "error_type": "timeout", "error": "no reply"},
    {"case_id": "undefined", "threshold": 0.8, "status": "undefined", "reason": "no claims"},
    {"case_id": "skipped", "threshold": 0.8, "status": "skipped"},
    {"case_id": "unjudged", "threshold": 0.8, "score": 0.5},
    {"case_id": "free", "score": 0.5},
    {"case_id": "pass", "threshold": 0.8, "score": 0.5, "passed": False, "judge": "x", "member_of": "embedded"},
]


@pytest.fixture(name="written")
def _written(tmp_path, make_run):
    def write(cells, gates=(), max_error_rate=0.0, **facts):
        manifest = manifest_of(run_id="run", **facts)
        junit = tmp_path / "junit.xml"
        write_junit(junit, make_run([], cells, manifest=manifest, gates=gates, max_error_rate=max_error_rate))
        return ElementTree.parse(tmp_path / "junit.xml").getroot()

    return write


def cases(suite):
    return suite.findall("testcase")


def outcome(case):
    return case[0].tag if len(case) else "passed"


def test_states_become_what_junit_calls_them(written):
    gates, scores = map(cases, written(CELLS, GATES))
    assert [(case.get("name"), outcome(case)) for case in gates] == [
        ("m mean >= 0.8", "passed"),
        ("faithfulness pass_rate < 1", "failure"),
        ("m f1 > 0", "error"),
    ]
    assert [(case.get("name").split(" | ")[0], outcome(case)) for case in scores] == [
        ("pass", "passed"),
        ("fail", "failure"),
        ("error", "error"),
        ("undefined", "skipped"),
        ("skipped", "skipped"),
        ("unjudged", "skipped"),
    ]
    assert {case.get("classname") for case in scores} == {"rag.faithfulness"}
    failure = scores[1][0]
    assert failure.get("message") == "score 0.1235, threshold 0.8: because"
    assert failure.text.endswith("because\nof this")
    assert scores[2][0].get("type") == "timeout"


def test_failures_and_errors_are_there_only_where_the_exit_code_is_not_0(written):
    """A threshold that no failed gate stands on decides nothing, nor does an error that the run allows for."""
    root = written(CELLS, GATES[:1], max_error_rate=0.2)
    assert (root.get("failures"), root.get("errors"), root[1].get("skipped")) == ("0", "0", "5")
    missed, error = (cases(root[1])[place][0] for place in (1, 2))
    text = "misses its threshold, and no gate of faithfulness failed: score 0.1235, threshold 0.8: because"
    assert (missed.tag, missed.get("message")) == ("skipped", text)
    assert error.get("message") == "error, of which the run allows for as many: no reply"


def test_the_counts_are_those_of_what_is_there(written):
    root = written(CELLS, GATES)
    for suite in root:
        found = [outcome(case) for case in cases(suite)]
        assert int(suite.get("tests")) == len(found)
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute)) == found.count(tag), (suite.get("name"), attribute)
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("9", "2", "2")
    assert root[1].get("time") == "1.500"


def test_a_run_without_gates_and_thresholds_is_valid_and_empty(written):
    root = written([{"case_id": "x", "score": 1.0}])
    assert [suite.get("tests") for suite in root] == ["0", "0"]
    assert root[1].get("time") == "0.000"


def test_every_suite_says_who_judged_and_that_nobody_checked_it(written):
    judges = {"a": {"nature": 'an LLM, called "a"'}, "b": {}}
    for suite in written(CELLS, GATES, judges=judges):
        found = [(one.get("name"), one.get("value")) for one in suite.find("properties")]
        assert found[:2] == [("judge", 'a (an LLM, called "a"), uncalibrated'), ("judge", "b, uncalibrated")]
        said = ("result", "embedded: 50 % of answers pass (45 to 55 %), by the judge alone")
        assert found[2] == said
    assert written(CELLS)[0][0][0].get("value") == "none (no metric needs one)"


def test_names_tell_every_cell_apart(written):
    cells = [
        {"case_id": "x", "threshold": 0.5, "score": 1.0, "passed": True, "judge": j, "repeat": r, "target": t}
        for j in ("a", "b")
        for r in (0, 1)
        for t in ("c", "d")
    ]
    names = [case.get("name") for case in cases(written(cells)[1])]
    assert len(set(names)) == 8
    assert names[0] == "x | target c | judge a | repeat 0"


def test_text_that_xml_forbids_or_that_looks_like_markup_is_harmless(written):
    text = 'a\x00\x0b\x1b\ud800\ufffe </failure><evil a="b">]]> & é 😀'
    cell = {"case_id": "x\x00", "threshold": 0.5, "score": 0.1, "passed": False, "reason": text.replace("\ud800", "")}
    gate = {**GATES[1], "message": text}
    gates, scores = map(cases, written([cell], [gate]))
    assert gates[0][0].text == 'a </failure><evil a="b">]]> & é 😀'
    assert scores[0][0].text.endswith('</failure><evil a="b">]]> & é 😀')
    assert scores[0].get("name") == "x"


@given(st.text("ab\"'&<>\n\r\t é"))
def test_an_attribute_is_quoted_as_the_standard_library_does(text):
    assert _quoted(text) == quoteattr(text)
